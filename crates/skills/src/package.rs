//! A skill on its way: all of its files, in memory, bounded.

mod archive;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use vestal_sandbox::{Bundle, BundleContent};

use crate::catalogue::Survey;
use crate::skill::INSTRUCTIONS;

/// Names of what is left out that are kept.
const MAX_LEFT_OUT: usize = 100;

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
            [0x1f, 0x8b, ..] => archive::read_tar(GzDecoder::new(file)),
            // One without files begins with its end.
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => archive::read_zip(file),
            // The magic words of every tar there is.
            start if start.get(257..262) == Some(b"ustar") => archive::read_tar(file),
            _ => Err("it is neither a folder nor a tar, tar.gz or zip archive".to_owned()),
        }
    }

    fn of_folder(dir: &Path) -> Result<Self, String> {
        if dir.join(INSTRUCTIONS).symlink_metadata().is_err() {
            return Err(format!("it has no {INSTRUCTIONS}"));
        }
        let bundle = Bundle::read(dir).map_err(|error| error.to_string())?;
        let mut package = Self::default();
        package.leave_out_hidden(dir, Path::new(""));
        for item in bundle.items() {
            match &item.content {
                BundleContent::Dir => package.leave_out_hidden(dir, &item.path),
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

    /// Takes note of what is hidden in a folder, which is left out.
    fn leave_out_hidden(&mut self, dir: &Path, at: &Path) {
        let entries = fs::read_dir(dir.join(at)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut hidden: Vec<String> = names.filter(|name| name.starts_with('.')).collect();
        hidden.sort();
        let room = MAX_LEFT_OUT.saturating_sub(self.left_out.len());
        let hidden = hidden.iter().take(room).map(|name| at.join(name).display().to_string());
        self.left_out.extend(hidden);
    }

    /// Returns the text of the instructions.
    pub(crate) fn instructions(&self) -> Result<&str, String> {
        let file = self.files.get(Path::new(INSTRUCTIONS));
        let file = file.ok_or_else(|| format!("it has no {INSTRUCTIONS}"))?;
        std::str::from_utf8(&file.bytes).map_err(|_| format!("its {INSTRUCTIONS} is not UTF-8"))
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

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
