//! A block of code as it comes, line by line.

use super::languages::{Language, language};
use super::lexer::Lexer;
use super::markup::Markup;
use super::{console, diff};
use crate::text::Line;

/// Longer lines are not written by people.
const LONGEST_LINE: usize = 2_000;

/// Knows what the lines so far mean for the next one.
#[derive(Debug, Clone)]
pub struct Highlighter(Means);

#[derive(Debug, Clone)]
enum Means {
    Nothing,
    Lexer(Lexer),
    Markup(Markup),
    Diff,
    Console,
}

impl Highlighter {
    /// Returns a highlighter for a language, by the name that people put behind the
    /// fence of a block of code. Code in languages it does not know stays plain.
    pub fn new(name: &str) -> Self {
        Self(match language(name) {
            Some(Language::Words(syntax)) => Means::Lexer(Lexer::new(syntax)),
            Some(Language::Markup) => Means::Markup(Markup::new()),
            Some(Language::Diff) => Means::Diff,
            Some(Language::Console) => Means::Console,
            None => Means::Nothing,
        })
    }

    /// Returns a highlighter that leaves code plain.
    pub const fn plain() -> Self {
        Self(Means::Nothing)
    }

    /// Returns the next line of code, without its end of line, as it is shown.
    pub fn line(&mut self, code: &str) -> Line {
        if code.len() > LONGEST_LINE {
            return Line::plain(code);
        }
        match &mut self.0 {
            Means::Nothing => Line::plain(code),
            Means::Lexer(lexer) => lexer.line(code),
            Means::Markup(markup) => markup.line(code),
            Means::Diff => diff::line(code),
            Means::Console => console::line(code),
        }
    }
}

/// Returns code of a language as it is shown.
pub fn highlight(language: &str, code: &str) -> Vec<Line> {
    let mut highlighter = Highlighter::new(language);
    code.lines().map(|line| highlighter.line(line)).collect()
}
