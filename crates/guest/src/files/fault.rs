//! Failures of the system, told with what was tried and on which file.

use std::borrow::Cow;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use vestal_wire::{Fault, FaultCode};

use super::path::MAX_PATH;

/// Turns a failure of the system into a fault.
pub(super) trait OrFault<T> {
    /// Says what was being done to `path`: "cannot read /x/y: no such file or directory".
    fn or_fault(self, doing: &str, path: &Path) -> Result<T, Fault>;
}

impl<T, E: Into<io::Error>> OrFault<T> for Result<T, E> {
    fn or_fault(self, doing: &str, path: &Path) -> Result<T, Fault> {
        self.map_err(|error| failed(doing, path, error))
    }
}

/// Returns the fault for a failure of the system.
pub(super) fn failed(doing: &str, path: &Path, error: impl Into<io::Error>) -> Fault {
    tell(doing, path, &error.into())
}

/// Makes the fault. Kept out of line: there are a hundred ways to fail.
#[cold]
#[inline(never)]
fn tell(doing: &str, path: &Path, error: &io::Error) -> Fault {
    let errno = error.raw_os_error();
    Fault {
        code: errno.map_or(FaultCode::System, code_of),
        message: format!("cannot {doing} {}: {}", shown(path), reason(error)),
        errno,
    }
}

/// Returns a fault that the rules make rather than the system.
#[cold]
#[inline(never)]
pub(super) fn refused(code: FaultCode, doing: &str, path: &Path, why: &str) -> Fault {
    Fault::new(code, format!("cannot {doing} {}: {why}", shown(path)))
}

/// Why work inside a directory stopped: the system failed, or a fault that is
/// complete already.
#[derive(Debug)]
pub(super) enum Stop {
    /// The system failed.
    System(Errno),
    /// The whole operation has to end.
    Fault(Fault),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Stop {
    /// Returns the fault, for what was being done to `path`.
    pub(super) fn into_fault(self, doing: &str, path: &Path) -> Fault {
        match self {
            Self::System(errno) => failed(doing, path, errno),
            Self::Fault(fault) => fault,
        }
    }
}

/// Fails when nobody waits for the operation any more.
pub(super) fn check(cancelled: &AtomicBool) -> Result<(), Fault> {
    if cancelled.load(Ordering::Relaxed) { Err(stopped()) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn stopped() -> Fault {
    Fault::new(FaultCode::Cancelled, "cancelled")
}

/// Returns a path for a message. In trees deeper than paths can be, the middle
/// is left out.
pub(super) fn shown(path: &Path) -> Cow<'_, str> {
    const END: usize = MAX_PATH / 2;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() <= MAX_PATH {
        return path.to_string_lossy();
    }
    let (head, tail) = (&bytes[..END], &bytes[bytes.len() - END..]);
    Cow::Owned(format!("{} … {}", String::from_utf8_lossy(head), String::from_utf8_lossy(tail)))
}

/// Returns the error's own words as a lowercase fragment without its number,
/// which travels beside the message.
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
