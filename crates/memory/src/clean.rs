//! Makes text harmless that will stand before every later conversation.

/// Returns a text without what a person cannot see in it: control characters,
/// marks that turn the order of reading, and letters that have no shape, in all
/// of which instructions can hide. Ends of lines are one kind only.
pub fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}', '\u{85}'], "\n");
    let mut before = '\n';
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_hidden(letter) || (clings(letter) && is_in_a_row(letter, before)) {
            continue;
        }
        kept.push(if letter == '\t' { ' ' } else { letter });
        before = letter;
    }
    let lines: Vec<&str> = kept.trim().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Reports whether a letter has a meaning beside another only: it joins two, or
/// says whether the one before it is a sign or a picture.
fn clings(letter: char) -> bool {
    is_joiner(letter) || is_style(letter)
}

/// Reports whether a letter that clings has none to cling to. In a row of them a
/// text can hide; a picture may be joined to another after its style.
fn is_in_a_row(letter: char, before: char) -> bool {
    before == '\n' || is_joiner(before) || (is_style(letter) && is_style(before))
}

fn is_joiner(letter: char) -> bool {
    matches!(letter, '\u{200c}' | '\u{200d}')
}

fn is_style(letter: char) -> bool {
    matches!(letter, '\u{fe0e}' | '\u{fe0f}')
}

/// Reports whether a letter is not seen. Joiners stay: scripts and pictures are
/// written with them, one at a time.
fn is_hidden(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        // Letters without a shape, ...
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        // ... and marks that turn the order of reading.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out_and_what_is_written_stays() {
        let hidden = "a\u{1b}[2Jb\u{0}c\u{202e}d\u{200b}e\u{feff}f\u{e0041}g\u{7f}h\u{9b}i";
        assert_eq!(clean(hidden), "a[2Jbcdefghi");
        assert_eq!(clean("  one \r\ntwo\rthree\u{2028}four\n\n"), "one\ntwo\nthree\nfour");
        let kept = "Zürich 東京 👩\u{200d}💻 نمی\u{200c}خواهم\n  - indented";
        assert_eq!(clean(kept), kept);
        assert_eq!(clean("\u{200b}\t \u{1}"), "");
    }

    #[test]
    fn no_text_hides_in_marks_of_letters_or_in_letters_that_are_blank() {
        let marks: String = ('\u{fe00}'..='\u{fe0d}').chain('\u{e0100}'..='\u{e01ef}').collect();
        assert_eq!(clean(&format!("a{marks}b")), "ab");
        assert_eq!(clean(&format!("ok{}", "\u{fe0f}\u{200b}\u{fe0e}".repeat(40))), "ok\u{fe0f}");
        assert_eq!(clean("a\u{61c}b\u{3164}c\u{34f}d\u{2800}e\u{1160}f"), "abcdef");
        assert_eq!(clean(&format!("ok{}", "\u{200c}\u{200d}".repeat(40))), "ok\u{200c}");
        let pictures = "❤\u{fe0f} ☎\u{fe0e} ❤\u{fe0f}\u{200d}🔥";
        assert_eq!(clean(pictures), pictures);
    }
}
