//! How much there is in all.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, RawDir, statat};

use super::content::weight;
use super::{beneath, cancel};

/// Returns about how many bytes are in a tree, unless it is given up on: when
/// `over` says so.
pub(super) fn bytes(top: BorrowedFd<'_>, over: impl Fn() -> bool) -> Option<u64> {
    let mut buffer = Vec::with_capacity(64 << 10);
    // Each by the way to it from one that is open; from the top where there is
    // none, or too many are.
    let mut directories: Vec<(Option<Rc<OwnedFd>>, Vec<u8>)> = vec![(None, Vec::new())];
    let mut linked = HashSet::new();
    let mut total = 0;
    while let Some((near, path)) = directories.pop() {
        let from = near.as_ref().map_or(top, |near| near.as_fd());
        // What cannot be read is for the copy to stumble over, and what is
        // mounted here is not copied.
        let Ok(directory) = beneath::directory(from, &path) else {
            continue;
        };
        let directory = Rc::new(directory);
        let is_deep = path.len() > beneath::LONG_WAY;
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            if over() || cancel::requested() {
                return None;
            }
            let name = entry.file_name();
            match entry.file_type() {
                FileType::Directory if !is_dots(name.to_bytes()) => {
                    directories.push(if is_deep {
                        (Some(Rc::clone(&directory)), name.to_bytes().to_vec())
                    } else {
                        (near.clone(), beneath::join(&path, name.to_bytes()))
                    });
                }
                FileType::RegularFile => {
                    let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                        continue;
                    };
                    // Content that has several names is copied once.
                    if stat.st_nlink < 2 || linked.insert((stat.st_dev, stat.st_ino)) {
                        total += weight(&stat);
                    }
                }
                _ => {}
            }
        }
    }
    Some(total)
}

/// Returns whether a name is that of the directory itself or of its parent.
pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
