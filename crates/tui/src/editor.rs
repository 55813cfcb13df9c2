//! The input editor: several lines, with the usual editing keys.
//!
//! [`Editor::key`] handles a key and returns a [`Reaction`]; [`Editor::view`] renders the
//! input. A large paste is one unit in it and is sent whole.

mod buffer;
mod fragment;
mod keys;
mod layout;
mod menu;
mod recall;
mod undo;
mod view;

use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::process;

use crate::editor::buffer::Buffer;
use crate::editor::keys::{EditCommand, command, usual};
use crate::editor::menu::Menu;
use crate::editor::recall::{HistorySearch, Recall};
use crate::editor::undo::{EditGroup, EditStep, KillRing, Undo};
use crate::editor::view::Scroll;
use crate::history::History;
use crate::key::{KeyCode, KeyPress};

pub(crate) use fragment::Fragment;
pub use keys::bindings;

/// An input of several lines.
#[derive(Debug)]
pub struct Editor {
    buffer: Buffer,
    undo: Undo,
    kills: KillRing,
    history: History,
    recall: Option<Recall>,
    search: Option<HistorySearch>,
    menu: Option<Menu>,
    placeholder: String,
    scroll: Scroll,
    last: Last,
    /// Counts the changes of the text.
    revision: u64,
    /// For which text completions were asked.
    asked: Option<u64>,
}

/// The result of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing: the screen need not be drawn again.
    Nothing,
    /// The text, the cursor or a menu has changed.
    Changed,
    /// The input is to be sent: see [`Editor::take`].
    Submit,
    /// Completions are asked for: see [`Editor::complete`].
    Complete,
    /// The key means nothing here.
    Unused(KeyPress),
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The words, with pastes whole.
    pub text: String,
    /// The words as they were seen, pastes by their labels.
    pub shown: String,
}

/// What happened last, where that matters for what happens next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Last {
    /// Something without consequences.
    #[default]
    Other,
    /// Something was cut out: what is cut out next belongs to it.
    Killed,
    /// Something was put in here.
    Yanked(Range<usize>),
    /// A message of the history was fetched: up and down go on there.
    Recalled,
}

impl Editor {
    /// Returns an empty input.
    pub fn new(history: History) -> Self {
        Self {
            buffer: Buffer::new(),
            undo: Undo::default(),
            kills: KillRing::default(),
            history,
            recall: None,
            search: None,
            menu: None,
            placeholder: String::new(),
            scroll: Scroll::default(),
            last: Last::Other,
            revision: 0,
            asked: None,
        }
    }

    /// Sets the text that is shown while the input is empty.
    pub fn set_placeholder(&mut self, text: &str) {
        text.clone_into(&mut self.placeholder);
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyPress) -> Reaction {
        if self.search.is_some() {
            return self.search_key(key);
        }
        if self.menu.is_some()
            && let Some(reaction) = self.menu_key(usual(key))
        {
            return reaction;
        }
        let revision = self.revision;
        let reaction = match (command(key), key.code) {
            (Some(command), _) => self.obey(command, key),
            (None, KeyCode::Char(c))
                if !key.modifiers.control && !key.modifiers.alt && !c.is_control() =>
            {
                self.last = Last::Other;
                let mut typed = [0; 4];
                self.insert(&Fragment::plain(c.encode_utf8(&mut typed)), EditGroup::Typed);
                Reaction::Changed
            }
            _ => return Reaction::Unused(key),
        };
        self.menu_after(reaction, revision)
    }

    /// Takes pasted text.
    pub fn paste(&mut self, text: impl AsRef<str>) -> Reaction {
        let text = text.as_ref();
        if self.search.is_some() {
            return self.search_paste(text);
        }
        self.close_menu();
        if text.is_empty() {
            return Reaction::Nothing;
        }
        self.last = Last::Other;
        self.insert(&Fragment::pasted(text), EditGroup::Alone);
        Reaction::Changed
    }

    /// Returns the text, with pastes whole.
    pub fn text(&self) -> String {
        self.buffer.fragment().expanded().0
    }

    /// Returns the text as it is seen, pastes by their labels.
    pub fn shown(&self) -> String {
        self.buffer.fragment().shown()
    }

