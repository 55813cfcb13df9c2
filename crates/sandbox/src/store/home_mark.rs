//! What tells a home from a copy of it.
//!
//! `home.json` says which file it is itself: its inode and when that was made.
//! A copy is another file and cannot carry that along; a home that is moved, or
//! mounted elsewhere, is the same file. Device numbers are left out: they change
//! from boot to boot. Where inodes do not last either, the place decides.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::{Deserialize, Serialize};

/// What a home's file says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HomeMark {
    /// Its inode.
    inode: u64,
    /// When the inode was made, where the filesystem keeps that: seconds and
    /// nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<(i64, u32)>,
    /// The home's directory, without links.
    path: String,
}

/// What a home is, by its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The home that was marked.
    Original,
    /// A copy of it.
    Copy,
}

impl HomeMark {
    /// Returns the mark for an open file that is, or becomes, a home's.
    pub(super) fn of(file: &File, home: &Path) -> std::io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
        let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        Ok(Self {
            inode: stat.stx_ino,
            born: has_birth.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
            path: place(home).to_string_lossy().into_owned(),
        })
    }

    /// Returns the place the home was at when it was marked.
    pub(super) fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Returns what a home is whose file carries this mark and is, in truth,
    /// `now`. `is_home` tells whether a place has a home with the same id, and
    /// `inodes_last` whether inodes mean anything here.
    pub(super) fn standing(
        &self,
        now: &Self,
        inodes_last: impl FnOnce() -> bool,
        is_home: impl FnOnce(&Path) -> bool,
    ) -> Standing {
        let same_birth = match (self.born, now.born) {
            (Some(then), Some(now)) => then == now,
            // A kernel may begin to tell what another did not.
            _ => true,
        };
        let same_file = self.inode == now.inode && same_birth;
        let same_place = self.path == now.path;
        let is_original = match (same_file, same_place) {
            (true, true) => true,
            // Moved, or mounted elsewhere; unless the marked one is still at its
            // place, as with a snapshot of the filesystem or with hard links.
            (true, false) => !is_home(self.path()) || is_same_dir(self.path(), now.path()),
            (false, true) => !inodes_last(),
            (false, false) => !inodes_last() && !is_home(self.path()),
        };
        if is_original { Standing::Original } else { Standing::Copy }
    }
}

/// Returns whether inodes on the filesystem of a home are the same after it was
/// mounted again. Only where that is known; elsewhere, as with FUSE or FAT,
/// numbers may be given out anew.
pub(super) fn inodes_last(home: &Path) -> bool {
    const LASTING: [i64; 9] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683e, // btrfs
        0x2fc1_2fc1, // ZFS
        0xf2f5_2010, // F2FS
        0xca45_1a4e, // bcachefs
        0x3153_464a, // JFS
        0x0102_1994, // tmpfs
        0x794c_7630, // overlayfs
    ];
    rustix::fs::statfs(home).is_ok_and(|stat| LASTING.contains(&stat.f_type))
}

/// Returns a directory without links, as far as it is there.
fn place(home: &Path) -> PathBuf {
    std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned())
}

fn is_same_dir(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(inode: u64, born: Option<(i64, u32)>, path: &str) -> HomeMark {
        HomeMark { inode, born, path: path.to_owned() }
    }

    #[test]
    fn a_copy_is_told_from_a_home_that_was_moved_mounted_elsewhere_or_found_after_a_reboot() {
        use Standing::{Copy, Original};
        let was = mark(7, Some((1, 2)), "/nowhere/home");
        let cases = [
            ("as it was", mark(7, Some((1, 2)), "/nowhere/home"), true, false, Original),
            ("moved", mark(7, Some((1, 2)), "/nowhere/moved"), true, false, Original),
            ("a snapshot", mark(7, Some((1, 2)), "/nowhere/snapshot"), true, true, Copy),
            ("copied", mark(8, Some((3, 4)), "/nowhere/copy"), true, true, Copy),
            ("restored elsewhere", mark(8, Some((3, 4)), "/nowhere/copy"), true, false, Copy),
            ("restored in place", mark(8, Some((3, 4)), "/nowhere/home"), true, true, Copy),
            ("an inode used again", mark(7, Some((3, 4)), "/nowhere/copy"), true, false, Copy),
            ("a kernel without births", mark(7, None, "/nowhere/home"), true, false, Original),
            ("new inodes at each mount", mark(8, None, "/nowhere/home"), false, true, Original),
            ("the same, and moved", mark(8, None, "/nowhere/moved"), false, false, Original),
            ("the same, and copied", mark(8, None, "/nowhere/copy"), false, true, Copy),
        ];
        for (what, now, lasting, is_home, expected) in cases {
            assert_eq!(was.standing(&now, || lasting, |_| is_home), expected, "{what}");
        }
    }
}
