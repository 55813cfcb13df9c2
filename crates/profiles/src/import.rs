//! Make a profile of an archive, which anybody may have made.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use tar::EntryType;
use vestal_config::{Home, ProfileName};

use crate::create::{self, DESCRIPTION_FILE, MAX_DEPTH, read_description};
use crate::error::ProfileError;
use crate::export::{ExportPlace, MAX_ENTRIES, MAX_FILE, MAX_TOTAL, place};
use crate::profiles::Profiles;
use crate::site::{make_private, write_new};

/// Most that is read of an archive: all files, and as much again as their headers may take.
const MAX_STREAM: u64 = MAX_TOTAL + (MAX_ENTRIES as u64) * 2048;
/// The longest path in bytes.
const MAX_PATH: usize = 1024;

/// A profile that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its home.
    pub home: Home,
    /// Files that were taken.
    pub files: usize,
    /// Paths in the archive that do not travel and were left out.
    pub left_out: Vec<String>,
}

/// An archive as far as it was taken in.
struct ArchiveIntake<'a> {
    into: &'a Path,
    root: Option<String>,
    seen: HashSet<String>,
    entries: usize,
    total: u64,
    files: usize,
    left_out: Vec<String>,
}

impl Profiles {
    /// Makes a profile of an archive under its own name or another. It is there
    /// as a whole or not at all, and has an identity of its own.
    pub fn import(
        &self,
        archive: &Path,
        name: Option<&ProfileName>,
    ) -> Result<Imported, ProfileError> {
        let file = File::open(archive).map_err(ProfileError::io("open", archive))?;
        if let Some(name) = name {
            self.vacant(name)?;
        }
        let site = self.lock()?;
        let new = site.make_new()?;
        let made = self.take_in(archive, file, &new, name).and_then(|imported| {
            let place = imported.home.dir();
            fs::rename(&new, &place).map_err(ProfileError::io("make", &place))?;
            site.sync()?;
            Ok(imported)
        });
        if made.is_err() {
            // What remains is removed by the next holder of the lock.
            fs::remove_dir_all(&new).ok();
        }
        made
    }

    fn take_in(
        &self,
        archive: &Path,
        file: File,
        new: &Path,
        name: Option<&ProfileName>,
    ) -> Result<Imported, ProfileError> {
        let refused = |reason| ProfileError::Refused { path: archive.to_owned(), reason };
        let mut intake = ArchiveIntake {
            into: new,
            root: None,
            seen: HashSet::new(),
            entries: 0,
            total: 0,
            files: 0,
            left_out: Vec::new(),
        };
        intake.read(file).map_err(refused)?;
        let root = intake.root.ok_or_else(|| refused("it is empty".to_owned()))?;
        let name = match name {
            Some(name) => name.clone(),
            None => ProfileName::new(&root).map_err(|_| {
                refused(format!(
                    "{root:?} is not a valid name for a profile; give it one with --name"
                ))
            })?,
        };
        let home = self.vacant(&name)?;
        let about = new.join(DESCRIPTION_FILE);
        let description = read_description(new).map_err(|error| refused(error.to_string()))?;
        if about.exists() {
            fs::remove_file(&about).map_err(ProfileError::io("replace", &about))?;
        }
        create::finish(new, &description)?;
        Ok(Imported { home, files: intake.files, left_out: intake.left_out })
    }
}

impl ArchiveIntake<'_> {
    fn read(&mut self, file: File) -> Result<(), String> {
        let gzip = GzDecoder::new(BufReader::new(file)).take(MAX_STREAM);
        let mut archive = tar::Archive::new(gzip);
        let broken =
            |error: io::Error| format!("it is not an archive, cut off or too large ({error})");
        for entry in archive.entries().map_err(broken)? {
            self.take(entry.map_err(broken)?)?;
        }
        // Read to the end, where the checksum is.
        io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop).map_err(broken)
    }

    fn take(&mut self, mut entry: tar::Entry<'_, impl Read>) -> Result<(), String> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let path = entry.path_bytes();
        let path = std::str::from_utf8(&path).map_err(|_| "it has a name that is not UTF-8")?;
        let path = path.to_owned();
        let parts = parts(&path)?;
        if !matches!(kind, EntryType::Regular | EntryType::Directory) {
            return Err(format!("it has {path:?}, which is {}", noun(kind)));
        }
        self.total = self.total.saturating_add(entry.size());
        if entry.size() > MAX_FILE || self.total > MAX_TOTAL {
            let (file, total) = (MAX_FILE >> 20, MAX_TOTAL >> 20);
            return Err(format!("it has more than {file} MiB in a file or {total} MiB in all"));
        }
        let Some((root, rest)) = parts.split_first() else { return Ok(()) };
        match &self.root {
            None => self.root = Some((*root).to_owned()),
            Some(own) if own == root => {}
            Some(own) => {
                return Err(format!("it has two directories at its top, {own} and {root}"));
            }
        }
        let is_file = kind == EntryType::Regular;
        if is_file && !self.seen.insert(parts.join("/")) {
            return Err(format!("it has {path:?} twice"));
        }
        match (rest.is_empty(), is_file) {
            (true, true) => return Err(format!("it has the file {path:?} at its top")),
            (true, false) => return Ok(()),
            _ => {}
        }
        let place = match (place(rest), is_file) {
            (Some(ExportPlace::Tree), true) if rest.len() == 1 => None,
            (Some(ExportPlace::File), false) => None,
            (place, _) => place,
        };
        if place.is_none() {
            self.left_out.push(rest.join("/"));
            return Ok(());
        }
        self.put(&rest.iter().collect::<PathBuf>(), is_file, &mut entry)
            .map_err(|error| format!("{path:?} cannot be taken: {error}"))
    }

    fn put(
        &mut self,
        path: &Path,
        is_file: bool,
        entry: &mut tar::Entry<'_, impl Read>,
    ) -> io::Result<()> {
        let to = self.into.join(path);
        if !is_file {
            return make_private(&to);
        }
        if let Some(parent) = to.parent() {
            make_private(parent)?;
        }
        let executable = entry.header().mode()? & 0o100 != 0;
        let mut bytes = Vec::new();
        entry.take(MAX_FILE).read_to_end(&mut bytes)?;
        write_new(&to, if executable { 0o700 } else { 0o600 }, &bytes)?;
        self.files += 1;
        Ok(())
    }
}

/// Returns the parts of a path that stays below where it is unpacked.
fn parts(path: &str) -> Result<Vec<&str>, String> {
    if path.starts_with('/') {
        return Err(format!("it has {path:?}, which is an absolute path"));
    }
    if path.len() > MAX_PATH || path.contains(char::is_control) {
        return Err("it has a name that is too long or has control characters".to_owned());
    }
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(format!("it has {path:?}, which leads out of it"));
    }
    if parts.len() > MAX_DEPTH {
        return Err(format!("it has {path:?}, which is nested too deep"));
    }
    Ok(parts)
}

fn noun(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link | EntryType::Symlink => "a link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a pipe",
        _ => "neither a file nor a directory",
    }
}
