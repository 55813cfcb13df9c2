//! Byte sequences of a terminal: where one ends, and pastes, which may be long or never end.

use std::time::Duration;

use crate::key::TerminalInput;

const ESCAPE: u8 = 0x1b;

/// The longest sequence that is waited for: answers of a terminal are shorter.
const LONGEST: usize = 4096;

/// The longest string, a piece of a clipboard with it: 4096 bytes in base64.
const LONGEST_STRING: usize = 16 << 10;

/// What a byte string starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceEnd {
    /// One key or one answer, of so many bytes.
    Whole(usize),
    /// An Escape before a sequence: the key was pressed with Alt.
    Alt,
    /// The beginning of one.
    Part,
}

/// Returns what the bytes start with. They must not be empty.
pub(super) fn frame(bytes: &[u8]) -> SequenceEnd {
    match bytes {
        [ESCAPE] | [ESCAPE, ESCAPE | b'[' | b'O' | b']' | b'P' | b'_'] => SequenceEnd::Part,
        [ESCAPE, ESCAPE, b'[' | b'O', ..] => SequenceEnd::Alt,
        [ESCAPE, ESCAPE, ..] => SequenceEnd::Whole(1),
        // The first function keys of the Linux console.
        [ESCAPE, b'[', b'['] => SequenceEnd::Part,
        [ESCAPE, b'[', b'[', ..] => SequenceEnd::Whole(4),
        [ESCAPE, b'[', rest @ ..] => sequence(rest).plus(2),
        [ESCAPE, b'O', ..] => SequenceEnd::Whole(3),
        [ESCAPE, b']' | b'P' | b'_', rest @ ..] => string(rest).plus(2),
        [ESCAPE, rest @ ..] => character(rest).plus(1),
        _ => character(bytes),
    }
}

impl SequenceEnd {
    fn plus(self, more: usize) -> Self {
        match self {
            Self::Whole(length) => Self::Whole(length + more),
            other => other,
        }
    }
}

/// A control sequence ends with its first byte from `@` on; what cannot be in
/// one ends it as well, and belongs to what follows.
fn sequence(rest: &[u8]) -> SequenceEnd {
    match rest.iter().position(|byte| !(0x20..0x40).contains(byte)) {
        Some(at) if (0x40..0x7f).contains(&rest[at]) => SequenceEnd::Whole(at + 1),
        Some(at) => SequenceEnd::Whole(at),
        None if rest.len() > LONGEST => SequenceEnd::Whole(rest.len()),
        None => SequenceEnd::Part,
    }
}

/// A control string ends with BEL, or with ESC and a backslash.
fn string(rest: &[u8]) -> SequenceEnd {
    match rest.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE)) {
        Some(at) if rest[at] == 0x07 => SequenceEnd::Whole(at + 1),
        Some(at) => match rest.get(at + 1) {
            Some(b'\\') => SequenceEnd::Whole(at + 2),
            Some(_) => SequenceEnd::Whole(at),
            None => SequenceEnd::Part,
        },
        None if rest.len() > LONGEST_STRING => SequenceEnd::Whole(rest.len()),
        None => SequenceEnd::Part,
    }
}

/// A character of UTF-8; what is none is one byte.
fn character(bytes: &[u8]) -> SequenceEnd {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let continued = bytes.iter().skip(1).take(length - 1);
    let continued = continued.take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    if continued + 1 == length {
        SequenceEnd::Whole(length)
    } else if bytes.len() > continued + 1 {
        // Something else follows: the character will not become whole.
        SequenceEnd::Whole(continued + 1)
    } else {
        SequenceEnd::Part
    }
}

pub(super) const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// A paste that has been silent for so long may have no end. Lines that lose
/// packets pause for less.
pub(super) const PASTE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the rest of its end may take after that.
const PASTE_END_TIMEOUT: Duration = Duration::from_millis(250);

/// A paste whose end has not come.
#[derive(Debug, Default)]
pub(super) struct PasteBuffer {
    /// Bytes that were not handed over yet.
    bytes: Vec<u8>,
    /// So many bytes do not contain the end.
    searched: usize,
    /// Once it was silent for too long: how many of the bytes came before that. They
    /// are the beginning of a character, or of the end.
    overdue: Option<usize>,
}

