//! Searches the lines of a file, with bounded memory for lines of any length.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use memchr::{memchr, memchr_iter, memrchr};
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};

use super::pattern::Pattern;
use super::perform::{OpError, check};

/// Bytes at the start of a file that are checked for NUL, which marks it as
/// binary.
const BINARY_CHECK: usize = 8 << 10;

/// Bytes read at once.
const PIECE: usize = 128 << 10;

/// Longest line that is matched as a whole. A longer one is matched in windows of
/// this size, as bytes. Each window repeats the end of the previous one; a match
/// longer than that end may be missed.
const WINDOW: usize = 1 << 20;

const REPEATED: usize = 64 << 10;

/// Maximum bytes of a line that are reported.
pub(super) const MAX_TEXT: usize = 2_000;

/// Receives the lines of a file in order.
pub(super) trait LineSink {
    /// Receives a matching line.
    fn matched(&mut self, number: u64, text: &[u8]) -> ControlFlow<()>;

    /// Receives a line that does not match.
    fn passed(&mut self, number: u64, text: &[u8]);

    /// Returns whether lines that do not match are needed.
    fn wants_passed(&self) -> bool;
}

/// Whether the content was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchedContent {
    Text,
    Binary,
}

/// Searches files one after the other.
#[derive(Debug)]
pub(super) struct LineSearcher {
    pattern: Pattern,
    buffer: Vec<u8>,
}

/// A file being read.
struct LineSource<'a> {
    file: &'a File,
    offset: u64,
    cancelled: &'a AtomicBool,
}

impl LineSource<'_> {
    /// Appends the next piece to `buffer`. Returns `false` at the end of the
    /// file.
    fn read_on(&mut self, buffer: &mut Vec<u8>) -> Result<bool, OpError> {
        check(self.cancelled)?;
        if i64::try_from(self.offset).is_err() {
            return Ok(false);
        }
        buffer.reserve_exact(PIECE);
        let got = loop {
            match pread(self.file, spare_capacity(buffer), self.offset) {
                Err(Errno::INTR) => {}
                got => break got?,
            }
        };
        self.offset += got as u64;
        Ok(got > 0)
    }
}

impl LineSearcher {
    pub(super) const fn new(pattern: Pattern) -> Self {
        Self { pattern, buffer: Vec::new() }
    }

    /// Searches a file and passes its lines to `lines`.
    pub(super) fn search(
        &mut self,
        file: &File,
        lines: &mut dyn LineSink,
        cancelled: &AtomicBool,
    ) -> Result<SearchedContent, OpError> {
        let mut source = LineSource { file, offset: 0, cancelled };
        self.buffer.clear();
        let mut more = true;
        while more && self.buffer.len() < BINARY_CHECK {
            more = source.read_on(&mut self.buffer)?;
        }
        if memchr(0, &self.buffer[..self.buffer.len().min(BINARY_CHECK)]).is_some() {
            return Ok(SearchedContent::Binary);
        }
        let mut number = 1;
        loop {
            let end = if more {
                memrchr(b'\n', &self.buffer).map(|newline| newline + 1)
            } else {
                Some(self.buffer.len())
            };
            if let Some(end) = end {
                let mut buffer = std::mem::take(&mut self.buffer);
                let flow = self.search_block(&buffer[..end], &mut number, lines);
                buffer.drain(..end);
                self.buffer = buffer;
                if flow?.is_break() || !more {
                    return Ok(SearchedContent::Text);
                }
            } else if self.buffer.len() >= WINDOW {
                let flow = self.search_long_line(&mut source, number, lines)?;
                if flow.is_break() {
                    return Ok(SearchedContent::Text);
                }
                number += 1;
            }
            more = source.read_on(&mut self.buffer)?;
        }
    }

    /// Searches whole lines.
    fn search_block(
        &mut self,
        block: &[u8],
        number: &mut u64,
        lines: &mut dyn LineSink,
    ) -> Result<ControlFlow<()>, OpError> {
        let mut at = 0;
        while at < block.len() {
            // A line that ends before the end of the first match cannot match.
            let first_end = if self.pattern.lines_at_once() {
                self.pattern.first_end(block, at)?.unwrap_or(block.len() + 1)
            } else {
                at
            };
            let start = match first_end {
                end if end > block.len() => block.len(),
                end => memrchr(b'\n', &block[at..end]).map_or(at, |newline| at + newline + 1),
            };
            pass_over(&block[at..start], number, lines);
            if start == block.len() {
                break;
            }
            let end = memchr(b'\n', &block[start..]).map_or(block.len(), |length| start + length);
            let line = without_return(&block[start..end]);
            if !self.pattern.matches(line)? {
                lines.passed(*number, cut(line));
            } else if lines.matched(*number, cut(line)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            *number += 1;
            at = end + 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Searches a line that fills the buffer and continues in the file. Leaves
    /// what follows it in the buffer.
    fn search_long_line(
        &mut self,
        source: &mut LineSource<'_>,
        number: u64,
        lines: &mut dyn LineSink,
    ) -> Result<ControlFlow<()>, OpError> {
        let text = self.buffer[..MAX_TEXT].to_vec();
        // In later windows the first byte only shows that the line does not start
        // here.
        let (mut from, mut found) = (0, false);
        loop {
            found = found || {
                let end = self.pattern.first_end(&self.buffer, from)?;
                // A match that reaches the end of the window may not be one when
                // the line continues; the next window checks it again.
                end.is_some_and(|end| end < self.buffer.len())
            };
            self.buffer.drain(..self.buffer.len() - REPEATED);
            from = 1;
            let mut more = true;
            let mut looked = self.buffer.len();
            let newline = loop {
                if let Some(at) = memchr(b'\n', &self.buffer[looked..]) {
                    break Some(looked + at);
                }
                looked = self.buffer.len();
                if !more || looked >= WINDOW {
                    break None;
                }
                more = source.read_on(&mut self.buffer)?;
            };
            if newline.is_none() && more {
                continue;
            }
            let end = newline.unwrap_or(self.buffer.len());
            let rest = without_return(&self.buffer[..end]);
            found = found || self.pattern.first_end(rest, from)?.is_some();
            self.buffer.drain(..(end + 1).min(self.buffer.len()));
            if found {
                return Ok(lines.matched(number, &text));
            }
            lines.passed(number, &text);
            return Ok(ControlFlow::Continue(()));
        }
    }
}

/// Counts lines that do not match, and passes them on if they are needed.
fn pass_over(block: &[u8], number: &mut u64, lines: &mut dyn LineSink) {
    if !lines.wants_passed() {
        *number += memchr_iter(b'\n', block).count() as u64;
        return;
    }
    for line in block.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        lines.passed(*number, cut(without_return(line)));
        *number += 1;
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn cut(line: &[u8]) -> &[u8] {
    &line[..line.len().min(MAX_TEXT)]
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
