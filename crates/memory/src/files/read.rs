//! Reads notes.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::{FileProblem, Files, ReadError};
use crate::entries::Entries;
use crate::target::Target;

/// Bytes of a file that is read: far more than the highest limit lets it have.
const MOST: u64 = 1 << 20;

impl Files {
    /// Returns the notes as they are now; a file that is not there has none.
    pub fn read(&self, target: Target) -> Result<Entries, ReadError> {
        Ok(Entries::parse(&self.read_text(target)?))
    }

    /// Returns the text of a file, for a person to edit.
    pub fn read_text(&self, target: Target) -> Result<String, ReadError> {
        let path = self.path(target);
        text(&path).map_err(|problem| ReadError { path, problem })
    }
}

fn text(path: &Path) -> Result<String, FileProblem> {
    // Looked at before it is opened, because opening a pipe waits for a writer.
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match dangling(path) {
                Some(to) => Err(FileProblem::Dangling(to)),
                None => Ok(String::new()),
            };
        }
        Err(error) => return Err(error.into()),
        Ok(metadata) if !metadata.is_file() => return Err(FileProblem::NotAFile),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(FileProblem::TooLarge { limit: MOST });
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        FileProblem::NotUtf8 { line: valid.split(|byte| *byte == b'\n').count() }
    })
}

/// Returns what is not there though a link leads to it: from the file's own place,
/// or from that of its directory, as when a disk is missing.
fn dangling(path: &Path) -> Option<PathBuf> {
    let links = [Some(path), path.parent()].into_iter().flatten();
    links.filter(|link| !link.exists()).find_map(|link| fs::read_link(link).ok())
}
