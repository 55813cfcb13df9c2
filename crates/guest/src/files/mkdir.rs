//! Makes directories.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmodat, fchmod, mkdirat, openat, stat};
use rustix::io::Errno;
use vestal_wire::{Fault, FaultCode, FileKind, FileReply};

use super::fault::{OrFault, failed};
use super::metadata::{PERMISSIONS, kind};

/// What to do about parent directories that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    /// Fails.
    Expect,
    /// Makes them.
    Make,
}

impl From<bool> for Parents {
    fn from(make: bool) -> Self {
        if make { Self::Make } else { Self::Expect }
    }
}

/// Makes the directory `path`.
pub(super) fn mkdir(path: &Path, parents: Parents, mode: Option<u32>) -> Result<FileReply, Fault> {
    let mode = permission_bits(mode)?;
    if let Some(parent) = path.parent() {
        make_parents(parent, parents)?;
    }
    // The kernel takes the umask off; the bits that were asked for are set below.
    let first = mode.unwrap_or(Mode::from_raw_mode(0o777)) & Mode::from_raw_mode(0o777);
    match mkdirat(CWD, path, first) {
        Ok(()) => {}
        Err(Errno::EXIST) if parents == Parents::Make && is_directory(path) => {
            return Ok(FileReply::Done);
        }
        Err(errno) => return Err(failed("make directory", path, errno)),
    }
    if let Some(mode) = mode {
        set_mode(path, mode).or_fault("set the mode of", path)?;
    }
    Ok(FileReply::Done)
}

/// Makes `path` and every missing directory above it, where that is asked for.
pub(super) fn make_parents(path: &Path, parents: Parents) -> Result<(), Fault> {
    if parents == Parents::Expect || is_directory(path) {
        return Ok(());
    }
    // Upwards until one can be made or is there, then down again.
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
            // Somebody else may have made it in between.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("make directory", directory, errno)),
        }
    }
    if is_directory(path) {
        return Ok(());
    }
    Err(failed("make directory", path, Errno::NOTDIR))
}

/// Checks permission bits of a request.
pub(super) fn permission_bits(mode: Option<u32>) -> Result<Option<Mode>, Fault> {
    match mode {
        Some(bits) if bits & !PERMISSIONS != 0 => Err(Fault::new(
            FaultCode::Invalid,
            format!("the mode {bits:o} has bits that are no permissions"),
        )),
        bits => Ok(bits.map(Mode::from_raw_mode)),
    }
}

fn is_directory(path: &Path) -> bool {
    stat(path).is_ok_and(|found| kind(&found) == FileKind::Directory)
}

/// Sets the mode of the directory just made, not of something swapped in for it.
fn set_mode(path: &Path, mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => fchmod(&directory, mode),
        // A directory made without read permission cannot be opened by its owner.
        Err(Errno::ACCESS) => chmodat(CWD, path, mode, AtFlags::empty()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::files::testing::Yard;

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & PERMISSIONS
    }

    #[test]
    fn parents_are_made_only_when_asked_for() {
        let yard = Yard::new();
        let deep = yard.path("a/b/c");
        assert_eq!(mkdir(&deep, Parents::Expect, None).unwrap_err().code, FaultCode::NotFound);
        mkdir(&deep, Parents::Make, None).unwrap();
        assert!(deep.is_dir());
        mkdir(&deep, Parents::Make, None).unwrap();
        assert_eq!(mkdir(&deep, Parents::Expect, None).unwrap_err().code, FaultCode::Exists);
    }

    #[test]
    fn the_mode_asked_for_is_set_whatever_the_umask() {
        let yard = Yard::new();
        mkdir(&yard.path("open"), Parents::Expect, Some(0o1777)).unwrap();
        assert_eq!(mode_of(&yard.path("open")), 0o1777);
        mkdir(&yard.path("shut"), Parents::Expect, Some(0o300)).unwrap();
        assert_eq!(mode_of(&yard.path("shut")), 0o300);
        std::fs::remove_dir(yard.path("shut")).unwrap();
        let fault = mkdir(&yard.path("odd"), Parents::Expect, Some(0o100_644)).unwrap_err();
        assert_eq!(fault.code, FaultCode::Invalid);
    }

    #[test]
    fn a_file_in_the_way_is_a_fault() {
        let yard = Yard::new();
        yard.put("file", b"");
        let onto = mkdir(&yard.path("file"), Parents::Make, None).unwrap_err();
        assert_eq!(onto.code, FaultCode::Exists);
        let below = mkdir(&yard.path("file/x/y"), Parents::Make, None).unwrap_err();
        assert_eq!(below.code, FaultCode::WrongKind);
    }

    #[test]
    fn a_way_through_a_missing_directory_and_back_is_made() {
        let yard = Yard::new();
        mkdir(&yard.path("a/../b/c"), Parents::Make, None).unwrap();
        assert!(yard.path("b/c").is_dir());
    }

    #[test]
    fn many_makers_of_one_directory_all_succeed() {
        let yard = Yard::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| mkdir(&yard.path("p/q/r/s"), Parents::Make, None).unwrap());
            }
        });
        assert!(yard.path("p/q/r/s").is_dir());
    }
}
