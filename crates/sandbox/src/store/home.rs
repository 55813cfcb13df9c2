//! The profile home: its random id, and whether it can be used.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::atomic::{open_regular, parse_versioned, read_open};
use super::copied_home::{RecordedId, recorded_id};
use super::home_mark::{
    Guests, HomeFacts, HomeMark, HomeNotes, HomeStanding, inodes_last, is_same_dir, place,
};
use super::lock::KeyLock;
use super::{StoreError, make_private_dir};
use crate::key::{HomeId, random_hex};

const VERSION: u64 = 1;

/// Name of the file that has the home's id.
const FILE: &str = "home.json";

/// Name of the file that replaces it in a copy of a home.
const NEXT: &str = "home.json.next";

/// Name by which a file stays that could not be read.
const DAMAGED: &str = "home.json.damaged";

/// How long another process may take to give a copy its own id.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

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

/// What opening a home needs from the engine.
pub(crate) struct HomeContext<'a> {
    /// The notes of where homes were moved to.
    pub(crate) notes: Option<HomeNotes>,
    /// Returns where the running guests that the home's records name have their
    /// files.
    pub(crate) guests: &'a dyn Fn() -> Guests,
    /// Returns what distinguishes this machine from others, where that can be determined.
    pub(crate) machine: fn() -> Option<String>,
    /// The directory of the sandboxes, where that is known.
    pub(crate) sandboxes: Option<PathBuf>,
    /// Makes the sandboxes of a copied home its own.
    pub(crate) adopt_sandboxes: &'a AdoptSandboxes<'a>,
}

/// Makes the sandboxes of a copied home its own. Gets the old id, the new id and the
/// path of the original. After a crash it is called again with the same arguments.
type AdoptSandboxes<'a> = dyn Fn(&HomeId, &HomeId, Option<&Path>) -> Result<(), HomeError> + 'a;

/// Makes the home if need be and returns its id.
///
/// A home that is a copy of another one is given an id of its own; one that was
/// moved or restored is marked again.
pub(crate) fn open_home(path: &Path, context: &HomeContext<'_>) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    let found = match read(path) {
        Err(error @ StoreError::Damaged { .. }) => {
            if !restore_id(path, context, HomeFileState::Damaged)? {
                return Err(error.into());
            }
            read(path)?
        }
        other => other?,
    };
    if let Some(found) = found {
        return match found.content.mark {
            // This comparison is all that an unchanged home costs.
            Some(ref mark) if mark.is_file(&found.now) && mark.path() == found.now.path() => {
                // Homes marked by earlier versions get the machine now.
                if mark.lacks_machine() && (context.machine)().is_some() {
                    mark_anew(path, found.id(), context);
                }
                Ok(found.id())
            }
            Some(ref mark) => {
                let check = HomeCheck { home: path, id: found.id(), context };
                // Where inodes do not last, every use gets here.
                if mark.standing(&found.now, &check) == HomeStanding::Original {
                    return Ok(found.id());
                }
                update_mark(path, context)
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
    if restore_id(path, context, HomeFileState::Missing)?
        && let Some(found) = read(path)?
    {
        return Ok(found.id());
    }
    let id = random_hex::<16>().map(HomeId).map_err(unusable)?;
    write(path, id, context).and_then(|file| file.create_if_absent(path)).map_err(unusable)?;
    // Another process may have made the id first; all use the one in the file.
    match read(path)? {
        Some(found) => Ok(found.id()),
        None => Err(unusable(ErrorKind::NotFound.into())),
    }
}

/// What is wrong with a home's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HomeFileState {
    Missing,
    Damaged,
}

/// Writes the file of a home anew with the id that the records of its sandboxes have, if they
/// agree. Returns whether it did. Records that were copied from another home make it a copy of
/// that one.
fn restore_id(
    path: &Path,
    context: &HomeContext<'_>,
    state: HomeFileState,
) -> Result<bool, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    let Some(sandboxes) = &context.sandboxes else { return Ok(false) };
    if recorded_id(sandboxes)?.is_none() {
        return Ok(false);
    }
    let _lock = lock(path).map_err(unusable)?;
    // Another process may have done this.
    match (read(path), state) {
        (Ok(Some(_)), _) => return Ok(true),
        (Ok(None), _) | (Err(StoreError::Damaged { .. }), HomeFileState::Damaged) => {}
        (Err(error), _) => return Err(error.into()),
    }
    let Some(RecordedId { id, marks }) = recorded_id(sandboxes)? else { return Ok(false) };
    let check = HomeCheck { home: path, id, context };
    let is_original = marks.iter().all(|(mark, now)| match mark.standing(now, &check) {
        HomeStanding::Original | HomeStanding::Restored => true,
        HomeStanding::Moved => !check.has_other_original(path, true),
        HomeStanding::Copy => false,
    });
    let (file, own) = (path.join(FILE), check.id.clone());
    let own = if is_original {
        own
    } else {
        let new = random_hex::<16>().map(HomeId).map_err(unusable)?;
        (context.adopt_sandboxes)(&check.id, &new, None)?;
        new
    };
    let written = write(path, own, context).map_err(unusable)?;
    if state == HomeFileState::Damaged {
        fs::rename(&file, path.join(DAMAGED)).map_err(unusable)?;
    }
    written.create_if_absent(path).map_err(unusable)?;
    let what = match state {
        HomeFileState::Missing => "was missing",
        HomeFileState::Damaged => "was damaged, and is kept as home.json.damaged",
    };
    if is_original {
        tracing::warn!(
            "{} {what}; it was written again with the identity that the records of the sandboxes \
             agree on",
            file.display()
        );
    } else {
        tracing::warn!(
            "{} {what}, and the sandboxes here were copied from another home: this one has an \
             identity of its own from now on; workspaces and homes are kept, containers are \
             recreated at their next use",
            file.display()
        );
    }
    Ok(true)
}

