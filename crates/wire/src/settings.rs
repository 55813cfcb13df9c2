//! What a guest is told when it starts.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::job::EnvVar;

/// What a guest says, among other words, that does not start because the journal
/// in its state directory is something else. Hosts look for it.
pub const NOT_A_JOURNAL: &str = "is not a journal";

/// Settings of one instance's guest. Written by the host, read once at start.
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
    /// Directory the socket `guest.sock` is made in.
    #[n(4)]
    pub socket_dir: ByteVec,
    /// Idle milliseconds after which the guest ends by itself; absent: never.
    #[n(5)]
    pub retention_ms: Option<u64>,
    /// The guest ends when the last [`crate::Role::Owner`] connection has been
    /// gone for this many milliseconds, or none came for as long after the start.
    #[n(6)]
    pub owner_grace_ms: Option<u64>,
    /// Environment of jobs that bring none.
    #[n(7)]
    pub env: Vec<EnvVar>,
    /// Home of the user commands run as: what `~` means.
    #[n(8)]
    pub home: ByteVec,
    /// Directory of sessions that have none.
    #[n(9)]
    pub start_dir: ByteVec,
    /// Bytes each stream of a job's log may take.
    #[n(10)]
    pub log_bytes: u64,
    /// Ended jobs kept on record; the oldest are forgotten first.
    #[n(11)]
    pub jobs_kept: u32,
    /// Instances that lived in the state directory before and are gone for
    /// sure. Processes that still carry their mark are killed at the start.
    #[n(12)]
    pub previous_instances: Vec<String>,
    /// Removes the socket and state directories at the end.
    #[n(13)]
    pub ephemeral: bool,
    /// User that jobs and file operations run as, as an image names it: a name
    /// or number, with or without `:` and a group. Looked up in the instance's
    /// own `/etc/passwd` at each start. Absent: the guest's own user.
    #[n(14)]
    pub user: Option<String>,
    /// Permissions of the socket; absent: for the guest's own user alone.
    #[n(15)]
    pub socket_mode: Option<u32>,
    /// Whether the variables the guest was started with come before `env`.
    #[n(16)]
    #[cbor(skip_if = "is_false")]
    pub inherit_env: bool,
    /// Directories that are given to the user of jobs at each start, where the
    /// guest may: they themselves, not what is in them.
    #[n(17)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub hand_over: Vec<ByteVec>,
}

/// What was not said before the field existed is not said now either: settings
/// that use nothing new are the same bytes as ever.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the codec calls it with a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}
