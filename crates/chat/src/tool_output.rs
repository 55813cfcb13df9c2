//! Output of tool calls. It can arrive faster than anyone can read, and only its end
//! matters, so it is never queued: a bounded tail of each call is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vestal_tui::{Line, Span, diff, style};

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
const KEPT_BYTES: usize = 1 << 20;

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
        while self.size > KEPT_BYTES {
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
#[path = "tool_output_tests.rs"]
mod tests;