/// Finds out whether a home whose mark does not fit was copied, moved or restored, and
/// updates the mark. One process at a time does this, also among homes with the same id.
fn update_mark(path: &Path, context: &HomeContext<'_>) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    let _turn = context.notes.as_ref().and_then(|notes| {
        let locked = notes.lock(LOCK_TIMEOUT);
        locked.inspect_err(|error| tracing::debug!(%error, "homes are not locked")).ok()
    });
    let Some(found) = read(path)? else {
        return Err(unusable(ErrorKind::NotFound.into()));
    };
    let Some(mark) = &found.content.mark else {
        return Ok(found.id());
    };
    let check = HomeCheck { home: path, id: found.id(), context };
    match mark.standing(&found.now, &check) {
        HomeStanding::Original => {}
        HomeStanding::Copy => return give_own_id(path, &check),
        moved @ (HomeStanding::Moved | HomeStanding::Restored) => {
            // The note is written first: it is right even if the home is not marked after it.
            let noted = context
                .notes
                .as_ref()
                .filter(|notes| moved == HomeStanding::Moved || notes.place(&check.id).is_some());
            if let Some(Err(error)) = noted.map(|notes| notes.put(&check.id, found.now.path())) {
                tracing::debug!(%error, "the home's new place is not noted");
            }
            mark_anew(path, found.id(), context);
        }
    }
    Ok(found.id())
}

/// Writes a new mark. A home that cannot be marked can still be used.
fn mark_anew(path: &Path, id: HomeId, context: &HomeContext<'_>) {
    if let Err(error) = write(path, id, context).and_then(|file| file.replace(path)) {
        tracing::debug!(%error, "the home is not marked");
    }
}

/// Gives a copy of a home an id of its own.
fn give_own_id(path: &Path, check: &HomeCheck<'_>) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    let _lock = lock(path).map_err(unusable)?;
    let Some(found) = read(path)? else {
        return Err(unusable(ErrorKind::NotFound.into()));
    };
    let standing = found.content.mark.as_ref().map(|mark| mark.standing(&found.now, check));
    if standing != Some(HomeStanding::Copy) {
        return Ok(found.id());
    }
    let next = path.join(NEXT);
    let begun = read_file(&next).ok().flatten();
    let new = match begun.filter(FoundHome::is_marked_file) {
        // A process died while doing this: sandboxes that it has adopted have that id.
        Some(begun) => begun.id(),
        None => {
            let id = random_hex::<16>().map(HomeId).map_err(unusable)?;
            let written = write(path, id.clone(), check.context).map_err(unusable)?;
            fs::rename(&written.path, &next).map_err(unusable)?;
            id
        }
    };
    let original = found.content.mark.as_ref().map(HomeMark::path);
    (check.context.adopt_sandboxes)(&found.id(), &new, original)?;
    fs::rename(&next, path.join(FILE)).map_err(unusable)?;
    tracing::warn!(
        "this home, {}, is a copy of another one ({}) and has an identity of its own from now on: \
         workspaces and homes are kept, containers are recreated at their next use, and the \
         original is not touched",
        path.display(),
        original.unwrap_or(Path::new("unknown")).display()
    );
    Ok(new)
}

/// A home whose mark does not fit, and what is needed to find out why.
struct HomeCheck<'a> {
    home: &'a Path,
    id: HomeId,
    context: &'a HomeContext<'a>,
}

impl HomeCheck<'_> {
    /// Returns whether a place has a home with this id that is its own original,
    /// and is not this one.
    fn is_other_original(&self, place: &Path) -> bool {
        let other = read_file(&place.join(FILE)).ok().flatten();
        other.is_some_and(|other| other.id() == self.id && other.is_marked_file())
            && !is_same_dir(place, self.home)
    }
}

impl HomeFacts for HomeCheck<'_> {
    fn inodes_last(&self) -> bool {
        inodes_last(self.home)
    }

    fn has_home_with_same_id(&self, place: &Path) -> bool {
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
    let siblings = root.parent().and_then(|parent| fs::read_dir(parent).ok());
    siblings.into_iter().flatten().flatten().map(move |entry| entry.path().join(&within))
}

/// A home's file, and the mark that fits it now.
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
    /// Replaces the home's file.
    fn replace(self, home: &Path) -> io::Result<()> {
        fs::rename(&self.path, home.join(FILE))
    }

    /// Becomes the home's file unless there is one.
    fn create_if_absent(self, home: &Path) -> io::Result<()> {
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
            Ok(None) if begun.elapsed() < LOCK_TIMEOUT => {
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
