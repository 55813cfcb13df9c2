//! What tells a home from a copy of it.
//!
//! `home.json` says which file it is itself: its inode and when that was made,
//! and where the home was. A copy is another file and cannot carry that along.
//! Device numbers are left out: they change from boot to boot.
//!
//! | the file is the marked one | the marked place leads here | what it is | what is done |
//! |---|---|---|---|
//! | yes | yes | the original | nothing |
//! | yes | no, and no other original is known | the original, moved or mounted elsewhere | marked with its new place, which is noted for the machine |
//! | yes | no, and the marked or the noted place has an original | a copy: hard links, a snapshot of the filesystem, or a home whose place another one took | takes an id of its own |
//! | no | yes, and nothing tells of another original | the original, restored or moved to another disk | marked anew |
//! | no | yes, but another original is known, a guest has its files elsewhere, or it is not known to have been marked on this machine | a copy put in the place of a home that was moved | takes an id of its own |
//! | no | no | a copy | takes an id of its own |
//! | no, and a guest of it runs on these very files | any | the original, whose `home.json` alone was replaced | marked anew |
//!
//! Another original is a home with the same id whose file is the one its mark
//! names. It is looked for at the marked place, at the noted one, and, for a
//! home that is not the marked file, beside the home: people move a directory
//! aside before they copy it back. A home that was moved further away, was not
//! used since and has no guest running is not found; should a copy be used at
//! its place first, that one is the home from then on and the moved one is the
//! copy. There are never two.
//!
//! Where inodes do not last, as on FUSE, the place decides.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::key::hex;

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
    /// Which machine it was marked on, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
}

/// What a home is, by its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The home that was marked, where it was marked.
    Original,
    /// The same one at another place.
    Moved,
    /// The same one in other files.
    Restored,
    /// A copy of it.
    Copy,
}

/// Where the running guests that a home's records name have their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guests {
    /// There is none whose files still have a name.
    None,
    /// In another home.
    Elsewhere,
    /// In this one.
    Here,
}

/// What has to be found out about a home whose mark does not fit.
pub(super) trait Surroundings {
    /// Returns whether inodes mean anything here.
    fn inodes_last(&self) -> bool;
    /// Returns whether a place has a home with the same id.
    fn has_namesake(&self, place: &Path) -> bool;
    /// Returns whether another home is known to be the original: for one that
    /// is not the marked file also by looking beside it.
    fn has_other_original(&self, marked: &Path, beside: bool) -> bool;
    /// Returns where the guests have their files.
    fn guests(&self) -> Guests;
    /// Returns the machine.
    fn machine(&self) -> Option<String>;
}

impl HomeMark {
    /// Returns the mark for an open file that is, or becomes, a home's, as far
    /// as it is compared.
    pub(super) fn of(file: &File, home: &Path) -> std::io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
        let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        Ok(Self {
            inode: stat.stx_ino,
            born: has_birth.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
            path: place(home).to_string_lossy().into_owned(),
            machine: None,
        })
    }

    /// Returns the mark with the machine it is made on.
    pub(super) fn on_machine(self, machine: Option<String>) -> Self {
        Self { machine, ..self }
    }

    /// Returns the place the home was at when it was marked.
    pub(super) fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Returns whether a file that is, in truth, `now` is the marked one.
    pub(super) fn is_file(&self, now: &Self) -> bool {
        let same_birth = match (self.born, now.born) {
            (Some(then), Some(now)) => then == now,
            // A kernel may begin to tell what another did not.
            _ => true,
        };
        self.inode == now.inode && same_birth
    }

    /// Returns whether it is known that the mark was made on this machine. Two
    /// machines of which nothing is known are not the same one.
    fn is_of_machine(&self, around: &impl Surroundings) -> bool {
        self.machine.is_some() && self.machine == around.machine()
    }

    /// Returns whether the mark does not say on which machine it was made, as
    /// those of earlier versions.
    pub(super) fn lacks_machine(&self) -> bool {
        self.machine.is_none()
    }

    /// Returns what a home is whose file carries this mark and is, in truth,
    /// `now`: the table above.
    pub(super) fn standing(&self, now: &Self, around: &impl Surroundings) -> Standing {
        let same_file = self.is_file(now);
        if same_file && self.path == now.path {
            return Standing::Original;
        }
        let in_place = self.path == now.path || is_same_dir(self.path(), now.path());
        if same_file {
            return match in_place {
                true => Standing::Original,
                false if around.has_other_original(self.path(), false) => Standing::Copy,
                false => Standing::Moved,
            };
        }
        if !around.inodes_last() {
            return match in_place {
                true => Standing::Original,
                false if around.has_namesake(self.path()) => Standing::Copy,
                false => Standing::Moved,
            };
        }
        match around.guests() {
            Guests::Elsewhere => Standing::Copy,
            Guests::None if !in_place || !self.is_of_machine(around) => Standing::Copy,
            Guests::None if around.has_other_original(self.path(), true) => Standing::Copy,
            Guests::None | Guests::Here => Standing::Restored,
        }
    }
}

