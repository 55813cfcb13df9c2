//! Texts in which what does not count looks the same.

use std::borrow::Cow;
use std::ops::Range;

/// A text with some characters taken for others, and where each came from.
pub(super) struct Folded {
    text: String,
    /// For each byte of the text, where its character starts and ends in the original.
    origins: Vec<(u32, u32)>,
}

impl Folded {
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

    /// Returns the text.
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
