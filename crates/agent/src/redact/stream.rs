//! Text that comes in pieces.

use super::{Redactor, mask, pem};

/// Most that is held back while a line has no end.
const LONGEST_LINE: usize = 64 * 1024;

/// Masks secrets in text that comes in pieces. What may be the beginning of a
/// secret is held back: a line is shown when its end has come.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    held: String,
    pem: pem::State,
}

impl Stream {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, held: String::new(), pem: pem::State::default() }
    }

    /// Takes a piece and returns what may be shown.
    pub fn push(&mut self, piece: &str) -> String {
        if self.redactor.off {
            return piece.to_owned();
        }
        // What is held back holds no end of a line, so only the piece is searched for one.
        let line_end = piece.bytes().rposition(|byte| matches!(byte, b'\n' | b'\r'));
        let before = self.held.len();
        self.held.push_str(piece);
        let end = match line_end {
            Some(at) => before + at + 1,
            None if self.held.len() > LONGEST_LINE => self.cut(),
            None => return String::new(),
        };
        let rest = self.held.split_off(end);
        let ready = std::mem::replace(&mut self.held, rest);
        self.show(&ready)
    }

    /// Returns what was held back.
    pub fn finish(mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.show(&rest)
    }

    /// Returns where a line that is too long is cut: between two words where
    /// there are any, the last of which is kept for what follows it.
    fn cut(&self) -> usize {
        let mut half = LONGEST_LINE / 2;
        while !self.held.is_char_boundary(half) {
            half += 1;
        }
        self.held[half..].rfind(' ').map_or(self.held.len(), |at| half + at + 1)
    }

    fn show(&mut self, text: &str) -> String {
        let masked = self.redactor.replace(text, &mut self.pem, |secret, _| mask::shown(secret));
        masked.into_owned()
    }
}
