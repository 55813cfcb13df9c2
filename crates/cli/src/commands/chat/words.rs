//! The words of a message on their way to the reader.

/// A message that comes in pieces: shown without blank lines before and behind
/// it, so white space is held back until it is known what follows.
#[derive(Debug, Default)]
pub(super) struct Words {
    begun: bool,
    held: String,
}

impl Words {
    /// Takes a piece and returns what can be shown.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let end = self.held.trim_end().len();
        let mut shown: String = self.held.drain(..end).collect();
        if !self.begun && !shown.is_empty() {
            self.begun = true;
            let first = shown.len() - shown.trim_start().len();
            let start = shown[..first].rfind('\n').map_or(0, |end| end + 1);
            shown.drain(..start);
        }
        shown
    }

    /// Ends the message and returns the end of its last line, if it has any.
    pub(super) fn end(&mut self) -> &'static str {
        self.held.clear();
        if std::mem::take(&mut self.begun) { "\n" } else { "" }
    }

    /// Reports whether a line of it is unfinished on the screen.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }
}

/// Returns a whole message as it is printed: nothing, if it says nothing.
pub(super) fn whole(text: &str) -> String {
    let mut words = Words::default();
    let mut printed = words.push(text);
    printed.push_str(words.end());
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_blank_lines_around_it_and_ends_with_one_newline() {
        assert_eq!(whole("\n \n  code\n\nmore \n\n"), "  code\n\nmore\n");
        assert_eq!(whole(" \n\n"), "");
        assert_eq!(whole("x"), "x\n");
    }

    #[test]
    fn a_message_in_pieces_is_the_same_as_in_one() {
        let text = "\n\n  first\n\n second  word \n\n";
        for size in 1..text.len() {
            let mut words = Words::default();
            let chars: Vec<char> = text.chars().collect();
            let mut shown: String =
                chars.chunks(size).map(|piece| words.push(&String::from_iter(piece))).collect();
            assert!(words.is_begun());
            shown.push_str(words.end());
            assert_eq!(shown, whole(text), "{size}");
            assert!(!words.is_begun());
        }
    }
}
