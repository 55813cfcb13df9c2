//! What words mean.

use super::lexer::{Reading, Syntax, Trait};
use crate::style::{self, Style};

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
pub(super) fn token(syntax: &Syntax, reading: &mut Reading<'_>, first: char) -> (usize, Style) {
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
fn meaning(syntax: &Syntax, reading: &mut Reading<'_>, end: usize) -> Style {
    let (word, after) = reading.rest.split_at(end);
    // A field, or a part of a path or of an option, is no keyword.
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
