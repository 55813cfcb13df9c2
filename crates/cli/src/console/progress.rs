//! What is under way, for work that takes more than a moment.

use std::future::Future;
use std::time::{Duration, Instant};

use vestal_api::CopiedView;

use super::{status, text};

/// Work that takes longer than this is spoken of.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two changes of a line.
const TICK: Duration = Duration::from_millis(100);

/// What turns while work goes on.
const WHEEL: [&str; 8] = ["⣷", "⣯", "⣟", "⡿", "⢿", "⣻", "⣽", "⣾"];

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
        let enabled = status::is_possible();
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
    pub(crate) fn totals(&self) -> CopiedView {
        CopiedView { files: self.files, bytes: self.bytes }
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
        status::show(&format!(
            "{}, {} copied ({}/s)",
            text::count(self.files, "file"),
            text::bytes(self.bytes),
            text::bytes(rate),
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        status::clear();
    }
}

/// Awaits some work and says what is under way if that takes long. It is asked
/// for anew each time the line changes.
pub(super) async fn while_waiting<T>(
    what: impl Fn() -> String,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    let _clearing = status::Clearing;
    if !status::is_possible() {
        return work.await;
    }
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(PATIENCE) => {}
    }
    let mut ticks = tokio::time::interval(TICK);
    for spoke in WHEEL.iter().cycle() {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => status::show(&format!("{spoke} {}", what())),
        }
    }
    // The wheel never stops.
    work.await
}
