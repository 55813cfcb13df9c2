//! Variables that get values, by assignments and by loops.

use super::expand::{Argument, NAME, SOME};
use super::walk::Walk;
use super::word::{Part, Word, is_name};
use crate::approvals::paths;

impl Walk<'_> {
    /// A variable gets one value after the other.
    pub(super) fn loop_over(&mut self, name: &str, values: &[Word], depth: usize) {
        let values: Vec<Argument> =
            values.iter().flat_map(|word| self.expand(word, depth)).collect();
        if !is_name(name) {
            return;
        }
        let path = |value: &Argument| {
            paths::canonical(&value.text, self.cwd.as_deref(), self.path_context)
        };
        // Of several values the worst is the one to look at.
        let worst = values.iter().find(|value| paths::irreplaceable(&path(value)).is_some());
        let only =
            values.first().filter(|value| values.len() == 1 && !value.splits && !value.parameters);
        let numbers = !values.is_empty() && values.iter().all(is_number);
        match worst.or(only) {
            Some(value) => {
                let text =
                    if value.glob { named_by(&value.text) } else { Some(value.text.clone()) };
                match text {
                    Some(text) => {
                        self.assigns(name, &text);
                        // Within the loop it has this value and no other.
                        self.variables.set(name, &text, true);
                    }
                    None => self.assigns_unknown(name),
                }
            }
            None if numbers => {
                self.judge_variable(name, "0");
                self.variables.set(name, &SOME.to_string(), true);
            }
            None => self.assigns_unknown(name),
        }
    }
}

/// Reports whether a value of a loop is a number.
fn is_number(value: &Argument) -> bool {
    let digits = |c: char| c.is_ascii_digit() || c == SOME;
    !value.text.is_empty() && value.text.chars().all(digits) && !value.splits
}

/// Returns what names a wildcard of the shell stands for; nothing if that is more
/// than names in a directory.
fn named_by(pattern: &str) -> Option<String> {
    let (dir, last) = pattern
        .rsplit_once('/')
        .map_or(("", pattern), |(dir, last)| (&pattern[..=dir.len()], last));
    let plain = !dir.contains(['*', '?', '[']) && last.starts_with(|c: char| c != '.' && c != '[');
    let names: String = last.chars().map(|c| if c == '*' || c == '?' { NAME } else { c }).collect();
    (plain && !names.contains('[')).then(|| format!("{dir}{names}"))
}

/// A variable that gets a value.
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) subscript: Option<String>,
    /// Whether the value is put behind what the variable has.
    pub(super) appends: bool,
    pub(super) value: Word,
}

/// Takes an assignment apart.
pub(super) fn assignment(word: &Word) -> Option<Assignment> {
    let Some(Part::Text { text, quoted: false }) = word.parts.first() else {
        return None;
    };
    let (target, value) = text.split_once('=')?;
    let plain = target.strip_suffix('+');
    let (name, subscript) = plain.unwrap_or(target).split_once('[').map_or_else(
        || (plain.unwrap_or(target), None),
        |(name, subscript)| (name, Some(subscript.trim_end_matches(']').to_owned())),
    );
    if !is_name(name) {
        return None;
    }
    let mut parts = vec![Part::Text { text: value.to_owned(), quoted: false }];
    parts.extend(word.parts[1..].iter().cloned());
    let (name, appends) = (name.to_owned(), plain.is_some());
    Some(Assignment { name, subscript, appends, value: Word { parts } })
}
