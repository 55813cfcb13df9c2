//! Code as words, strings and comments.

use crate::style::{self, Style};
use crate::text::{Line, Span};

/// What distinguishes the parts of a language.
#[derive(Debug)]
pub(super) struct Syntax {
    /// What begins a comment that ends with its line.
    pub(super) comments: &'static [&'static str],
    /// What begins and ends a comment that may have several lines.
    pub(super) blocks: &'static [(&'static str, &'static str)],
    /// Strings; a longer mark stands before the ones that it begins with.
    pub(super) strings: &'static [Quote],
    /// Words that belong to the language, a blank between two.
    pub(super) keywords: &'static str,
    /// What else is special.
    pub(super) traits: &'static [Trait],
}

/// How strings look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quote {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) escapes: Escapes,
    pub(super) span: Extent,
}

/// Whether a backslash in a string makes the next character an ordinary one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    Backslash,
    None,
}

/// How far a string may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Line,
    Lines,
}

/// What is special about a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trait {
    /// Keywords may be written in capitals.
    AnyCase,
    /// A word in front of a parenthesis is a function.
    Calls,
    /// A word that begins with a capital is a type.
    Types,
    /// `$name` and `${name}` are variables.
    Dollars,
    /// `@name` is an annotation.
    Annotations,
    /// `#[…]` is an attribute, `'a` a lifetime, `name!` a macro.
    Rust,
    /// `#word` at the beginning of a line is for the preprocessor.
    Preprocessor,
    /// The first word of a command is its name.
    Commands,
    /// A string or a word in front of a colon is a key.
    Keys,
    /// Lines begin with a key and `=` or `:`, or with a section in brackets.
    Settings,
    /// As settings, but only where the line is not indented.
    Rules,
    /// Lines begin with an instruction in capitals.
    Instructions,
    /// Words have dashes in them.
    Dashes,
}

impl Syntax {
    pub(super) fn is(&self, what: Trait) -> bool {
        self.traits.contains(&what)
    }
}

/// Reads code of a language line by line.
#[derive(Debug, Clone)]
pub(super) struct Lexer {
    syntax: &'static Syntax,
    /// What the last line did not end.
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    close: &'static str,
    escapes: Escapes,
    style: Style,
}

/// A line that is being read.
pub(super) struct LexerPosition<'c> {
    pub(super) rest: &'c str,
    /// The last character that was read.
    pub(super) before: char,
    /// Whether the next word is the name of a command.
    pub(super) command: bool,
    /// Whether the next word is the name of a function.
    pub(super) naming: bool,
    /// Whether a variable is being set, behind which the command may still come.
    pub(super) setting: bool,
    line: Line,
}

impl LexerPosition<'_> {
    fn take(&mut self, length: usize, style: Style) {
        let (token, rest) = self.rest.split_at(length);
        self.before = token.chars().next_back().unwrap_or(self.before);
        self.line.push(Span::new(token, style));
        self.rest = rest;
    }
}

impl Lexer {
    pub(super) const fn new(syntax: &'static Syntax) -> Self {
        Self { syntax, open: None }
    }

    /// Returns a line of code as it is shown.
    pub(super) fn line(&mut self, code: &str) -> Line {
        let line = Line::empty();
        let mut reading = LexerPosition {
            rest: code,
            before: ' ',
            command: true,
            setting: false,
            naming: false,
            line,
        };
        if self.open.is_none() {
            let (length, style) = beginning(self.syntax, code);
            reading.take(length, style);
        }
        while let Some(first) = reading.rest.chars().next() {
            let (length, style) = self.token(&mut reading, first);
            reading.take(length, style);
        }
        reading.line
    }

