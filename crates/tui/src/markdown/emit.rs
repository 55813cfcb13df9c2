//! Lines with what stands before them.

use super::blocks::Blocks;
use super::container::Container;
use crate::style;
use crate::text::{Line, Span};

/// Prose is not wider than this, because long lines are hard to read.
const WIDEST_PROSE: usize = 100;

impl Blocks {
    /// Hands out a line within the open containers.
    pub(super) fn emit(&mut self, content: Line) {
        self.separate();
        let prefix = self.prefix();
        self.hand_out(prefix, content);
    }

    /// Hands out prose, broken between words. Addresses stay in one piece.
    pub(super) fn emit_prose(&mut self, content: &Line, hanging: &str) {
        let room = self.room(WIDEST_PROSE);
        content.wrap_prose(room, hanging).into_iter().for_each(|line| self.emit(line));
    }

    /// Hands out a line of code: nothing but quotes stands before it, so that code
    /// within a list can be copied as it is.
    pub(super) fn emit_code(&mut self, content: Line) {
        if self.open.iter().any(|c| matches!(c, Container::Item(item) if !item.shown)) {
            self.emit(Line::empty());
        }
        self.separate();
        let mut prefix = Line::empty();
        for container in &self.open {
            if matches!(container, Container::Quote) {
                prefix.push(quote());
            }
        }
        self.hand_out(prefix, content);
    }

    /// Returns how many columns are left for what is within the open containers.
    pub(super) fn room(&self, widest: usize) -> usize {
        let taken: usize = self.visible().map(Container::width).sum();
        self.look.width.min(widest).saturating_sub(taken).max(1)
    }

    /// Hands out the blank line that the source has here.
    fn separate(&mut self) {
        let Some(depth) = self.blank.take() else { return };
        if !self.begun {
            return;
        }
        let mut prefix = Line::empty();
        for container in self.visible().take(depth) {
            prefix.push(match container {
                Container::Quote => quote(),
                Container::Item(_) => Span::plain(" ".repeat(container.width())),
            });
        }
        self.hand_out(prefix, Line::empty());
    }

    /// The containers whose marks are shown: at most half of the columns are for them.
    fn visible(&self) -> impl Iterator<Item = &Container> {
        let mut taken = 0;
        let most = self.look.width / 2;
        self.open.iter().take_while(move |container| {
            taken += container.width();
            taken <= most
        })
    }

    fn prefix(&mut self) -> Line {
        let mut prefix = Line::empty();
        for container in self.visible() {
            let width = container.width();
            prefix.push(match container {
                Container::Quote => quote(),
                Container::Item(item) if item.shown => Span::plain(" ".repeat(width)),
                Container::Item(item) => Span::plain(&item.mark),
            });
        }
        for container in &mut self.open {
            if let Container::Item(item) = container {
                item.shown = true;
            }
        }
        prefix
    }

    fn hand_out(&mut self, prefix: Line, content: Line) {
        let mut line = if content.is_empty() { trimmed(&prefix) } else { prefix };
        line.append(content);
        self.begun = true;
        self.ready.push(line);
    }
}

fn quote() -> Span {
    Span::new("> ", style::DIM)
}

/// Returns a line without the spaces at its end.
pub(super) fn trimmed(line: &Line) -> Line {
    let mut left = line.text().trim_end().len();
    let mut kept = Line::empty();
    for span in line.spans() {
        let text = &span.text()[..left.min(span.text().len())];
        kept.push(Span::new(text, span.style()));
        left -= text.len();
    }
    kept
}
