//! Removing trees, however deep.
//!
//! A sandbox can nest directories deeper than a process may have files open, or
//! its stack is. So only the last few directories on the way down are held
//! open; the rest of the way back goes by `..`, and is checked.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::StoreError;

/// Directories that are held open on the way down.
const HELD: usize = 32;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a tree without following symbolic links; absent is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<(), StoreError> {
    match remove(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(StoreError::io("remove", path, io::Error::from(error))),
    }
}

fn remove(path: &Path) -> Result<(), Errno> {
    let top = match openat(CWD, path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        // A link, or a file: not what is in it.
        Err(Errno::LOOP | Errno::NOTDIR) => return unlinkat(CWD, path, AtFlags::empty()),
        // Somebody else's empty directory can go without being looked into.
        Err(error) => return unlinkat(CWD, path, AtFlags::REMOVEDIR).map_err(|_| error),
    };
    empty(top)?;
    unlinkat(CWD, path, AtFlags::REMOVEDIR)
}

/// A directory on the way down.
struct Level {
    /// Itself, unless it is too far up to be held.
    held: Option<OwnedFd>,
    identity: (u64, u64),
    /// Its name in the one above.
    name: CString,
    /// The directories in it that are still there.
    below: Vec<CString>,
}

/// Removes everything in a directory.
fn empty(top: OwnedFd) -> Result<(), Errno> {
    let mut levels = vec![Level::enter(top, CString::default())?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.below.pop() {
            let here = level.here()?;
            match openat(here, &*name, DIRECTORY, Mode::empty()) {
                Ok(below) => levels.push(Level::enter(below, name)?),
                Err(Errno::NOENT) => {}
                Err(error) => {
                    unlinkat(here, &*name, AtFlags::REMOVEDIR).map_err(|_| error)?;
                }
            }
            if let Some(far) = levels.len().checked_sub(HELD + 1) {
                levels[far].held = None;
            }
            continue;
        }
        let Some(left) = levels.pop() else { break };
        let Some(above) = levels.last_mut() else { break };
        if above.held.is_none() {
            let up = openat(left.here()?, c"..", DIRECTORY, Mode::empty())?;
            if identity(&up)? != above.identity {
                return Err(Errno::STALE);
            }
            above.held = Some(up);
        }
        match unlinkat(above.here()?, &*left.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Level {
    /// Removes all in a directory but directories, which are noted.
    fn enter(directory: OwnedFd, name: CString) -> Result<Self, Errno> {
        let mut below = Vec::new();
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name: &CStr = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                below.push(name.to_owned());
                continue;
            }
            match unlinkat(&directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => below.push(name.to_owned()),
                Err(error) => return Err(error),
            }
        }
        let identity = identity(&directory)?;
        Ok(Self { held: Some(directory), identity, name, below })
    }

    fn here(&self) -> Result<&OwnedFd, Errno> {
        self.held.as_ref().ok_or(Errno::STALE)
    }
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Makes directories in each other, with a file in each.
    fn nest(top: &Path, depth: usize) {
        let mut here = openat(CWD, top, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&here, c"d", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&here, c"e", Mode::RWXU).unwrap();
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(&here, c"f", flags, Mode::RUSR).unwrap();
            here = openat(&here, c"d", DIRECTORY, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_tree_deeper_than_files_may_be_open_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let (tree, elsewhere) = (root.path().join("tree"), root.path().join("elsewhere"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, tree.join("link")).unwrap();
        nest(&tree, 4_000);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(elsewhere.join("kept").exists(), "no link is followed");
        remove_tree(&tree).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(elsewhere.join("kept").exists() && !tree.is_symlink());
    }
}
