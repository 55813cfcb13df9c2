//! The one way in: takes an operation apart and hands it to its module.

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use vestal_wire::{Fault, FileOp, FileReply};

use super::path::resolve;
use super::{delete, list, mkdir, patch, read, rename, search, stat, write};

/// Where paths start that are not absolute.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// What a leading `~` stands for.
    pub(crate) home: PathBuf,
    /// Where relative paths start.
    pub(crate) base: PathBuf,
}

/// Takes the content of a file on its way to the host.
pub(crate) trait ContentSink {
    /// Sends a piece, waiting until the reader has room for it. An error means
    /// that nobody listens any more.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Fault>;
}

/// Performs one operation. Blocks; stops soon after `cancelled` is set.
pub(crate) fn perform(
    op: FileOp,
    places: &Places,
    input: &mut dyn Read,
    output: &mut dyn ContentSink,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    match op {
        FileOp::Read { path, offset, limit } => {
            read::read(&resolve(&path, places)?, read::Range { offset, limit }, output, cancelled)
        }
        FileOp::Write { path, create, parents, mode, expect } => {
            let order = write::Order { path: &path, create, parents, mode, expect };
            write::write(&order, places, input, cancelled)
        }
        FileOp::Patch { path, edits, expect } => {
            patch::patch(&path, &edits, expect, places, cancelled)
        }
        FileOp::List { path, skip, limit } => {
            list::list(&resolve(&path, places)?, skip, limit, cancelled)
        }
        FileOp::Stat { path, follow } => stat::stat(&resolve(&path, places)?, follow.into()),
        FileOp::Search(query) => search::search(&query, places, cancelled),
        FileOp::Mkdir { path, parents, mode } => {
            mkdir::mkdir(&resolve(&path, places)?, parents.into(), mode)
        }
        FileOp::Move { from, to, overwrite } => {
            let (from, to) = (resolve(&from, places)?, resolve(&to, places)?);
            rename::rename(&from, &to, overwrite.into(), cancelled)
        }
        FileOp::Delete { path, recursive } => {
            delete::delete(&resolve(&path, places)?, recursive.into(), places, cancelled)
        }
    }
}
