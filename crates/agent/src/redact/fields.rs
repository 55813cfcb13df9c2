//! Values that are secret because of the name they are given to.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::find::{SecretHit, SecretKind};

/// What the name of a secret ends in, then what stands between name and value:
/// a quote, blanks, and `=` or `:`. `_KEY` counts in capitals only: in code too
/// many keys are none.
static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = "password|passwd|passphrase|passcode|secret|token|api[_-]?key|access[_-]?key|private[_-]?key\
                 |secret[_-]?key|auth[_-]?key|signing[_-]?key|encryption[_-]?key|master[_-]?key\
                 |(?-i:_KEY|_PASS|_PWD|_PSK)|authorization";
    Regex::new(&format!(
        r#"(?i)(?P<name>{names})(?:_?[0-9]+)?(?:\\*["'])?[ \t]*(?P<sign>=>|:=|[:=])[ \t]*"#
    ))
    .ok()
});

/// An option of a program with its value in the next word.
static OPTIONS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)--[a-z0-9-]*?(?P<name>password|passwd|passphrase|secret|token|api-?key|access-?key)[ \t]+",
    )
    .ok()
});

/// Names that end like a secret and are none.
const PUBLIC: [&str; 9] = [
    "PUBLIC_KEY",
    "PRIMARY_KEY",
    "FOREIGN_KEY",
    "SORT_KEY",
    "CACHE_KEY",
    "PARTITION_KEY",
    "PUBLISHABLE_KEY",
    "HOST_KEY",
    "UNIQUE_KEY",
];

/// Finds them. What stands inside one of `addresses` is part of it and no field.
pub(super) fn find(text: &str, addresses: &[Range<usize>]) -> Vec<SecretHit> {
    let mut hits = Vec::new();
    if let Some(names) = &*NAMES {
        let mut at = 0;
        while let Some(found) = names.captures_at(text, at) {
            let (Some(whole), Some(name), Some(sign)) =
                (found.get(0), found.name("name"), found.name("sign"))
            else {
                break;
            };
            at = whole.end();
            if is_inside(addresses, name.start()) || is_public(text, name.end()) {
                continue;
            }
            let style = match sign.as_str() {
                _ if name.as_str().eq_ignore_ascii_case("authorization") => ValueStyle::Header,
                ":" => ValueStyle::Colon { begins_line: begins_line(text, name.start()) },
                _ => ValueStyle::Equals,
            };
            if let Some(range) = read(text, whole.end(), name.as_str(), style) {
                at = range.end.max(whole.end());
                hits.push(SecretHit { range, kind: SecretKind::Value });
            }
        }
    }
    for found in OPTIONS.iter().flat_map(|options| options.captures_iter(text)) {
        if let (Some(whole), Some(name)) = (found.get(0), found.name("name"))
            && let Some(range) = read(text, whole.end(), name.as_str(), ValueStyle::Option)
        {
            hits.push(SecretHit { range, kind: SecretKind::Value });
        }
    }
    hits
}

/// Reports whether a name promises a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let field = format!("{name}=");
    let found = NAMES.as_ref().and_then(|names| names.find(&field));
    found.is_some_and(|found| found.end() == field.len()) && !is_public(name, name.len())
}

fn is_inside(addresses: &[Range<usize>], at: usize) -> bool {
    let next = addresses.partition_point(|address| address.end <= at);
    addresses.get(next).is_some_and(|address| address.contains(&at))
}

fn is_public(text: &str, end: usize) -> bool {
    let name = &text.as_bytes()[..end];
    PUBLIC.iter().any(|public| name.ends_with(public.as_bytes()))
}

