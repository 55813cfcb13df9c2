//! What commands print, on its way to the model and to those who watch.

mod keep;
mod plain;
mod tell;

pub(super) use keep::{HeadTail, Kept};
pub(super) use plain::Plain;
pub(super) use tell::Teller;

use crate::tool::ToolContext;

/// Takes what a command prints: made plain, told as it comes, and kept within
/// bounds.
pub(super) struct Printed<'a> {
    plain: Plain,
    kept: HeadTail,
    teller: Teller<'a>,
    piece: String,
}

impl<'a> Printed<'a> {
    /// Returns a place for output, of which at most `limit` bytes are kept.
    pub(super) fn new(context: &'a ToolContext, limit: usize) -> Self {
        Self {
            plain: Plain::default(),
            kept: HeadTail::new(limit),
            teller: Teller::new(context),
            piece: String::new(),
        }
    }

    /// Takes what came next.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.piece.clear();
        self.plain.push(bytes, &mut self.piece);
        self.kept.push(&self.piece);
        self.teller.push(&self.piece);
    }

    /// Notes that bytes are missing here.
    pub(super) fn gap(&mut self, bytes: u64) {
        let line = format!("\n[… {bytes} bytes were not kept by the sandbox …]\n");
        self.kept.push(&line);
        self.teller.push(&line);
    }

    /// Returns what was kept.
    pub(super) fn finish(mut self) -> Kept {
        self.piece.clear();
        self.plain.finish(&mut self.piece);
        self.kept.push(&self.piece);
        self.teller.push(&self.piece);
        self.teller.finish();
        self.kept.finish()
    }
}
