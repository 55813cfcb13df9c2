//! What a server prints on its standard output, watched on its way.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use vestal_agent::redact::Redactor;

use crate::tool::one_line;

/// Longest message that is taken.
pub(crate) const LONGEST: usize = 16 << 20;

/// Bytes of a line that is not a message which are remembered.
const REMEMBERED: usize = 300;

/// Characters of it that are reported.
const CHARACTERS: usize = 120;

/// What was wrong with a server's output, for who wonders why it does not answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputProblems(Arc<Mutex<SeenOutput>>);

#[derive(Debug, Default)]
struct SeenOutput {
    chatter: Option<String>,
    too_long: bool,
}

impl OutputProblems {
    /// Returns what was odd, in words that follow others.
    pub(crate) fn in_words(&self, redactor: &Redactor) -> Option<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.too_long {
            return Some(format!("it sent a message of more than {} MiB", LONGEST >> 20));
        }
        // Masked before it is cut: half a secret is not known as one.
        let chatter = redactor.redact(seen.chatter.as_deref()?);
        let chatter = one_line(&chatter, CHARACTERS);
        Some(format!("it prints text that is not an MCP message: {chatter:?}"))
    }

    fn note(&self, change: impl FnOnce(&mut SeenOutput)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Passes a server's output on. A line that is too long ends it: the call that
/// waits for the message in it would wait for ever if it were skipped.
pub(crate) struct WatchedLines<R> {
    inner: R,
    oddities: OutputProblems,
    length: usize,
    /// The beginning of a line that is not a message.
    chatter: Vec<u8>,
    is_chatter: bool,
    ended: bool,
}

impl<R> WatchedLines<R> {
    pub(crate) fn new(inner: R, oddities: OutputProblems) -> Self {
        let (length, chatter, is_chatter, ended) = (0, Vec::new(), false, false);
        Self { inner, oddities, length, chatter, is_chatter, ended }
    }

    fn look_at(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            if self.length == 0 {
                let first = part.iter().find(|byte| !byte.is_ascii_whitespace());
                self.is_chatter = first.is_some_and(|byte| !b"{[\xef".contains(byte));
            }
            self.length += part.len();
            if self.is_chatter {
                let room = REMEMBERED.saturating_sub(self.chatter.len()).min(part.len());
                self.chatter.extend_from_slice(part.get(..room).unwrap_or_default());
            }
            if self.length > LONGEST {
                self.oddities.note(|seen| seen.too_long = true);
                self.ended = true;
                return;
            }
            if end.is_some() {
                self.end_line();
            }
            bytes = rest;
        }
    }

    fn end_line(&mut self) {
        self.length = 0;
        if std::mem::take(&mut self.is_chatter) {
            let text = one_line(&String::from_utf8_lossy(&self.chatter), REMEMBERED);
            self.oddities.note(|seen| {
                seen.chatter.get_or_insert(text);
            });
        }
        self.chatter.clear();
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.ended {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default().to_vec();
        if new.is_empty() {
            self.end_line();
        } else {
            self.look_at(&new);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(input: &[u8]) -> (Vec<u8>, Option<String>) {
        let oddities = OutputProblems::default();
        let mut watched = WatchedLines::new(input, oddities.clone());
        let mut out = Vec::new();
        watched.read_to_end(&mut out).await.unwrap();
        let redactor = Redactor::new(["hunter2-secret".to_owned()]);
        (out, oddities.in_words(&redactor))
    }

    #[tokio::test]
    async fn messages_pass_unnoticed() {
        let input = b"{\"a\":1}\n\n  {\"b\":2}\r\n[1]\n{\"unfinished\":";
        assert_eq!(read(input).await, (input.to_vec(), None));
    }

    #[tokio::test]
    async fn the_first_line_that_is_no_message_is_remembered() {
        let (out, odd) = read(b"{}\nStarting\x1b[1m server...\nmore\n{}\n").await;
        assert_eq!(out.len(), 34);
        let odd = odd.unwrap();
        assert!(odd.ends_with("not an MCP message: \"Starting[1m server...\""), "{odd}");
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_remembered_too() {
        let (_, odd) = read(b"usage: server").await;
        assert!(odd.unwrap().contains("usage: server"));
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_ends_the_output() {
        let mut input = vec![b'{'; LONGEST + 1];
        input.extend_from_slice(b"\n{}\n");
        let (out, odd) = read(&input).await;
        assert!(out.len() <= input.len() - 4 + 8192, "{}", out.len());
        assert_eq!(odd.unwrap(), "it sent a message of more than 16 MiB");
        let (_, odd) = read(&vec![b'{'; LONGEST]).await;
        assert_eq!(odd, None);
    }

    #[tokio::test]
    async fn a_secret_in_what_is_no_message_is_masked() {
        let line = format!("{} the key is hunter2-secret\n", "x".repeat(100));
        let (_, odd) = read(line.as_bytes()).await;
        assert!(!odd.unwrap().contains("hunter2"));
    }
}