    /// Returns how long the next token is, and how it looks.
    fn token(&mut self, reading: &mut LexerPosition<'_>, first: char) -> (usize, Style) {
        let rest = reading.rest;
        let syntax = self.syntax;
        if let Some(open) = self.open {
            let end = end_of(rest, open.close, open.escapes);
            if end.is_some() {
                self.open = None;
            }
            return (end.unwrap_or(rest.len()), open.style);
        }
        if syntax.comments.iter().any(|mark| begins_comment(rest, mark, reading.before)) {
            return (rest.len(), style::DIM);
        }
        if let Some((open, close)) = syntax.blocks.iter().find(|(open, _)| rest.starts_with(open)) {
            let end = end_of(&rest[open.len()..], close, Escapes::None);
            if end.is_none() {
                self.open = Some(Open { close, escapes: Escapes::None, style: style::DIM });
            }
            return (end.map_or(rest.len(), |end| open.len() + end), style::DIM);
        }
        if let Some(quote) = syntax.strings.iter().find(|quote| rest.starts_with(quote.open))
            && let Some(token) = self.string(quote, rest)
        {
            reading.command = false;
            return token;
        }
        token(syntax, reading, first)
    }

    fn string(&mut self, quote: &Quote, rest: &str) -> Option<(usize, Style)> {
        let Quote { open, close, escapes, span } = *quote;
        let Some(end) = end_of(&rest[open.len()..], close, escapes) else {
            if span == Extent::Line {
                // A mark without its twin is only that.
                return None;
            }
            self.open = Some(Open { close, escapes, style: style::GREEN });
            return Some((rest.len(), style::GREEN));
        };
        let length = open.len() + end;
        // `'a` and `'b` in one line are lifetimes, not a string.
        let character = rest[open.len()..length - close.len()].trim_start_matches('\\');
        if self.syntax.is(Trait::Rust)
            && open == "'"
            && character.chars().count() > 1
            && !rest.starts_with("'\\")
        {
            return None;
        }
        let key = self.syntax.is(Trait::Keys) && rest[length..].trim_start().starts_with(':');
        Some((length, if key { style::BLUE } else { style::GREEN }))
    }
}

/// Whether a comment begins here. `#` in `a#b` and in `$#` begins none.
fn begins_comment(rest: &str, mark: &str, before: char) -> bool {
    let alone = !mark.starts_with(['#', ';', '%']) || before.is_whitespace();
    alone && rest.starts_with(mark)
}

/// Returns where a text is behind the mark that ends it.
fn end_of(text: &str, close: &str, escapes: Escapes) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        if c == '\\' && escapes == Escapes::Backslash {
            escaped = true;
        } else if text[at..].starts_with(close) {
            return Some(at + close.len());
        }
    }
    None
}

/// Words that stand for a value in many languages.
const CONSTANTS: [&str; 12] = [
    "true",
    "false",
    "null",
    "nil",
    "none",
    "undefined",
    "NaN",
    "True",
    "False",
    "None",
    "NULL",
    "nullptr",
];

/// Words behind which the name of a function stands.
const NAMING: [&str; 7] = ["fn", "def", "defn", "defun", "func", "function", "fun"];

/// Returns how long the beginning of a line is, if it is special, and how it looks.
pub(super) fn beginning(syntax: &Syntax, code: &str) -> (usize, Style) {
    const NOTHING: (usize, Style) = (0, style::PLAIN);
    let words = code.trim_start();
    let indent = code.len() - words.len();
    if words.is_empty() || syntax.comments.iter().any(|mark| words.starts_with(mark)) {
        return NOTHING;
    }
    if syntax.is(Trait::Settings) || (syntax.is(Trait::Rules) && indent == 0) {
        if words.starts_with('[') && syntax.is(Trait::Settings) {
            let end = words.find(" #").unwrap_or(words.len());
            return (indent + end, style::BLUE.bold());
        }
        let key = words.find(['=', ':']).filter(|at| !words[..*at].contains(['"', '\'', '{']));
        return key.map_or(NOTHING, |at| (indent + at, style::BLUE));
    }
    if syntax.is(Trait::Instructions) {
        let end = words.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(words.len());
        return if end > 1 { (indent + end, style::MAGENTA) } else { NOTHING };
    }
    if syntax.is(Trait::Preprocessor) && words.starts_with('#') {
        let end = words[1..].find(|c: char| !c.is_alphanumeric()).map_or(words.len(), |at| at + 1);
        return (indent + end, style::MAGENTA);
    }
    if syntax.is(Trait::Rust) && (words.starts_with("#[") || words.starts_with("#![")) {
        let end = words.rfind(']').map_or(words.len(), |at| at + 1);
        return (indent + end, style::YELLOW);
    }
    NOTHING
}