impl PasteBuffer {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Hands over the paste when it has ended; returns the bytes after it.
    pub(super) fn ended(&mut self, inputs: &mut Vec<TerminalInput>) -> Option<Vec<u8>> {
        if let Some(before) =
            self.overdue.filter(|before| self.bytes[*before..].starts_with(PASTE_BEGIN))
        {
            return Some(self.bytes.split_off(before));
        }
        let unseen = &self.bytes[self.searched..];
        if let Some(found) = unseen.windows(PASTE_END.len()).position(|seen| seen == PASTE_END) {
            let end = self.searched + found;
            // An empty rest of a paste that was handed over already is dropped.
            if end > 0 || self.overdue.is_none() {
                push_paste(&self.bytes[..end], inputs);
            }
            return Some(self.bytes.split_off(end + PASTE_END.len()));
        }
        if let Some(before) = self.overdue {
            let fresh = &self.bytes[before..];
            if PASTE_END.starts_with(fresh) || PASTE_END.starts_with(&self.bytes) {
                return None;
            }
            if are_pressed(fresh) {
                return Some(self.bytes.split_off(before));
            }
            self.overdue = None;
        }
        // Only what came last can be the beginning of the end.
        self.searched = self.bytes.len().saturating_sub(PASTE_END.len() - 1);
        None
    }

    /// Returns after how much silence [`PasteBuffer::silence`] must be called.
    pub(super) fn timeout(&self) -> Option<Duration> {
        match self.overdue {
            None => Some(PASTE_TIMEOUT),
            Some(before) => (self.bytes.len() > before).then_some(PASTE_END_TIMEOUT),
        }
    }

    /// Handles silence: hands over the text so far. Returns bytes that came after an earlier
    /// silence if they are keys.
    pub(super) fn silence(&mut self, inputs: &mut Vec<TerminalInput>) -> Option<Vec<u8>> {
        if let Some(before) = self.overdue {
            return (self.bytes.len() > before).then(|| self.bytes.split_off(before));
        }
        let whole = self.bytes.len() - begun(&self.bytes);
        if whole > 0 {
            push_paste(&self.bytes[..whole], inputs);
        }
        self.bytes.drain(..whole);
        self.searched = 0;
        self.overdue = Some(self.bytes.len());
        None
    }
}

/// Hands over text, with line ends as `\n`.
fn push_paste(bytes: &[u8], inputs: &mut Vec<TerminalInput>) {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    inputs.push(TerminalInput::Paste(text));
}

/// Returns how many of the last bytes are the beginning of the end, or of a
/// character.
fn begun(bytes: &[u8]) -> usize {
    let end = (1..PASTE_END.len()).rev().find(|count| bytes.ends_with(&PASTE_END[..*count]));
    let is_part = |count: &usize| {
        let from = bytes.len() - count;
        bytes[from] >= 0xc0 && frame(&bytes[from..]) == SequenceEnd::Part
    };
    end.or_else(|| (1..=bytes.len().min(3)).find(is_part)).unwrap_or(0)
}

/// Returns whether bytes that came at once are keys rather than more of a paste:
/// one alone, or several of which none writes anything.
fn are_pressed(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let (mut count, mut text) = (0, false);
    while let Some(&first) = rest.first() {
        let length = match frame(rest) {
            SequenceEnd::Whole(length) => length,
            SequenceEnd::Alt => match frame(&rest[1..]) {
                SequenceEnd::Whole(length) => length + 1,
                SequenceEnd::Alt | SequenceEnd::Part => return false,
            },
            SequenceEnd::Part => return false,
        };
        count += 1;
        text |= first >= b' ' || matches!(first, b'\r' | b'\n' | b'\t');
        let is_rest_of_character = (0x80..0xc0).contains(&first);
        if is_rest_of_character || (text && count > 1) {
            return false;
        }
        rest = &rest[length..];
    }
    count > 0
}

#[cfg(test)]
#[path = "sequences_tests.rs"]
mod tests;