    /// Returns whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.buffer.fragment().is_empty()
    }

    /// Puts a text in the place of what is written, the cursor at its end. It can be
    /// undone. The text that is there already changes nothing, pastes in it neither.
    pub fn set_text(&mut self, text: &str) {
        self.close_menu();
        self.search = None;
        if self.text() != text {
            self.last = Last::Other;
            self.recall = None;
            self.replace(0..self.buffer.text().len(), &Fragment::set(text), EditGroup::Alone);
        }
    }

    /// Empties the input and returns what was in it. It is kept in the history.
    pub fn take(&mut self) -> Submission {
        self.keep_draft();
        let (text, _) = self.buffer.fragment().expanded();
        let shown = self.buffer.fragment().shown();
        self.buffer = Buffer::of(Fragment::default(), self.buffer.layout.room());
        self.undo = Undo::default();
        self.scroll = Scroll::default();
        self.recall = None;
        self.search = None;
        self.menu = None;
        self.last = Last::Other;
        self.revision += 1;
        Submission { text, shown }
    }

    /// Keeps what is written in the history, and leaves it where it is: for the time
    /// when the terminal goes away.
    pub fn keep_draft(&mut self) {
        if !self.buffer.fragment().is_blank() {
            self.history.keep(self.buffer.fragment());
        }
    }

    /// Returns, once, why the history could not be kept.
    pub fn history_error(&mut self) -> Option<io::Error> {
        self.history.take_error()
    }

    /// Returns whether a menu or a search is open, which Escape would close.
    pub fn is_busy(&self) -> bool {
        self.menu.is_some() || self.search.is_some()
    }

    fn obey(&mut self, command: EditCommand, key: KeyPress) -> Reaction {
        // The next key depends on the one before these.
        let before = match command {
            EditCommand::Up | EditCommand::Down => self.last.clone(),
            _ => std::mem::take(&mut self.last),
        };
        if !matches!(
            command,
            EditCommand::Backspace | EditCommand::Delete | EditCommand::DeleteOrLeave
        ) {
            self.undo.seal();
        }
        self.run(command, &before, key)
    }

    /// Inserts something at the cursor.
    fn insert(&mut self, fragment: &Fragment, group: EditGroup) {
        let cursor = self.buffer.cursor();
        self.replace(cursor..cursor, fragment, group);
    }

    /// Puts something in the place of a range: the one way in which the text
    /// changes.
    fn replace(&mut self, range: Range<usize>, with: &Fragment, group: EditGroup) -> Fragment {
        let before = self.buffer.cursor();
        let at = range.start;
        let removed = self.buffer.replace(range, with);
        self.revision += 1;
        let step = EditStep { at, removed: removed.clone(), inserted: with.clone(), before, group };
        self.undo.record(step);
        removed
    }
}

/// Edits a text with an external editor and returns the result. `editor` is shell text, as
/// in `$EDITOR`: `code --wait` is two words. The file is private and is removed afterwards.
///
/// The caller has given the terminal away before, and waits.
pub fn edit_externally(text: &str, editor: &str) -> io::Result<String> {
    let mine_alone = fs::Permissions::from_mode(0o700);
    let dir = tempfile::Builder::new().prefix("vestal-edit-").permissions(mine_alone).tempdir()?;
    let path = dir.path().join("message.md");
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes())?;
    drop(file);

    let status = process::Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$@\""))
        .arg(editor)
        .arg(&path)
        .status()
        .map_err(|error| {
            io::Error::new(error.kind(), format!("sh could not be started: {error}"))
        })?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "the editor `{editor}` ended with {status}; the text is as it was"
        )));
    }
    let bytes = fs::read(&path).map_err(|error| {
        io::Error::new(error.kind(), format!("the editor `{editor}` left no file: {error}"))
    })?;
    let edited = String::from_utf8(bytes).map_err(|_| {
        let text = format!("the editor `{editor}` left something that is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    // Editors end the last line; the input does not.
    let ended_before = text.ends_with('\n');
    match edited.strip_suffix('\n') {
        Some(without) if !ended_before => {
            Ok(without.strip_suffix('\r').unwrap_or(without).to_owned())
        }
        _ => Ok(edited),
    }
}

#[cfg(test)]
mod external_tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn an_editor_gets_the_text_and_gives_it_back() {
        let edited = edit_externally("one\ntwo", "sed -i s/two/three/").unwrap();
        assert_eq!(edited, "one\nthree");
        assert_eq!(edit_externally("text", "true").unwrap(), "text");
        let appended = edit_externally("text", "f() { echo ' more' >> \"$1\"; }; f").unwrap();
        assert_eq!(appended, "text more", "the end of the last line is the editor's");
    }

    #[test]
    fn nobody_else_can_read_it_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let report = dir.path().join("told");
        let editor = format!(
            "f() {{ stat -c %a \"$1\" \"$(dirname \"$1\")\" > {0}; echo \"$1\" >> {0}; }}; f",
            report.display()
        );
        edit_externally("text", &editor).unwrap();
        let report = fs::read_to_string(report).unwrap();
        let report: Vec<_> = report.lines().collect();
        assert_eq!(&report[..2], ["600", "700"]);
        let path = PathBuf::from(report[2]);
        assert!(path.ends_with("message.md"));
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    #[test]
    fn an_editor_that_fails_changes_nothing() {
        let error = edit_externally("text", "false").unwrap_err().to_string();
        assert_eq!(error, "the editor `false` ended with exit status: 1; the text is as it was");
        let error = edit_externally("text", "rm").unwrap_err().to_string();
        assert!(error.starts_with("the editor `rm` left no file: "), "{error}");
        let error = edit_externally("text", r#"f() { printf '\377' > "$1"; }; f"#).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod property_tests;
