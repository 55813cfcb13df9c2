//! Words of servers, made harmless and short.

/// Returns text without what a terminal obeys or nobody sees: control
/// characters, marks that turn the direction of writing, and the invisible
/// characters that hide words from people but not from models.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: &char| match c {
        '\n' | '\t' => true,
        c if c.is_control() => false,
        '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => false,
        _ => true,
    };
    text.chars().filter(shown).collect()
}

/// Returns the beginning of a text, so many characters at most.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
    }
}

/// Returns one short line.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let words = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&words, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d\u{e0041}e\u{200b}f\u{7f}"), "a[2Jb\ncdef");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(one_line("  a\n\n b\tc ", 3), "a b…");
    }
}
