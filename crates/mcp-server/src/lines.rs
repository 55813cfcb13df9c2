//! Messages of a client over standard input, one per line: read within bounds, and checked before
//! they take any memory that lasts.

use rmcp::model::{ClientJsonRpcMessage, RequestId};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use crate::limits::MESSAGE_BYTES;

/// What a line was.
#[derive(Debug)]
pub(crate) enum ReadLine {
    /// A message, and how long it was.
    Message(Box<ClientJsonRpcMessage>, usize),
    /// A line that is no message.
    Bad(BadLine),
    /// The client is gone.
    End,
}

/// A line that is no message, with its id where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// It is longer than messages may be.
    TooLong(Option<RequestId>),
    /// It is not JSON.
    NotJson,
    /// It is JSON, and not a message.
    NotMessage(Option<RequestId>),
}

/// Reads lines. A read that is given up goes on with the next call.
#[derive(Debug)]
pub(crate) struct MessageLines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// Looks for the id of a line that is too long, of which nothing else is kept.
    skipping: Option<IdScanner>,
}

impl<R: AsyncRead + Unpin> MessageLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(64 << 10, input), line: Vec::new(), skipping: None }
    }

    /// Returns the next line that is not blank. What is unfinished at the end is no line.
    pub(crate) async fn next(&mut self) -> ReadLine {
        loop {
            let available = match self.input.fill_buf().await {
                Ok([]) | Err(_) => return ReadLine::End,
                Ok(available) => available,
            };
            // From here to `consume` nothing waits, so that nothing is lost or seen twice.
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let part = &available[..taken];
            if let Some(scanner) = &mut self.skipping {
                scanner.take(part);
            } else if self.line.len() + taken > MESSAGE_BYTES {
                let mut scanner = IdScanner::default();
                scanner.take(&self.line);
                scanner.take(part);
                self.line = Vec::new();
                self.skipping = Some(scanner);
            } else {
                self.line.extend_from_slice(part);
            }
            self.input.consume(taken);
            if end.is_none() {
                continue;
            }
            if let Some(scanner) = self.skipping.take() {
                return ReadLine::Bad(BadLine::TooLong(scanner.id()));
            }
            let parsed = parse(&self.line);
            // A long message leaves no room behind for as long as the client stays.
            if self.line.capacity() > (64 << 10) {
                self.line = Vec::new();
            } else {
                self.line.clear();
            }
            if let Some(parsed) = parsed {
                return parsed;
            }
        }
    }
}

/// Returns nothing for a blank line.
fn parse(line: &[u8]) -> Option<ReadLine> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    Some(match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
        Ok(message) => ReadLine::Message(Box::new(message), line.len()),
        Err(_) => ReadLine::Bad(match serde_json::from_slice::<Value>(line) {
            Ok(value) => BadLine::NotMessage(request_id(value.get("id"))),
            Err(_) => BadLine::NotJson,
        }),
    })
}

fn request_id(value: Option<&Value>) -> Option<RequestId> {
    match value? {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        _ => None,
    }
}

/// Longest id that is looked for, as JSON.
const ID_BYTES: usize = 256;

/// Finds the member `id` of an object that is not kept, wherever in it that is: whoever sent too much
/// is to hear of it, and not to wait for ever.
#[derive(Debug, Default)]
struct IdScanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The key or value that is being read right below the top.
    token: Vec<u8>,
    /// Whether the value of `id` is being read.
    is_id: bool,
    id: Option<RequestId>,
}

impl IdScanner {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                self.token.clear();
            }
            b':' if self.depth == 1 => {
                self.is_id = self.token == b"\"id\"";
                self.token.clear();
            }
            b',' | b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                if byte != b',' {
                    self.depth = self.depth.saturating_sub(1);
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < ID_BYTES {
            self.token.push(byte);
        }
    }

    fn end_value(&mut self) {
        if std::mem::take(&mut self.is_id) && self.id.is_none() {
            self.id = request_id(serde_json::from_slice(&self.token).ok().as_ref());
        }
        self.token.clear();
    }

    fn id(self) -> Option<RequestId> {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> Option<RequestId> {
        // One byte at a time, as the worst of all clients would send it.
        let mut scanner = IdScanner::default();
        text.as_bytes().iter().for_each(|byte| scanner.take(&[*byte]));
        scanner.id()
    }

    #[test]
    fn the_id_of_a_message_that_is_too_long_is_found_wherever_it_stands() {
        let seven = Some(RequestId::Number(7));
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":8,"a":"}\",\"id\":9"}}"#,
            r#"{"params":{"id":8,"b":[{"id":3}]},"jsonrpc":"2.0", "id" : 7 }"#,
            r#"{"params":"\\\"id\\\":1,","id":7}"#,
        ] {
            assert_eq!(scanned(text), seven, "{text}");
        }
        assert_eq!(scanned(r#"{"id":"a\"b","x":1}"#), Some(RequestId::String("a\"b".into())));
        for text in [r#"{"params":{"id":1}}"#, r#"{"id":{"id":1}}"#, "[[[", "\"id\":1"] {
            assert_eq!(scanned(text), None, "{text}");
        }
    }

    async fn read(bytes: Vec<u8>) -> Vec<String> {
        let mut lines = MessageLines::new(bytes.as_slice());
        let mut seen = Vec::new();
        loop {
            seen.push(match lines.next().await {
                ReadLine::Message(message, _) => match *message {
                    ClientJsonRpcMessage::Request(request) => format!("request {}", request.id),
                    other => format!("{other:?}").chars().take(12).collect(),
                },
                ReadLine::Bad(bad) => format!("{bad:?}"),
                ReadLine::End => return seen,
            });
        }
    }

    #[tokio::test]
    async fn what_is_no_message_is_named_and_the_next_line_is_read() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let mut bytes = format!("\n \nhello\n{{\"id\":5}}\n[1]\n{ping}\r\n").into_bytes();
        bytes.extend_from_slice(b"{\"id\":6,\"params\":\"");
        bytes.resize(bytes.len() + MESSAGE_BYTES, b'x');
        bytes.extend_from_slice(b"\"}\n\xff\n");
        bytes.extend_from_slice(format!("{ping}\n{ping}").as_bytes());
        let seen = read(bytes).await;
        assert_eq!(
            seen,
            [
                "NotJson",
                "NotMessage(Some(Number(5)))",
                "NotMessage(None)",
                "request 1",
                "TooLong(Some(Number(6)))",
                "NotJson",
                "request 1",
            ],
            "the last line has no end, and is none"
        );
    }
}
