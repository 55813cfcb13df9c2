//! What is under way, for work that takes more than a moment.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::text;

/// Work that takes longer than this is spoken of.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two changes of a line.
const TICK: Duration = Duration::from_millis(100);

/// Begins the line anew and clears it.
const CLEAR: &str = "\r\x1b[2K";

/// A line on standard error that says how far a copy is; only on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    shown: Option<Instant>,
    enabled: bool,
    files: u64,
    bytes: u64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let enabled = io::stderr().is_terminal();
        Self { begun: Instant::now(), shown: None, enabled, files: 0, bytes: 0 }
    }

    /// Counts bytes that were copied.
    pub(crate) fn add_bytes(&mut self, count: usize) {
        self.bytes += count as u64;
        self.show();
    }

    /// Counts a file that was copied.
    pub(crate) fn add_file(&mut self) {
        self.files += 1;
        self.show();
    }

    /// Returns how many files and bytes were copied.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.files, self.bytes)
    }

    fn show(&mut self) {
        let due = self.shown.map_or(self.begun + PATIENCE, |shown| shown + TICK);
        if !self.enabled || Instant::now() < due {
            return;
        }
        self.shown = Some(Instant::now());
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate for people"
        )]
        let rate = (self.bytes as f64 / self.begun.elapsed().as_secs_f64()) as u64;
        line(&format!(
            "{CLEAR}{}, {} copied ({}/s)",
            text::count(self.files, "file"),
            text::bytes(self.bytes),
            text::bytes(rate),
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            line(CLEAR);
        }
    }
}

/// Awaits some work and says what it is if that takes long.
pub(super) async fn while_waiting<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    if !io::stderr().is_terminal() {
        return work.await;
    }
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(PATIENCE) => {}
    }
    line(&format!("{CLEAR}{what} …"));
    let done = work.await;
    line(CLEAR);
    done
}

/// Writes to standard error; a terminal that is gone misses nothing.
fn line(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}
