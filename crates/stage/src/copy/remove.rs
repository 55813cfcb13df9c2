//! Removing what was made.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, chmodat, statat, unlinkat};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

use super::beneath;
use super::count::is_dots;

/// Removes a directory and all that is in it, however deep. Gone is fine.
pub(super) fn tree(at: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<()> {
    // It, too, may have the permissions of the original; if this fails, so does
    // what follows.
    chmodat(at, name, Mode::RWXU, AtFlags::empty()).ok();
    let top = match beneath::entry(at, name, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut directories = vec![Vec::new()];
    let mut next = 0;
    while let Some(path) = directories.get(next).cloned() {
        next += 1;
        let directory = beneath::directory(top.as_fd(), &path)?;
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name.to_bytes()) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            if kind == FileType::Directory {
                // It may have the permissions of the original already.
                chmodat(&directory, name, Mode::RWXU, AtFlags::empty())?;
                directories.push(beneath::join(&path, name.to_bytes()));
            } else {
                unlinkat(&directory, name, AtFlags::empty())?;
            }
        }
    }
    // What is in a directory comes after it.
    for path in directories.iter().skip(1).rev() {
        let (parent, name) = beneath::parent(top.as_fd(), path)?;
        unlinkat(parent, name, AtFlags::REMOVEDIR)?;
    }
    unlinkat(at, name, AtFlags::REMOVEDIR)
}
