//! What a profile is for: `profile.json`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ProfileError;
use super::site::write_new;
use crate::files;

pub(super) const FILE: &str = "profile.json";
const VERSION: u64 = 1;
/// The longest description in characters.
const MAX_CHARS: usize = 500;

#[derive(Serialize, Deserialize)]
struct ProfileFile {
    version: u64,
    #[serde(default)]
    description: String,
}

/// Returns a description that can be kept.
pub(super) fn checked(text: &str) -> Result<String, ProfileError> {
    let text = text.trim();
    if text.chars().count() > MAX_CHARS || text.contains(char::is_control) {
        return Err(ProfileError::BadDescription { max: MAX_CHARS });
    }
    Ok(text.to_owned())
}

/// Returns the file's content for a description.
pub(super) fn text(description: &str) -> String {
    let file = ProfileFile { version: VERSION, description: description.to_owned() };
    // A number and a text can always be put into JSON.
    serde_json::to_string(&file).map(|json| json + "\n").unwrap_or_default()
}

/// Writes the description into a new profile.
pub(super) fn write(dir: &Path, description: &str) -> Result<(), ProfileError> {
    let path = dir.join(FILE);
    write_new(&path, 0o600, text(description).as_bytes()).map_err(ProfileError::io("write", &path))
}

/// Reads a profile's description; empty when it has none.
pub(super) fn read(dir: &Path) -> Result<String, ProfileError> {
    let path = dir.join(FILE);
    let text = files::read_text(&path).map_err(|problem| damaged(&path, &problem.to_string()))?;
    text.map_or_else(|| Ok(String::new()), |text| parse(&text, path))
}

/// Reads the file's content.
pub(super) fn parse(text: &str, path: PathBuf) -> Result<String, ProfileError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u64,
    }
    let read = |error: serde_json::Error| damaged(&path, &error.to_string());
    let Versioned { version } = serde_json::from_str(text).map_err(read)?;
    if version > VERSION {
        return Err(ProfileError::Newer { path, version });
    }
    let file: ProfileFile = serde_json::from_str(text).map_err(read)?;
    checked(&file.description).map_err(|error| damaged(&path, &error.to_string()))
}

fn damaged(path: &Path, reason: &str) -> ProfileError {
    ProfileError::Damaged { path: path.to_owned(), reason: reason.to_owned() }
}
