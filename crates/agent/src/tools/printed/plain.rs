//! Bytes of a terminal made into plain text.

/// Characters of a control string after which it is taken for an accident, as
/// when a binary file is printed: what follows is text again.
const LONGEST_STRING: usize = 4096;

/// Turns what a command prints into text without escape sequences and control
/// characters. Bytes that are no UTF-8 become U+FFFD. Pieces may be cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The beginning of a character whose rest has not come.
    partial: Vec<u8>,
    state: State,
}

/// Where in an escape sequence (ECMA-48) the text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate: up to a final character.
    Intermediate,
    /// In a control sequence: up to a final character.
    Sequence,
    /// In a control string, this far: up to its terminator.
    String(usize),
    /// In a control string, after ESC.
    StringEscape(usize),
}

impl Plain {
    /// Adds the plain text of a piece to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            joined = [&self.partial, bytes].concat();
            self.partial.clear();
            &joined
        };
        let mut rest = bytes.utf8_chunks().peekable();
        while let Some(chunk) = rest.next() {
            self.text(chunk.valid(), out);
            let invalid = chunk.invalid();
            let may_go_on = rest.peek().is_none()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_go_on {
                self.partial.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                self.text("\u{fffd}", out);
            }
        }
    }

    /// Adds what is left when no more will come.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if !self.partial.is_empty() {
            self.partial.clear();
            self.text("\u{fffd}", out);
        }
    }

    fn text(&mut self, mut text: &str, out: &mut String) {
        while !text.is_empty() {
            if self.state == State::Text {
                let plain = text.find(is_control).unwrap_or(text.len());
                let (before, after) = text.split_at(plain);
                out.push_str(before);
                text = after;
            }
            let mut characters = text.chars();
            if let Some(character) = characters.next() {
                self.state = self.state.after(character, out);
                text = characters.as_str();
            }
        }
    }
}

impl State {
    /// Returns the state after a character, having added it if it is text.
    fn after(self, character: char, out: &mut String) -> Self {
        // These end whatever is under way.
        if matches!(character, '\u{18}' | '\u{1a}') {
            return Self::Text;
        }
        match self {
            Self::Text => match character {
                '\u{1b}' => Self::Escape,
                '\u{9b}' => Self::Sequence,
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => Self::String(0),
                _ if is_control(character) => Self::Text,
                _ => {
                    out.push(character);
                    Self::Text
                }
            },
            Self::Escape => match character {
                '\u{1b}' => Self::Escape,
                '[' => Self::Sequence,
                ']' | 'P' | 'X' | '^' | '_' => Self::String(0),
                ' '..='/' => Self::Intermediate,
                '0'..='~' => Self::Text,
                _ => Self::Text.after(character, out),
            },
            Self::Intermediate => match character {
                ' '..='/' => Self::Intermediate,
                '0'..='~' => Self::Text,
                _ => Self::Text.after(character, out),
            },
            Self::Sequence => match character {
                ' '..='?' => Self::Sequence,
                '@'..='~' => Self::Text,
                _ => Self::Text.after(character, out),
            },
            Self::String(length) | Self::StringEscape(length) => match character {
                '\u{07}' | '\u{9c}' => Self::Text,
                '\u{1b}' => Self::StringEscape(length),
                '\\' if matches!(self, Self::StringEscape(_)) => Self::Text,
                // No string that a terminal is meant to act on goes over a line.
                '\n' => Self::Text.after(character, out),
                _ if length >= LONGEST_STRING => Self::Text,
                _ => Self::String(length + 1),
            },
        }
    }
}

/// Reports whether a character is one that text has no use for.
fn is_control(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(pieces: &[&[u8]]) -> String {
        let mut plain = Plain::default();
        let mut out = String::new();
        for piece in pieces {
            plain.push(piece, &mut out);
        }
        plain.finish(&mut out);
        out
    }

    #[test]
    fn escape_sequences_and_controls_are_left_out() {
        let printed = "\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{07}a\u{1b}]8;;u\u{1b}\\b\
            \u{1b}(Bc\u{1b}7d\u{1b}Pq#0\u{1b}\\e\u{9b}31mf\0g\u{8}h\ti\r\nj\u{1b}[?25l";
        assert_eq!(plain(&[printed.as_bytes()]), "red abcdefgh\ti\r\nj");
    }

    #[test]
    fn pieces_may_be_cut_anywhere() {
        let printed = "\u{1b}[31mä€𝄞\u{1b}]0;x\u{1b}\\z".as_bytes();
        let bytes: Vec<&[u8]> = printed.chunks(1).collect();
        assert_eq!(plain(&bytes), "ä€𝄞z");
    }

    #[test]
    fn what_is_no_text_is_shown_as_such() {
        assert_eq!(plain(&[b"a\xffb", b"\xe2\x82"]), "a\u{fffd}b\u{fffd}");
        assert_eq!(plain(&[b"\xe2", b"x"]), "\u{fffd}x");
    }

    #[test]
    fn a_string_without_an_end_swallows_no_more_than_its_line() {
        assert_eq!(plain(&[b"a\x1b]0;never ends\nb\n"]), "a\nb\n");
        let long = [b"\x1bP".as_slice(), &[b'x'; 2 * LONGEST_STRING]].concat();
        assert!(plain(&[&long]).len() >= LONGEST_STRING - 1);
    }
}
