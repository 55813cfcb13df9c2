//! A list to choose from, narrowed by what is typed.

use crate::key::{KeyCode, KeyPress};
use crate::matching::contains_words;
use crate::style::{BOLD, DIM, PLAIN};
use crate::text::{Line, Span};

/// Something that can be chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickerItem {
    /// How it is called.
    pub label: String,
    /// What it is, in a few words.
    pub about: String,
}

/// What a key did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickerReaction {
    /// Another item is marked, or none can be.
    Moved,
    /// This item was chosen, counted from the first one of the whole list.
    Chosen(usize),
}

/// A list to choose from. What is typed to narrow it is the caller's: see [`Picker::narrow`].
#[derive(Debug)]
pub struct Picker {
    items: Vec<PickerItem>,
    /// The items that fit what is typed.
    fitting: Vec<usize>,
    /// Which of them is marked.
    marked: usize,
    query: String,
}

/// Rows that a page key goes.
const PAGE: usize = 8;

impl Picker {
    /// Returns a list with its first item marked.
    pub fn new(items: Vec<PickerItem>) -> Self {
        let fitting = (0..items.len()).collect();
        Self { items, fitting, marked: 0, query: String::new() }
    }

    /// Marks an item of the whole list.
    #[must_use]
    pub fn with_marked(mut self, item: usize) -> Self {
        self.marked = self.fitting.iter().position(|fitting| *fitting == item).unwrap_or(0);
        self
    }

    /// Keeps the items that have all words of `query` in them. With another query than before the
    /// first of them is marked.
    pub fn narrow(&mut self, query: &str) {
        if self.query == query {
            return;
        }
        query.clone_into(&mut self.query);
        let fits =
            |item: &PickerItem| contains_words(query, &format!("{} {}", item.label, item.about));
        let fitting = self.items.iter().enumerate().filter(|(_, item)| fits(item));
        self.fitting = fitting.map(|(index, _)| index).collect();
        self.marked = 0;
    }

    /// Returns the marked item.
    pub fn marked(&self) -> Option<(usize, &PickerItem)> {
        let index = *self.fitting.get(self.marked)?;
        Some((index, self.items.get(index)?))
    }

    /// Takes a key that moves or chooses; nothing for one that is not for the list.
    pub fn key(&mut self, key: KeyPress) -> Option<PickerReaction> {
        let last = self.fitting.len().saturating_sub(1);
        let is = |code| key == KeyPress::plain(code);
        let control = |c| key == KeyPress::control(c);
        let wrapped = |step: isize| match (self.marked, step) {
            (0, -1) => last,
            (marked, -1) => marked - 1,
            (marked, _) if marked >= last => 0,
            (marked, _) => marked + 1,
        };
        let marked = if is(KeyCode::Enter) {
            return self.marked().map(|(index, _)| PickerReaction::Chosen(index));
        } else if is(KeyCode::Up) || is(KeyCode::BackTab) || control('p') {
            wrapped(-1)
        } else if is(KeyCode::Down) || is(KeyCode::Tab) || control('n') {
            wrapped(1)
        } else if is(KeyCode::PageUp) {
            self.marked.saturating_sub(PAGE)
        } else if is(KeyCode::PageDown) {
            (self.marked + PAGE).min(last)
        } else {
            return None;
        };
        self.marked = marked;
        Some(PickerReaction::Moved)
    }

    /// Returns the list as it is shown, on at most `rows` rows.
    pub fn lines(&self, columns: usize, rows: usize) -> Vec<Line> {
        if self.fitting.is_empty() {
            let words = if self.items.is_empty() { "  nothing to choose" } else { "  no match" };
            return vec![Line::styled(words, DIM).cut(columns)];
        }
        let rows_of = |index: usize| {
            let item = self.fitting.get(index).and_then(|item| self.items.get(*item));
            item.map(|item| (item.label.as_str(), item.about.as_str())).unwrap_or_default()
        };
        list_lines(self.fitting.len(), self.marked, columns, rows, rows_of)
    }
}

