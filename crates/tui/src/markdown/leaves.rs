//! Leaf blocks: paragraphs and code.

use crate::highlight::Highlighter;
use crate::markdown::block_starts::{CodeFence, indented};
use crate::markdown::blocks::{Blocks, Leaf, SourceEnd};
use crate::markdown::{inline, table};
use crate::style::{self, Colour};
use crate::text::Line;

/// So many lines, or so many bytes, are held back at most; then they are shown as
/// they stand. This bounds both the memory and how often a byte is looked at.
const MOST_LINES: usize = 32;
const MOST_BYTES: usize = 16 * 1024;

/// A paragraph that may continue.
#[derive(Debug, Clone)]
pub(super) struct Paragraph {
    /// The lines that have not been handed out.
    held: Vec<String>,
    /// How many lines have been handed out.
    given: usize,
}

impl Paragraph {
    pub(super) fn new() -> Self {
        Self { held: Vec::new(), given: 0 }
    }

    /// Takes the last line if it has so many cells: it is the head of a table then.
    pub(super) fn take_header(&mut self, columns: usize) -> Option<Vec<String>> {
        let last = self.held.last()?;
        // Every line that may be a head has been held back, see `settled`.
        let cells = table::cells(last).filter(|cells| cells.len() == columns)?;
        self.held.pop();
        Some(cells)
    }

    /// Takes the only line, if there is one only: it is a heading then.
    pub(super) fn take_only(&mut self) -> Option<String> {
        if self.given > 0 || self.held.len() > 1 { None } else { self.held.pop() }
    }

    /// Returns how many of the lines that are held back may be handed out if no mark
    /// in them is open.
    fn settled(&self) -> usize {
        match self.held.last() {
            // The next line may make it a heading.
            _ if self.given + self.held.len() == 1 => 0,
            // The next line may make it the head of a table.
            Some(last) if last.contains('|') => self.held.len() - 1,
            _ => self.held.len(),
        }
    }

    fn is_too_long(&self) -> bool {
        self.held.len() > MOST_LINES
            || self.held.iter().map(String::len).sum::<usize>() > MOST_BYTES
    }
}

impl Blocks {
    /// Adds a line to the paragraph that is open.
    pub(super) fn add_to_paragraph(&mut self, text: &str) {
        let Leaf::Paragraph(mut paragraph) = std::mem::replace(&mut self.leaf, Leaf::Nothing)
        else {
            return;
        };
        paragraph.held.push(text.trim_end().to_owned());
        let settled = paragraph.settled();
        if settled > 0 {
            self.hand_out_lines(&mut paragraph, settled);
        }
        self.leaf = Leaf::Paragraph(paragraph);
    }

    fn hand_out_lines(&mut self, paragraph: &mut Paragraph, count: usize) {
        let lines = &paragraph.held[..count];
        self.work += lines.iter().map(String::len).sum::<usize>() as u64;
        let rendered = inline::render(lines, self.options, style::PLAIN);
        if rendered.open && !paragraph.is_too_long() {
            return;
        }
        paragraph.given += count;
        paragraph.held.drain(..count);
        rendered.lines.iter().for_each(|line| self.emit_prose(line, ""));
    }

    pub(super) fn end_paragraph(&mut self, paragraph: &Paragraph) {
        self.work += paragraph.held.iter().map(String::len).sum::<usize>() as u64;
        let rendered = inline::render(&paragraph.held, self.options, style::PLAIN);
        rendered.lines.iter().for_each(|line| self.emit_prose(line, ""));
    }
}

/// The fence of code that has none in the source.
pub(super) const MARKS: &str = "```";

/// How many blank lines are kept in mind between lines of indented code.
const MOST_BLANKS: usize = 100;

/// Code between fences.
#[derive(Debug, Clone)]
pub(super) struct Fenced {
    pub(super) fence: CodeFence,
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
    pub(super) fn begin_fenced(&mut self, fence: CodeFence) {
        self.fill();
        // Without colours, highlighting is skipped.
        let highlighter = match self.options.colour {
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
    pub(super) fn end_code(&mut self, marks: &str, end: SourceEnd) {
        if end == SourceEnd::Whole {
            self.emit_code(Line::styled(marks, style::DIM));
        }
    }
}

/// Returns the language that the words behind a fence name, such as `rust` in
/// `rust,ignore` and in `{.rust}`.
fn language(info: &str) -> &str {
    info.trim_start_matches(['{', '.']).split([' ', ',', '}', ':', ';']).next().unwrap_or_default()
}
