//! Values that are secret because of the name they are given to.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::find::{Hit, Kind};
use super::value::{self, Style};

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
pub(super) fn find(text: &str, addresses: &[Range<usize>]) -> Vec<Hit> {
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
                _ if name.as_str().eq_ignore_ascii_case("authorization") => Style::Header,
                ":" => Style::Colon { begins_line: begins_line(text, name.start()) },
                _ => Style::Equals,
            };
            if let Some(range) = value::read(text, whole.end(), name.as_str(), style) {
                at = range.end.max(whole.end());
                hits.push(Hit { range, kind: Kind::Value });
            }
        }
    }
    for found in OPTIONS.iter().flat_map(|options| options.captures_iter(text)) {
        if let (Some(whole), Some(name)) = (found.get(0), found.name("name"))
            && let Some(range) = value::read(text, whole.end(), name.as_str(), Style::Option)
        {
            hits.push(Hit { range, kind: Kind::Value });
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
