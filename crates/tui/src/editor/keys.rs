//! Key bindings of the editor, and the commands they run.

use std::ops::Range;
use std::sync::OnceLock;

use crate::editor::buffer::Direction;
use crate::editor::fragment::Fragment;
use crate::editor::undo::EditGroup;
use crate::editor::{Editor, Last, Reaction};
use crate::key::{KeyCode, KeyPress, Modifiers};

/// What a key can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditCommand {
    /// Send what is written.
    Send,
    /// Begin a new line.
    NewLine,
    /// Go to the beginning of the line.
    LineStart,
    /// Go to the end of the line.
    LineEnd,
    /// Go a character back.
    Left,
    /// Go a character forth.
    Right,
    /// Go a word back.
    WordLeft,
    /// Go a word forth.
    WordRight,
    /// Go to the beginning of the text.
    TextStart,
    /// Go to the end of the text.
    TextEnd,
    /// Go a row up, then to what was sent before.
    Up,
    /// Go a row down, then to what was sent after.
    Down,
    /// Delete the character before the cursor.
    Backspace,
    /// Delete the character after the cursor.
    Delete,
    /// Delete the character after the cursor, in a text that is not empty.
    DeleteOrLeave,
    /// Cut out to the beginning of the line.
    KillLineStart,
    /// Cut out to the end of the line.
    KillLineEnd,
    /// Cut out to the blank before.
    KillBlankWord,
    /// Cut out the word before.
    KillWordLeft,
    /// Cut out the word after.
    KillWordRight,
    /// Put in what was cut out last.
    Yank,
    /// Put in what was cut out before that, in its place.
    YankPop,
    /// Exchange two characters.
    Transpose,
    /// Write the word in capitals.
    Upper,
    /// Write the word in small letters.
    Lower,
    /// Write the word with a capital.
    Capital,
    /// Undo.
    Undo,
    /// Do again what was undone.
    Redo,
    /// Search what was sent.
    Search,
    /// Complete.
    Complete,
    /// Clear the input.
    Clear,
    /// Close what is open.
    Close,
}

/// A row of the table.
struct Binding {
    /// The keys, separated by commas, as help shows them.
    keys: &'static str,
    what: &'static str,
    command: EditCommand,
}

macro_rules! bindings {
    ($($keys:literal $what:literal $command:ident,)*) => {
        &[$(Binding { keys: $keys, what: $what, command: EditCommand::$command }),*]
    };
}

static TABLE: &[Binding] = bindings![
    "Enter" "send" Send,
    "Alt-Enter, Shift-Enter, Ctrl-J" "new line (or Enter behind a \\)" NewLine,
    "Tab" "complete a command, a name, or a path (@path, or a word with /)" Complete,
    "Up, Ctrl-P" "row up, then older messages" Up,
    "Down, Ctrl-N" "row down, then newer messages" Down,
    "Ctrl-R" "search older messages" Search,
    "Ctrl-A, Home" "beginning of the line" LineStart,
    "Ctrl-E, End" "end of the line" LineEnd,
    "Ctrl-B, Left" "character back" Left,
    "Ctrl-F, Right" "character forth" Right,
    "Alt-B, Ctrl-Left, Alt-Left" "word back" WordLeft,
    "Alt-F, Ctrl-Right, Alt-Right" "word forth" WordRight,
    "Alt-<, Ctrl-Home" "beginning of the text" TextStart,
    "Alt->, Ctrl-End" "end of the text" TextEnd,
    "Backspace, Ctrl-H" "delete the character before" Backspace,
    "Delete" "delete the character after" Delete,
    "Ctrl-D" "delete the character after; leave, when nothing is written" DeleteOrLeave,
    "Ctrl-W" "cut to the blank before" KillBlankWord,
    "Alt-Backspace, Ctrl-Backspace" "cut the word before" KillWordLeft,
    "Alt-D, Alt-Delete, Ctrl-Delete" "cut the word after" KillWordRight,
    "Ctrl-U" "cut to the beginning of the line" KillLineStart,
    "Ctrl-K" "cut to the end of the line" KillLineEnd,
    "Ctrl-Y" "put in what was cut" Yank,
    "Alt-Y" "after Ctrl-Y: what was cut before that" YankPop,
    "Ctrl-T" "exchange two characters" Transpose,
    "Alt-U" "word in capitals" Upper,
    "Alt-L" "word in small letters" Lower,
    "Alt-C" "word with a capital" Capital,
    "Ctrl-_, Ctrl-/" "undo" Undo,
    "Alt-_, Alt-/" "redo" Redo,
    "Ctrl-C" "clear what is written" Clear,
    "Esc" "close the menu or the search" Close,
];

