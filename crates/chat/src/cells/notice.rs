//! What the program itself has to say.

use vestal_tui::{Line, Span, Style, style};

use super::wrapped;
use crate::program::Trouble;

/// Says something that is good to know.
pub(crate) fn note(words: &str, width: usize) -> Vec<Line> {
    labelled("note", style::CYAN, words, width)
}

/// Says something that should be known.
pub(crate) fn warning(words: &str, width: usize) -> Vec<Line> {
    labelled("warning", style::YELLOW, words, width)
}

/// Says something in passing.
pub(crate) fn aside(words: &str, width: usize) -> Vec<Line> {
    wrapped(words, width, "  ", |_, text| Line::styled(text, style::DIM))
}

/// Says what went wrong and what to do about it.
pub(crate) fn trouble(trouble: &Trouble, width: usize) -> Vec<Line> {
    let mut lines = labelled("error", style::RED, &trouble.problem, width);
    for advice in &trouble.advice {
        lines.extend(wrapped(advice, width, "    ", |number, text| {
            let lead = if number == 0 { "  → " } else { "    " };
            Line::from_spans(vec![Span::new(lead, style::DIM), Span::plain(text)])
        }));
    }
    lines
}

fn labelled(label: &str, colour: Style, words: &str, width: usize) -> Vec<Line> {
    wrapped(words, width, "  ", |number, text| {
        let lead =
            if number == 0 { Span::new(format!("{label}: "), colour) } else { Span::plain("  ") };
        Line::plain(text).prefixed(lead)
    })
}
