//! Going through what was sent before.

use super::buffer::Direction;
use super::fragment::Fragment;
use super::undo::Group;
use super::{Editor, Last, Reaction};

/// Where in the history somebody is.
#[derive(Debug)]
pub(super) struct Recall {
    /// Which message, counted from the oldest.
    at: usize,
    /// What was written before.
    draft: Fragment,
}

impl Editor {
    /// Moves a row, and beyond the first and the last row through the history.
    pub(super) fn vertically(&mut self, direction: Direction) -> Reaction {
        // Who goes through the history need not walk through every message.
        let goes_on = self.last == Last::Recalled;
        if !goes_on && self.buffer.vertically(direction) {
            self.last = Last::Other;
            return Reaction::Changed;
        }
        let at = self.recall.as_ref().map_or(self.history.len(), |recall| recall.at);
        let to = match direction {
            Direction::Back => at.checked_sub(1),
            Direction::Forth => Some(at + 1),
        };
        match to {
            Some(to) if to < self.history.len() => self.recall(to),
            Some(_) => self.back_to_draft(direction),
            None => Reaction::Nothing,
        }
    }

    /// Shows a message of the history.
    pub(super) fn recall(&mut self, at: usize) -> Reaction {
        let Some(message) = self.history.get(at).cloned() else { return Reaction::Nothing };
        let draft = match self.recall.take() {
            Some(recall) => recall.draft,
            None => self.buffer.fragment().clone(),
        };
        self.recall = Some(Recall { at, draft });
        self.write_over(&message);
        Reaction::Changed
    }

    fn back_to_draft(&mut self, direction: Direction) -> Reaction {
        match self.recall.take() {
            Some(recall) => {
                self.write_over(&recall.draft);
                Reaction::Changed
            }
            // There is nothing below: the end of the line, as shells of today do it.
            None if direction == Direction::Forth => {
                super::commands::drawn(self.buffer.go(self.buffer.text().len()))
            }
            None => Reaction::Nothing,
        }
    }

    fn write_over(&mut self, text: &Fragment) {
        if self.last == Last::Recalled {
            self.undo.unseal();
        }
        self.replace(0..self.buffer.text().len(), text, Group::Recalled);
        self.last = Last::Recalled;
    }
}
