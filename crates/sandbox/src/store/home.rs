//! The profile home: its random id, and whether it is a place to live in.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::atomic::{open_regular, parse_versioned, read_open};
use super::home_mark::{
    Guests, HomeMark, HomeNotes, HomeStanding, Surroundings, inodes_last, is_same_dir, place,
};
use super::lock::KeyLock;
use super::{StoreError, make_private_dir};
use crate::key::{HomeId, random_hex};

const VERSION: u64 = 1;

/// Name of the file that has the home's id.
const FILE: &str = "home.json";

/// Name of the file that is to take its place in a copy of a home.
const NEXT: &str = "home.json.next";

/// How long another process may take to give a copy its own identity.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct HomeFile {
    version: u64,
    id: String,
    /// Which file this is. Homes of earlier versions get it when they are
    /// opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<HomeMark>,
}

/// A home that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It lies on a filesystem whose locks cannot be relied on.
    #[error(
        "the home {} is on a network filesystem ({kind}), where locks are not safe",
        path.display()
    )]
    Network {
        /// The home.
        path: PathBuf,
        /// The filesystem's name.
        kind: &'static str,
    },
    /// It cannot be made or written.
    #[error("the home {} cannot be used: {source}", path.display())]
    Unusable {
        /// The home.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a copy, and its settings name the sandboxes of the original.
    #[error(
        "the home {} is a copy of {}, and {} (terminal.sandbox_dir, {source_of_dir}) has the \
         sandboxes of that one: set terminal.sandbox_dir to a directory of this home's own; or, \
         if the original is gone, move this home to its place",
        path.display(), original.display(), sandboxes.display()
    )]
    SandboxesOfOriginal {
        /// The home.
        path: PathBuf,
        /// Where the original was.
        original: PathBuf,
        /// The directory of the sandboxes.
        sandboxes: PathBuf,
        /// Where the setting comes from.
        source_of_dir: String,
    },
    /// A sandbox could write to the directory of the sandboxes.
    #[error(
        "{} (terminal.sandbox_dir, {source_of_dir}) cannot hold sandboxes: it is in a directory \
         that was mounted in a sandbox before, which could write to the records of others; set \
         terminal.sandbox_dir to a directory that was mounted in none",
        sandboxes.display()
    )]
    ExposedSandboxes {
        /// The directory of the sandboxes.
        sandboxes: PathBuf,
        /// Where the setting comes from.
        source_of_dir: String,
    },
    /// Its id cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What opening a home needs from those above.
pub(crate) struct HomeContext<'a> {
    /// Where homes that move leave word.
    pub(crate) notes: Option<HomeNotes>,
    /// Returns where the running guests that the home's records name have their
    /// files.
    pub(crate) guests: &'a dyn Fn() -> Guests,
    /// Returns what tells this machine from others, where that can be told.
    pub(crate) machine: fn() -> Option<String>,
    /// Makes what a copy brought along its own.
    pub(crate) resettle: &'a Resettle<'a>,
}

/// What makes a copy's sandboxes its own: gets the old id and the new one, and
/// the place of the original. After a crash it is called again with the same.
type Resettle<'a> = dyn Fn(&HomeId, &HomeId, Option<&Path>) -> Result<(), HomeError> + 'a;

/// Makes the home if need be and returns its id.
///
/// A home that is a copy of another one is given an id of its own; one that was
/// moved or restored is marked anew.
pub(crate) fn open_home(path: &Path, context: &HomeContext<'_>) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    if let Some(found) = read(path)? {
        return match found.content.mark {
            // The one comparison that every use of a home makes.
            Some(ref mark) if mark.is_file(&found.now) && mark.path() == found.now.path() => {
                // Of a home that is what it was the machine can still be told.
                if mark.lacks_machine() && (context.machine)().is_some() {
                    mark_anew(path, found.id(), context);
                }
                Ok(found.id())
            }
            Some(ref mark) => {
                let around = Around { home: path, id: found.id(), context };
                // Where inodes do not last that is so at every use.
                if mark.standing(&found.now, &around) == HomeStanding::Original {
                    return Ok(found.id());
                }
                settle_standing(path, context)
            }
            None => {
                mark_anew(path, found.id(), context);
                Ok(found.id())
            }
        };
    }
    make_private_dir(path).map_err(|error| match error {
        StoreError::Io { source, .. } => unusable(source),
        other => HomeError::Store(other),
    })?;
    refuse_network(path)?;
    let id = random_hex::<16>().map(HomeId).map_err(unusable)?;
    write(path, id, context).and_then(|file| file.settle_if_absent(path)).map_err(unusable)?;
    // Whoever came first made the id; everyone reads that one.
    match read(path)? {
        Some(found) => Ok(found.id()),
        None => Err(unusable(ErrorKind::NotFound.into())),
    }
}

