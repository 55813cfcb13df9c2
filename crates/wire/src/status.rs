//! What a guest says of itself.

use minicbor::{Decode, Encode};

/// The guest's state, as listings need it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Status {
    /// Milliseconds since the last use; 0 while a job runs.
    #[n(0)]
    pub idle_ms: u64,
    /// Milliseconds of idleness left before the guest ends by itself.
    #[n(1)]
    pub expires_in_ms: Option<u64>,
    /// Jobs whose shell runs.
    #[n(2)]
    pub jobs_running: u32,
    /// Jobs on record.
    #[n(3)]
    pub jobs_known: u32,
    /// Milliseconds since the guest started.
    #[n(4)]
    pub up_ms: u64,
    /// Last use, in milliseconds of Unix time.
    #[n(5)]
    pub last_used_ms: u64,
}

/// What a sandbox consumes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Stats {
    /// Processes of the sandbox, without the guest's own.
    #[n(0)]
    pub processes: u32,
    /// Their resident memory in bytes.
    #[n(1)]
    pub memory_bytes: u64,
    /// CPU time of the living ones and of all that ended, in milliseconds.
    #[n(2)]
    pub cpu_ms: u64,
    /// Bytes of job logs.
    #[n(3)]
    pub log_bytes: u64,
    /// Resident memory of the guest in bytes.
    #[n(4)]
    pub guest_bytes: u64,
}
