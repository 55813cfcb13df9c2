//! How far a sync is, told now and then once it takes a while.

use std::time::{Duration, Instant};

use crate::{Progress, ProgressSink};

/// How long something takes before its progress is told.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Counts files and bytes of one step of a sync.
pub(super) struct Meter<'p> {
    begun: Instant,
    told: Option<Instant>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) total: u64,
    what: &'static str,
    progress: &'p ProgressSink,
}

impl<'p> Meter<'p> {
    pub(super) fn new(progress: &'p ProgressSink, what: &'static str, total: u64) -> Self {
        Self { begun: Instant::now(), told: None, files: 0, bytes: 0, total, what, progress }
    }

    pub(super) fn count(&mut self, files: u64, bytes: u64) {
        self.files += files;
        self.bytes += bytes;
        let is_short = self.begun.elapsed() < TELL_AFTER;
        if is_short || self.told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        self.progress.report(Progress::Copying {
            what: self.what.to_owned(),
            files: self.files,
            bytes: self.bytes,
            total: Some(self.total),
        });
    }
}
