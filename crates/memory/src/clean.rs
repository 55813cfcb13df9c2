//! Makes text harmless that will stand before every later conversation.

/// Returns a text without what a person cannot see in it: control characters,
/// marks that turn the order of reading, and letters that have no shape, in all
/// of which instructions can hide. Ends of lines are one kind only.
pub fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}', '\u{85}'], "\n");
    let kept = text.chars().filter(|letter| !is_hidden(*letter));
    let kept: String = kept.map(|letter| if letter == '\t' { ' ' } else { letter }).collect();
    let lines: Vec<&str> = kept.trim().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Reports whether a letter is not seen. Joiners stay: scripts and pictures are
/// written with them.
fn is_hidden(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        // Letters without a shape, ...
        '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        // ... and marks that turn the order of reading.
        | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => true,
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
}
