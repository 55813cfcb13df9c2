//! Texts compared without what does not count: blanks, typography, escapes and
//! indentation.

use std::borrow::Cow;
use std::ops::Range;

/// A text with some characters taken for others, and where each came from.
pub(super) struct FoldedText {
    text: String,
    /// For each byte of the text, where its character starts and ends in the original.
    origins: Vec<(u32, u32)>,
}

impl FoldedText {
    /// Takes every run of blanks for one space, or for one LF where it has any.
    pub(super) fn blanks(original: &str) -> Self {
        let mut folded = Self { text: String::new(), origins: Vec::new() };
        let mut rest = original.char_indices().peekable();
        while let Some((start, character)) = rest.next() {
            if !character.is_whitespace() {
                folded.push(character, start..start + character.len_utf8());
                continue;
            }
            let mut end = start + character.len_utf8();
            let mut blank = if character == '\n' { '\n' } else { ' ' };
            while let Some((at, next)) = rest.next_if(|(_, next)| next.is_whitespace()) {
                end = at + next.len_utf8();
                if next == '\n' {
                    blank = '\n';
                }
            }
            folded.push(blank, start..end);
        }
        folded
    }

    /// Takes quotes and dashes of print for those of keyboards.
    pub(super) fn typography(original: &str) -> Self {
        let mut folded = Self { text: String::new(), origins: Vec::new() };
        for (start, character) in original.char_indices() {
            let origin = start..start + character.len_utf8();
            match keyboard(character) {
                Some(plain) => plain.chars().for_each(|c| folded.push(c, origin.clone())),
                None => folded.push(character, origin),
            }
        }
        folded
    }

    fn push(&mut self, character: char, origin: Range<usize>) {
        self.text.push(character);
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let origin = (place(origin.start), place(origin.end));
        self.origins.resize(self.text.len(), origin);
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns where in the original a text is that is folded alike.
    pub(super) fn find(&self, wanted: &str) -> impl Iterator<Item = Range<usize>> {
        self.text.match_indices(wanted).filter_map(|(at, found)| {
            let (start, _) = *self.origins.get(at)?;
            let (_, end) = *self.origins.get(at + found.len() - 1)?;
            Some(start as usize..end as usize)
        })
    }
}

/// Returns the words of a line with one space between them.
pub(super) fn collapse(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a text with quotes and dashes as keyboards have them.
pub(in crate::tools::patch) fn typography(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| keyboard(character).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match keyboard(character) {
            Some(keys) => plain.push_str(keys),
            None => plain.push(character),
        }
    }
    Cow::Owned(plain)
}

fn keyboard(character: char) -> Option<&'static str> {
    Some(match character {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' => "'",
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '\u{2026}' => "...",
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => " ",
        _ => return None,
    })
}

/// Returns a text with the escapes that models write once too often undone.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        let escaped = rest.as_str().chars().next();
        let meant = match escaped {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some(same @ ('"' | '\'' | '\\' | '`' | '$')) => same,
            _ => {
                plain.push('\\');
                continue;
            }
        };
        plain.push(meant);
        rest.next();
    }
    plain
}

/// Returns the blanks a line starts with.
fn indent_of(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Returns lines without the indentation they have in common, and without
/// blanks at their ends.
pub(super) fn without_common<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(|line| indent_of(line).len()).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or_default().trim_end()).collect()
}

/// What indentation of the model's stands for which of the file's.
pub(in crate::tools::patch) struct Indents<'a> {
    /// Theirs and the file's, line by line.
    pairs: Vec<(&'a str, &'a str)>,
    /// Blanks that stand for one tab.
    tab: usize,
}

impl<'a> Indents<'a> {
    /// Compares lines of the model's with those of the file they stand for.
    pub(in crate::tools::patch) fn between(theirs: &[&'a str], file: &[&'a str]) -> Self {
        let pairs: Vec<(&str, &str)> = theirs
            .iter()
            .zip(file)
            .filter(|(theirs, file)| !theirs.trim().is_empty() && !file.trim().is_empty())
            .map(|(theirs, file)| (indent_of(theirs), indent_of(file)))
            .collect();
        let tab = tab_width(&pairs);
        Self { pairs, tab }
    }

