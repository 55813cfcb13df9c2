//! What the tools for files have in common.

mod diff;
mod failure;
mod lines;
mod masked;
mod nearby;
mod numbered;
mod place;
mod secrets;
mod sightings;
mod text;

pub(super) use diff::unified_diff;
pub(super) use failure::{in_words, is};
pub(super) use lines::{Lines, pieces};
pub(super) use masked::demand_unmasked;
pub(super) use nearby::not_found;
pub(super) use numbered::numbered_lines;
pub(super) use place::{Place, cleared, locate};
pub(super) use secrets::{Readable, readable};
pub(super) use sightings::Page;
pub use sightings::Sightings;
pub(super) use text::{BOM, Change, Newline, StrayBytes, Text, with_lf};
