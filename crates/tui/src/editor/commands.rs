//! What the keys do to the text.

use std::ops::Range;

use super::bindings::Command;
use super::buffer::Direction;
use super::fragment::Fragment;
use super::undo::Group;
use super::{Editor, Last, Reaction};
use crate::key::Key;

impl Editor {
    /// Carries a command out; `before` is what happened last.
    pub(super) fn run(&mut self, command: Command, before: &Last, key: Key) -> Reaction {
        // The program has its own uses for these while nothing is written.
        let is_unused =
            matches!(command, Command::DeleteOrLeave | Command::Transpose | Command::Clear);
        if is_unused && self.is_empty() {
            return Reaction::Unused(key);
        }
        let cursor = self.buffer.cursor();
        match command {
            Command::Send => return self.send(key),
            Command::NewLine => self.insert(&Fragment::plain("\n"), Group::Alone),
            Command::Complete => return Reaction::Complete,
            Command::Up => return self.vertically(Direction::Back),
            Command::Down => return self.vertically(Direction::Forth),
            Command::Search => return self.begin_search(),
            Command::LineStart => return self.go(self.buffer.line_start(cursor)),
            Command::LineEnd => return self.go(self.buffer.line_end(cursor)),
            Command::Left => return self.go(self.buffer.previous(cursor)),
            Command::Right => return self.go(self.buffer.next(cursor)),
            Command::WordLeft => return self.go(self.buffer.word(Direction::Back)),
            Command::WordRight => return self.go(self.buffer.word(Direction::Forth)),
            Command::TextStart => return self.go(0),
            Command::TextEnd => return self.go(self.buffer.text().len()),
            Command::Backspace => return self.erase(self.buffer.previous(cursor)..cursor),
            Command::Delete | Command::DeleteOrLeave => {
                return self.erase(cursor..self.buffer.next(cursor));
            }
            Command::KillLineStart => {
                let start = self.buffer.line_start(cursor);
                // At the beginning of a line its end of line goes, so that it can be
                // pressed again.
                let start = if start == cursor { self.buffer.previous(cursor) } else { start };
                return self.kill(start..cursor, Direction::Back, before);
            }
            Command::KillLineEnd => {
                let end = self.buffer.line_end(cursor);
                let end = if end == cursor { self.buffer.next(cursor) } else { end };
                return self.kill(cursor..end, Direction::Forth, before);
            }
            Command::KillBlankWord => {
                return self.kill(self.buffer.blank_word()..cursor, Direction::Back, before);
            }
            Command::KillWordLeft => {
                let start = self.buffer.word(Direction::Back);
                return self.kill(start..cursor, Direction::Back, before);
            }
            Command::KillWordRight => {
                let end = self.buffer.word(Direction::Forth);
                return self.kill(cursor..end, Direction::Forth, before);
            }
            Command::Yank => {
                let Some(killed) = self.kills.newest() else { return Reaction::Nothing };
                self.yank(cursor..cursor, &killed);
            }
            Command::YankPop => {
                let Last::Yanked(range) = before else { return Reaction::Nothing };
                let Some(killed) = self.kills.older() else { return Reaction::Nothing };
                self.yank(range.clone(), &killed);
            }
            Command::Transpose => return self.transpose(),
            Command::Upper => return self.recase(str::to_uppercase),
            Command::Lower => return self.recase(str::to_lowercase),
            Command::Capital => return self.recase(capitalised),
            Command::Undo => {
                self.recall = None;
                self.revision += 1;
                return drawn(self.undo.undo(&mut self.buffer));
            }
            Command::Redo => {
                self.recall = None;
                self.revision += 1;
                return drawn(self.undo.redo(&mut self.buffer));
            }
            Command::Clear => {
                self.recall = None;
                self.replace(0..self.buffer.text().len(), &Fragment::default(), Group::Alone);
            }
            Command::Close => return Reaction::Unused(key),
        }
        Reaction::Changed
    }

    fn go(&mut self, to: usize) -> Reaction {
        drawn(self.buffer.go(to))
    }

    /// Sends, unless a backslash before the cursor asks for a new line.
    fn send(&mut self, key: Key) -> Reaction {
        let cursor = self.buffer.cursor();
        let before = self.buffer.text().get(..cursor).unwrap_or_default();
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            self.replace(cursor - 1..cursor, &Fragment::plain("\n"), Group::Alone);
            return Reaction::Changed;
        }
        if self.buffer.fragment().is_blank() { Reaction::Unused(key) } else { Reaction::Submit }
    }

    fn erase(&mut self, range: Range<usize>) -> Reaction {
        if range.is_empty() {
            return Reaction::Nothing;
        }
        self.replace(range, &Fragment::default(), Group::Erased);
        Reaction::Changed
    }

    fn kill(&mut self, range: Range<usize>, direction: Direction, before: &Last) -> Reaction {
        if range.is_empty() {
            return Reaction::Nothing;
        }
        let killed = self.replace(range, &Fragment::default(), Group::Alone);
        self.kills.keep(&killed, direction, *before == Last::Killed);
        self.last = Last::Killed;
        Reaction::Changed
    }

    fn yank(&mut self, range: Range<usize>, killed: &Fragment) {
        let start = range.start;
        self.replace(range, killed, Group::Alone);
        self.last = Last::Yanked(start..start + killed.len());
    }

    /// Exchanges the characters around the cursor; at the end of a line the two
    /// before it.
    fn transpose(&mut self) -> Reaction {
        let cursor = self.buffer.cursor();
        let at_end = cursor == self.buffer.line_end(cursor);
        let middle = if at_end { self.buffer.previous(cursor) } else { cursor };
        let start = self.buffer.previous(middle);
        let end = self.buffer.next(middle);
        if start < self.buffer.line_start(cursor) || start == middle || middle == end {
            return Reaction::Nothing;
        }
        let mut exchanged = self.buffer.fragment().part(middle..end);
        exchanged.push(&self.buffer.fragment().part(start..middle));
        self.replace(start..end, &exchanged, Group::Alone);
        Reaction::Changed
    }

    /// Writes the rest of the word another way.
    fn recase(&mut self, recase: impl Fn(&str) -> String) -> Reaction {
        let cursor = self.buffer.cursor();
        let end = self.buffer.word(Direction::Forth);
        let mut words = self.buffer.fragment().part(cursor..end);
        if words.is_empty() {
            return Reaction::Nothing;
        }
        words.map_words(recase);
        self.replace(cursor..end, &words, Group::Alone);
        Reaction::Changed
    }
}

/// Returns a word with a capital and then small letters.
fn capitalised(text: &str) -> String {
    let Some((at, first)) = text.char_indices().find(|(_, c)| c.is_alphanumeric()) else {
        return text.to_owned();
    };
    let (before, rest) = text.split_at(at);
    let rest: String = rest.chars().skip(1).collect();
    before.chars().chain(first.to_uppercase()).chain(rest.to_lowercase().chars()).collect()
}

/// Returns what a key came to that may have changed something.
pub(super) fn drawn(changed: bool) -> Reaction {
    if changed { Reaction::Changed } else { Reaction::Nothing }
}
