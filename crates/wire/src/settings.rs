//! Settings of a guest.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::job::EnvVar;

/// Part of the error of a guest that does not start because the journal in its
/// state directory is another file. Hosts search for it.
pub const NOT_A_JOURNAL: &str = "is not a journal";

/// Settings of one instance's guest. Written by the host, read once at the start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct GuestSettings {
    /// The instance.
    #[n(0)]
    pub instance: String,
    /// Hash of the sandbox's key.
    #[n(1)]
    pub key: String,
    /// Generation of the instance.
    #[n(2)]
    pub generation: u64,
    /// Directory for journal, logs and sessions; kept across starts.
    #[n(3)]
    pub state_dir: ByteVec,
    /// Directory of the socket `guest.sock`.
    #[n(4)]
    pub socket_dir: ByteVec,
    /// Idle milliseconds after which the guest ends; absent: never.
    #[n(5)]
    pub retention_ms: Option<u64>,
    /// The guest ends when no [`crate::HostRole::Owner`] has been connected for this
    /// many milliseconds.
    #[n(6)]
    pub owner_grace_ms: Option<u64>,
    /// Environment of jobs that have none.
    #[n(7)]
    pub env: Vec<EnvVar>,
    /// Home of the user that commands run as: the meaning of `~`.
    #[n(8)]
    pub home: ByteVec,
    /// Directory of sessions without one.
    #[n(9)]
    pub start_dir: ByteVec,
    /// Maximum log size of each stream of a job, in bytes.
    #[n(10)]
    pub log_bytes: u64,
    /// Maximum number of ended jobs on record; the oldest are forgotten first.
    #[n(11)]
    pub jobs_kept: u32,
    /// Instances that used the state directory before and are certainly gone.
    /// Processes that still carry their mark are killed at the start.
    #[n(12)]
    pub previous_instances: Vec<String>,
    /// Removes the socket and state directories at the end.
    #[n(13)]
    pub ephemeral: bool,
    /// User that jobs and file operations run as, as an image names it: a name or
    /// number, optionally with `:` and a group. Looked up in the instance's own
    /// `/etc/passwd` at every start. Absent: the guest's own user.
    #[n(14)]
    pub user: Option<String>,
    /// Permissions of the socket; absent: only for the guest's own user.
    #[n(15)]
    pub socket_mode: Option<u32>,
    /// Whether jobs inherit the guest's environment, which `env` overrides.
    #[n(16)]
    #[cbor(skip_if = "is_false")]
    pub inherit_env: bool,
    /// Directories that are given to the user of jobs at every start, without
    /// their content, if the guest may do so.
    #[n(17)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub hand_over: Vec<ByteVec>,
}

/// Fields that are not used are not written, so that settings without new fields
/// have the same bytes as before the fields existed.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the codec calls it with a reference")]
pub(crate) const fn is_false(value: &bool) -> bool {
    !*value
}
