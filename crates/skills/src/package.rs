//! A skill on its way: all of its files, in memory, bounded.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use tar::EntryType;
use vestal_sandbox::{Bundle, BundleContent};

use crate::limits::{MAX_BYTES, MAX_FILES};
use crate::place::inner_path;
use crate::skill::INSTRUCTIONS;
use crate::survey::Survey;

/// Bytes that an archive may unpack to, with what is left out of it.
const MAX_UNPACKED: u64 = 256 << 20;

/// Entries of an archive that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// Names of what is left out that are kept.
const MAX_LEFT_OUT: usize = 100;

/// What archives of one desktop carry along.
const LITTER: &str = "__MACOSX";

/// A file on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) executable: bool,
}

/// The files of a skill, by where they are in its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) files: BTreeMap<PathBuf, PackedFile>,
    /// Hidden files that were left out.
    pub(crate) left_out: Vec<String>,
}

impl Package {
    /// Reads a folder or an archive. The reason for a refusal is in words that
    /// follow "cannot be installed: ".
    pub(crate) fn open(source: &Path) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("it cannot be read: {error}");
        // Looked at before it is opened, because opening a pipe waits for a writer.
        let metadata = fs::metadata(source).map_err(cannot)?;
        if metadata.is_dir() {
            return Self::of_folder(&fs::canonicalize(source).map_err(cannot)?);
        }
        if !metadata.is_file() {
            return Err("it is neither a folder nor an archive".to_owned());
        }
        let mut file = File::open(source).map_err(cannot)?;
        let mut start = [0; 512];
        let read = read_start(&mut file, &mut start).map_err(cannot)?;
        file.seek(SeekFrom::Start(0)).map_err(cannot)?;
        let file = BufReader::new(file);
        match start.get(..read).unwrap_or_default() {
            [0x1f, 0x8b, ..] => Self::of_tar(GzDecoder::new(file)),
            [b'P', b'K', 3 | 5, ..] => Err("zip archives are not read; unpack it, and install \
                                            the folder"
                .to_owned()),
            // The magic words of every tar there is.
            start if start.get(257..262) == Some(b"ustar") => Self::of_tar(file),
            _ => Err("it is neither a folder nor a tar or tar.gz archive".to_owned()),
        }
    }

    fn of_folder(dir: &Path) -> Result<Self, String> {
        if dir.join(INSTRUCTIONS).symlink_metadata().is_err() {
            return Err(format!("it has no {INSTRUCTIONS}"));
        }
        let bundle = Bundle::read(dir).map_err(|error| error.to_string())?;
        let mut package = Self::default();
        for item in bundle.items() {
            match &item.content {
                BundleContent::Dir => {}
                BundleContent::Link(_) => {
                    let path = item.path.display();
                    return Err(format!("{path} is a link; put the file itself there"));
                }
                BundleContent::File { bytes, executable } => {
                    let file = PackedFile { bytes: bytes.clone(), executable: *executable };
                    package.files.insert(item.path.clone(), file);
                }
            }
        }
        Ok(package)
    }

    fn of_tar(archive: impl Read) -> Result<Self, String> {
        let mut unpacking = Unpacking::default();
        let mut limited = archive.take(MAX_UNPACKED);
        let done = unpacking.all(tar::Archive::new(&mut limited));
        // An end that was reached too soon looks like damage.
        if limited.limit() == 0 {
            return Err(format!("it unpacks to more than {} MiB", MAX_UNPACKED >> 20));
        }
        done?;
        unpacking.package()
    }

    /// Returns the text of the instructions.
    pub(crate) fn instructions(&self) -> Result<&str, String> {
        let file = self.files.get(Path::new(INSTRUCTIONS));
        let file = file.ok_or_else(|| format!("it has no {INSTRUCTIONS}"))?;
        std::str::from_utf8(&file.bytes).map_err(|_| format!("its {INSTRUCTIONS} is no UTF-8"))
    }

    /// Returns what it consists of.
    pub(crate) fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        for (path, file) in &self.files {
            survey.add(path, file.bytes.len() as u64, file.executable);
        }
        survey
    }

    /// Writes all files into a new folder.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)?;
        for (path, file) in &self.files {
            let path = dir.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mode = if file.executable { 0o755 } else { 0o644 };
            let mut new = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
            new.write_all(&file.bytes)?;
            new.sync_data()?;
        }
        Ok(())
    }
}

