//! What a path of a request means: resolves it, follows links for a write, and
//! creates missing directories.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Stat, chmodat, fchmod, fstat, mkdirat, openat, readlinkat, stat,
    statat,
};
use rustix::io::Errno;
use vestal_wire::{Fault, FaultCode, FileKind, FileReply};

use super::metadata::{FileId, PERMISSIONS, kind, kind_name};
use super::perform::{OrFault, PathRoots, failed, refused};
use super::read::FinalLink;

/// Maximum length of a path without its closing NUL.
pub(super) const MAX_PATH: usize = 4095;

/// Maximum number of links followed, as in the kernel.
const MAX_LINKS: usize = 40;

/// Returns the absolute path for `raw`. Removes `.` and repeated or trailing
/// slashes, but keeps `..`, because only the kernel knows where it leads after a
/// symbolic link.
pub(super) fn resolve(raw: &[u8], roots: &PathRoots) -> Result<PathBuf, Fault> {
    if raw.is_empty() {
        return Err(Fault::new(FaultCode::Invalid, "the path is empty"));
    }
    if raw.contains(&0) {
        return Err(Fault::new(FaultCode::Invalid, "the path contains a NUL byte"));
    }
    let path = match raw.strip_prefix(b"~") {
        Some(b"") => roots.home.clone(),
        Some([b'/', rest @ ..]) => {
            // Joining an absolute rest ("~//x") would leave the home.
            let rest = rest.iter().position(|&byte| byte != b'/').map_or(&[][..], |at| &rest[at..]);
            roots.home.join(OsStr::from_bytes(rest))
        }
        _ => roots.base.join(OsStr::from_bytes(raw)),
    };
    let path: PathBuf = path.components().collect();
    if path.as_os_str().len() > MAX_PATH {
        return Err(Fault::new(
            FaultCode::Invalid,
            format!("the path is longer than {MAX_PATH} bytes"),
        ));
    }
    Ok(path)
}

/// Returns whether a path of a request can only mean a directory.
pub(super) fn names_directory(raw: &[u8]) -> bool {
    raw.ends_with(b"/") || raw.ends_with(b"/.") || raw == b"." || raw == b"~"
}

/// Splits a path into a directory and a name. Fails for `/` and for paths that
/// end in `..`, which are directories that cannot be removed or replaced as an
/// entry.
pub(super) fn split<'p>(path: &'p Path, doing: &str) -> Result<(&'p Path, CString), Fault> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().and_then(|name| CString::new(name.as_bytes()).ok());
    match (parent, name) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(refused(FaultCode::Invalid, doing, path, "it does not end in a name")),
    }
}

/// Returns the name as a path component.
pub(super) fn component(name: &std::ffi::CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

/// A name in an open directory, so that later changes of the path cannot redirect
/// a write.
#[derive(Debug)]
pub(super) struct DirTarget {
    pub(super) dir: OwnedFd,
    pub(super) name: CString,
    /// The path to it after following all links.
    pub(super) path: PathBuf,
}

/// Finds the target of a write to `path`.
pub(super) fn locate(
    path: &Path,
    links: FinalLink,
    parents: ParentDirs,
) -> Result<DirTarget, Fault> {
    let mut path_now = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let (parent, name) = split(&path_now, "write")
            .map_err(|_| refused(FaultCode::WrongKind, "write", path, "it is a directory"))?;
        make_parents(parent, parents)?;
        let dir =
            openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .or_fault("write", path)?;
        let link = match links {
            FinalLink::Keep => Err(Errno::INVAL),
            FinalLink::Follow => readlinkat(&dir, &name, Vec::new()),
        };
        match link {
            Ok(target) => path_now = parent.join(OsStr::from_bytes(target.as_bytes())),
            Err(Errno::INVAL | Errno::NOENT) => {
                return Ok(DirTarget { dir, name, path: path_now });
            }
            Err(errno) => return Err(failed("write", path, errno)),
        }
    }
    Err(failed("write", path, Errno::LOOP))
}

