//! Records and what they add up to.

use std::collections::HashMap;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::{JobId, JobInfo};

use super::ledger::Ledger;

/// Starts of the guest that are remembered.
const MAX_OPENED: usize = 256;

/// One start of a guest on this journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Opened {
    #[n(0)]
    pub(crate) incarnation: String,
    #[n(1)]
    pub(crate) boot: String,
}

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Record {
    /// A guest started.
    #[n(0)]
    Opened(#[n(0)] Opened),
    /// A job is about to be started.
    #[n(1)]
    Start(#[n(0)] Box<JobInfo>),
    /// What is known of a job that ended; a later one replaces it.
    #[n(2)]
    End(#[n(0)] Box<JobInfo>),
    /// A caller was told that this id never ran, so that it never may.
    #[n(3)]
    Refused(#[n(0)] JobId),
    /// A job is no longer on record, but its id has been used.
    #[n(4)]
    Forgotten(#[n(0)] JobId),
    /// Hashes of ids, of forgotten jobs and of refused ones.
    #[n(5)]
    Ids {
        #[n(0)]
        used: ByteVec,
        #[n(1)]
        refused: ByteVec,
        /// Whether used ids were dropped before.
        #[n(2)]
        overflowed: bool,
    },
}

/// What the records of a journal add up to.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Jobs in the order of their starts.
    pub(crate) jobs: Vec<JobInfo>,
    /// Ids of jobs that are no longer on record.
    pub(crate) used: Ledger,
    /// Ids that must not be run.
    pub(crate) refused: Ledger,
    /// Starts of guests, the last ones last.
    pub(crate) opened: Vec<Opened>,
    /// Records are missing that were complete once.
    pub(crate) damaged: bool,
    index: HashMap<JobId, usize>,
}

impl Replay {
    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Opened(opened) => {
                if self.opened.len() >= MAX_OPENED {
                    self.opened.remove(0);
                }
                self.opened.push(opened);
            }
            Record::Start(info) | Record::End(info) => {
                if let Some(at) = self.index.get(&info.id) {
                    self.jobs[*at] = *info;
                } else {
                    self.index.insert(info.id.clone(), self.jobs.len());
                    self.jobs.push(*info);
                }
            }
            Record::Refused(id) => self.refused.add(&id),
            Record::Forgotten(id) => {
                self.used.add(&id);
                if let Some(at) = self.index.remove(&id) {
                    self.jobs.remove(at);
                    self.index.values_mut().filter(|i| **i > at).for_each(|i| *i -= 1);
                }
            }
            Record::Ids { used, refused, overflowed } => {
                self.used.add_bytes(&used, overflowed);
                self.refused.add_bytes(&refused, false);
            }
        }
    }
}
