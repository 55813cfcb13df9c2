//! How much a client may ask for at once, and how much an answer has.

use std::time::Duration;

/// Longest message of a client.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;

/// Requests of one connection that have no answer yet; one more is refused.
pub(crate) const REQUESTS: usize = 256;

/// Bytes that those requests have together; one that exceeds them is refused.
pub(crate) const REQUEST_BYTES: usize = 32 << 20;

/// Calls that work at the same time, of all clients together; others wait for their turn.
pub(crate) const WORKING: usize = 16;

/// Calls that wait for a command at the same time, of all clients together; one more is refused.
pub(crate) const WAITING: usize = 64;

/// How much of the beginning and of the end of each stream the result of a command has.
pub(crate) const OUTPUT_HEAD: u32 = 12 << 10;
pub(crate) const OUTPUT_TAIL: u32 = 20 << 10;

/// How much of each stream of a log an answer has unless the call says otherwise, and at most.
pub(crate) const LOG_BYTES: u64 = 16 << 10;
pub(crate) const MAX_LOG_BYTES: u64 = 256 << 10;

/// How much of a file an answer has unless the call says otherwise, and at most.
pub(crate) const FILE_BYTES: u64 = 64 << 10;
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 10;

/// How much of a text of the board an answer has, and of all its texts together before they are cut to
/// their beginnings.
pub(crate) const MAX_TEXT_BYTES: usize = 16 << 10;
pub(crate) const TEXT_BYTES: usize = 256 << 10;

/// How long a command may take unless the call says otherwise, and at most.
pub(crate) const COMMAND_SECONDS: u64 = 180;
pub(crate) const MAX_COMMAND_SECONDS: u64 = 86_400;

/// How long a job is waited for unless the call says otherwise, and at most.
pub(crate) const WAIT_SECONDS: u64 = 60;
pub(crate) const MAX_WAIT_SECONDS: u64 = 3600;

/// How often a client that wants to know is told how far a call is.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Largest resource that is read as a whole.
pub(crate) const RESOURCE_BYTES: u64 = 1 << 20;

/// Resources of each kind that are listed.
pub(crate) const RESOURCES_LISTED: u32 = 100;
