//! Messages of another program, one JSON object per line, read within bounds.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Longest id that is looked for, as JSON.
const ID_BYTES: usize = 256;

/// A line that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageLine {
    /// Its bytes, without the end of the line.
    Whole(Vec<u8>),
    /// It is longer than messages may be; with its id (a number or a text), if it is an object that has
    /// one.
    TooLong(Option<Value>),
}

/// Reads lines that are not blank. A read that is given up goes on with the next call.
#[derive(Debug)]
pub struct MessageLines<R> {
    input: BufReader<R>,
    max_bytes: usize,
    line: Vec<u8>,
    /// Looks for the id of a line that is too long, of which nothing else is kept.
    skipping: Option<IdScanner>,
}

impl<R: AsyncRead + Unpin> MessageLines<R> {
    /// Returns a reader of a byte stream whose lines have no more than `max_bytes`.
    pub fn new(input: R, max_bytes: usize) -> Self {
        let input = BufReader::with_capacity(CHUNK, input);
        Self { input, max_bytes, line: Vec::new(), skipping: None }
    }

    /// Waits for the next line; nothing at the end of the stream. What stands there without an end of
    /// the line is left for [`MessageLines::take_unfinished`].
    pub async fn next(&mut self) -> std::io::Result<Option<MessageLine>> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            // From here to `consume` nothing waits, so that nothing is lost or seen twice.
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if let Some(scanner) = &mut self.skipping {
                scanner.take(part);
            } else if self.line.len() + part.len() > self.max_bytes {
                let mut scanner = IdScanner::default();
                scanner.take(&self.line);
                scanner.take(part);
                self.line = Vec::new();
                self.skipping = Some(scanner);
            } else {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.input.consume(taken);
            if end.is_some()
                && let Some(line) = self.take_unfinished()
            {
                return Ok(Some(line));
            }
        }
    }

    /// Takes what was read of the line that has not ended; nothing if it is blank.
    pub fn take_unfinished(&mut self) -> Option<MessageLine> {
        if let Some(scanner) = self.skipping.take() {
            return Some(MessageLine::TooLong(scanner.id));
        }
        let line = std::mem::take(&mut self.line);
        (!line.trim_ascii().is_empty()).then_some(MessageLine::Whole(line))
    }
}

/// Finds the member `id` of an object that is not kept, wherever in it that is: a client that sent too
/// much gets an answer, and does not wait for ever.
#[derive(Debug, Default)]
struct IdScanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The key or value that is being read right below the top.
    token: Vec<u8>,
    /// Whether the value of `id` is being read.
    is_id: bool,
    id: Option<Value>,
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
            let value: Option<Value> = serde_json::from_slice(&self.token).ok();
            self.id = value.filter(|value| value.is_i64() || value.is_string());
        }
        self.token.clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const MOST: usize = 256 << 10;

    fn scanned(text: &str) -> Option<Value> {
        // One byte at a time, as the worst of all clients would send it.
        let mut scanner = IdScanner::default();
        text.as_bytes().iter().for_each(|byte| scanner.take(&[*byte]));
        scanner.id
    }

    #[test]
    fn the_id_of_a_message_that_is_too_long_is_found_wherever_it_stands() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":8,"a":"}\",\"id\":9"}}"#,
            r#"{"params":{"id":8,"b":[{"id":3}]},"jsonrpc":"2.0", "id" : 7 }"#,
            r#"{"params":"\\\"id\\\":1,","id":7}"#,
            r#"{ "a":"}\",\"id\":9,", "id" : 7 , "#,
        ] {
            assert_eq!(scanned(text), Some(json!(7)), "{text}");
        }
        assert_eq!(scanned(r#"{"id":"a,\"b","x":1}"#), Some(json!("a,\"b")));
        for text in
            [r#"{"params":{"id":1}}"#, r#"{"id":{"id":1}}"#, r#"{"id":1"#, "[[[", "\"id\":1", ""]
        {
            assert_eq!(scanned(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_reported_and_the_next_one_is_read() {
        let mut input = b"one\r\n\n  \n\xff\xfe\n{\"id\":6,\"params\":\"".to_vec();
        input.extend(std::iter::repeat_n(b'x', MOST + 1));
        input.extend(b"\"}\n");
        input.extend(std::iter::repeat_n(b'y', MOST));
        input.extend(b"\nhalf");
        let mut lines = MessageLines::new(&input[..], MOST);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(line);
        }
        let whole = |bytes: &[u8]| MessageLine::Whole(bytes.to_vec());
        assert_eq!(
            seen,
            [
                whole(b"one\r"),
                whole(b"\xff\xfe"),
                MessageLine::TooLong(Some(json!(6))),
                whole(&b"y".repeat(MOST)),
            ]
        );
        assert_eq!(lines.take_unfinished(), Some(whole(b"half")));
        assert_eq!(lines.take_unfinished(), None);
    }

    #[tokio::test]
    async fn a_line_without_end_takes_no_memory() {
        let mut lines = MessageLines::new(tokio::io::repeat(b'x').take(100 << 20), MOST);
        assert_eq!(lines.next().await.unwrap(), None);
        assert!(lines.line.capacity() <= 2 * MOST, "{}", lines.line.capacity());
        assert_eq!(lines.take_unfinished(), Some(MessageLine::TooLong(None)));
    }
}