impl DirTarget {
    /// Returns the regular file that is there now, if any.
    pub(super) fn lookup(&self) -> Result<Option<Stat>, Fault> {
        match statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("write", &self.path, errno)),
            Ok(found) => match kind(&found) {
                FileKind::File => Ok(Some(found)),
                other => Err(refused(FaultCode::WrongKind, "write", &self.path, kind_name(other))),
            },
        }
    }

    /// Returns whether anything exists there now.
    pub(super) fn is_taken(&self) -> Result<bool, Fault> {
        match statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed("write", &self.path, errno)),
        }
    }

    /// Returns the identity of the directory.
    pub(super) fn directory(&self) -> Result<FileId, Fault> {
        Ok(FileId::of(&fstat(&self.dir).or_fault("write", &self.path)?))
    }
}

/// What to do about missing parent directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParentDirs {
    /// Fail.
    Expect,
    /// Create them.
    Make,
}

impl From<bool> for ParentDirs {
    fn from(make: bool) -> Self {
        if make { Self::Make } else { Self::Expect }
    }
}

/// Creates the directory `path`.
pub(super) fn mkdir(
    path: &Path,
    parents: ParentDirs,
    mode: Option<u32>,
) -> Result<FileReply, Fault> {
    let mode = permission_bits(mode)?;
    if let Some(parent) = path.parent() {
        make_parents(parent, parents)?;
    }
    // The kernel applies the umask; the requested bits are set below.
    let first = mode.unwrap_or(Mode::from_raw_mode(0o777)) & Mode::from_raw_mode(0o777);
    match mkdirat(CWD, path, first) {
        Ok(()) => {}
        Err(Errno::EXIST) if parents == ParentDirs::Make && is_directory(path) => {
            return Ok(FileReply::Done);
        }
        Err(errno) => return Err(failed("make directory", path, errno)),
    }
    if let Some(mode) = mode {
        set_mode(path, mode).or_fault("set the mode of", path)?;
    }
    Ok(FileReply::Done)
}

/// Creates `path` and every missing parent, if `parents` says so.
fn make_parents(path: &Path, parents: ParentDirs) -> Result<(), Fault> {
    if parents == ParentDirs::Expect || is_directory(path) {
        return Ok(());
    }
    // Goes up until a directory exists or can be created, then down again.
    let mut missing: Vec<PathBuf> = Vec::new();
    for ancestor in path.ancestors() {
        match mkdirat(CWD, ancestor, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => break,
            Err(Errno::NOENT) => missing.push(ancestor.to_path_buf()),
            Err(errno) => return Err(failed("make directory", ancestor, errno)),
        }
    }
    for directory in missing.iter().rev() {
        match mkdirat(CWD, directory, Mode::from_raw_mode(0o777)) {
            // Another process may have created it in between.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("make directory", directory, errno)),
        }
    }
    if is_directory(path) {
        return Ok(());
    }
    Err(failed("make directory", path, Errno::NOTDIR))
}

/// Checks the permission bits of a request.
pub(super) fn permission_bits(mode: Option<u32>) -> Result<Option<Mode>, Fault> {
    match mode {
        Some(bits) if bits & !PERMISSIONS != 0 => Err(Fault::new(
            FaultCode::Invalid,
            format!("the mode {bits:o} has bits that are not permissions"),
        )),
        bits => Ok(bits.map(Mode::from_raw_mode)),
    }
}

fn is_directory(path: &Path) -> bool {
    stat(path).is_ok_and(|found| kind(&found) == FileKind::Directory)
}

/// Sets the mode of the directory just created, and not of something that
/// replaced it.
fn set_mode(path: &Path, mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => fchmod(&directory, mode),
        // The owner cannot open a directory without read permission.
        Err(Errno::ACCESS) => chmodat(CWD, path, mode, AtFlags::empty()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