/// Reports whether nothing but a name stands before a place in its line, as in YAML.
fn begins_line(text: &str, at: usize) -> bool {
    let before = &text.as_bytes()[at.saturating_sub(128)..at];
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let name = line.iter().rposition(|b| !(b.is_ascii_alphanumeric() || b"_-.\"'".contains(b)));
    let indent = name.map_or(&[][..], |last| &line[..=last]);
    indent.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'-'))
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueStyle {
    /// `name=value`, as shells and programs write it.
    Equals,
    /// `name: value`, as YAML and JSON do.
    Colon {
        /// Whether the name is the first thing in its line.
        begins_line: bool,
    },
    /// `Authorization: kind value`, to the end of the line.
    Header,
    /// `--name value`.
    Option,
}

/// Longest value that may still turn out to be code. Whatever is longer is
/// masked, so that no text makes the search start over again and again.
const LONGEST_CODE: usize = 512;

/// Words that are not secrets, whatever they are given to.
const WORDS: [&str; 40] = [
    "true",
    "false",
    "none",
    "null",
    "nil",
    "undefined",
    "yes",
    "no",
    "str",
    "string",
    "int",
    "integer",
    "bool",
    "boolean",
    "bytes",
    "any",
    "object",
    "number",
    "float",
    "optional",
    "required",
    "text",
    "varchar",
    "char",
    "uuid",
    "include",
    "omit",
    "same-origin",
    "self",
    "this",
    "default",
    "file",
    "void",
    "vec",
    "option",
    "changeme",
    "example",
    "redacted",
    "hidden",
    "empty",
];

/// What code refers to values with.
const REFERENCES: [&str; 17] = [
    "self.",
    "this.",
    "args.",
    "config.",
    "settings.",
    "process.env",
    "os.environ",
    "os.getenv",
    "env.",
    "opts.",
    "options.",
    "ctx.",
    "req.",
    "request.",
    "params.",
    "secrets.",
    "vars.",
];

/// Returns where the secret is that begins at `at`; nothing if there is none.
pub(super) fn read(text: &str, at: usize, name: &str, style: ValueStyle) -> Option<Range<usize>> {
    let rest = &text[at..];
    if style != ValueStyle::Header && rest.starts_with(['=', ':', '/']) && !rest.starts_with("/+") {
        // A comparison, a path of code, an address or a file.
        return None;
    }
    let (quote, inner) = opening(rest);
    if quote.is_some() && inner.starts_with([')', ',', ';', ']', '}', '+', ' ']) {
        // That quote closes what the name stands in: a prompt, not a field.
        return None;
    }
    let start = at + (rest.len() - inner.len());
    let length = match (quote, style) {
        (Some(quote), _) => quoted_length(inner, quote),
        (None, ValueStyle::Header) => {
            let end = inner.find(['"', '\'', '\r', '\n']).unwrap_or(inner.len());
            escape_in(&inner[..end]).unwrap_or(end)
        }
        (None, _) => plain_length(inner),
    };
    let (start, value) = match style {
        ValueStyle::Header => after_kind(start, &inner[..length]),
        _ => (start, &inner[..length]),
    };
    let value =
        if quote.is_none() { value.trim_end_matches([',', ';', ')', ']', '}']) } else { value };
    if value.is_empty() || super::is_mask(value) {
        return None;
    }
    let after = &text[start + value.len()..];
    let code = value.len() <= LONGEST_CODE && is_code(value, name, quote.is_some(), style, after);
    (!code).then(|| start..start + value.len())
}

/// Returns the quote a value begins with, backslashes before it included, and what follows.
fn opening(rest: &str) -> (Option<&str>, &str) {
    let slashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    match rest.as_bytes().get(slashes) {
        Some(b'"' | b'\'' | b'`') => {
            let (quote, inner) = rest.split_at(slashes + 1);
            (Some(quote), inner)
        }
        _ => (None, rest),
    }
}

/// Returns how long a quoted value is: to its quote. One that is never closed
/// in its line is as long as if it were not quoted.
fn quoted_length(inner: &str, quote: &str) -> usize {
    let plain = quote.len() == 1;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        if byte == b'\n' {
            break;
        }
        if !escaped && inner.as_bytes()[at..].starts_with(quote.as_bytes()) {
            return at;
        }
        escaped = plain && byte == b'\\' && !escaped;
    }
    plain_length(inner)
}

