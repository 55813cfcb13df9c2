//! What a sandbox made of namespaces is planned from, as the machine it is made on tells it.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::enclosure::UserLimits;

/// What is known about a machine and its user. The stage gathers it there; the plan is made
/// elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MachineSurvey {
    /// The number of the user.
    #[n(0)]
    pub uid: u32,
    /// The number of the user's group.
    #[n(1)]
    pub gid: u32,
    /// Name of the user, else the number.
    #[n(2)]
    pub user: String,
    /// The system directories.
    #[n(3)]
    pub system: Vec<SurveyedDir>,
    /// Restricted directories inside of the system directories.
    #[n(4)]
    pub restricted: Vec<ByteVec>,
    /// Whether the system directories contain `/bin/sh`.
    #[n(5)]
    pub has_shell: bool,
    /// Limits of the user for what the kernel counts per user.
    #[n(6)]
    pub quotas: UserLimits,
    /// The user ids that the user is root of, as the kernel writes them.
    #[n(7)]
    pub uid_map: String,
    /// The group ids.
    #[n(8)]
    pub gid_map: String,
    /// What the machine's settings say about namespaces: the name of a setting and its value.
    #[n(9)]
    pub sysctls: Vec<(String, String)>,
}

/// A system directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SurveyedDir {
    /// Its name below `/`.
    #[n(0)]
    pub name: String,
    /// What it is.
    #[n(1)]
    pub kind: SurveyedKind,
}

/// Whether a system directory is a directory or a link.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum SurveyedKind {
    /// A directory.
    #[n(0)]
    Directory {
        /// Its real path.
        #[n(0)]
        source: ByteVec,
        /// Its permissions.
        #[n(1)]
        mode: u32,
    },
    /// A link into another system directory.
    #[n(1)]
    Link {
        /// Its text.
        #[n(0)]
        text: ByteVec,
    },
}
