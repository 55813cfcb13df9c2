//! What every archive has to keep to, whatever it is packed with.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{MAX_LEFT_OUT, Package, PackedFile};
use crate::limits::{MAX_BYTES, MAX_FILES};
use crate::place::inner_path;
use crate::skill::INSTRUCTIONS;

/// Entries of an archive that are looked at.
pub(super) const MAX_ENTRIES: usize = 20_000;

/// What archives of one desktop carry along.
const LITTER: &str = "__MACOSX";

/// What an archive says that an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Link,
    /// A device, a pipe and the like.
    Other,
}

/// An archive that is being read.
#[derive(Debug, Default)]
pub(super) struct Unpacking {
    files: BTreeMap<PathBuf, PackedFile>,
    left_out: Vec<String>,
    bytes: u64,
    /// Where files and folders are, without regard to case: not every disk that
    /// a skill is copied to tells `a` from `A`.
    taken: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Unpacking {
    /// Looks at an entry before it is unpacked. Returns where it goes; nowhere
    /// if it is left out or nothing that is unpacked.
    pub(super) fn admit(&mut self, path: String, kind: Kind) -> Result<Option<PathBuf>, String> {
        match kind {
            Kind::File | Kind::Folder => {}
            Kind::Link => return Err(format!("it has {path:?}, which is a link")),
            Kind::Other => {
                return Err(format!("it has {path:?}, which is neither a file nor a folder"));
            }
        }
        let is_of_a_drive = path.as_bytes().get(1) == Some(&b':')
            && path.starts_with(|first: char| first.is_ascii_alphabetic());
        if path.starts_with(['/', '\\']) || is_of_a_drive {
            return Err(format!("it has {path:?}, which is an absolute path"));
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if path.split(['/', '\\']).any(|part| part == "..") {
            return Err(format!("it has {path:?}, which leads out of it"));
        }
        if parts.iter().any(|part| part.starts_with('.')) || parts.first() == Some(&LITTER) {
            if kind == Kind::File && self.left_out.len() < MAX_LEFT_OUT {
                self.left_out.push(path);
            }
            return Ok(None);
        }
        if kind == Kind::Folder || parts.is_empty() {
            return Ok(None);
        }
        inner_path(&path).map(Some).map_err(|error| error.to_string())
    }

    /// Unpacks a file to where it goes, as far as there is room.
    pub(super) fn take(
        &mut self,
        path: PathBuf,
        packed: impl Read,
        is_program: impl FnOnce(&[u8]) -> bool,
    ) -> Result<(), String> {
        self.claim(&path)?;
        if self.files.len() >= MAX_FILES {
            return Err(too_much());
        }
        let mut bytes = Vec::new();
        let left = MAX_BYTES - self.bytes;
        packed
            .take(left + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{} cannot be unpacked: {error}", path.display()))?;
        if bytes.len() as u64 > left {
            return Err(too_much());
        }
        self.bytes += bytes.len() as u64;
        let executable = is_program(&bytes);
        self.files.insert(path, PackedFile { bytes, executable });
        Ok(())
    }

    /// Takes a place for a file, which nothing else may be in.
    fn claim(&mut self, path: &Path) -> Result<(), String> {
        let folded = PathBuf::from(path.to_string_lossy().to_lowercase());
        let above = || folded.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let is_taken = self.folders.contains(&folded) || above().any(|at| self.taken.contains(at));
        if is_taken || self.taken.contains(&folded) {
            return Err(format!(
                "it has {} twice, as a file and a folder, or in capitals as well",
                path.display()
            ));
        }
        self.folders.extend(above().map(Path::to_owned));
        self.taken.insert(folded);
        Ok(())
    }

    /// Finds the skill: at the top, or in the one folder that is there.
    pub(super) fn package(self) -> Result<Package, String> {
        let Self { files, left_out, .. } = self;
        let root = root(&files)?;
        let mut package = Package { files: BTreeMap::new(), left_out };
        for (path, file) in files {
            match path.strip_prefix(&root) {
                Ok(inner) => drop(package.files.insert(inner.to_owned(), file)),
                Err(_) if package.left_out.len() < MAX_LEFT_OUT => {
                    package.left_out.push(path.display().to_string());
                }
                Err(_) => {}
            }
        }
        // A sandbox is shown folders, too, and no more of both.
        let folders: BTreeSet<&Path> =
            package.files.keys().flat_map(|path| path.ancestors().skip(1)).collect();
        let folders = folders.len().saturating_sub(1);
        if package.files.len() + folders > MAX_FILES { Err(too_much()) } else { Ok(package) }
    }
}

/// Returns the folder that the skill is in.
fn root(files: &BTreeMap<PathBuf, PackedFile>) -> Result<PathBuf, String> {
    if files.contains_key(Path::new(INSTRUCTIONS)) {
        return Ok(PathBuf::new());
    }
    let found: Vec<&PathBuf> = files.keys().filter(|path| path.ends_with(INSTRUCTIONS)).collect();
    match found.as_slice() {
        [one] => Ok(one.parent().unwrap_or(Path::new("")).to_owned()),
        [] => Err(format!("it has no {INSTRUCTIONS}")),
        several => {
            let names: Vec<String> =
                several.iter().take(5).map(|path| path.display().to_string()).collect();
            let names = names.join(", ");
            Err(format!("it has several skills ({names}); unpack it, and install their folders"))
        }
    }
}

fn too_much() -> String {
    format!("it has more than {MAX_FILES} files and folders, or {} MiB", MAX_BYTES >> 20)
}