/// Shows a list on at most `rows` rows, with the marked item among them, and counts where not all
/// of it is seen.
pub(crate) fn list_lines<'a>(
    count: usize,
    marked: usize,
    columns: usize,
    rows: usize,
    item: impl Fn(usize) -> (&'a str, &'a str),
) -> Vec<Line> {
    let counts = count > rows && rows > 1;
    let listed = if counts { rows - 1 } else { rows };
    let first = (marked + 1).saturating_sub(listed).min(count.saturating_sub(listed));
    let seen = || (first..count).take(listed).map(|index| (index, item(index)));
    let labels = seen().map(|(_, (label, _))| Span::plain(label).width()).max();
    let labels = labels.unwrap_or(0).min(columns / 2);
    let mut lines: Vec<_> = seen()
        .map(|(index, (label, about))| {
            // The mark shows it without colour.
            let (mark, style) = if index == marked { ("› ", BOLD) } else { ("  ", PLAIN) };
            let mut line = Line::styled(mark, style);
            let label = Span::new(label, style);
            let gap = (labels + 2).saturating_sub(label.width()).max(2);
            line.push(label);
            if !about.is_empty() {
                line.push(Span::plain(" ".repeat(gap)));
                line.push(Span::new(about, DIM));
            }
            line.cut(columns)
        })
        .collect();
    if counts {
        let count = format!("  {} of {count}", marked + 1);
        lines.push(Line::styled(count, DIM).cut(columns));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picker(labels: &[&str]) -> Picker {
        let item = |label: &&str| PickerItem {
            label: (*label).to_owned(),
            about: format!("about {label}"),
        };
        Picker::new(labels.iter().map(item).collect())
    }

    fn shown(picker: &Picker, rows: usize) -> Vec<String> {
        picker.lines(40, rows).iter().map(Line::text).collect()
    }

    fn press(picker: &mut Picker, code: KeyCode) -> Option<PickerReaction> {
        picker.key(KeyPress::plain(code))
    }

    #[test]
    fn arrows_go_round_and_enter_chooses() {
        let mut picker = picker(&["red", "green", "blue"]);
        assert_eq!(
            shown(&picker, 5),
            ["› red    about red", "  green  about green", "  blue   about blue"]
        );
        press(&mut picker, KeyCode::Up);
        assert_eq!(press(&mut picker, KeyCode::Enter), Some(PickerReaction::Chosen(2)));
        press(&mut picker, KeyCode::Down);
        press(&mut picker, KeyCode::Tab);
        assert_eq!(press(&mut picker, KeyCode::Enter), Some(PickerReaction::Chosen(1)));
        assert_eq!(press(&mut picker, KeyCode::Char('x')), None);
    }

    #[test]
    fn what_is_typed_narrows_and_the_number_stays_that_of_the_whole_list() {
        let mut picker = picker(&["red", "green", "blue"]).with_marked(1);
        assert_eq!(picker.marked().unwrap().0, 1);
        picker.narrow("BL");
        assert_eq!(shown(&picker, 5), ["› blue  about blue"]);
        assert_eq!(press(&mut picker, KeyCode::Enter), Some(PickerReaction::Chosen(2)));
        picker.narrow("x");
        assert_eq!(shown(&picker, 5), ["  no match"]);
        assert_eq!(press(&mut picker, KeyCode::Enter), None);
        assert_eq!(press(&mut picker, KeyCode::Down), Some(PickerReaction::Moved));
        picker.narrow("");
        assert_eq!(picker.marked().unwrap().0, 0);
    }

    #[test]
    fn a_long_list_is_scrolled_and_counted() {
        let labels: Vec<String> = (0..30).map(|number| format!("n{number:02}")).collect();
        let mut picker = picker(&labels.iter().map(String::as_str).collect::<Vec<_>>());
        press(&mut picker, KeyCode::PageDown);
        let rows = shown(&picker, 4);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[2], "› n08  about n08");
        assert_eq!(rows[3], "  9 of 30");
        for _ in 0..9 {
            press(&mut picker, KeyCode::PageDown);
        }
        assert_eq!(picker.marked().unwrap().0, 29);
        assert_eq!(shown(&picker, 1), ["› n29  about n29"]);
    }

    #[test]
    fn an_empty_list_says_so() {
        let mut picker = Picker::new(Vec::new());
        assert_eq!(shown(&picker, 3), ["  nothing to choose"]);
        assert_eq!(press(&mut picker, KeyCode::Up), Some(PickerReaction::Moved));
        assert_eq!(press(&mut picker, KeyCode::Enter), None);
    }
}
