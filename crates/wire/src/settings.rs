//! What a guest is told when it starts.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::job::EnvVar;

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
    pub forebears: Vec<String>,
    /// Removes the socket and state directories at the end.
    #[n(13)]
    pub ephemeral: bool,
}
