//! Changing `config.yaml`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::{ConfigError, FileProblem};
use crate::files;
use crate::key::{AnyKey, Secrecy};
use crate::layers::{GivenValue, Override, SettingLayer, ValueSource};
use crate::schema::Schema;
use crate::settings::{self, Settings};
use crate::value::{MASK, SettingInput};
use crate::yaml::{self, EditError, YamlNode};

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;

/// What setting a key did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetOutcome {
    /// The key under the name it has in the file.
    pub name: String,
    /// The file that was changed.
    pub path: PathBuf,
    /// What hides the new value, if something does.
    pub hidden_by: Option<ValueSource>,
}

/// Why a key was not set. The file is as it was.
#[derive(Debug, Error)]
pub enum SetError {
    /// The key or the value is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The value says nothing.
    #[error("an empty value would set nothing; to go back to the default: vestal config unset {key} ({})", path.display())]
    Empty {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The value has asterisks where its secret is: it was shown, and not meant.
    #[error(
        "{key} has {MASK} in it, which stands for a secret that is not shown; write the secret, or ${{NAME}} for one in .env"
    )]
    Masked {
        /// The key.
        key: &'static str,
    },
    /// Only lists of text can be added to.
    #[error("{key} is not a list of text that items can be added to")]
    NoList {
        /// The key.
        key: &'static str,
    },
    /// Only maps have entries.
    #[error("{key} is not a map of entries")]
    NoMap {
        /// The key.
        key: &'static str,
    },
    /// The file cannot be read.
    #[error("{}: {problem}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// The file cannot be edited without risk.
    #[error("{} was not changed: {reason}; set {key} there by hand", path.display())]
    Edit {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: EditError,
    },
    /// The entry cannot be taken out without risk.
    #[error("{} was not changed: {reason}; take {name} out there by hand", path.display())]
    Remove {
        /// The entry.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: EditError,
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

/// Sets a key in the profile's `config.yaml` and changes nothing else in it:
/// comments, order and formatting stay. The value is written as it was given.
///
/// Several processes may do this at once. The file is replaced in one step and
/// keeps its mode, its owner and, when it is a symbolic link, its place.
pub fn set(settings: &Settings, name: &str, value: &str) -> Result<SetOutcome, SetError> {
    let key = settings.schema.require(name)?;
    let node = wanted(key, name, value, &settings.home().config_file())?;
    let edit = |text: &str, path: &[&str]| yaml::set(text, path, &node);
    let is_right = |written: &YamlNode| {
        let value = key.read_untyped(SettingInput::Node(written));
        value.is_ok() && value == key.read_untyped(SettingInput::Node(&node))
    };
    edit_file(settings, key, edit, is_right)
}

/// Says what [`set`] would say of a value, and changes nothing.
pub fn check_value(settings: &Settings, name: &str, value: &str) -> Result<(), SetError> {
    let key = settings.schema.require(name)?;
    wanted(key, name, value, &settings.home().config_file()).map(drop)
}

/// Takes a key out of the profile's `config.yaml`, under whatever name the file has it, and changes
/// nothing else in it. Returns nothing if the file does not have it.
///
/// A name that no key has can be taken out, too: it may be a misspelt one.
pub fn unset(settings: &Settings, name: &str) -> Result<Option<SetOutcome>, SetError> {
    let key = settings.schema.require(name);
    let names: Vec<&str> = match &key {
        Ok(key) => std::iter::once(key.name()).chain(key.aliases().iter().copied()).collect(),
        Err(_) => vec![name],
    };
    let link = settings.home().config_file();
    let failed = |path: &Path, error| SetError::Write { path: path.to_owned(), error };
    let target = LockedFile::open(&link).map_err(|error| failed(&link, error))?;
    let read = |problem| SetError::Read { path: target.path.clone(), problem };
    let text = files::read_text(&target.path).map_err(read)?.unwrap_or_default();
    let root = files::parse_sections(&text).map_err(read)?;
    let mut edited = text.clone();
    let mut removed = None;
    for own in names {
        let node = root.as_ref().and_then(|root| at(root, own));
        if node.is_none_or(|node| settings.schema.is_whole_section(own, node)) {
            continue;
        }
        let path: Vec<&str> = own.split('.').collect();
        let without = yaml::remove(&edited, &path).map_err(|reason| SetError::Remove {
            name: own.to_owned(),
            path: target.path.clone(),
            reason,
        })?;
        if let Some(without) = without {
            edited = without;
            removed = Some(own.to_owned());
        }
    }
    let Some(name) = removed else {
        // A name that is neither in the file nor a key is an error of the caller.
        return key.map(|_| None).map_err(SetError::from);
    };
    target.replace(&edited).map_err(|error| failed(&target.path, error))?;
    let hidden_by = key.ok().and_then(|key| hidden_by(settings, key));
    Ok(Some(SetOutcome { name, path: link, hidden_by }))
}

/// Changes the profile's `config.yaml` under its lock: the text is replaced by
/// what `edit` makes of it, unless the key then reads as something that is not right.
pub(crate) fn edit_file(
    settings: &Settings,
    key: &dyn AnyKey,
    edit: impl FnOnce(&str, &[&str]) -> Result<String, EditError>,
    is_right: impl FnOnce(&YamlNode) -> bool,
) -> Result<SetOutcome, SetError> {
    let link = settings.home().config_file();
    let target =
        LockedFile::open(&link).map_err(|error| SetError::Write { path: link.clone(), error })?;
    let read = |problem| SetError::Read { path: target.path.clone(), problem };
    let text = files::read_text(&target.path).map_err(read)?.unwrap_or_default();
    let root = files::parse_sections(&text).map_err(read)?;
    let name = name_in_file(&settings.schema, root.as_ref(), key);
    let path: Vec<&str> = name.split('.').collect();
    let refused = |reason| SetError::Edit { key: key.name(), path: target.path.clone(), reason };
    let edited = edit(&text, &path).map_err(refused)?;
    let root = files::parse_sections(&edited).ok().flatten();
    if !root.as_ref().and_then(|root| at(root, name)).is_some_and(is_right) {
        return Err(refused(EditError::Unsafe));
    }
    if edited != text {
        target
            .replace(&edited)
            .map_err(|error| SetError::Write { path: target.path.clone(), error })?;
    }
    Ok(SetOutcome { name: name.to_owned(), path: link, hidden_by: hidden_by(settings, key) })
}

/// Returns the value as it will stand in the file, once it is known to be allowed.
fn wanted(key: &dyn AnyKey, name: &str, value: &str, path: &Path) -> Result<YamlNode, SetError> {
    if key.secrecy() != Secrecy::Public && value.contains(MASK) {
        return Err(SetError::Masked { key: key.name() });
    }
    let given = Override::new(name, value);
    let input = given.input();
    let invalid = |refusal| {
        let source = ValueSource::as_given();
        ConfigError::Invalid(settings::invalid(key, &GivenValue { source, input }, refusal))
    };
    let read = key.read_untyped(input).map_err(invalid)?;
    // A value that would have no effect is refused here, though a file may have it.
    if let Some(doubt) = key.doubt(input) {
        return Err(invalid(doubt).into());
    }
    if read.is_none() {
        return Err(SetError::Empty { key: key.name(), path: path.to_owned() });
    }
    let not_text =
        || SetError::Edit { key: key.name(), path: path.to_owned(), reason: EditError::Unsafe };
    match input {
        SettingInput::Node(node) => Ok(node.clone()),
        SettingInput::Text(text) => {
            let text = text.to_str().ok_or_else(not_text)?;
            Ok(YamlNode::scalar_for(text, key.schema()["type"] == "string"))
        }
    }
}

/// Returns the name under which the file already has the key, else its own name.
fn name_in_file(schema: &Schema, root: Option<&YamlNode>, key: &dyn AnyKey) -> &'static str {
    let present = |name: &&&'static str| {
        let node = root.and_then(|root| at(root, name));
        node.is_some_and(|node| !schema.is_whole_section(name, node))
    };
    if root.is_some_and(|root| at(root, key.name()).is_some()) {
        return key.name();
    }
    key.aliases().iter().find(present).copied().unwrap_or(key.name())
}

