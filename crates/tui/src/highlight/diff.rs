//! Differences, as a language that code is written in.

use crate::style;
use crate::text::Line;

/// Returns a line of a diff as it is shown.
pub(super) fn line(code: &str) -> Line {
    let headers = ["--- ", "+++ ", "diff ", "index "];
    let style = if headers.iter().any(|header| code.starts_with(header)) {
        style::BOLD
    } else {
        match code.chars().next() {
            Some('+' | '>') => style::GREEN,
            Some('-' | '<') => style::RED,
            Some('@') => style::CYAN,
            _ => style::PLAIN,
        }
    };
    Line::styled(code, style)
}
