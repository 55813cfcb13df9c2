//! Text between the brackets of a paste.
//!
//! The bracket that closes may never come: a connection was cut, or something else
//! sent the one that opens. So after a silence what has come is handed over, and
//! what comes then is looked at: keys that somebody presses end the paste, more
//! text goes on with it. A paste over a slow line is so at worst told in several
//! parts, one after the other, and none of its ends of lines is ever an Enter.

use std::time::Duration;

use super::Input;
use super::frame::{Frame, frame};

pub(super) const BEGIN: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";

/// A paste that has been silent for so long may have no end. Lines that lose
/// packets pause for less.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How long the rest of its end may take after that.
const END_PATIENCE: Duration = Duration::from_millis(250);

/// A paste whose end has not come.
#[derive(Debug, Default)]
pub(super) struct Paste {
    /// What has not been told.
    bytes: Vec<u8>,
    /// So many bytes do not contain the end.
    searched: usize,
    /// Once it was silent for too long: how many of the bytes came before that. They
    /// are the beginning of a character, or of the end.
    overdue: Option<usize>,
}

impl Paste {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Tells the paste when it is over; returns what follows it.
    pub(super) fn ended(&mut self, told: &mut Vec<Input>) -> Option<Vec<u8>> {
        if let Some(before) = self.overdue.filter(|before| self.bytes[*before..].starts_with(BEGIN))
        {
            return Some(self.bytes.split_off(before));
        }
        let unseen = &self.bytes[self.searched..];
        if let Some(found) = unseen.windows(END.len()).position(|seen| seen == END) {
            let end = self.searched + found;
            // An empty part of one that was told already is none.
            if end > 0 || self.overdue.is_none() {
                tell(&self.bytes[..end], told);
            }
            return Some(self.bytes.split_off(end + END.len()));
        }
        if let Some(before) = self.overdue {
            let fresh = &self.bytes[before..];
            if END.starts_with(fresh) || END.starts_with(&self.bytes) {
                return None;
            }
            if are_pressed(fresh) {
                return Some(self.bytes.split_off(before));
            }
            self.overdue = None;
        }
        // Only what came last can be the beginning of the end.
        self.searched = self.bytes.len().saturating_sub(END.len() - 1);
        None
    }

    /// Returns after how long a silence [`Paste::silence`] has something to tell.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self.overdue {
            None => Some(PATIENCE),
            Some(before) => (self.bytes.len() > before).then_some(END_PATIENCE),
        }
    }

    /// Says that nothing has come for a while: hands over what there is. Returns what
    /// has come since an earlier silence, when it turns out to be keys.
    pub(super) fn silence(&mut self, told: &mut Vec<Input>) -> Option<Vec<u8>> {
        if let Some(before) = self.overdue {
            return (self.bytes.len() > before).then(|| self.bytes.split_off(before));
        }
        let whole = self.bytes.len() - begun(&self.bytes);
        if whole > 0 {
            tell(&self.bytes[..whole], told);
        }
        self.bytes.drain(..whole);
        self.searched = 0;
        self.overdue = Some(self.bytes.len());
        None
    }
}

/// Tells text, ends of lines as `\n`.
fn tell(bytes: &[u8], told: &mut Vec<Input>) {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    told.push(Input::Paste(text));
}

/// Returns how many of the last bytes are the beginning of the end, or of a
/// character.
fn begun(bytes: &[u8]) -> usize {
    let end = (1..END.len()).rev().find(|count| bytes.ends_with(&END[..*count]));
    let is_part = |count: &usize| {
        let from = bytes.len() - count;
        bytes[from] >= 0xc0 && frame(&bytes[from..]) == Frame::Part
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
            Frame::Whole(length) => length,
            Frame::Alt => match frame(&rest[1..]) {
                Frame::Whole(length) => length + 1,
                Frame::Alt | Frame::Part => return false,
            },
            Frame::Part => return false,
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
#[path = "paste_tests.rs"]
mod tests;
