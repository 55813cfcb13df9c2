//! Earlier inputs: stepping through the history and searching it.

use std::ops::Range;

use crate::editor::buffer::{Buffer, Direction};
use crate::editor::fragment::Fragment;
use crate::editor::keys::{command, usual};
use crate::editor::layout::Room;
use crate::editor::undo::EditGroup;
use crate::editor::{EditCommand, Editor, Last, Reaction};
use crate::history::HistoryMatch;
use crate::key::{KeyCode, KeyPress};

/// A position in the history.
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
        // The history is browsed without walking through every message.
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
                crate::editor::keys::drawn(self.buffer.go(self.buffer.text().len()))
            }
            None => Reaction::Nothing,
        }
    }

    fn write_over(&mut self, text: &Fragment) {
        if self.last == Last::Recalled {
            self.undo.unseal();
        }
        self.replace(0..self.buffer.text().len(), text, EditGroup::Recalled);
        self.last = Last::Recalled;
    }
}

#[derive(Debug)]
pub(super) struct HistorySearch {
    /// What is searched for.
    pub(super) query: String,
    /// What was found, as it is shown.
    pub(super) found: Option<RecallMatch>,
    /// Whether there is nothing like the query; then what was found before is shown
    /// still.
    pub(super) failed: bool,
}

/// A message that was found.
#[derive(Debug)]
pub(super) struct RecallMatch {
    at: usize,
    /// The message, the cursor where the query is.
    pub(super) buffer: Buffer,
    /// Where the query is in it.
    pub(super) matched: Range<usize>,
}

impl Editor {
    pub(super) fn begin_search(&mut self) -> Reaction {
        self.close_menu();
        self.search = Some(HistorySearch { query: String::new(), found: None, failed: false });
        Reaction::Changed
    }

    /// Takes a key while a search is open.
    pub(super) fn search_key(&mut self, key: KeyPress) -> Reaction {
        let read = usual(key);
        match (read.code, read.modifiers.control, read.modifiers.alt) {
            (KeyCode::Char(c), false, false) if !c.is_control() => {
                self.narrow(|query| query.push(c));
            }
            (KeyCode::Backspace, _, _) | (KeyCode::Char('h'), true, false) => {
                self.narrow(|query| {
                    query.pop();
                });
            }
            (KeyCode::Char('u'), true, false) => self.narrow(String::clear),
            (KeyCode::Char('r'), true, false) => self.search_again(SearchDirection::Older),
            (KeyCode::Char('s'), true, false) => self.search_again(SearchDirection::Newer),
            (KeyCode::Escape, _, _) | (KeyCode::Char('g' | 'c'), true, false) => {
                self.search = None;
            }
            (KeyCode::Enter | KeyCode::Tab, _, _) => self.accept_search(),
            _ => {
                // Any other key is meant for the message that is seen.
                self.accept_search();
                return match command(key) {
                    Some(EditCommand::Up | EditCommand::Down) => {
                        self.last = Last::Recalled;
                        self.key(key)
                    }
                    Some(_) => self.key(key),
                    None => Reaction::Changed,
                };
            }
        }
        Reaction::Changed
    }

    /// Takes pasted text while a search is open: its first line.
    pub(super) fn search_paste(&mut self, text: &str) -> Reaction {
        let line = text.lines().next().unwrap_or_default();
        self.narrow(|query| query.extend(line.chars().filter(|c| !c.is_control()).take(200)));
        Reaction::Changed
    }

    fn narrow(&mut self, change: impl FnOnce(&mut String)) {
        let Some(search) = &mut self.search else { return };
        let was = search.query.len();
        change(&mut search.query);
        // A longer query is searched from where it is, a shorter one from the newest.
        let from = match &search.found {
            Some(found) if search.query.len() > was => found.at,
            _ => self.history.len().saturating_sub(1),
        };
        let found = self.history.older(&search.query, from);
        self.show_found(found);
    }

    fn search_again(&mut self, towards: SearchDirection) {
        let Some(search) = &self.search else { return };
        let Some(shown) = &search.found else { return };
        let seen = self.history.get(shown.at);
        let mut at = shown.at;
        // What was sent twice is seen once.
        let found = loop {
            let next = match towards {
                SearchDirection::Older => {
                    at.checked_sub(1).and_then(|from| self.history.older(&search.query, from))
                }
                SearchDirection::Newer => self.history.newer(&search.query, at + 1),
            };
            match next {
                Some(next) if self.history.get(next.at) == seen => at = next.at,
                next => break next,
            }
        };
        self.show_found(found);
    }

    fn show_found(&mut self, found: Option<HistoryMatch>) {
        let room = self.buffer.layout.room();
        let Some(search) = &mut self.search else { return };
        search.failed = found.is_none() && !search.query.is_empty();
        if search.query.is_empty() {
            search.found = None;
        } else if let Some(found) = found {
            search.found = self.history.get(found.at).map(|message| {
                let mut buffer = Buffer::of(message.clone(), room);
                buffer.go(found.range.start);
                RecallMatch { at: found.at, buffer, matched: found.range }
            });
        }
    }

    fn accept_search(&mut self) {
        let Some(search) = self.search.take() else { return };
        if let Some(shown) = search.found {
            self.undo.seal();
            self.last = Last::Other;
            self.recall(shown.at);
            self.buffer.go(shown.matched.end);
            self.last = Last::Other;
        }
    }
}

impl HistorySearch {
    /// Sets the width of a row.
    pub(super) fn resize(&mut self, room: Room) {
        if let Some(shown) = &mut self.found {
            shown.buffer.layout.resize(room);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum SearchDirection {
    Older,
    Newer,
}