/// Finds out what a home is whose mark does not fit, and marks it accordingly.
/// Of several processes, also on homes with the same id, one does it and the
/// others wait.
fn settle_standing(path: &Path, context: &HomeContext<'_>) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    let _turn = context.notes.as_ref().and_then(|notes| {
        let locked = notes.lock(PATIENCE);
        locked.inspect_err(|error| tracing::debug!(%error, "homes are not locked")).ok()
    });
    let Some(found) = read(path)? else {
        return Err(unusable(ErrorKind::NotFound.into()));
    };
    let Some(mark) = &found.content.mark else {
        return Ok(found.id());
    };
    let around = Around { home: path, id: found.id(), context };
    match mark.standing(&found.now, &around) {
        HomeStanding::Original => {}
        HomeStanding::Copy => return leave_original(path, &around),
        moved @ (HomeStanding::Moved | HomeStanding::Restored) => {
            // Noted first: a note of a home that is not marked yet is right, too.
            let noted = context
                .notes
                .as_ref()
                .filter(|notes| moved == HomeStanding::Moved || notes.place(&around.id).is_some());
            if let Some(Err(error)) = noted.map(|notes| notes.put(&around.id, found.now.path())) {
                tracing::debug!(%error, "the home's new place is not noted");
            }
            mark_anew(path, found.id(), context);
        }
    }
    Ok(found.id())
}

/// Marks a home as what it is now. One that cannot be marked can be used all the
/// same.
fn mark_anew(path: &Path, id: HomeId, context: &HomeContext<'_>) {
    if let Err(error) = write(path, id, context).and_then(|file| file.settle(path)) {
        tracing::debug!(%error, "the home is not marked");
    }
}

/// Gives a copy of a home an identity of its own.
fn leave_original(path: &Path, around: &Around<'_>) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    let _lock = lock(path).map_err(unusable)?;
    let Some(found) = read(path)? else {
        return Err(unusable(ErrorKind::NotFound.into()));
    };
    let standing = found.content.mark.as_ref().map(|mark| mark.standing(&found.now, around));
    if standing != Some(HomeStanding::Copy) {
        return Ok(found.id());
    }
    let next = path.join(NEXT);
    let begun = read_file(&next).ok().flatten();
    let new = match begun.filter(FoundHome::is_marked_file) {
        // A process died over it: what it has made its own goes by that id.
        Some(begun) => begun.id(),
        None => {
            let id = random_hex::<16>().map(HomeId).map_err(unusable)?;
            let written = write(path, id.clone(), around.context).map_err(unusable)?;
            fs::rename(&written.path, &next).map_err(unusable)?;
            id
        }
    };
    let original = found.content.mark.as_ref().map(HomeMark::path);
    (around.context.resettle)(&found.id(), &new, original)?;
    fs::rename(&next, path.join(FILE)).map_err(unusable)?;
    tracing::warn!(
        "this home, {}, is a copy of another one ({}) and has an identity of its own from now on: \
         workspaces and homes are kept, containers are made anew at their next use, and the \
         original is not touched",
        path.display(),
        original.unwrap_or(Path::new("unknown")).display()
    );
    Ok(new)
}

/// A home whose mark does not fit, and what is around it.
struct Around<'a> {
    home: &'a Path,
    id: HomeId,
    context: &'a HomeContext<'a>,
}

impl Around<'_> {
    /// Returns whether a place has a home with this id that is its own original,
    /// and is not this one.
    fn is_other_original(&self, place: &Path) -> bool {
        let other = read_file(&place.join(FILE)).ok().flatten();
        other.is_some_and(|other| other.id() == self.id && other.is_marked_file())
            && !is_same_dir(place, self.home)
    }
}

impl Surroundings for Around<'_> {
    fn inodes_last(&self) -> bool {
        inodes_last(self.home)
    }

    fn has_namesake(&self, place: &Path) -> bool {
        let other = read_file(&place.join(FILE)).ok().flatten();
        other.is_some_and(|other| other.id() == self.id)
    }

    fn has_other_original(&self, marked: &Path, beside: bool) -> bool {
        let noted = self.context.notes.as_ref().and_then(|notes| notes.place(&self.id));
        self.is_other_original(marked)
            || noted.is_some_and(|noted| self.is_other_original(&noted))
            || (beside && beside_home(self.home).any(|place| self.is_other_original(&place)))
    }

    fn guests(&self) -> Guests {
        (self.context.guests)()
    }

    fn machine(&self) -> Option<String> {
        (self.context.machine)()
    }
}

