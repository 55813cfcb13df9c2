//! What a turn has put out so far: the streamed answer, until it is part of the transcript, and
//! the output of tool calls.
//!
//! Tool output can arrive faster than anyone can read, and only its end matters, so it is never
//! queued: a bounded tail of each call is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vestal_tui::{Colour, Line, Markdown, Span, diff, style};

/// Complete lines that stay in the live area, so that they can vanish if the answer is
/// discarded.
const HELD_LINES: usize = 8;

/// Maximum bytes of an answer that can be rendered again after a discard.
const ANSWER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct StreamedAnswer {
    width: usize,
    colour: Colour,
    markdown: Option<Markdown>,
    held: VecDeque<Line>,
    /// The text so far, up to `ANSWER_BYTES` bytes.
    text: String,
    /// Lines that were printed.
    printed: usize,
    /// The part that is final, even if the rest is discarded.
    settled: Option<FinalPart>,
}

/// The final part of an answer.
#[derive(Debug, Clone, Copy)]
struct FinalPart {
    bytes: usize,
    /// Complete lines.
    lines: usize,
}

impl StreamedAnswer {
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
        if self.text.len() + piece.len() <= ANSWER_BYTES {
            self.text.push_str(piece);
        }
        self.write(piece);
        let over = self.held.len().saturating_sub(HELD_LINES);
        self.printed += over;
        self.held.drain(..over).collect()
    }

    fn write(&mut self, piece: &str) {
        let Self { width, colour, .. } = *self;
        let markdown = self.markdown.get_or_insert_with(|| Markdown::new(width).colour(colour));
        markdown.push(piece);
        self.held.extend(markdown.take_lines());
    }

    /// Renders a text that is complete, apart from the answer.
    pub(crate) fn whole(&self, text: &str) -> Vec<Line> {
        let mut markdown = Markdown::new(self.width).colour(self.colour);
        markdown.push(text);
        let mut lines = markdown.take_lines();
        lines.extend(markdown.finish());
        lines
    }

    /// Marks the text so far as final.
    pub(crate) fn settle(&mut self) {
        let lines = self.printed + self.held.len();
        self.settled = Some(FinalPart { bytes: self.text.len(), lines });
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

/// Bytes of output that are kept per call.
pub(crate) const TAIL_BYTES: usize = 64 << 10;

/// The end of the output of each running call. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputTails(Arc<Mutex<HashMap<String, OutputTail>>>);

/// The end of the output of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OutputTail {
    text: String,
    is_cut: bool,
}

impl OutputTails {
    /// Appends output of a call.
    pub(crate) fn push(&self, call: &str, text: &str) {
        let mut tails = self.lock();
        if let Some(tail) = tails.get_mut(call) {
            tail.push(text);
        } else {
            let mut tail = OutputTail::default();
            tail.push(text);
            tails.insert(call.to_owned(), tail);
        }
    }

    /// Returns the last non-blank lines of a call.
    pub(crate) fn last(&self, call: &str, most: usize) -> Vec<String> {
        self.lock().get(call).map(|tail| tail.last(most)).unwrap_or_default()
    }

    /// Removes and returns the output of a call.
    pub(crate) fn take(&self, call: &str) -> OutputTail {
        self.lock().remove(call).unwrap_or_default()
    }

    /// Removes all output.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OutputTail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputTail {
    /// Appends output.
    pub(crate) fn push(&mut self, text: &str) {
        let text = if text.len() > TAIL_BYTES {
            self.text.clear();
            self.is_cut = true;
            &text[text.ceil_char_boundary(text.len() - TAIL_BYTES)..]
        } else {
            text
        };
        self.text.push_str(text);
        // Up to twice the limit is held, so that the text is not moved on every push.
        if self.text.len() > 2 * TAIL_BYTES {
            let from = self.text.ceil_char_boundary(self.text.len() - TAIL_BYTES);
            self.text.drain(..from);
            self.is_cut = true;
        }
    }

    /// Returns the last non-blank lines. A line that was overwritten with `\r` counts once,
    /// as it was last.
    pub(crate) fn last(&self, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.spoken().rev().take(most).map(str::to_owned).collect();
        lines.reverse();
        lines
    }

    /// Returns the number of non-blank lines.
    pub(crate) fn count(&self) -> usize {
        self.spoken().count()
    }

    /// Returns all kept lines.
    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.kept().trim_end().split('\n').map(shown)
    }

    /// Reports whether the beginning was dropped.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut || self.text.len() > TAIL_BYTES
    }

    /// Reports whether there is no output.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    fn kept(&self) -> &str {
        let from = self.text.len().saturating_sub(TAIL_BYTES);
        &self.text[self.text.ceil_char_boundary(from)..]
    }

    fn spoken(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.kept().split('\n').map(shown).filter(|line| !line.trim().is_empty())
    }
}

/// Returns the visible part of a line: the text after the last `\r`.
fn shown(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or("")
}

/// The output of an ended call, kept for Ctrl-O.
#[derive(Debug)]
pub(crate) struct FoldedOutput {
    pub(crate) about: String,
    pub(crate) tail: OutputTail,
    pub(crate) changes: Vec<String>,
}

/// Bytes that are kept for all calls together.
const FOLDED_BYTES: usize = 1 << 20;

/// Output of the last calls, newest last.
#[derive(Debug, Default)]
pub(crate) struct FoldedOutputs {
    kept: VecDeque<FoldedOutput>,
    size: usize,
}

impl FoldedOutputs {
    /// Keeps the output of a call and drops the oldest ones over the limit.
    pub(crate) fn keep(&mut self, call: FoldedOutput) {
        self.size += size_of_output(&call);
        self.kept.push_back(call);
        while self.size > FOLDED_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.size -= size_of_output(&oldest);
        }
    }

    /// Takes the newest output and renders it in full.
    pub(crate) fn expand_last(&mut self) -> Option<Vec<Line>> {
        let call = self.kept.pop_back()?;
        self.size -= size_of_output(&call);
        let mut head = Line::from_spans(vec![Span::new("▾ ", style::CYAN)]);
        head.push(Span::plain(call.about.trim_end()));
        let mut lines = vec![head];
        if call.tail.is_cut() {
            lines.push(Line::styled("  … the beginning is not kept", style::DIM));
        }
        if !call.tail.is_empty() {
            lines.extend(
                call.tail.lines().map(|line| Line::styled(format!("  {line}"), style::DIM)),
            );
        }
        for change in &call.changes {
            let shown = diff::render(change, usize::MAX);
            lines.extend(shown.into_iter().map(|line| line.prefixed(Span::plain("  "))));
        }
        Some(lines)
    }
}

fn size_of_output(call: &FoldedOutput) -> usize {
    call.about.len() + call.tail.size() + call.changes.iter().map(String::len).sum::<usize>()
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
