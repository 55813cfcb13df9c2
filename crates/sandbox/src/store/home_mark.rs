//! The mark in a home's file and the notes of where homes were moved to. Both tell a
//! copied home from one that was moved or restored.

use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, StatxFlags, flock, mkdirat, openat, statx,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{StoreError, read_versioned, write_versioned};
use crate::key::{HomeId, hex};

/// Identifies a home's file, within that file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HomeMark {
    inode: u64,
    /// When the inode was made, where the filesystem keeps that: seconds and
    /// nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<(i64, u32)>,
    /// The home's directory, without links.
    path: String,
    /// Which machine it was marked on, where that can be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
}

/// What a home is, by its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HomeStanding {
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
pub(super) trait HomeFacts {
    /// Returns whether inodes stay the same when the filesystem is mounted again.
    fn inodes_last(&self) -> bool;
    /// Returns whether a place has a home with the same id.
    fn has_home_with_same_id(&self, place: &Path) -> bool;
    /// Returns whether another home is known to be the original: for one that
    /// is not the marked file also by looking beside it.
    fn has_other_original(&self, marked: &Path, beside: bool) -> bool;
    /// Returns where the guests have their files.
    fn guests(&self) -> Guests;
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

    /// Returns the mark for a directory.
    pub(super) fn of_dir(dir: &Path) -> std::io::Result<Self> {
        Self::of(&File::open(dir)?, dir)
    }

    /// Returns the mark with the machine it is made on.
    pub(super) fn on_machine(self, machine: Option<String>) -> Self {
        Self { machine, ..self }
    }

    /// Returns the place the home was at when it was marked.
    pub(super) fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Returns whether the marked file is the one whose mark would be `now`.
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
    fn is_of_machine(&self, facts: &impl HomeFacts) -> bool {
        self.machine.is_some() && self.machine == facts.machine()
    }

    /// Returns whether the mark does not say on which machine it was made, as
    /// those of earlier versions.
    pub(super) fn lacks_machine(&self) -> bool {
        self.machine.is_none()
    }

    /// Returns the standing of a home whose file carries this mark, where the mark of
    /// that file would be `now`. The tests have a table of the cases.
    pub(super) fn standing(&self, now: &Self, facts: &impl HomeFacts) -> HomeStanding {
        let same_file = self.is_file(now);
        if same_file && self.path == now.path {
            return HomeStanding::Original;
        }
        let in_place = self.path == now.path || is_same_dir(self.path(), now.path());
        if same_file {
            return match in_place {
                true => HomeStanding::Original,
                false if facts.has_other_original(self.path(), false) => HomeStanding::Copy,
                false => HomeStanding::Moved,
            };
        }
        if !facts.inodes_last() {
            return match in_place {
                true => HomeStanding::Original,
                false if facts.has_home_with_same_id(self.path()) => HomeStanding::Copy,
                false => HomeStanding::Moved,
            };
        }
        match facts.guests() {
            Guests::Elsewhere => HomeStanding::Copy,
            Guests::None if !in_place || !self.is_of_machine(facts) => HomeStanding::Copy,
            Guests::None if facts.has_other_original(self.path(), true) => HomeStanding::Copy,
            Guests::None | Guests::Here => HomeStanding::Restored,
        }
    }
}

/// Returns what distinguishes this machine from others: a digest, because the id itself must
/// stay private.
pub(crate) fn machine() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?;
    let id = id.trim();
    let digest = Sha256::digest(format!("vestal home {id}"));
    (!id.is_empty()).then(|| hex(&digest[..8]))
}

/// Returns whether inodes on the filesystem of a home are the same after it was
/// mounted again. Only where that is known; elsewhere, as with FUSE or FAT,
/// numbers may be given out again.
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

const VERSION: u64 = 1;

/// Names of the directories that lead from the user's home to the notes.
const NOTES_PATH: [&str; 4] = [".local", "state", "vestal", "homes"];

#[derive(Debug, Serialize, Deserialize)]
struct HomeNote {
    version: u64,
    path: PathBuf,
}

/// The directory of the notes.
#[derive(Debug, Clone)]
pub(crate) struct HomeNotes {
    user_home: PathBuf,
}

/// What to do about a directory that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingDir {
    Fail,
    Make,
}

impl HomeNotes {
    /// Returns the notes in the home directory of the machine's user.
    pub(crate) fn of_user(user_home: &Path) -> Self {
        Self { user_home: user_home.to_owned() }
    }

    /// Returns the directory's path.
    pub(crate) fn path(&self) -> PathBuf {
        NOTES_PATH.iter().fold(self.user_home.clone(), |dir, name| dir.join(name))
    }