/// Returns the places where a home may be that was moved aside: beside it, or
/// in a root home beside its own.
fn beside_home(home: &Path) -> impl Iterator<Item = PathBuf> {
    let home = place(home);
    let profile = home.file_name().map(Path::new).map(Path::to_owned);
    let profiles = home.parent().filter(|dir| dir.ends_with("profiles"));
    let (root, within) = match (profiles.and_then(Path::parent), profile) {
        (Some(root), Some(name)) => (root.to_owned(), Path::new("profiles").join(name)),
        _ => (home, PathBuf::new()),
    };
    let around = root.parent().and_then(|parent| fs::read_dir(parent).ok());
    around.into_iter().flatten().flatten().map(move |entry| entry.path().join(&within))
}

/// A home's file, and which one it is in truth.
#[derive(Debug)]
struct FoundHome {
    content: HomeFile,
    now: HomeMark,
}

impl FoundHome {
    fn id(&self) -> HomeId {
        HomeId(self.content.id.clone())
    }

    /// Returns whether it is the file that its mark names.
    fn is_marked_file(&self) -> bool {
        self.content.mark.as_ref().is_some_and(|mark| mark.is_file(&self.now))
    }
}

fn read(home: &Path) -> Result<Option<FoundHome>, StoreError> {
    read_file(&home.join(FILE))
}

/// Reads a home's file and which one it is, through one descriptor: the file may
/// be replaced at any time.
fn read_file(path: &Path) -> Result<Option<FoundHome>, StoreError> {
    let failed = |error| StoreError::io("read", path, error);
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let now = HomeMark::of(&file, path.parent().unwrap_or(path)).map_err(failed)?;
    let bytes = read_open(&file).map_err(failed)?;
    let content = parse_versioned(path, &bytes, VERSION)?;
    Ok(Some(FoundHome { content, now }))
}

/// A home's file that has no name yet by which it is found.
#[derive(Debug)]
struct NewHomeFile {
    path: PathBuf,
}

impl NewHomeFile {
    /// Makes it the home's, in place of the one that is there.
    fn settle(self, home: &Path) -> io::Result<()> {
        fs::rename(&self.path, home.join(FILE))
    }

    /// Makes it the home's unless there is one; of several processes one wins.
    fn settle_if_absent(self, home: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, home.join(FILE)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }
}

impl Drop for NewHomeFile {
    fn drop(&mut self) {
        // Gone already when it was renamed.
        fs::remove_file(&self.path).ok();
    }
}

/// Writes a file with an id and the mark of itself.
fn write(home: &Path, id: HomeId, context: &HomeContext<'_>) -> io::Result<NewHomeFile> {
    let path = home.join(format!("home.{}.tmp", random_hex::<6>()?));
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = NewHomeFile { path };
    let mark = HomeMark::of(&out, home)?.on_machine((context.machine)());
    serde_json::to_writer(&mut out, &HomeFile { version: VERSION, id: id.0, mark: Some(mark) })?;
    out.write_all(b"\n")?;
    out.sync_data()?;
    Ok(written)
}

/// Waits for the lock by which processes take turns in leaving the original.
fn lock(home: &Path) -> io::Result<KeyLock> {
    let begun = Instant::now();
    loop {
        match KeyLock::try_acquire(&home.join("home.lock")) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(None) => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

fn refuse_network(path: &Path) -> Result<(), HomeError> {
    let stat = rustix::fs::statfs(path)
        .map_err(|error| HomeError::Unusable { path: path.into(), source: error.into() })?;
    match network_filesystem(stat.f_type) {
        Some(kind) => Err(HomeError::Network { path: path.into(), kind }),
        None => Ok(()),
    }
}

/// Returns the name of a network filesystem by the magic number of `statfs`.
fn network_filesystem(magic: i64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xfe53_4d42 => "SMB2",
        0xff53_4d42 => "CIFS",
        0x5346_414f => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x0102_1997 => "9P",
        0x4750_4653 => "GPFS",
        0x1980_0202 => "BeeGFS",
        _ => return None,
    })
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