/// Returns the keys of the editor with their descriptions, for help.
pub fn bindings() -> &'static [(&'static str, &'static str)] {
    static SHOWN: OnceLock<Vec<(&str, &str)>> = OnceLock::new();
    SHOWN.get_or_init(|| TABLE.iter().map(|row| (row.keys, row.what)).collect())
}

/// Returns what a key asks for.
pub(super) fn command(key: KeyPress) -> Option<EditCommand> {
    static KEYS: OnceLock<Vec<(KeyPress, EditCommand)>> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        let keys = |row: &'static Binding| {
            row.keys.split(", ").filter_map(parse).map(|key| (key, row.command))
        };
        TABLE.iter().flat_map(keys).collect()
    });
    let key = usual(key);
    keys.iter().find(|(bound, _)| *bound == key).map(|(_, command)| *command)
}

/// Normalizes a key to the form in the table.
pub(super) fn usual(mut key: KeyPress) -> KeyPress {
    let held = &mut key.modifiers;
    match key.code {
        KeyCode::Char(c) if held.control || held.alt => {
            held.shift = false;
            key.code = KeyCode::Char(match c {
                // Both send the same byte.
                '7' if held.control && !held.alt => '_',
                c => c.to_ascii_lowercase(),
            });
        }
        KeyCode::Tab if held.shift => {
            held.shift = false;
            key.code = KeyCode::BackTab;
        }
        KeyCode::Enter => {}
        _ => held.shift = false,
    }
    key
}

fn parse(name: &str) -> Option<KeyPress> {
    let mut modifiers = Modifiers::default();
    let mut rest = name;
    loop {
        if let Some(key) = rest.strip_prefix("Ctrl-") {
            modifiers.control = true;
            rest = key;
        } else if let Some(key) = rest.strip_prefix("Alt-") {
            modifiers.alt = true;
            rest = key;
        } else if let Some(key) = rest.strip_prefix("Shift-") {
            modifiers.shift = true;
            rest = key;
        } else {
            break;
        }
    }
    let code = match rest {
        "Enter" => KeyCode::Enter,
        "Tab" => KeyCode::Tab,
        "Esc" => KeyCode::Escape,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "Backspace" => KeyCode::Backspace,
        "Delete" => KeyCode::Delete,
        name => {
            let mut chars = name.chars();
            let c = chars.next().filter(|_| chars.next().is_none())?;
            KeyCode::Char(c.to_ascii_lowercase())
        }
    };
    Some(KeyPress { code, modifiers })
}

impl Editor {
    /// Carries a command out; `before` is what happened last.
    pub(super) fn run(&mut self, command: EditCommand, before: &Last, key: KeyPress) -> Reaction {
        // The program has its own uses for these while nothing is written.
        let is_unused = matches!(
            command,
            EditCommand::DeleteOrLeave | EditCommand::Transpose | EditCommand::Clear
        );
        if is_unused && self.is_empty() {
            return Reaction::Unused(key);
        }
        let cursor = self.buffer.cursor();
        match command {
            EditCommand::Send => return self.send(key),
            EditCommand::NewLine => self.insert(&Fragment::plain("\n"), EditGroup::Alone),
            EditCommand::Complete => return Reaction::Complete,
            EditCommand::Up => return self.vertically(Direction::Back),
            EditCommand::Down => return self.vertically(Direction::Forth),
            EditCommand::Search => return self.begin_search(),
            EditCommand::LineStart => return self.go(self.buffer.line_start(cursor)),
            EditCommand::LineEnd => return self.go(self.buffer.line_end(cursor)),
            EditCommand::Left => return self.go(self.buffer.previous(cursor)),
            EditCommand::Right => return self.go(self.buffer.next(cursor)),
            EditCommand::WordLeft => return self.go(self.buffer.word(Direction::Back)),
            EditCommand::WordRight => return self.go(self.buffer.word(Direction::Forth)),
            EditCommand::TextStart => return self.go(0),
            EditCommand::TextEnd => return self.go(self.buffer.text().len()),
            EditCommand::Backspace => return self.erase(self.buffer.previous(cursor)..cursor),
            EditCommand::Delete | EditCommand::DeleteOrLeave => {
                return self.erase(cursor..self.buffer.next(cursor));
            }
            EditCommand::KillLineStart => {
                let start = self.buffer.line_start(cursor);
                // At the beginning of a line its end of line goes, so that it can be
                // pressed again.
                let start = if start == cursor { self.buffer.previous(cursor) } else { start };
                return self.kill(start..cursor, Direction::Back, before);
            }
            EditCommand::KillLineEnd => {
                let end = self.buffer.line_end(cursor);
                let end = if end == cursor { self.buffer.next(cursor) } else { end };
                return self.kill(cursor..end, Direction::Forth, before);
            }
            EditCommand::KillBlankWord => {
                return self.kill(self.buffer.blank_word()..cursor, Direction::Back, before);
            }
            EditCommand::KillWordLeft => {
                let start = self.buffer.word(Direction::Back);
                return self.kill(start..cursor, Direction::Back, before);
            }
            EditCommand::KillWordRight => {
                let end = self.buffer.word(Direction::Forth);
                return self.kill(cursor..end, Direction::Forth, before);
            }
            EditCommand::Yank => {
                let Some(killed) = self.kills.newest() else { return Reaction::Nothing };
                self.yank(cursor..cursor, &killed);
            }
            EditCommand::YankPop => {
                let Last::Yanked(range) = before else { return Reaction::Nothing };
                let Some(killed) = self.kills.older() else { return Reaction::Nothing };
                self.yank(range.clone(), &killed);
            }
            EditCommand::Transpose => return self.transpose(),
            EditCommand::Upper => return self.recase(str::to_uppercase),
            EditCommand::Lower => return self.recase(str::to_lowercase),
            EditCommand::Capital => return self.recase(capitalised),
            EditCommand::Undo => {
                self.recall = None;
                self.revision += 1;
                return drawn(self.undo.undo(&mut self.buffer));
            }
            EditCommand::Redo => {
                self.recall = None;
                self.revision += 1;
                return drawn(self.undo.redo(&mut self.buffer));
            }
            EditCommand::Clear => {
                self.recall = None;
                self.replace(0..self.buffer.text().len(), &Fragment::default(), EditGroup::Alone);
            }
            EditCommand::Close => return Reaction::Unused(key),
        }
        Reaction::Changed
    }