    /// Compares lines of the model's with those of the file they stand for, and
    /// with the lines that are to take their place: where those are indented as
    /// the file is already, only the old ones were written wrongly.
    pub(super) fn towards(theirs: &[&'a str], file: &[&'a str], new: &[&str]) -> Self {
        let indents = Self::between(theirs, file);
        if is_indented_as(theirs, file, new) {
            return Self { pairs: Vec::new(), ..indents };
        }
        indents
    }

    /// Returns a new line of the model's as it stands in the file.
    pub(in crate::tools::patch) fn apply(&self, line: &str) -> String {
        let indent = indent_of(line);
        if line.trim().is_empty() || self.pairs.iter().all(|(theirs, file)| theirs == file) {
            return line.to_owned();
        }
        format!("{}{}", self.of(indent), &line[indent.len()..])
    }

    fn of(&self, indent: &str) -> String {
        let known = self.pairs.iter().filter(|(theirs, _)| indent.starts_with(theirs));
        if let Some((theirs, file)) = known.max_by_key(|(theirs, _)| theirs.len()) {
            return format!("{file}{}", self.deeper(&indent[theirs.len()..]));
        }
        // It is less deep than any line there was: as much less in the file.
        let Some((theirs, file)) = self.pairs.iter().min_by_key(|(theirs, _)| theirs.len()) else {
            return indent.to_owned();
        };
        let less = self.deeper(theirs.get(indent.len()..).unwrap_or_default());
        file.get(..file.len().saturating_sub(less.len())).unwrap_or_default().to_owned()
    }

    /// Returns further indentation in the file's kind of blanks.
    fn deeper(&self, blanks: &str) -> String {
        let tabs_in = |of: fn(&(&'a str, &'a str)) -> &'a str| {
            self.pairs.iter().any(|pair| of(pair).contains('\t'))
        };
        match (tabs_in(|pair| pair.0), tabs_in(|pair| pair.1)) {
            (false, true) if !blanks.contains('\t') => {
                let (tabs, spaces) = (blanks.len() / self.tab, blanks.len() % self.tab);
                format!("{}{}", "\t".repeat(tabs), " ".repeat(spaces))
            }
            (true, false) => blanks.replace('\t', &" ".repeat(self.tab)),
            _ => blanks.to_owned(),
        }
    }
}

/// Returns how many blanks before a place belong to what is replaced there: all
/// that indent the line, where the old text begins within them and the new one
/// brings them along.
pub(super) fn surplus(before: &str, old: &str, new: &str) -> usize {
    let line = before.rsplit('\n').next().unwrap_or_default();
    // A text that does not begin with blanks is a piece of its line.
    let is_indent = !line.is_empty() && line.trim().is_empty() && !indent_of(old).is_empty();
    let brought = indent_of(new) == format!("{line}{}", indent_of(old));
    if is_indent && brought && !new.trim().is_empty() { line.len() } else { 0 }
}

/// Reports whether new lines are indented as the file is, and not as the old
/// ones are: the lines that both have tell, else the first of each.
fn is_indented_as(old: &[&str], file: &[&str], new: &[&str]) -> bool {
    let filled = |line: &&&str| !line.trim().is_empty();
    let mut as_file = 0;
    let mut as_old = 0;
    let mut is_shared = false;
    for line in new.iter().filter(filled) {
        let Some(place) = old.iter().position(|old| old.trim() == line.trim()) else { continue };
        let Some(found) = file.get(place) else { continue };
        is_shared = true;
        let (theirs, found, given) = (indent_of(old[place]), indent_of(found), indent_of(line));
        as_file += usize::from(theirs != found && given == found);
        as_old += usize::from(theirs != found && given == theirs);
    }
    if is_shared {
        return as_file > 0 && as_old == 0;
    }
    let first = |lines: &[&str]| lines.iter().find(filled).map(|line| indent_of(line).to_owned());
    let (old, file, new) = (first(old), first(file), first(new));
    new == file && new != old
}

/// Estimates how many spaces stand for a tab.
fn tab_width(pairs: &[(&str, &str)]) -> usize {
    let mut widths = pairs.iter().filter_map(|(theirs, file)| {
        let (tabs, spaces) = match (theirs.contains('\t'), file.contains('\t')) {
            (false, true) => (file.matches('\t').count(), theirs.len()),
            (true, false) => (theirs.matches('\t').count(), file.len()),
            _ => return None,
        };
        (spaces >= tabs && spaces.is_multiple_of(tabs)).then(|| spaces / tabs)
    });
    widths.next().unwrap_or(4)
}
