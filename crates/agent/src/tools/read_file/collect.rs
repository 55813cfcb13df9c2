//! Picks lines out of a file that comes in pieces, in bounded memory whatever
//! its size and the length of its lines.

use crate::tools::files::BOM;

/// Most bytes of the lines that are kept, all together.
const MAX_KEPT: usize = 400_000;

/// Bytes that are read beyond the lines asked for, to count the others.
const COUNTED: u64 = 64 << 20;

/// Characters of a line that are kept beyond those that are shown, so that a
/// secret at the cut is seen whole.
const BEYOND: usize = 512;

/// Whether more is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    Enough,
}

/// The lines so far.
#[derive(Debug)]
pub(super) struct Collector {
    /// First line wanted, from 0.
    first: u64,
    /// How many are wanted.
    limit: u64,
    /// Bytes of a line that are kept.
    line_bytes: usize,
    /// The lines kept; of a long one the beginning.
    pub(super) lines: Vec<Vec<u8>>,
    /// Lines before the ones wanted, which may open what they close.
    pub(super) before: std::collections::VecDeque<Vec<u8>>,
    /// What the file is.
    pub(super) content: ContentKind,
    /// Whether all lines have been counted.
    pub(super) counted: bool,
    /// Complete lines passed.
    ended: u64,
    /// The line that has not ended yet, as far as it is kept.
    open: Vec<u8>,
    /// Whether anything of that line has come.
    is_open: bool,
    start: Vec<u8>,
    started: bool,
    kept: usize,
    beyond: u64,
}

/// Lines before the ones wanted that are kept to find what begins in them.
const BEFORE: usize = 64;

impl Collector {
    /// Returns a collector of `limit` lines from line `offset`, from 1, each of
    /// at most `line_length` characters.
    pub(super) fn new(offset: usize, limit: usize, line_length: usize) -> Self {
        Self {
            first: offset.saturating_sub(1) as u64,
            limit: limit as u64,
            line_bytes: line_length.saturating_add(BEYOND).saturating_mul(4),
            lines: Vec::new(),
            before: std::collections::VecDeque::new(),
            content: ContentKind::Text,
            counted: false,
            ended: 0,
            open: Vec::new(),
            is_open: false,
            start: Vec::new(),
            started: false,
            kept: 0,
            beyond: 0,
        }
    }

    /// Takes the next piece of the file.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Flow {
        if self.started {
            return self.pass(bytes);
        }
        self.start.extend_from_slice(bytes);
        if self.start.len() < LOOKED_AT {
            return Flow::More;
        }
        self.begin()
    }

    /// Looks at how the file begins.
    fn begin(&mut self) -> Flow {
        self.started = true;
        let start = std::mem::take(&mut self.start);
        self.content = content(&start);
        if self.content != ContentKind::Text {
            return Flow::Enough;
        }
        self.pass(start.strip_prefix(BOM).unwrap_or(&start))
    }

    fn pass(&mut self, bytes: &[u8]) -> Flow {
        if self.is_full() {
            self.beyond = self.beyond.saturating_add(bytes.len() as u64);
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.is_open = true;
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |it| (it, true));
            if self.is_near() {
                let room = self.line_bytes.saturating_sub(self.open.len());
                self.open.extend_from_slice(&text[..text.len().min(room)]);
                if room > 0 && text.len() > room {
                    drop_half_character(&mut self.open);
                }
            }
            if ended {
                self.end_line();
            }
        }
        if self.has_enough() { Flow::Enough } else { Flow::More }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.open);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if self.ended >= self.first && !self.is_full() {
            self.kept += line.len();
            self.lines.push(line);
        } else if self.ended < self.first && self.is_near() {
            if self.before.len() == BEFORE {
                self.before.pop_front();
            }
            self.before.push_back(line);
        }
        self.ended += 1;
        self.is_open = false;
    }

    /// Reports whether the line that is open is wanted, or soon before one that is.
    fn is_near(&self) -> bool {
        self.ended + BEFORE as u64 >= self.first && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.lines.len() as u64 >= self.limit || self.kept >= MAX_KEPT
    }

    /// Reports whether nothing more needs to be read.
    pub(super) fn has_enough(&self) -> bool {
        self.content != ContentKind::Text || self.beyond > COUNTED
    }

    /// Takes note that nothing more comes: because the file is at its end, or not.
    pub(super) fn finish(&mut self, at_end: bool) {
        if !self.started {
            self.begin();
        }
        if self.is_open {
            self.end_line();
        }
        self.counted = at_end && self.content == ContentKind::Text;
    }

    /// Returns how many lines the file has, as far as they were counted.
    pub(super) fn total(&self) -> u64 {
        self.ended
    }

    /// Returns the number of the first line wanted, from 1.
    pub(super) fn first_number(&self) -> u64 {
        self.first + 1
    }
}

/// Takes a character off the end that a cut may have left half of.
fn drop_half_character(line: &mut Vec<u8>) {
    while line.pop_if(|byte| (0x80..0xc0).contains(byte)).is_some() {}
    line.pop_if(|byte| *byte >= 0xc0);
}

/// How much of the start of a file decides.
pub(super) const LOOKED_AT: usize = 8 << 10;

/// What the start of a file says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Text,
    Image,
    Binary,
}

/// Images by how they begin.
const IMAGES: &[&[u8]] = &[b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"];

/// Looks at the start of a file.
pub(super) fn content(start: &[u8]) -> ContentKind {
    let start = &start[..start.len().min(LOOKED_AT)];
    if !is_binary(start) {
        return ContentKind::Text;
    }
    let webp = start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP");
    if webp || IMAGES.iter().any(|magic| start.starts_with(magic)) {
        ContentKind::Image
    } else {
        ContentKind::Binary
    }
}

/// A NUL, or almost a third of control characters, is in no text.
fn is_binary(start: &[u8]) -> bool {
    let is_control = |byte: u8| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    let controls = start.iter().filter(|byte| is_control(**byte)).count();
    start.contains(&0) || controls * 10 > start.len() * 3
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
