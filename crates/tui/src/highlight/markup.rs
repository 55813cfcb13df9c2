//! HTML and XML.

use crate::style::{self, Style};
use crate::text::{Line, Span};

/// Where in a document a line ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Markup(Within);

#[derive(Debug, Clone, Copy)]
enum Within {
    Text,
    Tag,
    String(char),
    Comment,
}

impl Markup {
    pub(super) const fn new() -> Self {
        Self(Within::Text)
    }

    /// Returns a line of a document as it is shown.
    pub(super) fn line(&mut self, code: &str) -> Line {
        let mut line = Line::empty();
        let mut rest = code;
        while !rest.is_empty() {
            let (length, style) = self.next(rest);
            let (token, after) = rest.split_at(length);
            line.push(Span::new(token, style));
            rest = after;
        }
        line
    }

    /// Returns how long the first token is, and how it looks.
    fn next(&mut self, rest: &str) -> (usize, Style) {
        let to = |at: Option<usize>, more: usize| at.map_or(rest.len(), |at| at + more);
        match self.0 {
            Within::Comment => {
                let end = rest.find("-->");
                if end.is_some() {
                    self.0 = Within::Text;
                }
                (to(end, 3), style::DIM)
            }
            Within::String(mark) => {
                let end = rest.find(mark);
                if end.is_some() {
                    self.0 = Within::Tag;
                }
                (to(end, 1), style::GREEN)
            }
            Within::Text if rest.starts_with("<!--") => {
                self.0 = Within::Comment;
                (4, style::DIM)
            }
            Within::Text if rest.starts_with('<') => {
                self.0 = Within::Tag;
                let name = rest[1..].find(|c: char| !(c.is_alphanumeric() || "/?!-:_".contains(c)));
                (to(name, 1), style::MAGENTA)
            }
            Within::Text if rest.starts_with('&') => {
                let length = rest.find(';').filter(|end| *end < 12).map_or(1, |end| end + 1);
                (length, if length > 1 { style::CYAN } else { style::PLAIN })
            }
            Within::Text => (to(rest.find(['<', '&']), 0), style::PLAIN),
            Within::Tag => self.in_tag(rest),
        }
    }

    fn in_tag(&mut self, rest: &str) -> (usize, Style) {
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            '>' => {
                self.0 = Within::Text;
                (1, style::MAGENTA)
            }
            '/' | '?' => (1, style::MAGENTA),
            '"' | '\'' => {
                self.0 = Within::String(first);
                (1, style::GREEN)
            }
            c if c.is_alphanumeric() => {
                let end = rest.find(['=', '>', '/', '"', '\'', ' ']);
                (end.unwrap_or(rest.len()), style::YELLOW)
            }
            c => (c.len_utf8(), style::PLAIN),
        }
    }
}
