//! Lines out of a file that comes in pieces, in bounded memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Takes a file's bytes and keeps some of its lines.
#[derive(Debug)]
pub(super) struct FileWindow {
    /// The first line that is wanted, from 1.
    first: u64,
    /// Lines that are still wanted.
    wanted: u64,
    /// Bytes that there is still room for.
    room: usize,
    /// The line that the next byte belongs to.
    line: u64,
    /// What is kept.
    pub(super) bytes: Vec<u8>,
    /// Whether lines that are wanted did not fit.
    pub(super) is_cut: bool,
}

impl FileWindow {
    pub(super) fn new(first: u64, lines: u64, room: usize) -> Self {
        Self { first: first.max(1), wanted: lines, room, line: 1, bytes: Vec::new(), is_cut: false }
    }

    /// Returns the number of the last line that is kept, with a part of it at least.
    pub(super) fn last_line(&self) -> u64 {
        let ends = self.bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
        let open = u64::from(self.bytes.last().is_some_and(|byte| *byte != b'\n'));
        (self.first + ends + open).saturating_sub(1)
    }

    /// Takes the next bytes; false once no more are wanted.
    fn take(&mut self, bytes: &[u8]) -> bool {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.wanted == 0 {
                return false;
            }
            let ends = piece.ends_with(b"\n");
            if self.line >= self.first {
                if piece.len() > self.room {
                    self.is_cut = true;
                    self.bytes.extend_from_slice(&piece[..self.room]);
                    self.wanted = 0;
                    return false;
                }
                self.room -= piece.len();
                self.bytes.extend_from_slice(piece);
                self.wanted -= u64::from(ends);
            }
            self.line += u64::from(ends);
        }
        self.wanted > 0
    }
}

/// A write fails once no more is wanted, which ends the reading.
impl AsyncWrite for FileWindow {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(if self.take(bytes) { Ok(bytes.len()) } else { Err(enough()) })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn enough() -> io::Error {
    io::Error::other("no more lines are wanted")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(first: u64, count: u64, room: usize, pieces: &[&str]) -> (String, u64, bool, bool) {
        let mut window = FileWindow::new(first, count, room);
        let more = pieces.iter().all(|piece| window.take(piece.as_bytes()));
        let text = String::from_utf8(window.bytes.clone()).unwrap();
        (text, window.last_line(), window.is_cut, more)
    }

    #[test]
    fn the_lines_asked_for_are_kept_however_the_file_is_cut_into_pieces() {
        for pieces in [&["a\nb\nc\nd\n"][..], &["a\n", "b", "\nc", "\n", "d\n"]] {
            assert_eq!(lines(2, 2, 100, pieces), ("b\nc\n".to_owned(), 3, false, false));
        }
        assert_eq!(lines(1, 10, 100, &["a\nb"]), ("a\nb".to_owned(), 2, false, true));
        assert_eq!(lines(5, 1, 100, &["a\nb"]).0, "");
    }

    #[test]
    fn a_line_that_does_not_fit_is_cut_and_marked() {
        assert_eq!(lines(1, 2, 4, &["ab\ncdef\n"]), ("ab\nc".to_owned(), 2, true, false));
    }
}
