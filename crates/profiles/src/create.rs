//! Make a profile: empty or with what another has, and with a description.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vestal_config::{Home, ProfileName, Secrecy};

use crate::error::ProfileError;
use crate::profiles::Profiles;
use crate::site::{make_private, write_new};

/// What a new profile's `.env` says.
pub(crate) const ENV_HEADER: &str =
    "# Secrets of this profile, as NAME=value. Keep it readable by you alone.\n";

/// Files of a profile that another may begin with, and the mode they get.
const COPIED_FILES: &[(&str, u32)] = &[("config.yaml", 0o600), ("SOUL.md", 0o600)];
/// Where the secrets are.
const SECRETS: &str = ".env";
/// Directories of a profile that another may begin with.
const COPIED_TREES: &[&str] = &["skills", "memories"];

/// What a new profile begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileStart {
    /// Nothing.
    Empty,
    /// Settings, secrets, persona, skills and memories of another profile; none
    /// of its conversations and sandboxes.
    CloneOf(ProfileName),
}

/// A profile that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedProfile {
    /// Its home.
    pub home: Home,
    /// What was not copied because it is neither a file nor a directory.
    pub left_out: Vec<PathBuf>,
    /// Variables of `.env` that were not copied because they are keys to the other profile itself:
    /// the same key would let its holder into both.
    pub secrets_left_out: Vec<String>,
}

impl Profiles {
    /// Makes a profile. It is there as a whole or not at all; of several
    /// processes that make one of the same name one succeeds.
    pub fn create(
        &self,
        name: &ProfileName,
        start: &ProfileStart,
        description: &str,
    ) -> Result<CreatedProfile, ProfileError> {
        let description = checked_description(description)?;
        // Asked before anything is made, and again under the lock.
        self.vacant(name)?;
        let site = self.lock()?;
        let home = self.vacant(name)?;
        let source = match start {
            ProfileStart::Empty => None,
            ProfileStart::CloneOf(source) => Some(self.existing(source)?),
        };
        let (left_out, secrets_left_out) = site.build(&home.dir(), |new| {
            let left_out = match &source {
                Some(source) => {
                    let source = source.dir();
                    let secrets = self.copy_secrets(&source.join(SECRETS), &new.join(SECRETS))?;
                    (begin_with(&source, new)?, secrets)
                }
                None => (Vec::new(), Vec::new()),
            };
            finish(new, &description)?;
            Ok(left_out)
        })?;
        Ok(CreatedProfile { home, left_out, secrets_left_out })
    }

    /// Copies a `.env` but for the keys to the profile itself, and returns their names.
    fn copy_secrets(&self, from: &Path, to: &Path) -> Result<Vec<String>, ProfileError> {
        if !copy_file(from, to, 0o600)? {
            return Ok(Vec::new());
        }
        let own = self.schema.keys();
        let own = own.filter(|key| key.secrecy() == Secrecy::Secret && !key.travels());
        let own: Vec<&str> = own.flat_map(|key| key.env().iter().copied()).collect();
        let bytes = fs::read(to).map_err(ProfileError::io("read", to))?;
        let mut left_out = Vec::new();
        let mut kept = Vec::with_capacity(bytes.len());
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match own.iter().find(|name| sets(line, name)) {
                Some(name) => left_out.push((*name).to_owned()),
                None => kept.extend_from_slice(line),
            }
        }
        if !left_out.is_empty() {
            fs::write(to, kept).map_err(ProfileError::io("write", to))?;
        }
        Ok(left_out)
    }
}

/// Reports whether a line of a `.env` sets a variable.
fn sets(line: &[u8], name: &str) -> bool {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"export ").unwrap_or(line).trim_ascii_start();
    line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"="))
}

fn begin_with(source: &Path, new: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    let mut left_out = Vec::new();
    for (name, mode) in COPIED_FILES {
        copy_file(&source.join(name), &new.join(name), *mode)?;
    }
    for name in COPIED_TREES {
        copy_tree(&source.join(name), &new.join(name), 0, &mut left_out)?;
    }
    Ok(left_out)
}

