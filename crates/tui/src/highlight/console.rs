//! What is seen on a console: commands behind a prompt, and what they print.

use super::lexer::Lexer;
use super::tables::SHELL;
use crate::style;
use crate::text::{Line, Span};

/// What a prompt ends with.
const PROMPTS: [&str; 3] = ["$ ", "# ", "% "];

/// Returns a line as it is shown; what commands print stays plain.
pub(super) fn line(code: &str) -> Line {
    let Some(prompt) = PROMPTS.iter().find(|prompt| code.starts_with(**prompt)) else {
        return Line::plain(code);
    };
    let (prompt, command) = code.split_at(prompt.len());
    Lexer::new(&SHELL).line(command).prefixed(Span::new(prompt, style::DIM))
}
