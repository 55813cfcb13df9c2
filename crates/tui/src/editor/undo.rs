//! What was done, so that it can be undone.

use std::collections::VecDeque;

use super::buffer::Buffer;
use super::fragment::Fragment;

/// Steps beyond these are forgotten, the oldest first.
const MOST_STEPS: usize = 10_000;

/// What steps keep beyond this is forgotten, the oldest first.
const MOST_BYTES: usize = 8 << 20;

/// What a change is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// Typing: a word is one step.
    Typed,
    /// Deleting character by character: a run of them is one step.
    Erased,
    /// Going through the history: however far, one step.
    Recalled,
    /// Anything else: one step each.
    Alone,
}

/// One change.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Where.
    pub(super) at: usize,
    /// What was there.
    pub(super) removed: Fragment,
    /// What came in its place.
    pub(super) inserted: Fragment,
    /// Where the cursor was.
    pub(super) before: usize,
    /// What it is a part of.
    pub(super) group: Group,
}

impl Step {
    fn bytes(&self) -> usize {
        self.removed.len() + self.inserted.len()
    }

    /// Makes one step of this and the next, when they belong together.
    fn join(&mut self, next: &Self) -> bool {
        if self.group != next.group {
            return false;
        }
        match self.group {
            Group::Typed => {
                let follows = next.at == self.at + self.inserted.len() && next.removed.is_empty();
                if !follows || begins_word(&self.inserted, &next.inserted) {
                    return false;
                }
                self.inserted.push(&next.inserted);
            }
            Group::Erased if !next.inserted.is_empty() || !self.inserted.is_empty() => {
                return false;
            }
            Group::Erased if next.at + next.removed.len() == self.at => {
                self.removed.push_front(&next.removed);
                self.at = next.at;
            }
            Group::Erased if next.at == self.at => self.removed.push(&next.removed),
            Group::Recalled if next.at == self.at && next.removed == self.inserted => {
                self.inserted = next.inserted.clone();
            }
            Group::Erased | Group::Recalled | Group::Alone => return false,
        }
        true
    }
}

/// What was done and what was undone.
#[derive(Debug, Default)]
pub(super) struct Undo {
    done: VecDeque<Step>,
    undone: Vec<Step>,
    bytes: usize,
    /// Whether the next step begins anew, whatever it is.
    sealed: bool,
}

impl Undo {
    /// Keeps a step.
    pub(super) fn record(&mut self, step: Step) {
        self.undone.clear();
        let sealed = std::mem::take(&mut self.sealed);
        match self.done.back_mut().filter(|_| !sealed) {
            Some(last) => {
                let before = last.bytes();
                if last.join(&step) {
                    self.bytes = self.bytes.saturating_sub(before) + last.bytes();
                } else {
                    self.push(step);
                }
            }
            None => self.push(step),
        }
        while self.done.len() > MOST_STEPS || (self.bytes > MOST_BYTES && self.done.len() > 1) {
            let forgotten = self.done.pop_front();
            self.bytes = self.bytes.saturating_sub(forgotten.map_or(0, |step| step.bytes()));
        }
    }

    fn push(&mut self, step: Step) {
        self.bytes += step.bytes();
        self.done.push_back(step);
    }

    /// Says that something else happened: the next step begins anew.
    pub(super) fn seal(&mut self) {
        self.sealed = true;
    }

    /// Says that the next step may belong to the last one after all.
    pub(super) fn unseal(&mut self) {
        self.sealed = false;
    }

    /// Undoes the last step. Returns whether there was one.
    pub(super) fn undo(&mut self, buffer: &mut Buffer) -> bool {
        let Some(step) = self.done.pop_back() else { return false };
        self.bytes = self.bytes.saturating_sub(step.bytes());
        buffer.replace(step.at..step.at + step.inserted.len(), &step.removed);
        buffer.go(step.before);
        self.undone.push(step);
        self.sealed = true;
        true
    }

    /// Does again what was undone last. Returns whether there was something.
    pub(super) fn redo(&mut self, buffer: &mut Buffer) -> bool {
        let Some(step) = self.undone.pop() else { return false };
        buffer.replace(step.at..step.at + step.removed.len(), &step.inserted);
        self.push(step);
        self.sealed = true;
        true
    }
}

/// Returns whether a word begins between two pieces of typed text.
fn begins_word(before: &Fragment, after: &Fragment) -> bool {
    let blank_before = before.text().ends_with(char::is_whitespace);
    blank_before && !after.text().starts_with(char::is_whitespace)
}

#[cfg(test)]
#[path = "undo_tests.rs"]
mod tests;
