//! The little JSON that the stage writes.

use std::fmt::Write as _;

/// Returns a text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => {
                write!(json, "\\u{:04x}", u32::from(c)).ok();
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_json() {
        assert_eq!(quoted("a\"b\\c\n\u{e4}"), "\"a\\\"b\\\\c\\u000a\u{e4}\"");
    }
}
