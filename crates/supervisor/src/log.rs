//! The log of a slot: every line of its child with the time, in files of limited size.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use vestal_logs::{LogFiles, LogWriter};

use crate::output::RawOutput;
use crate::state;

/// Size at which a file of a slot's log is full.
const MAX_BYTES: u64 = 1_000_000;
/// How many full ones are kept.
const BACKUPS: u32 = 9;

/// Returns the log of a slot in its directory: `current`, and full ones as `current.1` to `current.9`.
pub fn slot_log_files(dir: &Path) -> LogFiles {
    LogFiles::new(dir.join("current"), MAX_BYTES, BACKUPS)
}

/// The log of one slot. Clones write to the same.
#[derive(Debug, Clone)]
pub(crate) struct SlotLog {
    writer: Arc<Mutex<LogWriter>>,
    raw: RawOutput,
}

impl SlotLog {
    pub(crate) fn new(dir: &Path, raw: RawOutput) -> Self {
        let writer = LogWriter::new(slot_log_files(dir));
        Self { writer: Arc::new(Mutex::new(writer)), raw }
    }

    /// Notes a line of the child, without its newline.
    pub(crate) fn line(&self, line: &[u8]) {
        self.raw.line(line);
        let mut bytes = state::now().into_bytes();
        bytes.reserve(line.len() + 2);
        bytes.push(b' ');
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that follow are counted in the log once it can be written again.
        if let Err(error) = writer.write(&bytes)
            && writer.lost() == 1
        {
            tracing::warn!(%error, path = %writer.files().path().display(), "cannot write a log");
        }
    }

    /// Notes what the supervisor did with the child.
    pub(crate) fn note(&self, text: &str) {
        self.line(format!("supervisor: {text}").as_bytes());
    }
}
