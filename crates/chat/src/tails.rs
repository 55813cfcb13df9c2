//! What tools print. It comes as fast as a machine can print, and only its end
//! is of interest: so it is never queued, only kept, and bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a call's output that are kept to be unfolded.
pub(crate) const KEPT: usize = 64 << 10;

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
        let text = if text.len() > KEPT {
            self.text.clear();
            self.is_cut = true;
            &text[text.ceil_char_boundary(text.len() - KEPT)..]
        } else {
            text
        };
        self.text.push_str(text);
        // Twice as much is held, so that what is kept is not moved each time.
        if self.text.len() > 2 * KEPT {
            let from = self.text.ceil_char_boundary(self.text.len() - KEPT);
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
        self.is_cut || self.text.len() > KEPT
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
        let from = self.text.len().saturating_sub(KEPT);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_that_say_something_are_seen() {
        let tails = Tails::default();
        tails.push("a", "one\ntwo\n");
        tails.push("a", "\nthr");
        tails.push("a", "ee\n\n");
        assert_eq!(tails.last("a", 2), ["two", "three"]);
        assert_eq!(tails.last("b", 2), Vec::<String>::new());
        assert_eq!(tails.take("a").count(), 3);
        assert!(tails.take("a").is_empty());
    }

    #[test]
    fn a_line_that_is_written_over_is_seen_as_it_is_in_the_end() {
        let mut tail = Tail::default();
        tail.push("10%\r50%\r100%\r\ndone\r");
        assert_eq!(tail.last(9), ["100%", "done"]);
    }

    #[test]
    fn ten_megabytes_cost_no_more_than_their_end() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(&format!("é line {number:090}\n"));
        }
        assert!(tail.size() <= 2 * KEPT + 200, "{}", tail.size());
        assert!(tail.is_cut());
        assert!(tail.last(1)[0].ends_with("99999"));
        tail.push(&"é".repeat(KEPT));
        assert!(tail.size() <= 2 * KEPT, "{}", tail.size());
    }
}
