//! One version of a directory, read whole.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use sha2::{Digest as _, Sha256};

use crate::key::hex;

/// Files, directories and links of a bundle.
const MAX_ITEMS: usize = 2000;

/// Bytes of all its files.
const MAX_BYTES: u64 = 32 << 20;

/// How deep directories may be nested.
const MAX_DEPTH: usize = 16;

/// Files to show, as they were when they were read.
///
/// Names that begin with a dot stay out: repositories, caches and files of
/// secrets are called so. Links within the directory are kept as links; others
/// are refused, for nobody knows what they lead to elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    items: Vec<BundleItem>,
    digest: String,
}

/// Something in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleItem {
    /// Where it is below the bundle's root.
    pub path: PathBuf,
    /// What it is.
    pub content: BundleContent,
}

/// What something in a bundle is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleContent {
    /// A directory.
    Dir,
    /// A file.
    File {
        /// What is in it.
        bytes: Vec<u8>,
        /// Whether it is a program.
        executable: bool,
    },
    /// A link to something else in the bundle.
    Link(PathBuf),
}

/// Why a directory cannot be made a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It is not a directory.
    #[error("it is not a directory")]
    NoDirectory,
    /// There is too much in it.
    #[error("it has more than {MAX_ITEMS} files or {} MiB; keep large files elsewhere", MAX_BYTES >> 20)]
    TooLarge,
    /// It is nested too deep.
    #[error("{0} is nested deeper than {MAX_DEPTH} directories")]
    TooDeep(String),
    /// A link leads elsewhere.
    #[error("{0} is a link that leads out of it; put the file itself there")]
    Link(String),
    /// Something in it is neither a file nor a directory.
    #[error("{0} is neither a file nor a directory")]
    Kind(String),
    /// A name cannot be shown.
    #[error("the name {0:?} is not UTF-8")]
    Name(String),
    /// The system refused.
    #[error("cannot read {path}: {source}")]
    Io {
        /// What.
        path: String,
        /// Why.
        source: io::Error,
    },
}

impl Bundle {
    /// Reads a directory. No link is followed on the way, the directory's own
    /// included.
    pub fn read(source: &Path) -> Result<Self, BundleError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root =
            openat(rustix::fs::CWD, source, flags, Mode::empty()).map_err(|error| match error {
                rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => BundleError::NoDirectory,
                error => failed(source, error.into()),
            })?;
        let mut reading = BundleReading { items: Vec::new(), bytes: 0 };
        reading.directory(&root, Path::new(""), 0)?;
        let mut items = reading.items;
        items.sort_by(|a, b| a.path.cmp(&b.path));
        let digest = digest(&items);
        Ok(Self { items, digest })
    }

    /// Returns what distinguishes this version from every other.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns what is in it, directories before what is in them.
    pub fn items(&self) -> &[BundleItem] {
        &self.items
    }
}

struct BundleReading {
    items: Vec<BundleItem>,
    bytes: u64,
}

impl BundleReading {
    fn directory(&mut self, dir: &OwnedFd, at: &Path, depth: usize) -> Result<(), BundleError> {
        if depth > MAX_DEPTH {
            return Err(BundleError::TooDeep(at.display().to_string()));
        }
        let listing = Dir::read_from(dir).map_err(|error| failed(at, error.into()))?;
        for entry in listing {
            let entry = entry.map_err(|error| failed(at, error.into()))?;
            let name = entry.file_name();
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            let text = name.to_str().ok().filter(|name| !name.contains(char::is_control));
            let text =
                text.ok_or_else(|| BundleError::Name(name.to_string_lossy().into_owned()))?;
            self.entry(dir, name, at.join(text), depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &CStr,
        path: PathBuf,
        depth: usize,
    ) -> Result<(), BundleError> {
        if self.items.len() >= MAX_ITEMS {
            return Err(BundleError::TooLarge);
        }
        let io = |error: rustix::io::Errno| failed(&path, error.into());
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let inner =
                    openat(dir, name, flags | OFlags::DIRECTORY, Mode::empty()).map_err(io)?;
                self.items.push(BundleItem { path: path.clone(), content: BundleContent::Dir });
                self.directory(&inner, &path, depth + 1)
            }
            FileType::RegularFile => {
                // What took its place meanwhile must not make this wait.
                let file =
                    openat(dir, name, flags | OFlags::NONBLOCK, Mode::empty()).map_err(io)?;
                let bytes = self.read(&file, &path)?;
                let executable = stat.st_mode & 0o111 != 0;
                self.items
                    .push(BundleItem { path, content: BundleContent::File { bytes, executable } });
                Ok(())
            }
            FileType::Symlink => {
                let target = readlinkat(dir, name, Vec::new()).map_err(io)?;
                let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
                if !stays_within(&path, &target) {
                    return Err(BundleError::Link(path.display().to_string()));
                }
                self.items.push(BundleItem { path, content: BundleContent::Link(target) });
                Ok(())
            }
            _ => Err(BundleError::Kind(path.display().to_string())),
        }
    }

    fn read(&mut self, file: &OwnedFd, path: &Path) -> Result<Vec<u8>, BundleError> {
        let io = |error| failed(path, error);
        let file = File::from(file.as_fd().try_clone_to_owned().map_err(io)?);
        if !file.metadata().map_err(io)?.is_file() {
            return Err(BundleError::Kind(path.display().to_string()));
        }
        let left = MAX_BYTES - self.bytes;
        let mut bytes = Vec::new();
        file.take(left + 1).read_to_end(&mut bytes).map_err(io)?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(BundleError::TooLarge);
        }
        Ok(bytes)
    }
}

/// Returns whether a link at `path` leads to something below the same root,
/// whatever that is, by words alone: nothing is looked up.
fn stays_within(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

fn digest(items: &[BundleItem]) -> String {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for BundleItem { path, content } in items {
        part(path.as_os_str().as_bytes());
        match content {
            BundleContent::Dir => part(b"d"),
            BundleContent::File { bytes, executable } => {
                part(if *executable { b"x" } else { b"f" });
                part(bytes);
            }
            BundleContent::Link(target) => {
                part(b"l");
                part(target.as_os_str().as_bytes());
            }
        }
    }
    hex(&hasher.finalize()[..16])
}

fn failed(path: &Path, source: io::Error) -> BundleError {
    BundleError::Io { path: path.display().to_string(), source }
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
