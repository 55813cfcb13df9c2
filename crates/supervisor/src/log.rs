//! The log of a slot: every line of its child with the time, in files of limited size.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use vestal_logs::{LogEntry, LogFiles, LogWriter};

use crate::output::RawOutput;
use crate::state;

/// Size at which a file of a slot's log is full.
const MAX_BYTES: u64 = 1_000_000;
/// How many full ones are kept.
const BACKUPS: u32 = 9;
/// Characters of a child's error that are kept as the reason of its end.
const MAX_ERROR: usize = 1000;

/// Returns the log of a slot in its directory: `current`, and full ones as `current.1` to `current.9`.
pub fn slot_log_files(dir: &Path) -> LogFiles {
    LogFiles::new(dir.join("current"), MAX_BYTES, BACKUPS)
}

/// The log of one slot. Clones write to the same.
#[derive(Debug, Clone)]
pub(crate) struct SlotLog {
    writer: Arc<Mutex<LogWriter>>,
    raw: RawOutput,
    last_error: Arc<Mutex<Option<String>>>,
}

impl SlotLog {
    pub(crate) fn new(dir: &Path, raw: RawOutput) -> Self {
        let writer = LogWriter::new(slot_log_files(dir));
        Self { writer: Arc::new(Mutex::new(writer)), raw, last_error: Arc::default() }
    }

    /// Notes a line of the child, without its newline.
    pub(crate) fn line(&self, line: &[u8]) {
        if let Some(error) = error_in(line) {
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        self.write(line);
    }

    /// Notes what the supervisor did with the child.
    pub(crate) fn note(&self, text: &str) {
        self.write(format!("supervisor: {text}").as_bytes());
    }

    /// Returns the last error that the child printed.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the errors of a child that has ended, before the next one is started.
    pub(crate) fn forget_error(&self) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn write(&self, line: &[u8]) {
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
}

/// Returns the error that a line of a child is: an entry of that level, or one in words.
fn error_in(line: &[u8]) -> Option<String> {
    let text = match line.strip_prefix(b"error: ") {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        // Few lines have the word at the place where entries have it; only those are parsed.
        None if line.get(24..31) == Some(&b" ERROR "[..]) => {
            LogEntry::of_line(&String::from_utf8_lossy(line))?.message
        }
        None => return None,
    };
    Some(text.chars().take(MAX_ERROR).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_child_is_an_entry_of_that_level_or_words() {
        for (line, error) in [
            ("error: no key", Some("no key")),
            ("2026-01-31T10:00:00.123Z ERROR [-] vestal: no key", Some("no key")),
            ("2026-01-31T10:00:00.123Z WARN [-] vestal: no key", None),
            ("an error: in the middle", None),
            ("", None),
        ] {
            assert_eq!(error_in(line.as_bytes()).as_deref(), error, "{line}");
        }
        let long = format!("error: {}", "ä".repeat(2 * MAX_ERROR));
        assert_eq!(error_in(long.as_bytes()).unwrap().chars().count(), MAX_ERROR);
    }
}
