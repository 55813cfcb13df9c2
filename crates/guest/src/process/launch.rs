//! What a supervisor is asked to run.

use std::os::fd::OwnedFd;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::EnvVar;

use crate::session::SavedSession;

/// What a launch runs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LaunchCommand {
    /// Text for the shell, of any length.
    #[n(0)]
    Shell(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// A program with its arguments; in a session also a function or builtin.
    #[n(1)]
    Argv(#[n(0)] Vec<ByteVec>),
}

/// One command with everything it starts from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Launch {
    /// What to run.
    #[n(0)]
    pub command: LaunchCommand,
    /// The state to start from. Absent: a plain shell or program that restores
    /// and saves nothing.
    #[n(1)]
    pub session: Option<SavedSession>,
    /// Whether the state the shell ends with is wanted.
    #[n(2)]
    pub save: bool,
    /// The environment the session's changes are applied to.
    #[n(3)]
    pub env: Vec<EnvVar>,
    /// Environment of this launch alone: it wins over `env` and over the session.
    #[n(4)]
    pub job_env: Vec<EnvVar>,
    /// The directory to start in.
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub cwd: Vec<u8>,
    /// Whether the ends are a terminal that the shell is to control.
    #[n(6)]
    pub pty: bool,
}

/// The files a command gets as its standard streams. For a terminal: its slave
/// side, three times.
#[derive(Debug)]
pub struct ChildEnds {
    /// Standard input.
    pub stdin: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
}
