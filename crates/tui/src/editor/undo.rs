//! Undo, and the kill ring.

use std::collections::VecDeque;

use crate::editor::buffer::{Buffer, Direction};
use crate::editor::fragment::Fragment;

/// Steps beyond these are forgotten, the oldest first.
const MOST_STEPS: usize = 10_000;

/// What steps keep beyond this is forgotten, the oldest first.
const MOST_BYTES: usize = 8 << 20;

/// What a change is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditGroup {
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
pub(super) struct EditStep {
    /// Where.
    pub(super) at: usize,
    /// What was there.
    pub(super) removed: Fragment,
    /// The replacement.
    pub(super) inserted: Fragment,
    /// Where the cursor was.
    pub(super) before: usize,
    /// What it is a part of.
    pub(super) group: EditGroup,
}

impl EditStep {
    fn bytes(&self) -> usize {
        self.removed.len() + self.inserted.len()
    }

    /// Makes one step of this and the next, when they belong together.
    fn join(&mut self, next: &Self) -> bool {
        if self.group != next.group {
            return false;
        }
        match self.group {
            EditGroup::Typed => {
                let follows = next.at == self.at + self.inserted.len() && next.removed.is_empty();
                if !follows || begins_word(&self.inserted, &next.inserted) {
                    return false;
                }
                self.inserted.push(&next.inserted);
            }
            EditGroup::Erased if !next.inserted.is_empty() || !self.inserted.is_empty() => {
                return false;
            }
            EditGroup::Erased if next.at + next.removed.len() == self.at => {
                self.removed.push_front(&next.removed);
                self.at = next.at;
            }
            EditGroup::Erased if next.at == self.at => self.removed.push(&next.removed),
            EditGroup::Recalled if next.at == self.at && next.removed == self.inserted => {
                self.inserted = next.inserted.clone();
            }
            EditGroup::Erased | EditGroup::Recalled | EditGroup::Alone => return false,
        }
        true
    }
}

/// What was done and what was undone.
#[derive(Debug, Default)]
pub(super) struct Undo {
    done: VecDeque<EditStep>,
    undone: Vec<EditStep>,
    bytes: usize,
    /// Whether the next step starts a new group.
    sealed: bool,
}

impl Undo {
    /// Keeps a step.
    pub(super) fn record(&mut self, step: EditStep) {
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

    fn push(&mut self, step: EditStep) {
        self.bytes += step.bytes();
        self.done.push_back(step);
    }

    /// Ends the current group.
    pub(super) fn seal(&mut self) {
        self.sealed = true;
    }

    /// Reopens the last group.
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

/// How many are kept.
const MOST_KILLED: usize = 32;

/// What was killed, the newest first.
#[derive(Debug, Default)]
pub(super) struct KillRing {
    kept: VecDeque<Fragment>,
    /// Which one was put in last.
    turned: usize,
}

impl KillRing {
    /// Keeps what was killed: with what was killed just before, when it belongs to
    /// that.
    pub(super) fn keep(&mut self, killed: &Fragment, direction: Direction, belongs: bool) {
        self.turned = 0;
        match (self.kept.front_mut(), direction) {
            (Some(last), Direction::Back) if belongs => last.push_front(killed),
            (Some(last), Direction::Forth) if belongs => last.push(killed),
            _ => self.kept.push_front(killed.clone()),
        }
        self.kept.truncate(MOST_KILLED);
    }

    /// Returns what was killed last.
    pub(super) fn newest(&mut self) -> Option<Fragment> {
        self.turned = 0;
        self.kept.front().cloned()
    }

    /// Returns what was killed before the one that was returned last, and after the
    /// oldest the newest again.
    pub(super) fn older(&mut self) -> Option<Fragment> {
        self.turned = (self.turned + 1).checked_rem(self.kept.len())?;
        self.kept.get(self.turned).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut undo = Undo::default();
        let mut buffer = Buffer::new();
        let large = Fragment::plain(&"x".repeat(1 << 20));
        for _ in 0..20 {
            let before = buffer.cursor();
            let removed = buffer.replace(before..before, &large);
            let group = EditGroup::Alone;
            undo.record(EditStep { at: before, removed, inserted: large.clone(), before, group });
        }
        assert!(undo.bytes <= MOST_BYTES, "{}", undo.bytes);
        let mut undone = 0;
        while undo.undo(&mut buffer) {
            undone += 1;
        }
        assert_eq!(undone, 8);
        assert_eq!(undo.bytes, 0);
    }
}
