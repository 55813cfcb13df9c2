//! What the tools for files have in common.

mod diff;
mod observed;
mod path;
mod text;

pub use observed::Sightings;

pub(super) use diff::unified_diff;
pub(super) use observed::Page;
pub(super) use path::{Place, Readable, cleared, in_words, is, locate, not_found, readable};
pub(super) use text::{
    BOM, Change, Lines, Newline, StrayBytes, Text, demand_unmasked, numbered_lines, pieces, with_lf,
};
