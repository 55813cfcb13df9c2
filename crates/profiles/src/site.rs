//! The place where profiles are made and taken down.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use vestal_config::{Home, ProfileName};

use crate::error::ProfileError;
use crate::profiles::Profiles;

/// Directories that are being filled carry this prefix, which no profile's can.
const NEW: &str = ".new-";
/// Directories that are being deleted carry this one.
const TRASH: &str = ".trash-";

/// Names that programs and people take for something else than a profile.
const RESERVED: &[(&str, &str)] = &[
    ("default", "it is the profile that always exists"),
    ("vestal", "it is the name of the program"),
    ("test", "it is kept for tests"),
    ("tmp", "it sounds like something to be thrown away"),
    ("root", "it is the name of the system's administrator"),
    ("sudo", "it is the name of another program"),
];

/// The directory of profiles, with the lock that keeps others from changing it.
pub(crate) struct ProfilesDir {
    dir: PathBuf,
    /// Held until this is dropped.
    handle: File,
}

impl Profiles {
    /// Waits for the lock, and removes what crashed processes left.
    pub(crate) fn lock(&self) -> Result<ProfilesDir, ProfileError> {
        let dir = self.root.profiles_dir();
        make_private(&dir).map_err(ProfileError::io("make", &dir))?;
        let handle = File::open(&dir).map_err(ProfileError::io("open", &dir))?;
        handle.lock().map_err(ProfileError::io("lock", &dir))?;
        let site = ProfilesDir { dir, handle };
        site.sweep();
        Ok(site)
    }

    /// Returns the home of a profile that must be there.
    pub(crate) fn existing(&self, name: &ProfileName) -> Result<Home, ProfileError> {
        let home = self.root.sibling(name.clone());
        if home.exists() {
            return Ok(home);
        }
        let existing: Vec<String> = home.profiles().iter().map(ToString::to_string).collect();
        Err(ProfileError::Missing { name: name.clone(), existing: existing.join(", ") })
    }

    /// Returns the home of a profile that must not be there, and may be.
    pub(crate) fn vacant(&self, name: &ProfileName) -> Result<Home, ProfileError> {
        if let Some((_, reason)) = RESERVED.iter().find(|(own, _)| *own == name.as_str()) {
            return Err(ProfileError::Reserved { name: name.clone(), reason });
        }
        let home = self.root.sibling(name.clone());
        // Also what is not a directory is in the way.
        if home.dir().symlink_metadata().is_ok() {
            return Err(ProfileError::Exists { name: name.clone(), path: home.dir() });
        }
        Ok(home)
    }
}

impl ProfilesDir {
    /// Makes a directory to be filled.
    pub(crate) fn make_new(&self) -> Result<PathBuf, ProfileError> {
        let path = self.dir.join(format!("{NEW}{}", unique()));
        DirBuilder::new().mode(0o700).create(&path).map_err(ProfileError::io("make", &path))?;
        Ok(path)
    }

    /// Fills a new directory and puts it in its place in one step. What fails
    /// leaves nothing.
    pub(crate) fn build<T>(
        &self,
        place: &Path,
        fill: impl FnOnce(&Path) -> Result<T, ProfileError>,
    ) -> Result<T, ProfileError> {
        let new = self.make_new()?;
        let built = fill(&new).and_then(|value| {
            fs::rename(&new, place).map_err(ProfileError::io("make", place))?;
            Ok(value)
        });
        if built.is_err() {
            // What remains is removed by the next holder of the lock.
            fs::remove_dir_all(&new).ok();
            return built;
        }
        self.sync()?;
        built
    }

    /// Takes a profile's directory out of its place in one step, then deletes it.
    pub(crate) fn discard(&self, place: &Path) -> Result<(), ProfileError> {
        let aside = self.dir.join(format!("{TRASH}{}", unique()));
        fs::rename(place, &aside).map_err(ProfileError::io("remove", place))?;
        self.sync()?;
        fs::remove_dir_all(&aside).map_err(ProfileError::io("remove", &aside))
    }

    pub(crate) fn sync(&self) -> Result<(), ProfileError> {
        self.handle.sync_all().map_err(ProfileError::io("write", &self.dir))
    }

    /// Removes what has no owner: who held the lock before is done, or gone.
    fn sweep(&self) {
        let leftover = |name: &str| name.starts_with(NEW) || name.starts_with(TRASH);
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(leftover)) {
            // What cannot be removed now is met again next time.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Makes a directory and its parents for the user alone.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a new file with this mode, and has it on disk.
pub(crate) fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a file in one step.
pub(crate) fn replace(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().ok_or(ErrorKind::InvalidInput)?);
    name.push(format!(".{}", unique()));
    let new = parent.join(name);
    let written = write_new(&new, mode, bytes).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        // The first error is the one that matters.
        fs::remove_file(&new).ok();
        return Err(error);
    }
    File::open(parent)?.sync_all()
}

/// Returns text that no other process or thread uses at the same time.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{next}", std::process::id(), now.as_nanos())
}
