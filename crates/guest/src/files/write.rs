//! Makes a file's content what comes from the host.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use vestal_wire::{CreateMode, Fault, FaultCode, FileReply, Version};

use super::fault::refused;
use super::mkdir::permission_bits;
use super::path::{names_directory, resolve};
use super::perform::Places;
use super::replace::{Guard, Replacement, replace};

/// A write as it was asked for.
#[derive(Debug)]
pub(super) struct Order<'a> {
    pub(super) path: &'a [u8],
    pub(super) create: CreateMode,
    pub(super) parents: bool,
    pub(super) mode: Option<u32>,
    pub(super) expect: Option<Version>,
}

/// Writes a file.
pub(super) fn write(
    order: &Order<'_>,
    places: &Places,
    input: &mut dyn Read,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let path = resolve_file(order.path, places)?;
    let replacement = Replacement {
        path: &path,
        create: order.create,
        parents: order.parents.into(),
        mode: permission_bits(order.mode)?,
        guard: order.expect.map_or(Guard::Nothing, Guard::Version),
    };
    let done = replace(&replacement, input, cancelled)?;
    Ok(FileReply::Written {
        metadata: done.metadata,
        created: done.created,
        in_place: done.in_place,
        replaced: 0,
    })
}

/// Resolves a path that must be able to mean a file.
pub(super) fn resolve_file(raw: &[u8], places: &Places) -> Result<std::path::PathBuf, Fault> {
    let path = resolve(raw, places)?;
    if names_directory(raw) {
        let why = "the path is one of a directory";
        return Err(refused(FaultCode::WrongKind, "write", Path::new(&path), why));
    }
    Ok(path)
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "write_child_tests.rs"]
#[expect(unsafe_code, reason = "a child is prepared between fork and exec")]
mod child_tests;
