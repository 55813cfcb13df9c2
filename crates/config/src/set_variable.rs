//! Changing `.env`.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use thiserror::Error;

use crate::dotenv::DotEnv;
use crate::error::FileProblem;
use crate::files;
use crate::kinds::EnvName;
use crate::set::Target;
use crate::settings::Settings;

/// The file is its owner's alone.
const MODE: u32 = 0o600;

/// Why a variable was not put into `.env`. The file is as it was.
#[derive(Debug, Error)]
pub enum SetVariableError {
    /// The value has an end of line or a NUL in it.
    #[error("the value for {name} has an end of line or a NUL in it")]
    NotOneLine {
        /// The variable.
        name: EnvName,
    },
    /// The file cannot be read.
    #[error("{}: {problem}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// The file cannot be written.
    #[error("failed to write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// Puts a variable into the profile's `.env`, in place of what the file says of
/// it, and changes nothing else in it. Afterwards nobody else can read the file,
/// whatever its mode was. Returns its path.
///
/// Several processes may do this at once; the file is replaced in one step.
pub fn set_variable(
    settings: &Settings,
    name: &EnvName,
    value: &str,
) -> Result<PathBuf, SetVariableError> {
    if value.contains(['\n', '\r', '\0']) {
        return Err(SetVariableError::NotOneLine { name: name.clone() });
    }
    let link = settings.home().env_file();
    let write = |error| SetVariableError::Write { path: link.clone(), error };
    let target = Target::open(&link).map_err(write)?;
    let text = files::read_text(&target.path)
        .map_err(|problem| SetVariableError::Read { path: target.path.clone(), problem })?
        .unwrap_or_default();
    // Before the secret is in it: the new file has the mode of the old one.
    if let Ok(found) = fs::metadata(&target.path)
        && found.mode() & 0o777 != MODE
    {
        fs::set_permissions(&target.path, Permissions::from_mode(MODE)).map_err(write)?;
    }
    target.replace(&with_variable(&text, name, value)).map_err(write)?;
    Ok(link)
}

/// Returns the text with the variable in it, where it stood first or at the end.
fn with_variable(text: &str, name: &EnvName, value: &str) -> String {
    let parsed = DotEnv::parse(text.as_bytes());
    let earlier: Vec<_> = parsed
        .entries
        .iter()
        .filter(|entry| entry.name == *name)
        .map(|entry| entry.line..entry.next_line)
        .collect();
    let line = format!("{name}={}\n", quoted(value));
    let mut changed = String::with_capacity(text.len() + line.len());
    let mut pending = Some(line);
    for (number, old) in (1..).zip(text.split_inclusive('\n')) {
        if earlier.iter().any(|lines| lines.contains(&number)) {
            changed.extend(pending.take());
            continue;
        }
        changed.push_str(old);
    }
    if let Some(line) = pending {
        if !changed.is_empty() && !changed.ends_with('\n') {
            changed.push('\n');
        }
        changed.push_str(&line);
    }
    changed
}

/// Returns a value as it has to be written to be read as it is.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:+=@%,".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    if !value.contains('\'') {
        return format!("'{value}'");
    }
    let mut quoted = String::from("\"");
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
#[path = "set_variable_tests.rs"]
mod tests;
