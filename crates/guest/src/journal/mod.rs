//! The durable record of what was started.
//!
//! A job's id is in the journal before its command runs, so that whatever
//! happens to the guest, a caller can be told whether it ran. A record is one
//! `write` to a file opened for appending: it survives the death of the guest,
//! and a crash of the whole machine is told apart by the boot id.

mod crc;
mod file;
mod ledger;
mod record;

#[cfg(test)]
mod file_tests;

pub(crate) use file::{Journal, JournalError};
pub(crate) use ledger::Ledger;
pub(crate) use record::{Opened, Record};
