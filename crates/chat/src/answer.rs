//! The streamed answer of the model, until it is part of the transcript.

use std::collections::VecDeque;

use vestal_tui::{Colour, Line, Markdown, style};

/// Complete lines that stay in the live area, so that they can vanish if the answer is
/// discarded.
const HELD: usize = 8;

/// Maximum bytes of an answer that can be rendered again after a discard.
const KEPT: usize = 1 << 20;

/// A streamed answer.
#[derive(Debug)]
pub(crate) struct Answer {
    width: usize,
    colour: Colour,
    markdown: Option<Markdown>,
    held: VecDeque<Line>,
    /// The text so far, up to `KEPT` bytes.
    text: String,
    /// Lines that were printed.
    printed: usize,
    /// The part that is final, even if the rest is discarded.
    settled: Option<Settled>,
}

/// The final part of an answer.
#[derive(Debug, Clone, Copy)]
struct Settled {
    bytes: usize,
    /// Complete lines.
    lines: usize,
}

impl Answer {
    /// Returns an empty answer.
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

    /// Sets whether colours are used; without them, Markdown marks stay.
    pub(crate) fn set_colour(&mut self, colour: Colour) {
        self.colour = colour;
    }

    /// Takes a piece and returns the lines to print.
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

    /// Marks the text so far as final.
    pub(crate) fn settle(&mut self) {
        let lines = self.printed + self.held.len();
        self.settled = Some(Settled { bytes: self.text.len(), lines });
    }

    /// Ends the answer and returns the remaining lines.
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

    /// Drops the text that is not final. Returns whether part of it was printed.
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
        // Printed lines of the final part are not printed again.
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

    /// Reports whether any text has arrived.
    pub(crate) fn is_begun(&self) -> bool {
        self.markdown.is_some()
    }

    /// Returns the last unprinted lines, at most `most`.
    pub(crate) fn live(&self, most: usize) -> Vec<Line> {
        let Some(markdown) = &self.markdown else { return Vec::new() };
        let rest = markdown.live(most);
        let room = most.saturating_sub(rest.len());
        let held = self.held.iter().skip(self.held.len().saturating_sub(room)).cloned();
        held.chain(rest).collect()
    }

    /// Changes the width.
    pub(crate) fn resized(&mut self, width: usize) {
        self.width = width;
        if let Some(markdown) = &mut self.markdown {
            markdown.resized(width);
        }
    }
}

/// Reasoning of the model as plain text, line by line.
#[derive(Debug, Default)]
pub(crate) struct ReasoningText {
    rest: String,
}

impl ReasoningText {
    /// Takes a piece and returns the complete lines.
    pub(crate) fn push(&mut self, piece: &str, width: usize) -> Vec<Line> {
        self.rest.push_str(piece);
        let Some(end) = self.rest.rfind('\n') else { return Vec::new() };
        let complete: String = self.rest.drain(..=end).collect();
        lines(&complete, width)
    }

    /// Ends it and returns the rest.
    pub(crate) fn end(&mut self, width: usize) -> Vec<Line> {
        lines(&std::mem::take(&mut self.rest), width)
    }

    /// Drops text that was not shown.
    pub(crate) fn discard(&mut self) {
        self.rest.clear();
    }

    /// Returns the unfinished line.
    pub(crate) fn live(&self, width: usize) -> Vec<Line> {
        lines(&self.rest, width)
    }
}

fn lines(text: &str, width: usize) -> Vec<Line> {
    let spoken = text.lines().filter(|line| !line.trim().is_empty());
    spoken
        .flat_map(|line| {
            Line::styled(format!("  {}", line.trim()), style::DIM.italic()).wrap(width, "  ")
        })
        .collect()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