    fn go(&mut self, to: usize) -> Reaction {
        drawn(self.buffer.go(to))
    }

    /// Sends, unless a backslash before the cursor asks for a new line.
    fn send(&mut self, key: KeyPress) -> Reaction {
        let cursor = self.buffer.cursor();
        let before = self.buffer.text().get(..cursor).unwrap_or_default();
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            self.replace(cursor - 1..cursor, &Fragment::plain("\n"), EditGroup::Alone);
            return Reaction::Changed;
        }
        if self.buffer.fragment().is_blank() { Reaction::Unused(key) } else { Reaction::Submit }
    }

    fn erase(&mut self, range: Range<usize>) -> Reaction {
        if range.is_empty() {
            return Reaction::Nothing;
        }
        self.replace(range, &Fragment::default(), EditGroup::Erased);
        Reaction::Changed
    }

    fn kill(&mut self, range: Range<usize>, direction: Direction, before: &Last) -> Reaction {
        if range.is_empty() {
            return Reaction::Nothing;
        }
        let killed = self.replace(range, &Fragment::default(), EditGroup::Alone);
        self.kills.keep(&killed, direction, *before == Last::Killed);
        self.last = Last::Killed;
        Reaction::Changed
    }

    fn yank(&mut self, range: Range<usize>, killed: &Fragment) {
        let start = range.start;
        self.replace(range, killed, EditGroup::Alone);
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
        self.replace(start..end, &exchanged, EditGroup::Alone);
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
        words.map_text(recase);
        self.replace(cursor..end, &words, EditGroup::Alone);
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

/// Returns the reaction to a key that may have changed something.
pub(super) fn drawn(changed: bool) -> Reaction {
    if changed { Reaction::Changed } else { Reaction::Nothing }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_of_the_table_is_understood_and_bound_once() {
        let mut seen = BTreeSet::new();
        for row in TABLE {
            for name in row.keys.split(", ") {
                let key = parse(name).unwrap_or_else(|| panic!("{name} is not a key"));
                assert_eq!(command(key), Some(row.command), "{name}");
                assert!(seen.insert(name), "{name} is bound twice");
            }
        }
        assert_eq!(bindings().len(), TABLE.len());
    }

    #[test]
    fn keys_are_the_same_however_terminals_tell_them() {
        let held = |control, alt, shift| Modifiers { control, alt, shift };
        let key = |code, modifiers| KeyPress { code, modifiers };
        let same = [
            (key(KeyCode::Char('B'), held(false, true, true)), EditCommand::WordLeft),
            (key(KeyCode::Char('7'), held(true, false, false)), EditCommand::Undo),
            (key(KeyCode::Char('_'), held(true, false, true)), EditCommand::Undo),
            (key(KeyCode::Char('W'), held(true, false, true)), EditCommand::KillBlankWord),
            (key(KeyCode::Left, held(false, false, true)), EditCommand::Left),
            (key(KeyCode::Enter, held(false, false, true)), EditCommand::NewLine),
        ];
        for (key, wanted) in same {
            assert_eq!(command(key), Some(wanted), "{key:?}");
        }
        let back_tab = key(KeyCode::Tab, held(false, false, true));
        assert_eq!(usual(back_tab), KeyPress::plain(KeyCode::BackTab));
        assert_eq!(command(key(KeyCode::Char('7'), Modifiers::default())), None);
    }
}