fn at<'a>(root: &'a YamlNode, name: &str) -> Option<&'a YamlNode> {
    root.at(&name.split('.').collect::<Vec<_>>())
}

/// Returns what is asked before `config.yaml` and says something.
fn hidden_by(settings: &Settings, key: &dyn AnyKey) -> Option<ValueSource> {
    SettingLayer::ORDER
        .into_iter()
        .filter(|layer| *layer != SettingLayer::File)
        .filter_map(|layer| settings.given(layer, key).ok())
        .flatten()
        .find(|given| !matches!(key.read_untyped(given.input), Ok(None)))
        .map(|given| given.source)
}

/// The file to be replaced, with the lock that keeps others from doing so.
pub(crate) struct LockedFile {
    pub(crate) path: PathBuf,
    /// The directory of the file. Its lock is held until this is dropped; a
    /// lock on the file itself would not outlive its replacement.
    directory: File,
}

impl LockedFile {
    /// Follows a link to the file it means, makes the directory when there is
    /// none, and waits for the lock.
    pub(crate) fn open(link: &Path) -> io::Result<Self> {
        let parent = link.parent().ok_or(ErrorKind::InvalidInput)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let path = match fs::canonicalize(link) {
            Ok(path) => path,
            // A link to a file that is not there yet is not replaced by a file.
            Err(error) if error.kind() == ErrorKind::NotFound && !link.is_symlink() => {
                link.to_owned()
            }
            Err(error) => return Err(error),
        };
        let directory = File::open(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
        directory.lock()?;
        Ok(Self { path, directory })
    }

    pub(crate) fn replace(&self, text: &str) -> io::Result<()> {
        // Only the holder of the lock uses the name, so one left by a crash is stale.
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(".vestal-new");
        let new = self.path.with_file_name(name);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let written = self.write_new(&new, text).and_then(|()| fs::rename(&new, &self.path));
        if let Err(error) = written {
            // The first error is the one that matters; the leftover is harmless.
            drop(fs::remove_file(&new));
            return Err(error);
        }
        self.directory.sync_all()
    }

    fn write_new(&self, new: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        if let Ok(old) = fs::metadata(&self.path) {
            let own = file.metadata()?;
            if (old.uid(), old.gid()) != (own.uid(), own.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}