fn plain_length(inner: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let end = inner.find(ends).unwrap_or(inner.len());
    escape_in(&inner[..end]).unwrap_or(end)
}

/// Returns where a text has an escape that ends a line or a quote in text within text.
fn escape_in(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find('\\').map(|at| from + at) {
        match text.as_bytes().get(at + 1) {
            None | Some(b'n' | b'r' | b't' | b'"' | b'\'') => return Some(at),
            Some(_) => from = at + 1 + crate::redact::char_len(text, at + 1),
        }
    }
    None
}

/// Passes over the word that says what kind of credential a header holds.
fn after_kind(start: usize, value: &str) -> (usize, &str) {
    let value = value.trim_end();
    match value.split_once([' ', '\t']) {
        Some((kind, rest)) if kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
            let rest = rest.trim_start();
            (start + value.len() - rest.len(), rest)
        }
        _ => (start, value),
    }
}

/// Reports whether a value stands for one that is elsewhere.
pub(super) fn is_placeholder(value: &str) -> bool {
    let marks = ["$", "<", "{", "%(", "%{", "...", "…", "***", "«"];
    marks.iter().any(|mark| value.starts_with(mark))
        || value.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("your"))
        || value.bytes().all(|b| matches!(b, b'*' | b'x' | b'X' | b'.' | b'-' | b'_'))
}

/// Reports whether a value is code, a type, a word or a placeholder.
fn is_code(value: &str, name: &str, quoted: bool, style: ValueStyle, after: &str) -> bool {
    if is_placeholder(value) || WORDS.iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return true;
    }
    let web = ["http://", "https://"].iter().any(|scheme| value.starts_with(scheme));
    if web && !value.contains(' ') {
        return true;
    }
    let letters = value.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.'));
    if letters && names_itself(value, name) {
        return true;
    }
    let counts = name.eq_ignore_ascii_case("token") && value.len() < SHORT_NUMBER;
    if counts && value.bytes().all(|b| b.is_ascii_digit()) {
        return true;
    }
    if quoted {
        return false;
    }
    if style == ValueStyle::Option && value.starts_with('-') {
        return true;
    }
    if REFERENCES.iter().any(|reference| value.starts_with(reference)) || is_expression(value) {
        return true;
    }
    let identifier = value.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    if identifier && after.starts_with([';', '(', '.', ')']) {
        return true;
    }
    match style {
        // A sentence, unless what stands first could not be a word of it.
        ValueStyle::Colon { .. } if identifier => is_followed_by_words(after),
        ValueStyle::Option => identifier && is_followed_by_words(after),
        _ => false,
    }
}

/// Numbers that are shorter than this count things.
const SHORT_NUMBER: usize = 8;

/// Reports whether a value is a name for what its own name says: `token: Token`.
fn names_itself(value: &str, name: &str) -> bool {
    let plain = |text: &str| -> String {
        let letters = text.chars().filter(char::is_ascii_alphabetic);
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let (value, name) = (plain(value), plain(name));
    name.len() > 2 && value.contains(&name)
}

/// Reports whether a value calls something or is a type.
fn is_expression(value: &str) -> bool {
    let first =
        value.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'&');
    let head_end = value.find(['(', '[', '<']).unwrap_or(value.len());
    let head = &value[..head_end];
    let path = head.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:&'!".contains(&b));
    first && path && (head_end < value.len() || value.contains("::") || value.starts_with("&'"))
}

/// Reports whether more words follow in the line, but for a comment.
fn is_followed_by_words(after: &str) -> bool {
    let line = after.split('\n').next().unwrap_or_default();
    let next = line.trim_start();
    line.starts_with([' ', '\t'])
        && next.starts_with(|c: char| c.is_alphanumeric() || c == '=' || c == '|')
}