/// Returns how long the next token is, which is no string and no comment, and how it
/// looks.
pub(super) fn token(
    syntax: &Syntax,
    reading: &mut LexerPosition<'_>,
    first: char,
) -> (usize, Style) {
    let rest = reading.rest;
    let dashes = syntax.is(Trait::Dashes);
    let word = |from: usize| {
        let end = rest[from..].find(|c: char| !(is_word(c) || (dashes && c == '-')));
        end.map_or(rest.len(), |end| from + end)
    };
    match first {
        '$' if syntax.is(Trait::Dollars) => {
            reading.command = false;
            match rest[1..].chars().next() {
                Some('{') => (rest.find('}').map_or(2, |end| end + 1), style::YELLOW),
                Some('(') => {
                    reading.command = true;
                    (2, style::PLAIN)
                }
                Some(c) if is_word(c) => (word(1), style::YELLOW),
                Some(c) if "?#@*!$-".contains(c) => (2, style::YELLOW),
                _ => (1, style::PLAIN),
            }
        }
        '@' if syntax.is(Trait::Annotations) && rest[1..].starts_with(char::is_alphabetic) => {
            (word(1), style::YELLOW)
        }
        '\'' if syntax.is(Trait::Rust) && rest[1..].starts_with(is_word) => {
            (word(1), style::MAGENTA)
        }
        c if c.is_ascii_digit() => {
            reading.command = false;
            // The dots of a range are not part of a number.
            let end = rest.find(|c: char| !(is_word(c) || c == '.')).unwrap_or(rest.len());
            let end = rest.find("..").map_or(end, |range| range.min(end));
            (end, style::CYAN)
        }
        c if is_word(c) => {
            let end = word(0);
            (end, meaning(syntax, reading, end))
        }
        c => {
            if matches!(c, '|' | ';' | '&' | '(' | '`') {
                reading.command = true;
            } else if c.is_whitespace() {
                reading.command |= std::mem::take(&mut reading.setting);
            } else {
                reading.command = false;
            }
            (c.len_utf8(), style::PLAIN)
        }
    }
}

/// Returns how the word looks that is so long.
fn meaning(syntax: &Syntax, reading: &mut LexerPosition<'_>, end: usize) -> Style {
    let (word, after) = reading.rest.split_at(end);
    // A field, or a part of a path or of an option, is not a keyword.
    let part = matches!(reading.before, '.' | '-' | '/') && !reading.rest.is_empty();
    let lower;
    let keyword = if syntax.is(Trait::AnyCase) {
        lower = word.to_ascii_lowercase();
        lower.as_str()
    } else {
        word
    };
    let command = std::mem::take(&mut reading.command);
    if !part && syntax.keywords.split(' ').any(|own| own == keyword) {
        // Behind `then`, `do` or `!` comes another command.
        reading.command = command;
        reading.naming = NAMING.contains(&word);
        return style::MAGENTA;
    }
    if std::mem::take(&mut reading.naming) {
        return style::BLUE;
    }
    if CONSTANTS.contains(&word) {
        return style::CYAN;
    }
    if syntax.is(Trait::Commands) {
        // `NAME=value` before a command is not its name.
        if command && after.starts_with('=') {
            reading.setting = true;
            return style::YELLOW;
        }
        return if command { style::BLUE } else { style::PLAIN };
    }
    if syntax.is(Trait::Rust) && after.starts_with('!') && !after.starts_with("!=") {
        return style::BLUE;
    }
    // `key: value`, but not `http://` or `a::b`.
    let value = after.strip_prefix(':');
    if syntax.is(Trait::Keys) && value.is_some_and(|v| v.is_empty() || v.starts_with(' ')) {
        return style::BLUE;
    }
    if syntax.is(Trait::Types) && word.starts_with(char::is_uppercase) {
        return style::YELLOW;
    }
    if syntax.is(Trait::Calls) && (after.starts_with('(') || after.starts_with("::<")) {
        return style::BLUE;
    }
    style::PLAIN
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
