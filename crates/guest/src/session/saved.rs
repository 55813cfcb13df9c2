//! The state of a session between two commands, in memory and on disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::EnvVar;

use crate::state_file;

/// Version of the file format.
const VERSION: u32 = 1;

/// Maximum size of a session file. What a shell prints of its state is much smaller.
const MAX_SIZE: u64 = 64 << 20;

/// The shell that saved a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum ShellKind {
    /// GNU bash.
    #[n(0)]
    #[default]
    Bash,
    /// Any other shell that follows POSIX.
    #[n(1)]
    Posix,
}

/// One variable of a session.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct SavedVariable {
    #[n(0)]
    pub(super) name: ByteVec,
    /// The statement that recreates it.
    #[n(1)]
    pub(super) statement: ByteVec,
}

/// Shows only the name: values may be private.
impl std::fmt::Debug for SavedVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Variable({})", String::from_utf8_lossy(&self.name))
    }
}

/// What a session keeps from one command for the next: a directory, and the
/// difference to the environment of each launch.
///
/// Everything except the directory is kept as text for the shell that printed it.
/// The default is the state of a new session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct SavedSession {
    /// The directory the last command ended in; empty for a new session.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub cwd: Vec<u8>,
    /// The previous directory, for `cd -`.
    #[n(1)]
    pub(super) previous_cwd: Option<ByteVec>,
    /// The shell that the other fields are written for.
    #[n(2)]
    pub(super) shell: ShellKind,
    /// Variables of the launch's environment that are not exported any more.
    #[n(3)]
    pub(super) withdrawn: Vec<ByteVec>,
    /// Variables that differ from the launch's environment.
    #[n(4)]
    pub(super) variables: Vec<SavedVariable>,
    #[n(5)]
    pub(super) functions: Vec<SavedFunction>,
    /// Statements that give functions their attributes.
    #[n(6)]
    pub(super) function_attributes: Vec<ByteVec>,
    /// Arguments for `alias`, one each.
    #[n(7)]
    pub(super) aliases: Vec<ByteVec>,
    /// Options of `shopt` to turn on and off.
    #[n(8)]
    pub(super) shopt: Switches,
    /// Options of `set -o` to turn on and off.
    #[n(9)]
    pub(super) set: Switches,
    /// The file mode creation mask, in octal.
    #[n(10)]
    pub(super) umask: Option<ByteVec>,
    /// Arguments for `trap`, one signal each.
    #[n(11)]
    pub(super) traps: Vec<ByteVec>,
    /// Variables that can be passed in the environment.
    #[n(12)]
    pub(super) exported: Vec<EnvVar>,
    /// Major version of the bash that wrote this.
    #[n(13)]
    pub(super) bash_major: Option<u32>,
}

/// One function of a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SavedFunction {
    #[n(0)]
    pub(super) name: ByteVec,
    /// Its definition as bash prints it.
    #[n(1)]
    pub(super) definition: ByteVec,
}

/// Options that differ from the defaults of a new shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(super) struct Switches {
    /// Those to turn on.
    #[n(0)]
    pub(super) on: Vec<ByteVec>,
    /// Those to turn off.
    #[n(1)]
    pub(super) off: Vec<ByteVec>,
}

impl SavedSession {
    /// Returns the directory that `cd -` leads to.
    pub(crate) fn previous_cwd(&self) -> Option<&[u8]> {
        self.previous_cwd.as_deref().map(Vec::as_slice)
    }

    /// Returns whether a shell gets aliases from this session.
    pub(crate) fn has_aliases_for(&self, shell: ShellKind) -> bool {
        self.shell == shell && !self.aliases.is_empty()
    }

    /// Reads a session. Returns `None` if the file does not exist. A damaged
    /// file, or one of a newer version, is an error and is not changed.
    pub fn load(path: &Path) -> io::Result<Option<Self>> {
        Self::read(state_file::open_to_read(path))
    }

