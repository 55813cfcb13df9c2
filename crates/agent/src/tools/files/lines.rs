//! The lines of a text, and where they are in it.

use std::ops::Range;

/// Lines ended by LF. The end of the last one does not start another.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a text.
    pub(crate) fn new(text: &'a str) -> Self {
        let mut starts = Vec::new();
        if !text.is_empty() {
            starts.push(0);
        }
        starts.extend(text.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at < text.len()));
        Self { text, starts }
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns where a line starts; the end of the text for one behind the last.
    pub(crate) fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// Returns where a line ends, before its LF.
    pub(crate) fn end(&self, line: usize) -> usize {
        let next = self.start(line + 1);
        if self.text[..next].ends_with('\n') && next > self.start(line) { next - 1 } else { next }
    }

    /// Returns a line without its end.
    pub(crate) fn get(&self, line: usize) -> &'a str {
        &self.text[self.start(line)..self.end(line)]
    }

    /// Returns the line, from 0, that a place in the text is in.
    pub(crate) fn at(&self, place: usize) -> usize {
        self.starts.partition_point(|start| *start <= place).saturating_sub(1)
    }

    /// Returns these lines.
    pub(crate) fn slice(&self, lines: Range<usize>) -> Vec<&'a str> {
        lines.map(|line| self.get(line)).collect()
    }

    /// Reports whether the last line is ended too.
    pub(crate) fn is_ended(&self) -> bool {
        self.text.ends_with('\n')
    }
}

/// Returns the lines of a piece of text: without the empty one that would
/// follow its last LF.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_last_line_starts_no_other() {
        for (text, expected) in [
            ("", vec![]),
            ("a", vec!["a"]),
            ("a\n", vec!["a"]),
            ("\n", vec![""]),
            ("a\n\n", vec!["a", ""]),
            ("a\n\nb", vec!["a", "", "b"]),
        ] {
            let lines = Lines::new(text);
            assert_eq!(lines.slice(0..lines.len()), expected, "{text:?}");
            assert_eq!(pieces(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_place_is_in_the_line_that_holds_it() {
        let lines = Lines::new("ab\n\ncd\n");
        let found: Vec<usize> = (0..8).map(|place| lines.at(place)).collect();
        assert_eq!(found, [0, 0, 0, 1, 2, 2, 2, 2]);
        assert_eq!((lines.end(2), lines.start(3)), (6, 7));
    }
}
