//! The status line: the last line of the terminal, which shows work that takes longer than a second.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vestal_api::CopiedView;

use super::output::{self, TerminalMessage};
use super::{table, terminal, text};

/// Returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[2K";

/// Whether the line says something. Global, because there is one terminal:
/// whatever else is said has to begin on a clean line, and every way out of the
/// program has to leave one.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Reports whether there is a terminal to show it on.
pub(crate) fn is_possible() -> bool {
    io::stderr().is_terminal()
}

/// Shows a text in place of the one before. What does not fit is cut: a line
/// that wraps could not be cleared.
pub(crate) fn show(text: &str) {
    if output::offer(TerminalMessage::Status(Some(text.to_owned()))).is_ok() {
        return;
    }
    let width = terminal::error_width().map_or(usize::MAX, |width| width.saturating_sub(1));
    SHOWN.store(true, Ordering::Relaxed);
    write(&format!("{CLEAR}{}", table::cut(text, width)));
}

/// Clears the line if it says something.
pub(crate) fn clear() {
    if output::offer(TerminalMessage::Status(None)).is_ok() {
        return;
    }
    if SHOWN.swap(false, Ordering::Relaxed) {
        write(CLEAR);
    }
}

/// Clears the line when it is dropped, and so also when whoever showed
/// something is interrupted.
#[derive(Debug)]
struct Clearing;

impl Drop for Clearing {
    fn drop(&mut self) {
        clear();
    }
}

/// Writes to standard error; a terminal that is gone misses nothing.
fn write(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}

/// Work that takes longer than this is shown.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// Time between two changes of a line.
const TICK: Duration = Duration::from_millis(100);

/// What turns while work goes on.
const WHEEL: [&str; 8] = ["⣷", "⣯", "⣟", "⡿", "⢿", "⣻", "⣽", "⣾"];

/// A line on standard error that says how far a copy is; only on a terminal.
#[derive(Debug)]
pub(crate) struct CopyStatusLine {
    begun: Instant,
    shown: Option<Instant>,
    enabled: bool,
    files: u64,
    bytes: u64,
}

impl CopyStatusLine {
    pub(crate) fn new() -> Self {
        let enabled = is_possible();
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
        let due = self.shown.map_or(self.begun + SHOW_AFTER, |shown| shown + TICK);
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
        show(&format!(
            "{}, {} copied ({}/s)",
            text::count(self.files, "file"),
            text::bytes(self.bytes),
            text::bytes(rate),
        ));
    }
}

impl Drop for CopyStatusLine {
    fn drop(&mut self) {
        clear();
    }
}

/// Awaits some work and says what is under way if that takes long. It is asked
/// for anew each time the line changes.
pub(super) async fn while_waiting<T>(
    what: impl Fn() -> String,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    let _clearing = Clearing;
    if !is_possible() {
        return work.await;
    }
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SHOW_AFTER) => {}
    }
    let mut ticks = tokio::time::interval(TICK);
    for spoke in WHEEL.iter().cycle() {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => show(&format!("{spoke} {}", what())),
        }
    }
    // The wheel never stops.
    work.await
}
