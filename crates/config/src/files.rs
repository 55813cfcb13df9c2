//! Reading the files of a profile.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dotenv::DotEnv;
use crate::error::{FileError, FileProblem};
use crate::yaml::{self, Node, NodeKind};

/// More than any settings file needs.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// A profile's `config.yaml`.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// The map of sections; none when the file is absent or empty.
    pub(crate) root: Option<Node>,
}

/// A profile's `.env`.
#[derive(Debug)]
pub(crate) struct EnvFile {
    pub(crate) path: PathBuf,
    pub(crate) content: DotEnv,
}

pub(crate) fn load_config(path: &Path) -> Result<ConfigFile, Arc<FileError>> {
    let failed = |problem| Arc::new(FileError { path: path.to_owned(), problem });
    let text = read_text(path).map_err(failed)?.unwrap_or_default();
    let root = parse_sections(&text).map_err(failed)?;
    Ok(ConfigFile { path: path.to_owned(), root })
}

/// Parses a whole `config.yaml`, which must be a map or empty.
pub(crate) fn parse_sections(text: &str) -> Result<Option<Node>, FileProblem> {
    match yaml::parse(text)?.root {
        Some(root) if root.is_null() => Ok(None),
        Some(root) if !matches!(root.kind, NodeKind::Map { .. }) => {
            Err(FileProblem::NotAMap { line: root.line, found: root.noun().to_owned() })
        }
        root => Ok(root),
    }
}

pub(crate) fn load_dotenv(path: &Path) -> Result<EnvFile, Arc<FileError>> {
    let bytes = read(path)
        .map_err(|problem| Arc::new(FileError { path: path.to_owned(), problem }))?
        .unwrap_or_default();
    Ok(EnvFile { path: path.to_owned(), content: DotEnv::parse(&bytes) })
}

/// Reads a text file of a profile, of 1 MiB at most; none when there is none.
pub fn read_text(path: &Path) -> Result<Option<String>, FileProblem> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        FileProblem::NotUtf8 { line: valid.split(|byte| *byte == b'\n').count() }
    })
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, FileProblem> {
    // Looked at before it is opened, because opening a pipe waits for a writer.
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
        Ok(metadata) if !metadata.is_file() => return Err(FileProblem::NotAFile),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileProblem::TooLarge { limit: MAX_BYTES });
    }
    Ok(Some(bytes))
}

fn io(error: std::io::Error) -> FileProblem {
    FileProblem::Io(Arc::new(error))
}
