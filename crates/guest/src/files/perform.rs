//! The entry point: dispatches a file operation, and turns failures of the system
//! into faults that say what was tried on which file.

use std::borrow::Cow;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use vestal_tree::{OpenTree, TreeError, TreeSink};
use vestal_wire::{Fault, FaultCode, FileOp, FileReply, TreeOp};

use super::paths::{self, MAX_PATH, resolve};
use super::{delete, patch, read, rename, search, write};

/// Where paths that are not absolute start.
#[derive(Debug, Clone)]
pub(crate) struct PathRoots {
    /// The directory for a leading `~`.
    pub(crate) home: PathBuf,
    /// The directory for relative paths.
    pub(crate) base: PathBuf,
}

/// Receives the content of a file on its way to the host.
pub(crate) trait ContentSink {
    /// Sends a piece, waiting until the reader has room for it. An error means
    /// that nobody listens any more.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Fault>;
}

/// Performs one operation. Blocks, and stops soon after `cancelled` is set.
pub(crate) fn perform(
    op: FileOp,
    roots: &PathRoots,
    input: &mut dyn Read,
    output: &mut dyn ContentSink,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    match op {
        FileOp::Read { path, offset, limit } => read::read(
            &resolve(&path, roots)?,
            read::ByteRange { offset, limit },
            output,
            cancelled,
        ),
        FileOp::Write { path, create, parents, mode, expect } => {
            let request = write::FileWrite { path: &path, create, parents, mode, expect };
            write::write(&request, roots, input, cancelled)
        }
        FileOp::Patch { path, edits, expect } => {
            patch::patch(&path, &edits, expect, roots, cancelled)
        }
        FileOp::List { path, skip, limit } => {
            read::list(&resolve(&path, roots)?, skip, limit, cancelled)
        }
        FileOp::Stat { path, follow } => read::stat(&resolve(&path, roots)?, follow.into()),
        FileOp::Search(query) => search::search(&query, roots, cancelled),
        FileOp::Mkdir { path, parents, mode } => {
            paths::mkdir(&resolve(&path, roots)?, parents.into(), mode)
        }
        FileOp::Move { from, to, overwrite } => {
            let (from, to) = (resolve(&from, roots)?, resolve(&to, roots)?);
            rename::rename(&from, &to, overwrite.into(), cancelled)
        }
        FileOp::Delete { path, recursive } => {
            delete::delete(&resolve(&path, roots)?, recursive.into(), roots, cancelled)
        }
        FileOp::Tree { path, op } => {
            serve_tree(&resolve(&path, roots)?, &op, input, output, cancelled)
        }
    }
}

/// Walks, reads or changes a whole tree.
fn serve_tree(
    path: &Path,
    op: &TreeOp,
    input: &mut dyn Read,
    output: &mut dyn ContentSink,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    struct Sink<'o>(&'o mut dyn ContentSink);
    impl TreeSink for Sink<'_> {
        fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.send(bytes).map_err(io::Error::other)
        }
    }
    let served = OpenTree::open(path)
        .and_then(|root| vestal_tree::serve(&root, op, input, &mut Sink(output), cancelled));
    match served {
        Ok(()) => Ok(FileReply::Done),
        Err(TreeError::Io { doing, path, source }) => Err(failed(doing, &path, source)),
        Err(TreeError::Cancelled) => Err(stopped()),
        Err(error @ (TreeError::Stream(_) | TreeError::Path)) => {
            Err(Fault::new(FaultCode::Invalid, error.to_string()))
        }
    }
}

/// Turns a failure of the system into a fault.
pub(super) trait OrFault<T> {
    /// Adds what was done to `path`: "cannot read /x/y: no such file or
    /// directory".
    fn or_fault(self, doing: &str, path: &Path) -> Result<T, Fault>;
}

impl<T, E: Into<io::Error>> OrFault<T> for Result<T, E> {
    fn or_fault(self, doing: &str, path: &Path) -> Result<T, Fault> {
        self.map_err(|error| failed(doing, path, error))
    }
}

/// Returns the fault for a failure of the system.
pub(super) fn failed(doing: &str, path: &Path, error: impl Into<io::Error>) -> Fault {
    fault_of(doing, path, &error.into())
}

/// Creates the fault. Not inlined, because there are about a hundred callers.
#[cold]
#[inline(never)]
fn fault_of(doing: &str, path: &Path, error: &io::Error) -> Fault {
    let errno = error.raw_os_error();
    Fault {
        code: errno.map_or(FaultCode::System, code_of),
        message: format!("cannot {doing} {}: {}", shown(path), reason(error)),
        errno,
    }
}

/// Returns a fault for a request that a rule refuses.
#[cold]
#[inline(never)]
pub(super) fn refused(code: FaultCode, doing: &str, path: &Path, why: &str) -> Fault {
    Fault::new(code, format!("cannot {doing} {}: {why}", shown(path)))
}

/// Why an operation in a directory stopped: a system error, or a complete fault.
#[derive(Debug)]
pub(super) enum OpError {
    /// A system error.
    System(Errno),
    /// A fault that ends the whole operation.
    Fault(Fault),
}

impl From<Errno> for OpError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<Fault> for OpError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl OpError {
    /// Returns the fault for an operation on `path`.
    pub(super) fn into_fault(self, doing: &str, path: &Path) -> Fault {
        match self {
            Self::System(errno) => failed(doing, path, errno),
            Self::Fault(fault) => fault,
        }
    }
}

/// Fails if the operation was cancelled.
pub(super) fn check(cancelled: &AtomicBool) -> Result<(), Fault> {
    if cancelled.load(Ordering::Relaxed) { Err(stopped()) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn stopped() -> Fault {
    Fault::new(FaultCode::Cancelled, "cancelled")
}

/// Returns a path for a message. The middle of very long paths is left out.
pub(super) fn shown(path: &Path) -> Cow<'_, str> {
    const END: usize = MAX_PATH / 2;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() <= MAX_PATH {
        return path.to_string_lossy();
    }
    let (head, tail) = (&bytes[..END], &bytes[bytes.len() - END..]);
    Cow::Owned(format!("{} … {}", String::from_utf8_lossy(head), String::from_utf8_lossy(tail)))
}

/// Returns the text of an error as a lowercase fragment without its number, which
/// is sent beside the message.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::from("unknown error"),
    }
}

fn code_of(errno: i32) -> FaultCode {
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT => FaultCode::NotFound,
        Errno::EXIST | Errno::NOTEMPTY => FaultCode::Exists,
        Errno::ISDIR | Errno::NOTDIR | Errno::LOOP | Errno::NXIO => FaultCode::WrongKind,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FaultCode::Denied,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::MFILE | Errno::NFILE | Errno::MLINK => {
            FaultCode::NoSpace
        }
        Errno::BUSY | Errno::TXTBSY => FaultCode::Busy,
        Errno::INVAL | Errno::NAMETOOLONG => FaultCode::Invalid,
        Errno::STALE => FaultCode::Conflict,
        _ => FaultCode::System,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_was_tried_on_which_file_and_why_it_failed() {
        let fault = failed("read", Path::new("/x/y"), Errno::NOENT);
        assert_eq!(
            fault,
            Fault {
                code: FaultCode::NotFound,
                message: "cannot read /x/y: no such file or directory".into(),
                errno: Some(2),
            }
        );
    }

    #[test]
    fn a_full_disk_and_a_size_limit_are_both_a_lack_of_space() {
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
            assert_eq!(failed("write", Path::new("/x"), errno).code, FaultCode::NoSpace);
        }
    }
}
