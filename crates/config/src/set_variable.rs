//! Changing `.env`.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use thiserror::Error;

use crate::error::FileProblem;
use crate::files;
use crate::files::DotEnv;
use crate::kinds::EnvName;
use crate::set::LockedFile;
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
    edit_dotenv(settings, |text| Some(with_variable(text, name, value)))
}

/// Takes a variable out of the profile's `.env` and changes nothing else in it. Returns the path, and
/// nothing where the file does not have the variable.
pub fn remove_variable(
    settings: &Settings,
    name: &EnvName,
) -> Result<Option<PathBuf>, SetVariableError> {
    let mut is_there = false;
    let path = edit_dotenv(settings, |text| {
        let without = without_variable(text, name);
        is_there = without.is_some();
        without
    })?;
    Ok(is_there.then_some(path))
}

/// Replaces the text of `.env` under its lock, unless there is nothing to change.
fn edit_dotenv(
    settings: &Settings,
    edit: impl FnOnce(&str) -> Option<String>,
) -> Result<PathBuf, SetVariableError> {
    let link = settings.home().env_file();
    let write = |error| SetVariableError::Write { path: link.clone(), error };
    let target = LockedFile::open(&link).map_err(write)?;
    let text = files::read_text(&target.path)
        .map_err(|problem| SetVariableError::Read { path: target.path.clone(), problem })?
        .unwrap_or_default();
    let Some(edited) = edit(&text) else { return Ok(link) };
    // Before the secret is in it: the new file has the mode of the old one.
    if let Ok(found) = fs::metadata(&target.path)
        && found.mode() & 0o777 != MODE
    {
        fs::set_permissions(&target.path, Permissions::from_mode(MODE)).map_err(write)?;
    }
    target.replace(&edited).map_err(write)?;
    Ok(link)
}

/// Returns the text without the lines of a variable; none where it has none.
fn without_variable(text: &str, name: &EnvName) -> Option<String> {
    let parsed = DotEnv::parse(text.as_bytes());
    let own: Vec<_> = parsed
        .entries
        .iter()
        .filter(|entry| entry.name == *name)
        .map(|entry| entry.line..entry.next_line)
        .collect();
    let is_kept = |number: usize| !own.iter().any(|lines| lines.contains(&number));
    let lines = (1..).zip(text.split_inclusive('\n'));
    let kept = lines.filter(|(number, _)| is_kept(*number)).map(|(_, line)| line).collect();
    (!own.is_empty()).then_some(kept)
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
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::home::Home;

    fn name(name: &str) -> EnvName {
        EnvName::new(name).unwrap()
    }

    fn settings(dir: &std::path::Path) -> Settings {
        let none: [(&str, &str); 0] = [];
        Settings::load(&crate::schema(), Home::at(dir), Environment::from_pairs(none), Vec::new())
    }

    #[test]
    fn what_is_written_is_read_as_it_was_given() {
        for value in
            ["sk-1", "", " a b ", "it's", "\"q\" $HOME \\n 'x'", "a#b # c", "é ✓", "'", "\\"]
        {
            let text = with_variable("", &name("KEY"), value);
            let parsed = DotEnv::parse(text.as_bytes());
            assert_eq!(parsed.get("KEY").map(|entry| entry.value.to_str().unwrap()), Some(value));
            assert!(parsed.malformed.is_empty(), "{text}");
        }
    }

    #[test]
    fn everything_else_in_the_file_stays() {
        let before = "# mine\nA=1\nexport KEY='old\nsecret' # why\nnonsense\nKEY=older\nB=2";
        let after = with_variable(before, &name("KEY"), "new");
        assert_eq!(after, "# mine\nA=1\nKEY=new\nnonsense\nB=2");
        assert_eq!(with_variable("A=1", &name("KEY"), "new"), "A=1\nKEY=new\n");
    }

    #[test]
    fn the_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".env");
        let mode = || fs::metadata(&file).unwrap().mode() & 0o777;
        assert_eq!(set_variable(&settings(dir.path()), &name("KEY"), "1").unwrap(), file);
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        set_variable(&settings(dir.path()), &name("KEY"), "2").unwrap();
        assert_eq!((mode(), fs::read_to_string(&file).unwrap()), (0o600, "KEY=2\n".to_owned()));
    }

    #[test]
    fn a_variable_is_taken_out_with_all_its_lines_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".env");
        fs::write(&file, "# mine\nKEY='old\nsecret'\nA=1\nKEY=older").unwrap();
        let remove = || remove_variable(&settings(dir.path()), &name("KEY")).unwrap();
        assert_eq!(remove(), Some(file.clone()));
        assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\nA=1\n");
        assert_eq!(remove(), None);
    }

    #[test]
    fn a_value_of_several_lines_is_refused_and_the_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".env"), "A=1\n").unwrap();
        let refused = set_variable(&settings(dir.path()), &name("KEY"), "a\nB=2").unwrap_err();
        assert!(matches!(refused, SetVariableError::NotOneLine { .. }));
        assert!(!refused.to_string().contains("B=2"));
        assert_eq!(fs::read_to_string(dir.path().join(".env")).unwrap(), "A=1\n");
    }
}
