//! Where one key ends and the next begins.
//!
//! A decoder that is given half a sequence waits for the rest of it, and one that
//! is given something it does not know may wait for ever. So sequences are told
//! apart here, by the rules that they all follow (ECMA-48), whatever they mean.

const ESCAPE: u8 = 0x1b;

/// The longest sequence that is waited for: answers of a terminal are shorter.
const LONGEST: usize = 4096;

/// What stands at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// One key or one answer, of so many bytes.
    Whole(usize),
    /// An Escape before a sequence: the key was pressed with Alt.
    Alt,
    /// The beginning of one.
    Part,
}

/// Returns what stands at the beginning of the bytes, which are not empty.
pub(super) fn frame(bytes: &[u8]) -> Frame {
    match bytes {
        [ESCAPE] | [ESCAPE, ESCAPE | b'[' | b'O' | b']' | b'P' | b'_'] => Frame::Part,
        [ESCAPE, ESCAPE, b'[' | b'O', ..] => Frame::Alt,
        [ESCAPE, ESCAPE, ..] => Frame::Whole(1),
        // The first function keys of the Linux console.
        [ESCAPE, b'[', b'['] => Frame::Part,
        [ESCAPE, b'[', b'[', ..] => Frame::Whole(4),
        [ESCAPE, b'[', rest @ ..] => sequence(rest).plus(2),
        [ESCAPE, b'O', ..] => Frame::Whole(3),
        [ESCAPE, b']' | b'P' | b'_', rest @ ..] => string(rest).plus(2),
        [ESCAPE, rest @ ..] => character(rest).plus(1),
        _ => character(bytes),
    }
}

impl Frame {
    fn plus(self, more: usize) -> Self {
        match self {
            Self::Whole(length) => Self::Whole(length + more),
            other => other,
        }
    }
}

/// A control sequence ends with its first byte from `@` on; what cannot be in
/// one ends it as well, and belongs to what follows.
fn sequence(rest: &[u8]) -> Frame {
    match rest.iter().position(|byte| !(0x20..0x40).contains(byte)) {
        Some(at) if (0x40..0x7f).contains(&rest[at]) => Frame::Whole(at + 1),
        Some(at) => Frame::Whole(at),
        None if rest.len() > LONGEST => Frame::Whole(rest.len()),
        None => Frame::Part,
    }
}

/// A control string ends with BEL, or with ESC and a backslash.
fn string(rest: &[u8]) -> Frame {
    match rest.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE)) {
        Some(at) if rest[at] == 0x07 => Frame::Whole(at + 1),
        Some(at) => match rest.get(at + 1) {
            Some(b'\\') => Frame::Whole(at + 2),
            Some(_) => Frame::Whole(at),
            None => Frame::Part,
        },
        None if rest.len() > LONGEST => Frame::Whole(rest.len()),
        None => Frame::Part,
    }
}

/// A character of UTF-8; what is none is one byte.
fn character(bytes: &[u8]) -> Frame {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let continued = bytes.iter().skip(1).take(length - 1);
    let continued = continued.take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    if continued + 1 == length {
        Frame::Whole(length)
    } else if bytes.len() > continued + 1 {
        // Something else follows: the character will not become whole.
        Frame::Whole(continued + 1)
    } else {
        Frame::Part
    }
}
