//! Notes as JSON and for people. The JSON is a public interface: extended, never
//! renamed.

use std::path::PathBuf;

use serde::Serialize;
use vestal_memory::{Entries, Target};

use super::Desk;
use crate::console::Console;
use crate::error::Failure;
use crate::json;

/// The notes of one file.
#[derive(Debug, Serialize)]
pub(super) struct NotesView {
    target: Target,
    path: PathBuf,
    enabled: bool,
    entries: Vec<String>,
    characters: usize,
    limit: usize,
    /// Why they cannot be read.
    pub(super) error: Option<String>,
}

impl NotesView {
    pub(super) fn of(desk: &Desk<'_>, target: Target, entries: &Entries) -> Self {
        Self {
            target,
            path: desk.files.path(target),
            enabled: desk.enabled.has(target),
            entries: entries.iter().map(str::to_owned).collect(),
            characters: entries.characters(),
            limit: desk.files.limit(target),
            error: None,
        }
    }
}

/// Says how full a file is.
pub(super) fn usage(desk: &Desk<'_>, target: Target, entries: &Entries) -> String {
    let (used, limit) = (entries.characters(), desk.files.limit(target));
    let notes = crate::console::text::count(entries.len() as u64, "note");
    format!("{notes}, {used} of {limit} characters")
}

/// Prints a value as JSON: on one line for programs, indented for people.
pub(super) fn print(console: Console, value: &impl Serialize) -> Result<(), Failure> {
    console.print(&json::shown(value)?)
}
