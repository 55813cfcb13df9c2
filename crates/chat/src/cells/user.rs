//! What the person said.

use vestal_tui::{Line, Span, style};

use crate::text;

/// Lines of what was said that are shown again; the rest is counted.
const MOST: usize = 200;

/// Shows what was said.
pub(crate) fn user(words: &str, width: usize) -> Vec<Line> {
    let total = words.lines().count();
    let mut lines: Vec<Line> = words
        .lines()
        .take(MOST)
        .enumerate()
        .flat_map(|(number, words)| {
            let mark = if number == 0 { Span::new("› ", style::BOLD) } else { Span::plain("  ") };
            Line::plain(words).prefixed(mark).wrap(width, "  ")
        })
        .collect();
    if total > MOST {
        let more = format!("  … {} more", text::count(total - MOST, "line"));
        lines.push(Line::styled(more, style::DIM));
    }
    lines
}

/// Shows words that wait for the model's next step.
pub(crate) fn queued(words: &str, columns: usize) -> Line {
    let mut lines = words.lines();
    let first = lines.next().unwrap_or_default();
    let more = match lines.count() {
        0 => String::new(),
        more => format!(" (+ {})", text::count(more, "line")),
    };
    let line = Line::styled(format!("› {first}{more} · queued"), style::DIM);
    line.cut(columns)
}
