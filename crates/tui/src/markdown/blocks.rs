//! The structure of blocks, read line by line.

use crate::markdown::block_starts::{self, Container, DEEPEST, ListItem, Until, indented};
use crate::markdown::inline;
use crate::markdown::leaves::{Fenced, Indented, Paragraph};
use crate::markdown::table::{self, MarkdownTable};
use crate::style::{self, Colour};
use crate::text::{Line, Span};

/// What lines depend on besides the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct RenderOptions {
    /// How many columns there are.
    pub(super) width: usize,
    /// Without styles the marks of emphasis and code stay.
    pub(super) colour: Colour,
}

/// What has been read and may still continue, and the lines that are final.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) options: RenderOptions,
    /// The containers that are open, the outermost first.
    pub(super) open: Vec<Container>,
    /// What is being read within the innermost container.
    pub(super) leaf: Leaf,
    /// That blank lines have come since the last line, and how many containers they
    /// were within.
    pub(super) blank: Option<usize>,
    /// Whether any line has been handed out: nothing begins with a blank one.
    pub(super) begun: bool,
    /// The lines that are final and not fetched yet.
    pub(super) ready: Vec<Line>,
    /// How many bytes have been looked at, for the proof that they are few.
    pub(super) work: u64,
}

/// A block that holds no blocks.
#[derive(Debug, Clone)]
pub(super) enum Leaf {
    Nothing,
    Paragraph(Paragraph),
    Fenced(Box<Fenced>),
    Indented(Indented),
    Html(Until),
    Table(Box<MarkdownTable>),
}

/// What the end of the source means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceEnd {
    /// It is the end.
    Whole,
    /// More will come, this is only to have a look.
    ForNow,
}

impl Blocks {
    pub(super) fn new(options: RenderOptions) -> Self {
        Self {
            options,
            open: Vec::new(),
            leaf: Leaf::Nothing,
            blank: None,
            begun: false,
            ready: Vec::new(),
            work: 0,
        }
    }

    /// Returns the same state without the lines that are final: a place to try out
    /// what would be.
    pub(super) fn trial(&self) -> Self {
        Self {
            options: self.options,
            open: self.open.clone(),
            leaf: self.leaf.clone(),
            blank: self.blank,
            begun: self.begun,
            ready: Vec::new(),
            work: 0,
        }
    }

    /// Reads a line, which has no tabs and no end of line in it.
    pub(super) fn line(&mut self, line: &str) {
        self.work += line.len() as u64;
        let mut rest = line;
        let mut matched = 0;
        while let Some(container) = self.open.get(matched) {
            let Some(within) = container.continued(rest) else { break };
            rest = within;
            matched += 1;
        }
        self.work += matched as u64;
        if matched < self.open.len() || !self.is_taken_whole(rest) {
            self.begin(rest, matched);
        }
    }

    /// Ends everything that is open.
    pub(super) fn finish(&mut self, end: SourceEnd) {
        self.end_leaf(end);
        self.close_to(0);
    }

    /// Gives the line to a leaf in which nothing but its end means anything.
    fn is_taken_whole(&mut self, line: &str) -> bool {
        match &mut self.leaf {
            Leaf::Fenced(code) => {
                if code.fence.is_closed_by(line) {
                    self.end_leaf(SourceEnd::Whole);
                } else {
                    let shown = code.line(line);
                    self.emit_code(shown);
                }
                true
            }
            Leaf::Indented(code) => {
                let Some(shown) = code.line(line) else { return false };
                for line in shown {
                    self.emit_code(line);
                }
                true
            }
            Leaf::Html(Until::Blank) if line.trim().is_empty() => false,
            Leaf::Html(until) => {
                if until.is_in(line) {
                    self.leaf = Leaf::Nothing;
                }
                self.emit(Line::plain(line.trim_end()));
                true
            }
            Leaf::Nothing | Leaf::Paragraph(_) | Leaf::Table(_) => false,
        }
    }

    /// Reads what is left of a line behind the containers that continue.
    fn begin(&mut self, line: &str, mut matched: usize) {
        let mut rest = line;
        loop {
            self.work += rest.len() as u64;
            let (indent, text) = indented(rest);
            if text.is_empty() {
                self.close_to(matched);
                self.blank = Some(self.blank.map_or(matched, |before| before.min(matched)));
                return;
            }
            // A line continues with a paragraph also where the marks of its containers
            // are left out.
            let in_paragraph = matches!(self.leaf, Leaf::Paragraph(_));
            let all = matched == self.open.len();
            if indent >= 4 {
                if in_paragraph {
                    return self.add_to_paragraph(text);
                }
                self.close_to(matched);
                return self.begin_indented(&rest[4..]);
            }
            if in_paragraph && all && self.changes_paragraph(text) {
                return;
            }
            match self.container(text, indent, matched, in_paragraph && all) {
                Some((container, within)) => {
                    self.close_to(matched);
                    self.open.push(container);
                    matched += 1;
                    rest = within;
                }
                None => return self.begin_leaf(text, indent, matched),
            }
        }
    }

