//! Blocks of code. They stand between the marks of a fence, dimmed, because a frame
//! or an indent would be copied along with the code.

use super::blocks::{Blocks, End, Leaf};
use super::starts::{Fence, indented};
use crate::highlight::Highlighter;
use crate::style::{self, Colour};
use crate::text::Line;

/// The fence of code that has none in the source.
pub(super) const MARKS: &str = "```";

/// How many blank lines are kept in mind between lines of indented code.
const MOST_BLANKS: usize = 100;

/// Code between fences.
#[derive(Debug, Clone)]
pub(super) struct Fenced {
    pub(super) fence: Fence,
    highlighter: Highlighter,
}

impl Fenced {
    /// Returns a line of the code as it is shown.
    pub(super) fn line(&mut self, line: &str) -> Line {
        let (indent, _) = indented(line);
        self.highlighter.line(&line[indent.min(self.fence.indent)..])
    }
}

/// Code that is indented.
#[derive(Debug, Clone)]
pub(super) struct Indented {
    /// Blank lines are part of the code only if more of it comes.
    blanks: usize,
}

impl Indented {
    /// Returns the lines of code that are certain with this line, or nothing if it is
    /// not code.
    pub(super) fn line(&mut self, line: &str) -> Option<Vec<Line>> {
        if line.trim().is_empty() {
            self.blanks = (self.blanks + 1).min(MOST_BLANKS);
            return Some(Vec::new());
        }
        let code = line.strip_prefix("    ")?;
        let mut lines = vec![Line::empty(); std::mem::take(&mut self.blanks)];
        lines.push(Line::plain(code));
        Some(lines)
    }

    /// Returns whether blank lines followed the code.
    pub(super) fn ends_blank(&self) -> bool {
        self.blanks > 0
    }
}

impl Blocks {
    pub(super) fn begin_fenced(&mut self, fence: Fence) {
        self.fill();
        // Colours that nobody sees are not worth the work.
        let highlighter = match self.look.colour {
            Colour::On => Highlighter::new(language(&fence.info)),
            Colour::Off => Highlighter::plain(),
        };
        let opening = fence.marks() + &fence.info;
        self.emit_code(Line::styled(opening, style::DIM));
        self.leaf = Leaf::Fenced(Box::new(Fenced { fence, highlighter }));
    }

    pub(super) fn begin_indented(&mut self, code: &str) {
        self.fill();
        self.emit_code(Line::styled(MARKS, style::DIM));
        self.emit_code(Line::plain(code.trim_end()));
        self.leaf = Leaf::Indented(Indented { blanks: 0 });
    }

    /// Shows the end of a block of code; also where the source has none.
    pub(super) fn end_code(&mut self, marks: &str, end: End) {
        if end == End::Whole {
            self.emit_code(Line::styled(marks, style::DIM));
        }
    }
}

/// Returns the language that the words behind a fence name, such as `rust` in
/// `rust,ignore` and in `{.rust}`.
fn language(info: &str) -> &str {
    info.trim_start_matches(['{', '.']).split([' ', ',', '}', ':', ';']).next().unwrap_or_default()
}
