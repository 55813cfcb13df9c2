//! Frames as lines: one object each, over any pair of byte streams.

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::connection::{BadFrame, MAX_FRAME};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameLine {
    /// Its text, without the end of the line.
    Text(String),
    /// It cannot be a frame.
    Bad(BadFrame),
}

/// Reads lines of bounded length. Of a line that is too long nothing is kept, and the line after it
/// is read as any other.
#[derive(Debug)]
pub struct FrameReader<R> {
    input: R,
    chunk: Vec<u8>,
    /// What of the chunk is not used yet.
    unread: std::ops::Range<usize>,
    line: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Returns a reader of a byte stream.
    pub fn new(input: R) -> Self {
        Self { input, chunk: vec![0; CHUNK], unread: 0..0, line: Vec::new(), is_too_long: false }
    }

    /// Waits for the next line that is not blank; nothing at the end of the stream. A last line
    /// without an end is a line.
    pub async fn next(&mut self) -> std::io::Result<Option<FrameLine>> {
        loop {
            if self.unread.is_empty() {
                let read = self.input.read(&mut self.chunk).await?;
                self.unread = 0..read;
                if read == 0 {
                    return Ok(self.take());
                }
            }
            let unread = self.chunk.get(self.unread.clone()).unwrap_or_default();
            let end = unread.iter().position(|byte| *byte == b'\n');
            let piece = unread.get(..end.unwrap_or(unread.len())).unwrap_or_default();
            if self.line.len() + piece.len() > MAX_FRAME {
                self.is_too_long = true;
                self.line = Vec::new();
            } else if !self.is_too_long {
                self.line.extend_from_slice(piece);
            }
            self.unread.start += piece.len() + usize::from(end.is_some());
            if end.is_some()
                && let Some(line) = self.take()
            {
                return Ok(Some(line));
            }
        }
    }

    fn take(&mut self) -> Option<FrameLine> {
        if std::mem::take(&mut self.is_too_long) {
            return Some(FrameLine::Bad(BadFrame::TooLong));
        }
        let line = std::mem::take(&mut self.line);
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        Some(match String::from_utf8(line) {
            Ok(text) => FrameLine::Text(text),
            Err(_) => FrameLine::Bad(BadFrame::NotText),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_line_is_reported_and_the_rest_is_read() {
        let mut input = b"one\r\n\n  \n\xff\xfe\n".to_vec();
        input.extend(std::iter::repeat_n(b'x', MAX_FRAME + 1));
        input.extend(b"\ntwo\nhalf");
        let mut lines = FrameReader::new(&input[..]);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(line);
        }
        let text = |text: &str| FrameLine::Text(text.to_owned());
        assert_eq!(
            seen,
            [
                text("one\r"),
                FrameLine::Bad(BadFrame::NotText),
                FrameLine::Bad(BadFrame::TooLong),
                text("two"),
                text("half"),
            ]
        );
    }

    #[tokio::test]
    async fn a_line_without_end_takes_no_memory() {
        let mut lines = FrameReader::new(tokio::io::repeat(b'x').take(100 << 20));
        assert_eq!(lines.next().await.unwrap(), Some(FrameLine::Bad(BadFrame::TooLong)));
        assert!(lines.line.capacity() <= 2 * MAX_FRAME, "{}", lines.line.capacity());
        assert_eq!(lines.next().await.unwrap(), None);
    }
}