/// Adds what every profile has.
pub(crate) fn finish(new: &Path, description: &str) -> Result<(), ProfileError> {
    let env = new.join(".env");
    if !env.exists() {
        write_new(&env, 0o600, ENV_HEADER.as_bytes()).map_err(ProfileError::io("write", &env))?;
    }
    write_description(new, description)
}

pub(crate) const DESCRIPTION_FILE: &str = "profile.json";
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
pub(crate) fn checked_description(text: &str) -> Result<String, ProfileError> {
    let text = text.trim();
    if text.chars().count() > MAX_CHARS || text.contains(char::is_control) {
        return Err(ProfileError::BadDescription { max: MAX_CHARS });
    }
    Ok(text.to_owned())
}

/// Returns the file's content for a description.
pub(crate) fn description_text(description: &str) -> String {
    let file = ProfileFile { version: VERSION, description: description.to_owned() };
    // A number and a text can always be put into JSON.
    serde_json::to_string(&file).map(|json| json + "\n").unwrap_or_default()
}

/// Writes the description into a new profile.
pub(crate) fn write_description(dir: &Path, description: &str) -> Result<(), ProfileError> {
    let path = dir.join(DESCRIPTION_FILE);
    write_new(&path, 0o600, description_text(description).as_bytes())
        .map_err(ProfileError::io("write", &path))
}

/// Reads a profile's description; empty when it has none.
pub(crate) fn read_description(dir: &Path) -> Result<String, ProfileError> {
    let path = dir.join(DESCRIPTION_FILE);
    let text =
        vestal_config::read_text(&path).map_err(|problem| damaged(&path, &problem.to_string()))?;
    text.map_or_else(|| Ok(String::new()), |text| parse_description(&text, path))
}

/// Reads the file's content.
pub(crate) fn parse_description(text: &str, path: PathBuf) -> Result<String, ProfileError> {
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
    checked_description(&file.description).map_err(|error| damaged(&path, &error.to_string()))
}

fn damaged(path: &Path, reason: &str) -> ProfileError {
    ProfileError::Damaged { path: path.to_owned(), reason: reason.to_owned() }
}

/// Nobody nests deeper than this on purpose.
pub(crate) const MAX_DEPTH: usize = 32;

/// Copies a file of the top level, following a link to where it is kept. A file
/// that is not there is left out.
pub(crate) fn copy_file(from: &Path, to: &Path, mode: u32) -> Result<bool, ProfileError> {
    match fs::metadata(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(ProfileError::io("read", from)(error)),
        Ok(metadata) if !metadata.is_file() => {
            let reason = "it is not a file".to_owned();
            return Err(ProfileError::Damaged { path: from.to_owned(), reason });
        }
        Ok(_) => {}
    }
    let bytes = fs::read(from).map_err(ProfileError::io("read", from))?;
    write_new(to, mode, &bytes).map_err(ProfileError::io("write", to))?;
    Ok(true)
}

/// Copies a tree of files and directories, and notes what is neither: a link
/// could lead back into the profile that was copied, or anywhere.
pub(crate) fn copy_tree(
    from: &Path,
    to: &Path,
    depth: usize,
    left_out: &mut Vec<PathBuf>,
) -> Result<(), ProfileError> {
    match fs::symlink_metadata(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ProfileError::io("read", from)(error)),
        Ok(metadata) if metadata.is_dir() && depth < MAX_DEPTH => {}
        Ok(metadata) if metadata.is_file() => {
            let executable = metadata.permissions().mode() & 0o100 != 0;
            return copy_file(from, to, if executable { 0o700 } else { 0o600 }).map(drop);
        }
        Ok(_) => {
            left_out.push(from.to_owned());
            return Ok(());
        }
    }
    make_private(to).map_err(ProfileError::io("make", to))?;
    for entry in fs::read_dir(from).map_err(ProfileError::io("read", from))? {
        let entry = entry.map_err(ProfileError::io("read", from))?;
        copy_tree(&entry.path(), &to.join(entry.file_name()), depth + 1, left_out)?;
    }
    Ok(())
}