    /// Reads a session from its file, as [`SavedSession::load`] does.
    pub(crate) fn read(file: io::Result<File>) -> io::Result<Option<Self>> {
        match file {
            Ok(file) => {
                let mut bytes = Vec::new();
                file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > MAX_SIZE {
                    return Err(SavedError::TooLarge.into());
                }
                Ok(Some(parse(&bytes)?))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a session, or begins a new one if something that is not a session is in the
    /// file's place: jobs that run as the guest's user can put anything there. That is
    /// moved aside, and its new path returned.
    pub(crate) fn load_or_begin(path: &Path) -> io::Result<(Self, Option<PathBuf>)> {
        match Self::load(path) {
            Ok(saved) => Ok((saved.unwrap_or_default(), None)),
            Err(error) if is_no_session(&error) || state_file::is_foreign(path) => {
                let aside = beside(path, ".damaged");
                // A directory is only replaced by another one, and a file by a file.
                match fs::symlink_metadata(&aside) {
                    Ok(found) if found.is_dir() => fs::remove_dir_all(&aside)?,
                    Ok(_) => fs::remove_file(&aside)?,
                    Err(_) => {}
                }
                fs::rename(path, &aside)?;
                Ok((Self::default(), Some(aside)))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a session, unless the file already has this content. If this is
    /// interrupted, the file has either the old or the new state.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        let bytes = minicbor::to_vec(SavedBody { version: VERSION, session: self })
            .map_err(io::Error::other)?;
        // Most commands change nothing, and replacing a file takes much longer
        // than reading it.
        if holds(path, &bytes) {
            return Ok(());
        }
        // A session file has one writer at a time, so the name need not be unique, and
        // a leftover of a crash is overwritten.
        let temporary = beside(path, ".new");
        let written = write_new(&temporary, &bytes).and_then(|()| {
            state_file::clear(path)?;
            fs::rename(&temporary, path)
        });
        if written.is_err() {
            // The first error is reported.
            drop(fs::remove_file(&temporary));
        }
        written
    }
}

/// The start of every session file, whatever its version.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Head {
    #[n(0)]
    version: u32,
}

/// A session file of this version.
#[derive(Encode, Decode)]
#[cbor(map)]
struct SavedBody<T> {
    #[n(0)]
    version: u32,
    #[n(1)]
    session: T,
}

/// A session file that cannot be used.
#[derive(Debug, thiserror::Error)]
enum SavedError {
    #[error("session file has version {found}, newer than {VERSION}, which this program knows")]
    Newer { found: u32 },
    #[error("session file is damaged: {0}")]
    Damaged(#[from] minicbor::decode::Error),
    #[error("session file is damaged: it is larger than {} MiB", MAX_SIZE >> 20)]
    TooLarge,
}

/// Returns whether a file was read and is not a session of any version.
pub(crate) fn is_no_session(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<SavedError>());
    matches!(error, Some(SavedError::Damaged(_) | SavedError::TooLarge))
}

impl From<SavedError> for io::Error {
    fn from(error: SavedError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

fn parse(bytes: &[u8]) -> Result<SavedSession, SavedError> {
    let Head { version } = minicbor::decode(bytes)?;
    if version > VERSION {
        return Err(SavedError::Newer { found: version });
    }
    let SavedBody { session, .. } = minicbor::decode(bytes)?;
    Ok(session)
}

/// Returns whether a file has exactly this content.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    let same = || -> io::Result<bool> {
        let mut file = state_file::open_to_read(path)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            return Ok(false);
        }
        let mut content = Vec::with_capacity(bytes.len() + 1);
        file.read_to_end(&mut content)?;
        Ok(content == bytes)
    };
    // A file that cannot be read is replaced.
    same().unwrap_or(false)
}

/// Returns the path with a suffix, which no session's file has.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = state_file::make(path, OpenOptions::new().write(true).truncate(true))?;
    file.write_all(bytes)
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
