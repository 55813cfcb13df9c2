//! What is said while a copy is made: lines of JSON on standard output.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use super::cancel;
use super::failure::Failure;

/// How often something is said.
const EVERY: Duration = Duration::from_millis(250);

/// After how many lines it is worth finding out how much there is in all.
const COUNT_AFTER: u32 = 2;

/// Nobody knows yet.
const UNKNOWN: u64 = u64::MAX;

/// How far a copy has come.
#[derive(Debug)]
pub(super) struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    total: AtomicU64,
    over: Mutex<bool>,
    told: Condvar,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            total: AtomicU64::new(UNKNOWN),
            over: Mutex::new(false),
            told: Condvar::new(),
        }
    }

    /// Counts something that has a name.
    pub(super) fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts content.
    pub(super) fn bytes(&self, count: u64) {
        self.bytes.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes back content that has to be copied again.
    pub(super) fn again(&self, count: u64) {
        self.bytes.fetch_sub(count, Ordering::Relaxed);
    }

    /// Counts something that cannot be copied and is of no use elsewhere.
    pub(super) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how many bytes there are in all.
    pub(super) fn total(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// Says how far the copy is a few times a second until it is over. The
    /// count of all there is begins when the copy takes long enough for it to
    /// matter: it is a walk of its own.
    pub(super) fn tell_until_over<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        count: impl FnOnce() + Send + 'scope,
    ) {
        let mut count = Some(count);
        let mut lines = 0_u32;
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            let (guard, timeout) =
                self.told.wait_timeout(over, EVERY).unwrap_or_else(PoisonError::into_inner);
            over = guard;
            if *over || !timeout.timed_out() {
                continue;
            }
            // Somebody who has gone away does not want the copy any more.
            if say(&self.line()).is_err() {
                cancel::abandon();
            }
            lines += 1;
            if lines >= COUNT_AFTER
                && let Some(count) = count.take()
            {
                scope.spawn(count);
            }
        }
    }

    /// Ends what [`Progress::tell_until_over`] does.
    pub(super) fn end(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    fn line(&self) -> String {
        let (files, bytes) =
            (self.files.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        match self.total.load(Ordering::Relaxed) {
            UNKNOWN => format!(r#"{{"files":{files},"bytes":{bytes},"total":null}}"#),
            // What was counted beforehand may have grown.
            total => format!(r#"{{"files":{files},"bytes":{bytes},"total":{}}}"#, total.max(bytes)),
        }
    }

    /// Returns the last line of a copy that is whole.
    pub(super) fn done_line(&self) -> String {
        format!(
            r#"{{"done":true,"files":{},"bytes":{},"skipped":{}}}"#,
            self.files.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
            self.skipped.load(Ordering::Relaxed)
        )
    }
}

/// Returns the last line of a copy that failed; `left` is what could not be
/// removed again.
pub(super) fn failed_line(failure: &Failure, left: Option<&Path>) -> String {
    let path = failure.path().map(|path| path.to_string_lossy());
    let left = left.map(Path::to_string_lossy);
    let text = |text: Option<&str>| text.map_or_else(|| "null".to_owned(), quoted);
    let errno = failure.errno().map_or_else(|| "null".to_owned(), |errno| errno.to_string());
    format!(
        r#"{{"error":{{"action":{},"path":{},"errno":{errno},"message":{},"left":{}}}}}"#,
        quoted(failure.action()),
        text(path.as_deref()),
        quoted(&failure.to_string()),
        text(left.as_deref()),
    )
}

/// Writes a line to standard output.
pub(super) fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Returns a text as JSON has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if u32::from(control) < 0x20 => {
                // Writing to a string does not fail.
                write!(quoted, "\\u{:04x}", u32::from(control)).ok();
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_called_does_not_break_a_line() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}é"), r#""a\"b\\c\u000ad\u0001é""#);
    }
}
