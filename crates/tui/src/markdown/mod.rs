//! Markdown that arrives piece by piece, as lines for the scroll-back.
//!
//! What goes into the scroll-back can never be changed, so the rules of rendering
//! are chosen such that nothing that comes later changes how a line looks:
//!
//! - An end of line in the source is an end of line on the screen, also within a
//!   paragraph. A line is handed out when no mark in it can still be closed by a
//!   later one.
//! - Blank lines are the author's: one or many become one, none stays none. So the
//!   looseness of a list, which its last item may decide, decides nothing.
//! - The line above `===` or `---` is a heading only where it is a paragraph of its
//!   own; below a longer paragraph `---` is a rule.
//! - A table is held back until it ends, or until it is so long that its first rows
//!   have settled the widths of its columns.
//! - References (`[text][name]`) stay as written, and so do their definitions.
//!
//! The structure of blocks is read here, line by line, with the algorithm of the
//! `CommonMark` specification; what is within a line is read by `pulldown-cmark`,
//! which wants a whole document before it says anything.

mod block_starts;
mod blocks;
mod code;
mod inline;
mod leaves;
mod stream;
mod table;

pub use code::{CodeBlock, code_blocks};
pub use stream::Markdown;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod look_tests;
#[cfg(test)]
mod stream_tests;
