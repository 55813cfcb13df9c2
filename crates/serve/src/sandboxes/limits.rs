//! How much a client may ask for at once, and how much an answer has.

use std::time::Duration;

/// Requests of one connection that have no answer yet; one more is refused.
pub(super) const REQUESTS: usize = 256;

/// Bytes that may wait to be read by the client before no further request is read.
pub(super) const UNREAD: usize = 4 << 20;

/// Bytes that are kept of each stream of a command unless the request says otherwise, and at most.
pub(super) const OUTPUT: u32 = 1 << 20;
pub(super) const MAX_OUTPUT: u32 = 8 << 20;

/// Bytes of each stream of a log that an answer has unless the request says otherwise, and at most.
pub(super) const LOG: u64 = 256 << 10;
pub(super) const MAX_LOG: u64 = 4 << 20;

/// Bytes of a file that an answer has unless the request says otherwise, and at most.
pub(super) const FILE: u64 = 1 << 20;
pub(super) const MAX_FILE: u64 = 4 << 20;

/// Entries, matches, jobs and tasks that are listed unless the request says otherwise, and at most.
pub(super) const LISTED: u32 = 200;
pub(super) const MAX_LISTED: u32 = 1000;

/// Lines of context around a match, at most.
pub(super) const MAX_CONTEXT: u32 = 20;

/// Edits of one request.
pub(super) const MAX_EDITS: usize = 1000;

/// Seconds that a time limit may have.
pub(super) const MAX_SECONDS: f64 = 1e9;

/// How long a cancelled request waits until nothing of its command is left.
pub(super) const KILL_WITHIN: Duration = Duration::from_secs(15);

/// How long the output of a command that was killed may take to end.
pub(super) const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// Bytes that may be on their way to the client at most, whatever it grants.
pub(super) const MAX_WINDOW: usize = 1 << 30;