/// Returns what tells this machine from others; not its id itself, which is not
/// to be handed around.
pub(crate) fn machine() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?;
    let id = id.trim();
    let digest = Sha256::digest(format!("vestal home {id}"));
    (!id.is_empty()).then(|| hex(&digest[..8]))
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
pub(super) fn place(home: &Path) -> PathBuf {
    std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned())
}

pub(super) fn is_same_dir(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "/nowhere/home";

    /// What is around a home, as a test says.
    #[derive(Clone)]
    struct Around {
        lasting: bool,
        other: bool,
        guests: Guests,
        machine: Option<&'static str>,
    }

    impl Surroundings for Around {
        fn inodes_last(&self) -> bool {
            self.lasting
        }

        fn has_namesake(&self, _place: &Path) -> bool {
            self.other
        }

        fn has_other_original(&self, _marked: &Path, _beside: bool) -> bool {
            self.other
        }

        fn guests(&self) -> Guests {
            self.guests
        }

        fn machine(&self) -> Option<String> {
            self.machine.map(str::to_owned)
        }
    }

    fn mark(inode: u64, born: Option<(i64, u32)>, path: &str) -> HomeMark {
        HomeMark { inode, born, path: path.to_owned(), machine: Some("this".to_owned()) }
    }

    fn mark_at(inode: u64, born: Option<(i64, u32)>) -> HomeMark {
        mark(inode, born, HERE)
    }

    #[test]
    fn a_copy_is_told_from_a_home_that_was_moved_restored_or_found_after_a_reboot() {
        use Standing::{Copy, Moved, Original, Restored};
        let (born, later) = (Some((1, 2)), Some((3, 4)));
        let was = mark(7, born, HERE);
        let none =
            Around { lasting: true, other: false, guests: Guests::None, machine: Some("this") };
        let known = Around { other: true, ..none.clone() };
        let foreign = Around { machine: Some("that"), ..none.clone() };
        let nameless = Around { machine: None, ..none.clone() };
        let guests = |guests| Around { guests, ..none.clone() };
        let fuse = Around { lasting: false, ..none.clone() };
        let fuse_known = Around { lasting: false, ..known.clone() };
        let cases = [
            ("as it was", mark(7, born, HERE), &none, Original),
            ("a kernel without births", mark(7, None, HERE), &none, Original),
            ("moved", mark(7, born, "/nowhere/moved"), &none, Moved),
            ("a snapshot", mark(7, born, "/nowhere/snapshot"), &known, Copy),
            ("copied", mark(8, later, "/nowhere/copy"), &known, Copy),
            ("restored elsewhere", mark(8, later, "/nowhere/copy"), &none, Copy),
            ("an inode used again", mark(7, later, "/nowhere/copy"), &none, Copy),
            ("restored", mark(8, later, HERE), &none, Restored),
            ("put in the place of a moved one", mark(8, later, HERE), &known, Copy),
            ("restored on another machine", mark(8, later, HERE), &foreign, Copy),
            ("guests run elsewhere", mark(8, later, HERE), &guests(Guests::Elsewhere), Copy),
            ("guests run here", mark(8, later, HERE), &guests(Guests::Here), Restored),
            ("new inodes at each mount", mark(8, None, HERE), &fuse_known, Original),
            ("the same, and moved", mark(8, None, "/nowhere/moved"), &fuse, Moved),
            ("the same, and copied", mark(8, None, "/nowhere/copy"), &fuse_known, Copy),
        ];
        for (what, now, around, expected) in cases {
            assert_eq!(was.standing(&now, around), expected, "{what}");
        }
        // A machine that cannot be told from others may be any.
        let unmarked = HomeMark { machine: None, ..was.clone() };
        for (mark, around) in [(&was, &nameless), (&unmarked, &none), (&unmarked, &nameless)] {
            assert_eq!(mark.standing(&mark_at(8, later), around), Copy, "{mark:?}");
            assert_eq!(mark.standing(&mark_at(7, born), around), Original, "{mark:?}");
        }
    }
}