    /// Returns the container that a text begins, and what is within.
    fn container<'t>(
        &self,
        text: &'t str,
        indent: usize,
        matched: usize,
        in_paragraph: bool,
    ) -> Option<(Container, &'t str)> {
        if matched >= DEEPEST || block_starts::is_rule(text) {
            return None;
        }
        if let Some(rest) = text.strip_prefix('>') {
            return Some((Container::Quote, rest.strip_prefix(' ').unwrap_or(rest)));
        }
        if let Some((label, rest)) = block_starts::footnote(text) {
            return Some((Container::Item(ListItem::of_footnote(label, rest)), rest));
        }
        let marker = block_starts::item(text)?;
        // A number at the beginning of a line is seldom meant as a list.
        if in_paragraph && (marker.number != 1 || marker.rest.is_empty()) {
            return None;
        }
        let number = match self.open.get(matched) {
            Some(Container::Item(before)) if before.kind == Some(marker.kind) => {
                before.number.saturating_add(1)
            }
            _ => marker.number,
        };
        let rest = marker.rest;
        Some((Container::Item(ListItem::of_list(&marker, number, indent)), rest))
    }

    fn begin_leaf(&mut self, text: &str, indent: usize, matched: usize) {
        if let Some((level, words)) = block_starts::heading(text) {
            self.close_to(matched);
            self.emit_heading(level, words);
        } else if let Some(fence) = block_starts::fence(text, indent) {
            self.close_to(matched);
            self.begin_fenced(fence);
        } else if let Some(until) = block_starts::html(text) {
            self.close_to(matched);
            self.fill();
            self.emit(Line::plain(text.trim_end()));
            if !until.is_in(text) {
                self.leaf = Leaf::Html(until);
            }
        } else if block_starts::is_rule(text) {
            self.close_to(matched);
            self.emit_rule();
        } else if matches!(self.leaf, Leaf::Paragraph(_)) {
            self.add_to_paragraph(text);
        } else if matched == self.open.len() && matches!(self.leaf, Leaf::Table(_)) {
            self.add_row(text);
        } else {
            self.close_to(matched);
            self.fill();
            self.leaf = Leaf::Paragraph(Paragraph::new());
            self.add_to_paragraph(text);
        }
    }

    /// Makes a heading or a table of the paragraph above, if the line says so.
    fn changes_paragraph(&mut self, text: &str) -> bool {
        let Leaf::Paragraph(paragraph) = &mut self.leaf else { return false };
        if let Some(alignments) = table::delimiters(text)
            && let Some(header) = paragraph.take_header(alignments.len())
        {
            self.end_leaf(SourceEnd::Whole);
            self.leaf = Leaf::Table(Box::new(MarkdownTable::new(header, alignments)));
            return true;
        }
        if let Some(level) = block_starts::underline(text)
            && let Some(words) = paragraph.take_only()
        {
            self.leaf = Leaf::Nothing;
            self.emit_heading(level, &words);
            return true;
        }
        false
    }

    fn emit_heading(&mut self, level: usize, words: &str) {
        self.fill();
        self.work += words.len() as u64;
        // The marks stay, so that the level is visible without colour.
        let mark = "#".repeat(level) + " ";
        let hanging = " ".repeat(mark.len());
        for words in inline::render(&[words], self.options, style::BOLD).lines {
            let line = words.prefixed(Span::new(&mark, style::BOLD));
            self.emit_prose(&line, &hanging);
        }
    }

    fn emit_rule(&mut self) {
        const LONGEST: usize = 40;
        self.fill();
        let rule = "─".repeat(self.room(LONGEST));
        self.emit(Line::styled(rule, style::DIM));
    }

    /// Notes that something is in the containers, which therefore continue after a blank
    /// line.
    pub(super) fn fill(&mut self) {
        for container in &mut self.open {
            if let Container::Item(item) = container {
                item.bare = false;
            }
        }
    }

    /// Ends the leaf, and all but the outermost containers.
    fn close_to(&mut self, kept: usize) {
        self.end_leaf(SourceEnd::Whole);
        while self.open.len() > kept {
            if matches!(self.open.last(), Some(Container::Item(item)) if !item.shown) {
                self.emit(Line::empty());
            }
            self.open.pop();
        }
        // A blank line was at most within the containers that are left.
        self.blank = self.blank.map(|depth| depth.min(kept));
    }

    pub(super) fn end_leaf(&mut self, end: SourceEnd) {
        match std::mem::replace(&mut self.leaf, Leaf::Nothing) {
            Leaf::Nothing | Leaf::Html(_) => {}
            Leaf::Paragraph(paragraph) => self.end_paragraph(&paragraph),
            Leaf::Fenced(code) => self.end_code(&code.fence.marks(), end),
            Leaf::Indented(code) => {
                self.end_code(crate::markdown::leaves::MARKS, end);
                self.blank = code.ends_blank().then_some(self.open.len());
            }
            Leaf::Table(table) => self.end_table(*table),
        }
    }
}