fn read_start(file: &mut File, start: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < start.len() {
        match file.read(&mut start[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

#[derive(Debug, Default)]
struct Unpacking {
    files: BTreeMap<PathBuf, PackedFile>,
    left_out: Vec<String>,
    bytes: u64,
}

impl Unpacking {
    fn all(&mut self, mut archive: tar::Archive<impl Read>) -> Result<(), String> {
        let damaged = |error: io::Error| format!("it is damaged: {error}");
        let mut looked = 0;
        for entry in archive.entries().map_err(damaged)? {
            looked += 1;
            if looked > MAX_ENTRIES {
                return Err(format!("it has more than {MAX_ENTRIES} entries"));
            }
            self.entry(entry.map_err(damaged)?)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: tar::Entry<'_, impl Read>) -> Result<(), String> {
        let path = entry.path_bytes().into_owned();
        let path =
            String::from_utf8(path).map_err(|_| "it has a name that is no text".to_owned())?;
        let kind = match entry.header().entry_type() {
            EntryType::XGlobalHeader => return Ok(()),
            EntryType::Link | EntryType::Symlink => {
                return Err(format!("it has {path:?}, which is a link"));
            }
            kind @ (EntryType::Regular | EntryType::Directory) => kind,
            _ => return Err(format!("it has {path:?}, which is neither a file nor a folder")),
        };
        if path.starts_with('/') {
            return Err(format!("it has {path:?}, which is an absolute path"));
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.contains(&"..") {
            return Err(format!("it has {path:?}, which leads out of it"));
        }
        if parts.iter().any(|part| part.starts_with('.')) || parts.first() == Some(&LITTER) {
            if kind == EntryType::Regular && self.left_out.len() < MAX_LEFT_OUT {
                self.left_out.push(path);
            }
            return Ok(());
        }
        if kind == EntryType::Directory || parts.is_empty() {
            return Ok(());
        }
        let inner = inner_path(&path).map_err(|error| error.to_string())?;
        self.file(inner, entry)
    }

    fn file(&mut self, path: PathBuf, entry: tar::Entry<'_, impl Read>) -> Result<(), String> {
        let too_much = || format!("it has more than {MAX_FILES} files or {} MiB", MAX_BYTES >> 20);
        self.bytes = self.bytes.saturating_add(entry.size());
        if self.bytes > MAX_BYTES || self.files.len() >= MAX_FILES {
            return Err(too_much());
        }
        let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
        let mut bytes = Vec::new();
        let shown = path.display().to_string();
        entry
            .take(MAX_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{shown} cannot be unpacked: {error}"))?;
        let is_below = |own: &PathBuf| own.starts_with(&path) || path.starts_with(own);
        if self.files.keys().any(is_below) {
            return Err(format!("it has {shown} twice, or as a file and a folder"));
        }
        self.files.insert(path, PackedFile { bytes, executable });
        Ok(())
    }

    /// Finds the skill: at the top, or in the one folder that is there.
    fn package(self) -> Result<Package, String> {
        let Self { files, left_out, .. } = self;
        if files.contains_key(Path::new(INSTRUCTIONS)) {
            return Ok(Package { files, left_out });
        }
        let found: Vec<PathBuf> =
            files.keys().filter(|path| path.ends_with(INSTRUCTIONS)).cloned().collect();
        let root = match found.as_slice() {
            [one] => one.parent().unwrap_or(Path::new("")).to_owned(),
            [] => return Err(format!("it has no {INSTRUCTIONS}")),
            several => {
                let names: Vec<String> =
                    several.iter().take(5).map(|path| path.display().to_string()).collect();
                let names = names.join(", ");
                return Err(format!(
                    "it has several skills ({names}); unpack it, and install their folders"
                ));
            }
        };
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
        Ok(package)
    }
}

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
