//! Which keys do what: one table, read by the editor and by help.

use std::sync::OnceLock;

use crate::key::{Key, KeyCode, Modifiers};

/// What a key can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
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
    /// The keys, divided by commas, as people read them.
    keys: &'static str,
    what: &'static str,
    command: Command,
}

macro_rules! bindings {
    ($($keys:literal $what:literal $command:ident,)*) => {
        &[$(Binding { keys: $keys, what: $what, command: Command::$command }),*]
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

/// Returns the keys of the editor, as people read them, and what each does.
pub fn bindings() -> &'static [(&'static str, &'static str)] {
    static SHOWN: OnceLock<Vec<(&str, &str)>> = OnceLock::new();
    SHOWN.get_or_init(|| TABLE.iter().map(|row| (row.keys, row.what)).collect())
}

/// Returns what a key asks for.
pub(super) fn command(key: Key) -> Option<Command> {
    static KEYS: OnceLock<Vec<(Key, Command)>> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        let keys = |row: &'static Binding| {
            row.keys.split(", ").filter_map(parse).map(|key| (key, row.command))
        };
        TABLE.iter().flat_map(keys).collect()
    });
    let key = usual(key);
    keys.iter().find(|(bound, _)| *bound == key).map(|(_, command)| *command)
}

/// Returns a key as the table has it, however the terminal told it.
pub(super) fn usual(mut key: Key) -> Key {
    let held = &mut key.modifiers;
    match key.code {
        KeyCode::Char(c) if held.control || held.alt => {
            held.shift = false;
            key.code = KeyCode::Char(match c {
                // One byte stands for both.
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

fn parse(name: &str) -> Option<Key> {
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
    Some(Key { code, modifiers })
}

#[cfg(test)]
#[path = "bindings_tests.rs"]
mod tests;