    /// Opens the directory without following a link below the user's home.
    fn open(&self, missing: MissingDir) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let home = openat(CWD, &self.user_home, flags, Mode::empty())?;
        let step = |dir: OwnedFd, name: &&str| -> io::Result<OwnedFd> {
            let open = || openat(&dir, *name, flags | OFlags::NOFOLLOW, Mode::empty());
            match open() {
                Err(Errno::NOENT) if missing == MissingDir::Make => {
                    match mkdirat(&dir, *name, Mode::RWXU) {
                        Ok(()) | Err(Errno::EXIST) => Ok(open()?),
                        Err(error) => Err(error.into()),
                    }
                }
                other => Ok(other?),
            }
        };
        NOTES_PATH.iter().try_fold(home, step)
    }

    /// Returns where a home was last seen after a move. A note that cannot be
    /// read tells as little as an absent one.
    pub(super) fn place(&self, id: &HomeId) -> Option<PathBuf> {
        let name = file_name(id)?;
        let dir = self.open(MissingDir::Fail).ok()?;
        let note: Option<HomeNote> = read_versioned(&within(&dir, &name), VERSION).ok().flatten();
        note.map(|note| note.path)
    }

    /// Notes where a home is now.
    pub(super) fn put(&self, id: &HomeId, place: &Path) -> Result<(), StoreError> {
        let Some(name) = file_name(id) else { return Ok(()) };
        let unusable = |error| StoreError::io("open", self.path(), error);
        let dir = self.open(MissingDir::Make).map_err(unusable)?;
        let note = HomeNote { version: VERSION, path: place.to_owned() };
        write_versioned(&within(&dir, &name), &note)
    }

    /// Waits for the lock of all notes, which ends with the file.
    pub(super) fn lock(&self, timeout: Duration) -> io::Result<File> {
        let dir = File::from(self.open(MissingDir::Make)?);
        let begun = Instant::now();
        loop {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(dir),
                Err(Errno::WOULDBLOCK | Errno::INTR) if begun.elapsed() < timeout => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => return Err(ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the name of a home's file; none for an id that was not made by us.
fn file_name(id: &HomeId) -> Option<String> {
    let id = id.as_str();
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| format!("{id}.json"))
}

/// Returns the path of a file in an open directory.
fn within(dir: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "/nowhere/home";

    /// Facts that a test chooses.
    #[derive(Clone)]
    struct FixedFacts {
        lasting: bool,
        other: bool,
        guests: Guests,
        machine: Option<&'static str>,
    }

    impl HomeFacts for FixedFacts {
        fn inodes_last(&self) -> bool {
            self.lasting
        }

        fn has_home_with_same_id(&self, _place: &Path) -> bool {
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
    fn a_copy_is_distinguished_from_a_home_that_was_moved_restored_or_found_after_a_reboot() {
        use HomeStanding::{Copy, Moved, Original, Restored};
        let (born, later) = (Some((1, 2)), Some((3, 4)));
        let was = mark(7, born, HERE);
        let none =
            FixedFacts { lasting: true, other: false, guests: Guests::None, machine: Some("this") };
        let known = FixedFacts { other: true, ..none.clone() };
        let foreign = FixedFacts { machine: Some("that"), ..none.clone() };
        let nameless = FixedFacts { machine: None, ..none.clone() };
        let guests = |guests| FixedFacts { guests, ..none.clone() };
        let fuse = FixedFacts { lasting: false, ..none.clone() };
        let fuse_known = FixedFacts { lasting: false, ..known.clone() };
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
        for (what, now, facts, expected) in cases {
            assert_eq!(was.standing(&now, facts), expected, "{what}");
        }
        // A machine that cannot be distinguished from others may be any.
        let unmarked = HomeMark { machine: None, ..was.clone() };
        for (mark, facts) in [(&was, &nameless), (&unmarked, &none), (&unmarked, &nameless)] {
            assert_eq!(mark.standing(&mark_at(8, later), facts), Copy, "{mark:?}");
            assert_eq!(mark.standing(&mark_at(7, born), facts), Original, "{mark:?}");
        }
    }

    #[test]
    fn notes_are_neither_read_nor_written_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let place = Path::new("/where/the/home/is");
        let id = HomeId("a1".to_owned());
        let planted = HomeNotes::of_user(&root.path().join("planted"));
        std::fs::create_dir(&planted.user_home).unwrap();
        planted.put(&id, place).unwrap();
        assert_eq!(planted.place(&id).as_deref(), Some(place));
        for depth in 0..NOTES_PATH.len() {
            let user = HomeNotes::of_user(&root.path().join(depth.to_string()));
            let way = |home: &Path, names: &[&str]| home.join(names.join("/"));
            let above = way(&user.user_home, &NOTES_PATH[..depth]);
            std::fs::create_dir_all(&above).unwrap();
            let target = way(&planted.user_home, &NOTES_PATH[..=depth]);
            std::os::unix::fs::symlink(target, above.join(NOTES_PATH[depth])).unwrap();
            assert_eq!(user.place(&id), None, "{}", NOTES_PATH[depth]);
            user.put(&id, Path::new("/elsewhere")).unwrap_err();
            user.lock(Duration::ZERO).unwrap_err();
        }
        assert_eq!(planted.place(&id).as_deref(), Some(place));
    }
}
