//! Messages of a client, one per line, read within bounds.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use crate::limits::MESSAGE_BYTES;
use crate::protocol::RequestId;

/// What a line was.
#[derive(Debug, PartialEq)]
pub(crate) enum EditorLine {
    /// JSON, and how long it was.
    Json(Value, usize),
    /// It is longer than messages may be; with its id, if that stands near its beginning.
    TooLong(Option<RequestId>),
    /// It is not JSON.
    NotJson,
    /// The client is gone.
    End,
}

/// Bytes of a line that is too long in which its id is looked for.
const HEAD: usize = 4 << 10;

/// Reads lines. A read that is given up goes on with the next call.
#[derive(Debug)]
pub(crate) struct EditorLines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The line is too long: only its beginning is kept.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> EditorLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(64 << 10, input), line: Vec::new(), skipping: false }
    }

    /// Returns the next line that is not blank. What is unfinished at the end is no line.
    pub(crate) async fn next(&mut self) -> EditorLine {
        loop {
            let available = match self.input.fill_buf().await {
                Ok([]) | Err(_) => return EditorLine::End,
                Ok(available) => available,
            };
            // From here to `consume` nothing waits, so that nothing is lost or seen twice.
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if !self.skipping {
                self.line.extend_from_slice(&available[..taken]);
                if self.line.len() > MESSAGE_BYTES {
                    self.skipping = true;
                    self.line.truncate(HEAD);
                    self.line.shrink_to_fit();
                }
            }
            self.input.consume(taken);
            if end.is_none() {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.skipping) {
                return EditorLine::TooLong(id_in(&line));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            return match serde_json::from_slice(&line) {
                Ok(value) => EditorLine::Json(value, line.len()),
                Err(_) => EditorLine::NotJson,
            };
        }
    }
}

/// Returns the id of the object that begins like this.
fn id_in(head: &[u8]) -> Option<RequestId> {
    let (mut depth, mut in_string, mut escaped, mut from) = (0_u32, false, false, 0);
    for (at, byte) in head.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                from = at + 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => {
                let member = head[from..at].trim_ascii();
                if let Some(rest) = member.strip_prefix(b"\"id\"") {
                    let value = rest.trim_ascii_start().strip_prefix(b":")?;
                    return serde_json::from_slice(value).ok();
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_id_of_a_message_that_is_too_long_is_found_at_its_beginning() {
        let seven = Some(RequestId::Number(7));
        assert_eq!(id_in(br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"#), seven);
        assert_eq!(id_in(br#"{ "a":"}\",\"id\":9,", "id" : 7 , "#), seven);
        let text = Some(RequestId::Text("a,\"b".to_owned()));
        assert_eq!(id_in(br#"{"id":"a,\"b","method":"x"#), text);
        for none in [&br#"{"params":{"id":1,"#[..], b"{\"id\":{},", b"[[[", b"", b"{\"id\":1"] {
            assert_eq!(id_in(none), None);
        }
    }

    #[tokio::test]
    async fn what_is_no_message_is_named_and_the_next_line_is_read() {
        let mut bytes = b"\n \nhello\n{\"a\":1}\r\n{\"id\":6,\"params\":\"".to_vec();
        bytes.resize(bytes.len() + MESSAGE_BYTES, b'x');
        bytes.extend_from_slice(b"\"}\n\xff\n[]\n{\"half\":");
        let mut lines = EditorLines::new(bytes.as_slice());
        for expected in [
            EditorLine::NotJson,
            EditorLine::Json(json!({ "a": 1 }), 9),
            EditorLine::TooLong(Some(RequestId::Number(6))),
            EditorLine::NotJson,
            EditorLine::Json(json!([]), 3),
            EditorLine::End,
        ] {
            assert_eq!(lines.next().await, expected);
        }
    }
}
