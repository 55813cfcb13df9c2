//! The model's words on their way to the transcript.

use std::collections::VecDeque;

use vestal_tui::{Colour, Line, Markdown, style};

/// Lines that are complete and yet held back, in the live area: should the
/// answer turn out to be void, they have never been said.
const HELD: usize = 8;

/// Bytes of an answer up to which its beginning can be brought back: far more
/// than a model says in one piece.
const KEPT: usize = 1 << 20;

/// An answer that comes in pieces.
#[derive(Debug)]
pub(crate) struct Answer {
    width: usize,
    colour: Colour,
    markdown: Option<Markdown>,
    held: VecDeque<Line>,
    /// All that has come, as long as it is not too much.
    text: String,
    /// How many lines were printed.
    printed: usize,
    /// The part that counts, whatever becomes of the rest.
    settled: Option<Settled>,
}

/// The part of an answer that counts.
#[derive(Debug, Clone, Copy)]
struct Settled {
    bytes: usize,
    /// Lines that were complete.
    lines: usize,
}

impl Answer {
    /// Returns an answer of which nothing has come yet.
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            colour: Colour::On,
            markdown: None,
            held: VecDeque::new(),
            text: String::new(),
            printed: 0,
            settled: None,
        }
    }

    /// Says whether it is shown with colours: without them, marks stay.
    pub(crate) fn set_colour(&mut self, colour: Colour) {
        self.colour = colour;
    }

    /// Takes a piece and returns the lines that are to be printed for good.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<Line> {
        if self.text.len() + piece.len() <= KEPT {
            self.text.push_str(piece);
        }
        self.write(piece);
        let over = self.held.len().saturating_sub(HELD);
        self.printed += over;
        self.held.drain(..over).collect()
    }

    fn write(&mut self, piece: &str) {
        let Self { width, colour, .. } = *self;
        let markdown = self.markdown.get_or_insert_with(|| Markdown::new(width).colour(colour));
        markdown.push(piece);
        self.held.extend(markdown.take_lines());
    }

    /// Says that what has come counts, and that more will follow it.
    pub(crate) fn settle(&mut self) {
        let lines = self.printed + self.held.len();
        self.settled = Some(Settled { bytes: self.text.len(), lines });
    }

    /// Ends it and returns what is left of it.
    pub(crate) fn end(&mut self) -> Vec<Line> {
        let mut lines: Vec<Line> = self.held.drain(..).collect();
        if let Some(mut markdown) = self.markdown.take() {
            lines.extend(markdown.finish());
        }
        self.forget();
        while lines.last().is_some_and(|line| line.text().trim().is_empty()) {
            lines.pop();
        }
        lines
    }

    /// Forgets what has come and does not count. Returns whether a part of that
    /// was printed.
    pub(crate) fn discard(&mut self) -> bool {
        let Some(settled) = self.settled else {
            let is_printed = self.printed > 0;
            self.forget();
            return is_printed;
        };
        let mut text = std::mem::take(&mut self.text);
        text.truncate(settled.bytes);
        let printed = self.printed;
        self.forget();
        // What was printed of the part that counts is not printed again.
        self.write(&text);
        let again = printed.min(self.held.len());
        self.held.drain(..again);
        (self.text, self.printed, self.settled) = (text, again, Some(settled));
        printed > settled.lines
    }

    fn forget(&mut self) {
        self.markdown = None;
        self.held.clear();
        self.text = String::new();
        self.printed = 0;
        self.settled = None;
    }

    /// Reports whether anything of it has come.
    pub(crate) fn is_begun(&self) -> bool {
        self.markdown.is_some()
    }

    /// Returns what has not been printed yet, its last lines if there is little room.
    pub(crate) fn live(&self, most: usize) -> Vec<Line> {
        let Some(markdown) = &self.markdown else { return Vec::new() };
        let rest = markdown.live(most);
        let room = most.saturating_sub(rest.len());
        let held = self.held.iter().skip(self.held.len().saturating_sub(room)).cloned();
        held.chain(rest).collect()
    }

    /// Goes on at another width.
    pub(crate) fn resized(&mut self, width: usize) {
        self.width = width;
        if let Some(markdown) = &mut self.markdown {
            markdown.resized(width);
        }
    }
}

/// What the model thinks, as far as it is shown: plain words, line by line.
#[derive(Debug, Default)]
pub(crate) struct Thoughts {
    rest: String,
}

impl Thoughts {
    /// Takes a piece and returns the lines that are complete.
    pub(crate) fn push(&mut self, piece: &str, width: usize) -> Vec<Line> {
        self.rest.push_str(piece);
        let Some(end) = self.rest.rfind('\n') else { return Vec::new() };
        let complete: String = self.rest.drain(..=end).collect();
        lines(&complete, width)
    }

    /// Ends it and returns what is left.
    pub(crate) fn end(&mut self, width: usize) -> Vec<Line> {
        lines(&std::mem::take(&mut self.rest), width)
    }

    /// Forgets what has not been shown.
    pub(crate) fn discard(&mut self) {
        self.rest.clear();
    }

    /// Returns the line that is under way.
    pub(crate) fn live(&self, width: usize) -> Vec<Line> {
        lines(&self.rest, width)
    }
}

fn lines(text: &str, width: usize) -> Vec<Line> {
    let said = text.lines().filter(|line| !line.trim().is_empty());
    said.flat_map(|line| {
        Line::styled(format!("  {}", line.trim()), style::DIM.italic()).wrap(width, "  ")
    })
    .collect()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
