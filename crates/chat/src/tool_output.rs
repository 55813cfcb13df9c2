//! Output of tool calls. It can arrive faster than anyone can read, and only its end
//! matters, so it is never queued: a bounded tail of each call is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vestal_tui::{Line, Span, diff, style};

/// Bytes of a call's output that are kept to be unfolded.
pub(crate) const TAIL_BYTES: usize = 64 << 10;

/// The end of what each running call has printed. Cloning gives the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tails(Arc<Mutex<HashMap<String, Tail>>>);

/// The end of what a call has printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    text: String,
    is_cut: bool,
}

impl Tails {
    /// Takes what a call prints.
    pub(crate) fn push(&self, call: &str, text: &str) {
        let mut tails = self.lock();
        if let Some(tail) = tails.get_mut(call) {
            tail.push(text);
        } else {
            let mut tail = Tail::default();
            tail.push(text);
            tails.insert(call.to_owned(), tail);
        }
    }

    /// Returns the last lines of a call that say something, at most so many.
    pub(crate) fn last(&self, call: &str, most: usize) -> Vec<String> {
        self.lock().get(call).map(|tail| tail.last(most)).unwrap_or_default()
    }

    /// Takes a call's output away.
    pub(crate) fn take(&self, call: &str) -> Tail {
        self.lock().remove(call).unwrap_or_default()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Tail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    /// Takes what is printed.
    pub(crate) fn push(&mut self, text: &str) {
        let text = if text.len() > TAIL_BYTES {
            self.text.clear();
            self.is_cut = true;
            &text[text.ceil_char_boundary(text.len() - TAIL_BYTES)..]
        } else {
            text
        };
        self.text.push_str(text);
        // Twice as much is held, so that what is kept is not moved each time.
        if self.text.len() > 2 * TAIL_BYTES {
            let from = self.text.ceil_char_boundary(self.text.len() - TAIL_BYTES);
            self.text.drain(..from);
            self.is_cut = true;
        }
    }

    /// Returns the last lines that say something, at most so many. Of a line
    /// that was written over again and again the last version counts.
    pub(crate) fn last(&self, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.spoken().rev().take(most).map(str::to_owned).collect();
        lines.reverse();
        lines
    }

    /// Returns how many lines say something.
    pub(crate) fn count(&self) -> usize {
        self.spoken().count()
    }

    /// Returns all that is kept, line by line.
    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.kept().trim_end().split('\n').map(shown)
    }

    /// Reports whether the beginning is not kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut || self.text.len() > TAIL_BYTES
    }

    /// Reports whether nothing was printed.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns how much memory it takes.
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

/// Returns what is seen of a line in the end: what stands behind the last
/// return to its beginning.
fn shown(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or("")
}

/// The output of a call that has ended, kept to be unfolded.
#[derive(Debug)]
pub(crate) struct Unfoldable {
    pub(crate) about: String,
    pub(crate) tail: Tail,
    pub(crate) changes: Vec<String>,
}

/// Bytes that are kept, all calls together.
const KEPT_BYTES: usize = 1 << 20;

/// The output of the last calls, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Unfold {
    kept: VecDeque<Unfoldable>,
    size: usize,
}

impl Unfold {
    /// Keeps what a call printed, and forgets what is too old.
    pub(crate) fn keep(&mut self, call: Unfoldable) {
        self.size += size_of_output(&call);
        self.kept.push_back(call);
        while self.size > KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.size -= size_of_output(&oldest);
        }
    }

    /// Takes the newest one that has not been unfolded, and shows all of it.
    pub(crate) fn unfold(&mut self) -> Option<Vec<Line>> {
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

fn size_of_output(call: &Unfoldable) -> usize {
    call.about.len() + call.tail.size() + call.changes.iter().map(String::len).sum::<usize>()
}

#[cfg(test)]
#[path = "tool_output_tests.rs"]
mod tests;
