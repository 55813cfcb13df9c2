//! The profile home: its random id, and whether it is a place to live in.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::home_mark::{HomeMark, Standing, inodes_last};
use super::lock::KeyLock;
use super::{StoreError, make_private_dir, read_versioned};
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
    /// Its id cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes the home if need be and returns its id.
///
/// A home that is a copy of another one is given an id of its own. Before that,
/// `resettle` makes what the copy brought along its own; it gets the old id and
/// the new one, and after a crash it is called again with the same.
pub(crate) fn open_home(
    path: &Path,
    resettle: impl FnOnce(&HomeId, &HomeId) -> Result<(), StoreError>,
) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    if let Some(found) = read(path)? {
        return match found.standing(path) {
            Some(Standing::Original) => Ok(found.id()),
            Some(Standing::Copy) => leave_original(path, resettle),
            None => {
                // A home that cannot be marked can be used all the same.
                if let Err(error) = write(path, found.id()).and_then(|file| file.settle(path)) {
                    tracing::debug!(%error, "the home is not marked");
                }
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
    write(path, id).and_then(|file| file.settle_if_absent(path)).map_err(unusable)?;
    // Whoever came first made the id; everyone reads that one.
    match read(path)? {
        Some(found) => Ok(found.id()),
        None => Err(unusable(ErrorKind::NotFound.into())),
    }
}

/// Gives a copy of a home an identity of its own. Of several processes one does
/// it and the others wait.
fn leave_original(
    path: &Path,
    resettle: impl FnOnce(&HomeId, &HomeId) -> Result<(), StoreError>,
) -> Result<HomeId, HomeError> {
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    let _lock = lock(path).map_err(unusable)?;
    let Some(found) = read(path)? else {
        return Err(unusable(ErrorKind::NotFound.into()));
    };
    if found.standing(path) != Some(Standing::Copy) {
        return Ok(found.id());
    }
    let next = path.join(NEXT);
    let begun = read_file(&next).ok().flatten();
    let new = match begun.filter(|next| next.standing(path) == Some(Standing::Original)) {
        // A process died over it: what it has made its own goes by that id.
        Some(begun) => begun.id(),
        None => {
            let id = random_hex::<16>().map(HomeId).map_err(unusable)?;
            let written = write(path, id.clone()).map_err(unusable)?;
            fs::rename(&written.path, &next).map_err(unusable)?;
            id
        }
    };
    resettle(&found.id(), &new)?;
    fs::rename(&next, path.join(FILE)).map_err(unusable)?;
    let original = found.content.mark.map(|mark| mark.path().display().to_string());
    tracing::warn!(
        "this home, {}, is a copy of another one ({}) and has an identity of its own from now on: \
         workspaces and homes are kept, containers are made anew at their next use, and the \
         original is not touched",
        path.display(),
        original.as_deref().unwrap_or("unknown")
    );
    Ok(new)
}

/// A home's file, and which one it is in truth.
#[derive(Debug)]
struct Found {
    content: HomeFile,
    now: HomeMark,
}

impl Found {
    fn id(&self) -> HomeId {
        HomeId(self.content.id.clone())
    }

    /// Returns what the home is; nothing when its file says nothing.
    fn standing(&self, home: &Path) -> Option<Standing> {
        let mark = self.content.mark.as_ref()?;
        let is_home = |place: &Path| {
            let other = read_file(&place.join(FILE)).ok().flatten();
            other.is_some_and(|other| other.content.id == self.content.id)
        };
        Some(mark.standing(&self.now, || inodes_last(home), is_home))
    }
}

fn read(home: &Path) -> Result<Option<Found>, StoreError> {
    read_file(&home.join(FILE))
}

fn read_file(path: &Path) -> Result<Option<Found>, StoreError> {
    let failed = |error| StoreError::io("read", path, error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let home = path.parent().unwrap_or(path);
    let now = HomeMark::of(&file, home).map_err(failed)?;
    let content = read_versioned(path, VERSION)?;
    Ok(content.map(|content| Found { content, now }))
}

/// A home's file that has no name yet by which it is found.
#[derive(Debug)]
struct Written {
    path: PathBuf,
}

impl Written {
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

impl Drop for Written {
    fn drop(&mut self) {
        // Gone already when it was renamed.
        fs::remove_file(&self.path).ok();
    }
}

/// Writes a file with an id and the mark of itself.
fn write(home: &Path, id: HomeId) -> io::Result<Written> {
    let path = home.join(format!("home.{}.tmp", random_hex::<6>()?));
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = Written { path };
    let mark = HomeMark::of(&out, home)?;
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
