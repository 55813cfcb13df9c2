//! Archives of skills: tar and zip, unpacked within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use tar::EntryType;
use zip::read::{ArchiveOffset, Config, ZipFileEntry};
use zip::result::ZipError;
use zip::{CompressionMethod, System, ZipArchive, ZipReadOptions};

use super::{MAX_LEFT_OUT, Package, PackedFile};
use crate::path::inner_path;
use crate::skill::{INSTRUCTIONS, MAX_BYTES, MAX_FILES};

/// Entries of an archive that are looked at.
pub(super) const MAX_ENTRIES: usize = 20_000;

/// What archives of one desktop carry along.
const LITTER: &str = "__MACOSX";

/// What an archive says that an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveEntryKind {
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
    pub(super) fn admit(
        &mut self,
        path: String,
        kind: ArchiveEntryKind,
    ) -> Result<Option<PathBuf>, String> {
        match kind {
            ArchiveEntryKind::File | ArchiveEntryKind::Folder => {}
            ArchiveEntryKind::Link => return Err(format!("it has {path:?}, which is a link")),
            ArchiveEntryKind::Other => {
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
            if kind == ArchiveEntryKind::File && self.left_out.len() < MAX_LEFT_OUT {
                self.left_out.push(path);
            }
            return Ok(None);
        }
        if kind == ArchiveEntryKind::Folder || parts.is_empty() {
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

/// Bytes that an archive may unpack to, with what is left out of it.
pub(super) const MAX_UNPACKED: u64 = 256 << 20;

/// Reads an archive from its beginning to its end.
pub(super) fn read_tar(archive: impl Read) -> Result<Package, String> {
    let mut unpacking = Unpacking::default();
    let mut limited = archive.take(MAX_UNPACKED);
    let done = tar_entries(&mut unpacking, tar::Archive::new(&mut limited));
    // An end that was reached too soon looks like damage.
    if limited.limit() == 0 {
        return Err(format!("it unpacks to more than {} MiB", MAX_UNPACKED >> 20));
    }
    done?;
    unpacking.package()
}

fn tar_entries(
    unpacking: &mut Unpacking,
    mut archive: tar::Archive<impl Read>,
) -> Result<(), String> {
    let damaged = |error: io::Error| format!("it is damaged: {error}");
    for (looked, entry) in archive.entries().map_err(damaged)?.enumerate() {
        if looked >= MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
        tar_entry(unpacking, entry.map_err(damaged)?)?;
    }
    Ok(())
}

fn tar_entry(unpacking: &mut Unpacking, entry: tar::Entry<'_, impl Read>) -> Result<(), String> {
    let kind = match entry.header().entry_type() {
        EntryType::XGlobalHeader => return Ok(()),
        EntryType::Regular => ArchiveEntryKind::File,
        EntryType::Directory => ArchiveEntryKind::Folder,
        EntryType::Link | EntryType::Symlink => ArchiveEntryKind::Link,
        _ => ArchiveEntryKind::Other,
    };
    let path = entry.path_bytes().into_owned();
    let path = String::from_utf8(path).map_err(|_| "it has a name that is not UTF-8".to_owned())?;
    let Some(inner) = unpacking.admit(path, kind)? else { return Ok(()) };
    let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
    unpacking.take(inner, entry, |_| executable)
}

/// Bytes that are read to learn what is in an archive: its list of files is
/// kept in memory, and may be as long as the archive itself.
const MAX_LISTING: u64 = 8 << 20;

/// Reads an archive by the list at its end. What is left out is not unpacked,
/// and nothing that it says of its own sizes is believed.
pub(super) fn read_zip(mut file: BufReader<File>) -> Result<Package, String> {
    let damaged = |error: ZipError| format!("it is damaged: {error}");
    // It begins where the file does: nothing is looked for in between.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let listing = ArchiveListing { file: &mut file, left: MAX_LISTING };
    let list = ZipArchive::with_config(config, listing).map_err(damaged)?.metadata();
    if list.len() > MAX_ENTRIES {
        return Err(format!("it has more than {MAX_ENTRIES} entries"));
    }
    // The list keeps the last of those that have the same name.
    if list.has_duplicate_names() {
        return Err("it has a file twice".to_owned());
    }
    let mut unpacking = Unpacking::default();
    for index in 0..list.len() {
        zip_entry(&mut unpacking, list.entry(index).map_err(damaged)?, &mut file)?;
    }
    unpacking.package()
}

fn zip_entry<'a>(
    unpacking: &mut Unpacking,
    entry: ZipFileEntry<'a>,
    file: &'a mut BufReader<File>,
) -> Result<(), String> {
    let name = entry.name().map_err(|_| "it has a name that is not UTF-8".to_owned())?.into_owned();
    let Some(inner) = unpacking.admit(name.clone(), kind(&entry))? else { return Ok(()) };
    let advice = "unpack it, and install the folder";
    if entry.encrypted() {
        return Err(format!("it has {name:?}, which is encrypted; {advice}"));
    }
    if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
        let packed = "which is packed in a way that is not read here";
        return Err(format!("it has {name:?}, {packed}; {advice}"));
    }
    // What comes from a system without such modes says it by how it begins.
    let mode = entry.unix_mode().filter(|_| entry.system() != System::Dos);
    let is_program = |bytes: &[u8]| match mode {
        Some(mode) => mode & 0o111 != 0,
        None => bytes.starts_with(b"#!"),
    };
    let packed = entry.with_reader(file, ZipReadOptions::new());
    let packed = packed.map_err(|error| format!("{name:?} cannot be unpacked: {error}"))?;
    unpacking.take(inner, packed, is_program)
}

fn kind(entry: &ZipFileEntry<'_>) -> ArchiveEntryKind {
    let kind = entry.unix_mode().map(FileType::from_raw_mode);
    match kind {
        Some(FileType::Symlink) => ArchiveEntryKind::Link,
        _ if entry.is_dir() => ArchiveEntryKind::Folder,
        Some(FileType::Directory) => ArchiveEntryKind::Folder,
        // Many say only what may be done with it.
        Some(FileType::RegularFile | FileType::Unknown) | None => ArchiveEntryKind::File,
        Some(_) => ArchiveEntryKind::Other,
    }
}

/// An archive of which only so much is read.
struct ArchiveListing<'a> {
    file: &'a mut BufReader<File>,
    left: u64,
}

impl Read for ArchiveListing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other("its list of files is too long"))?;
        Ok(read)
    }
}

impl Seek for ArchiveListing<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
