//! What keys do, seen from outside.

mod edit;
mod menu;
mod paste;
mod recall;
mod view;

use super::*;
use crate::key::Modifiers;
use crate::text::{Line, Span};

fn editor() -> Editor {
    Editor::new(History::in_memory())
}

fn with_history(messages: &[&str]) -> Editor {
    let mut history = History::in_memory();
    for message in messages {
        history.add(message).unwrap();
    }
    Editor::new(history)
}

fn plain(code: KeyCode) -> KeyPress {
    KeyPress::plain(code)
}

fn alt(code: KeyCode) -> KeyPress {
    KeyPress { code, modifiers: Modifiers { alt: true, ..Modifiers::default() } }
}

fn alt_char(c: char) -> KeyPress {
    alt(KeyCode::Char(c))
}

fn write(editor: &mut Editor, text: &str) {
    for c in text.chars() {
        let key = match c {
            '\n' => KeyPress::control('j'),
            c => plain(KeyCode::Char(c)),
        };
        assert_eq!(editor.key(key), Reaction::Changed);
    }
}

/// The text with a bar where the cursor is.
fn seen(editor: &Editor) -> String {
    let mut text = editor.buffer.text().to_owned();
    text.insert(editor.buffer.cursor(), '|');
    text
}

fn press(editor: &mut Editor, keys: &[KeyPress]) -> String {
    for key in keys {
        editor.key(*key);
    }
    seen(editor)
}

fn rows(editor: &mut Editor, columns: u16, max: usize) -> Vec<String> {
    editor.view(columns, max, &Span::plain("› ")).lines.iter().map(Line::text).collect()
}

fn large() -> String {
    "a line of a hundred characters, more or less, as they are in logs and in programs of all kinds too\n"
        .repeat(10_000)
}
