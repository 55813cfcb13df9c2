//! The menu of completions.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::complete::{Completer, Suggestion};
use crate::editor::fragment::Fragment;
use crate::editor::keys::drawn;
use crate::editor::undo::EditGroup;
use crate::editor::{Editor, Last, Reaction};
use crate::key::{KeyCode, KeyPress};

/// What can be chosen from.
#[derive(Debug)]
pub(super) struct Menu {
    pub(super) completions: Vec<Suggestion>,
    pub(super) chosen: usize,
    /// Whether it follows what is typed, and so neither inserts nor accepts.
    stays: bool,
}

impl Editor {
    /// Returns the text to complete and the cursor in it. A large paste is one character
    /// here.
    pub fn to_complete(&mut self) -> (&str, usize) {
        self.asked = Some(self.revision);
        (self.buffer.text(), self.buffer.cursor())
    }

    /// Asks for completions and shows them: what [`Reaction::Complete`] is answered
    /// with. Returns whether there are any.
    pub fn complete(&mut self, completer: &dyn Completer) -> bool {
        let (text, cursor) = self.to_complete();
        let completions = completer.complete(text, cursor);
        self.set_completions(completions)
    }

    /// Shows completions of what [`Editor::to_complete`] returned: the only one is
    /// accepted, what all have in common is inserted, and a menu lists the rest.
    /// Those that come after the text has changed are dropped. Returns whether there
    /// was something to complete.
    pub fn set_completions(&mut self, completions: Vec<Suggestion>) -> bool {
        let stays = self.menu.take().is_some_and(|menu| menu.stays);
        let is_late = self.asked.take().is_some_and(|asked| asked != self.revision);
        let mut completions = completions;
        completions.retain(|completion| {
            let range = &completion.replaces;
            range.start <= range.end
                && self.buffer.is_boundary(range.start)
                && self.buffer.is_boundary(range.end)
        });
        if is_late || completions.is_empty() {
            return false;
        }
        if !stays {
            if let [completion] = completions.as_slice() {
                let completion = completion.clone();
                self.accept(&completion);
                return true;
            }
            self.insert_common(&mut completions);
        }
        self.menu = Some(Menu { completions, chosen: 0, stays: true });
        true
    }

    /// Shows completions of what [`Editor::to_complete`] returned that nobody has asked for:
    /// nothing is inserted before one is chosen. Without any the menu is closed.
    pub fn offer(&mut self, completions: Vec<Suggestion>) -> bool {
        self.menu = Some(Menu { completions: Vec::new(), chosen: 0, stays: true });
        self.set_completions(completions)
    }

    /// Takes a key while the menu is open; nothing when the key is not for the menu.
    pub(super) fn menu_key(&mut self, key: KeyPress) -> Option<Reaction> {
        let menu = self.menu.as_mut()?;
        let count = menu.completions.len();
        let control = |c| key == KeyPress::control(c);
        let step = match key.code {
            KeyCode::Tab if count == 1 => return Some(self.accept_chosen()),
            KeyCode::Enter if key == KeyPress::plain(KeyCode::Enter) => {
                // What is written out already is sent.
                let chosen = menu.completions.get(menu.chosen)?;
                let written = self.buffer.text().get(chosen.replaces.clone());
                if written.is_some_and(|written| written.trim_end() == chosen.text.trim_end()) {
                    self.menu = None;
                    return None;
                }
                return Some(self.accept_chosen());
            }
            KeyCode::Tab | KeyCode::Down => 1,
            KeyCode::BackTab | KeyCode::Up => count - 1,
            KeyCode::Char(_) if control('n') => 1,
            KeyCode::Char(_) if control('p') => count - 1,
            KeyCode::Escape => {
                self.menu = None;
                return Some(Reaction::Changed);
            }
            KeyCode::Char(_) if control('c') => {
                self.menu = None;
                return Some(Reaction::Changed);
            }
            _ => return None,
        };
        menu.chosen = (menu.chosen + step) % count;
        Some(drawn(count > 1))
    }

    /// Lets the menu follow what a key did: what was typed narrows it, anything else
    /// closes it.
    pub(super) fn menu_after(&mut self, reaction: Reaction, revision: u64) -> Reaction {
        if self.menu.is_none() {
            return reaction;
        }
        match reaction {
            Reaction::Changed if self.revision != revision && !self.is_empty() => {
                Reaction::Complete
            }
            Reaction::Nothing | Reaction::Changed => {
                self.close_menu();
                Reaction::Changed
            }
            Reaction::Complete => reaction,
            Reaction::Submit | Reaction::Unused(_) => {
                self.close_menu();
                reaction
            }
        }
    }

    /// Closes the menu, when one is open.
    pub fn close_menu(&mut self) {
        self.menu = None;
        self.asked = None;
    }

    fn accept_chosen(&mut self) -> Reaction {
        let chosen =
            self.menu.take().and_then(|menu| menu.completions.into_iter().nth(menu.chosen));
        match chosen {
            Some(completion) => self.accept(&completion),
            None => return Reaction::Nothing,
        }
        Reaction::Changed
    }

    fn accept(&mut self, completion: &Suggestion) {
        self.menu = None;
        self.last = Last::Other;
        if self.buffer.text().get(completion.replaces.clone()) == Some(&completion.text) {
            self.buffer.go(completion.replaces.end);
            return;
        }
        self.undo.seal();
        let text = Fragment::plain(&completion.text);
        self.replace(completion.replaces.clone(), &text, EditGroup::Alone);
    }

    /// Inserts what all completions have in common beyond what is written.
    fn insert_common(&mut self, completions: &mut [Suggestion]) {
        let Some((first, others)) = completions.split_first() else { return };
        let range = first.replaces.clone();
        if others.iter().any(|other| other.replaces != range) {
            return;
        }
        let mut common = first.text.as_str();
        for other in others {
            common = common_beginning(common, &other.text);
        }
        let written = self.buffer.text().get(range.clone()).unwrap_or_default();
        if common.len() <= written.len() || !common.starts_with(written) {
            return;
        }
        let common = Fragment::plain(common);
        self.undo.seal();
        self.last = Last::Other;
        self.replace(range.clone(), &common, EditGroup::Alone);
        for completion in completions {
            completion.replaces.end = range.start + common.len();
        }
    }
}

/// Returns the graphemes with which both texts begin.
fn common_beginning<'a>(one: &'a str, other: &str) -> &'a str {
    let pairs = one.grapheme_indices(true).zip(other.graphemes(true));
    let same = pairs.take_while(|((_, a), b)| a == b);
    let end = same.last().map_or(0, |((at, grapheme), _)| at + grapheme.len());
    one.get(..end).unwrap_or_default()
}
