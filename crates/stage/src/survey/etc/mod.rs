//! Snapshots of a machine's `/etc` for sandboxes.
//!
//! A snapshot holds an allow-list of files that everyone on the machine can read, and accounts
//! without people.

mod allowed;
mod scan;
mod snapshot;

pub use self::scan::{APT_NO_SANDBOX, EtcEntry, EtcScan, FileState, HOSTNAME};
pub(super) use self::snapshot::make_directory;
