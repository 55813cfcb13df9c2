//! Words of servers, made harmless and short.

/// Returns text without what a terminal obeys or nobody sees: control
/// characters, marks that turn the direction of writing, and the invisible
/// characters that hide words from people but not from models.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: &char| match c {
        '\n' | '\t' => true,
        c if c.is_control() => false,
        // Soft and zero-width ones, and fillers that look like nothing.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{3164}' | '\u{ffa0}'
        | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        // Marks and separators that change how lines are shown.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        // Variants and tags: a text of its own fits into them.
        | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => false,
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
        for hidden in ['\u{ad}', '\u{61c}', '\u{2028}', '\u{206a}', '\u{fe0f}', '\u{e0152}'] {
            assert_eq!(printable(&format!("a{hidden}b")), "ab", "{hidden:?}");
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(one_line("  a\n\n b\tc ", 3), "a b…");
    }
}
