//! The state of a session between two commands.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::EnvVar;

/// The shell a state was saved by.
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
pub(super) struct Variable {
    /// Its name.
    #[n(0)]
    pub(super) name: ByteVec,
    /// The statement that makes it again.
    #[n(1)]
    pub(super) statement: ByteVec,
}

/// Shows the name only: values may be private.
impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Variable({})", String::from_utf8_lossy(&self.name))
    }
}

/// What a session keeps from one command for the next: a directory, and the
/// difference to the environment that each launch brings.
///
/// Everything but the directory is kept as text for the shell that printed it.
/// The default is the state of a session in which nothing was run yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct SavedSession {
    /// The directory the last command ended in; empty for a new session.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub cwd: Vec<u8>,
    /// The one before, for `cd -`.
    #[n(1)]
    pub(super) previous_cwd: Option<ByteVec>,
    /// The shell that the rest is written for.
    #[n(2)]
    pub(super) shell: ShellKind,
    /// Variables of the launch's environment that are not to be exported.
    #[n(3)]
    pub(super) withdrawn: Vec<ByteVec>,
    /// Variables that the launch's environment has not or has otherwise.
    #[n(4)]
    pub(super) variables: Vec<Variable>,
    /// Functions.
    #[n(5)]
    pub(super) functions: Vec<Function>,
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
    /// Those variables that a shell can be given as its environment.
    #[n(12)]
    pub(super) exported: Vec<EnvVar>,
    /// The major version of the bash that wrote this.
    #[n(13)]
    pub(super) bash_major: Option<u32>,
}

/// One function of a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Function {
    /// Its name.
    #[n(0)]
    pub(super) name: ByteVec,
    /// Its definition as bash prints it.
    #[n(1)]
    pub(super) definition: ByteVec,
}

/// Options that differ from what a fresh shell has.
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

    /// Tells whether a shell will have aliases from this session.
    pub(crate) fn has_aliases_for(&self, shell: ShellKind) -> bool {
        self.shell == shell && !self.aliases.is_empty()
    }
}
