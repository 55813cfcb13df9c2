//! The status line: the last line of the terminal, which shows work that takes longer than a second:
//! a copy, and what a sandbox that is being started waits for.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vestal_api::CopiedView;
use vestal_operations::Recording;
use vestal_sandbox::{Progress, ProgressSink};

use super::messages::{self, TerminalMessage};
use super::{Console, table, terminal, text};

/// Returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[2K";

/// Whether the line says something. Global, because there is one terminal:
/// every other message has to begin on a clean line, and every way out of the
/// program has to leave one.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Reports whether there is a terminal to show it on.
pub(crate) fn is_possible() -> bool {
    io::stderr().is_terminal()
}

/// Shows a text in place of the one before. What does not fit is cut: a line
/// that wraps could not be cleared.
pub(crate) fn show(text: &str) {
    if messages::offer(TerminalMessage::Status(Some(text.to_owned()))).is_ok() {
        return;
    }
    let width = terminal::error_width().map_or(usize::MAX, |width| width.saturating_sub(1));
    SHOWN.store(true, Ordering::Relaxed);
    write(&format!("{CLEAR}{}", table::cut(text, width)));
}

/// Clears the line if it says something.
pub(crate) fn clear() {
    if messages::offer(TerminalMessage::Status(None)).is_ok() {
        return;
    }
    if SHOWN.swap(false, Ordering::Relaxed) {
        write(CLEAR);
    }
}

/// Clears the line when it is dropped, so also when the work that it shows
/// is interrupted.
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

/// Blanks and blocks of a bar.
const PULL_BAR: usize = 24;

/// Most commands that are named because their processes are ended.
const COMMANDS_NAMED: usize = 5;

/// The step that a sandbox is at. Cloning gives the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActivityLine {
    step: Arc<Mutex<SandboxStep>>,
    /// Whether the purpose of the copies was printed, where no line can show them.
    announced: Arc<AtomicBool>,
    /// Where the steps are on record, for other processes.
    recording: Arc<Mutex<Option<Recording>>>,
}

#[derive(Debug, Default)]
enum SandboxStep {
    /// Nothing has been reported.
    #[default]
    Unknown,
    /// An image is being fetched.
    Pull(Pull),
    /// Files are being copied.
    Copy(Copying),
    /// Something else, in words.
    Other(String),
}

#[derive(Debug)]
struct Pull {
    image: String,
    begun: Instant,
    layers_done: usize,
    layers: usize,
    bytes: u64,
    total: u64,
}

impl ActivityLine {
    /// Returns the sink to which the engine reports its steps.
    pub(crate) fn sink(&self, console: Console) -> ProgressSink {
        let activity = self.clone();
        ProgressSink::new(move |progress| activity.take(console, progress))
    }

    /// Awaits a sandbox and shows the step it is at if that takes long; pulls
    /// and copies are shown at once.
    pub(crate) async fn while_waiting<T>(&self, work: impl Future<Output = T>) -> T {
        let done = while_waiting(|| self.step().line(), work).await;
        *self.step() = SandboxStep::Unknown;
        done
    }

    /// As [`ActivityLine::while_waiting`] for something that has a name of its own,
    /// which is printed at once where no line can show how far it is.
    pub(crate) async fn while_doing<T>(
        &self,
        console: Console,
        what: &str,
        work: impl Future<Output = T>,
    ) -> T {
        *self.step() = SandboxStep::Other(what.to_owned());
        self.announced.store(true, Ordering::Relaxed);
        if !is_possible() {
            console.note(what);
        }
        let done = self.while_waiting(work).await;
        self.announced.store(false, Ordering::Relaxed);
        done
    }

    /// Has steps put on record from now on.
    pub(crate) fn record_to(&self, recording: Option<Recording>) {
        *self.recording.lock().unwrap_or_else(PoisonError::into_inner) = recording;
    }

    /// Reports whether an image is being fetched.
    pub(crate) fn is_pull(&self) -> bool {
        matches!(*self.step(), SandboxStep::Pull(_))
    }

    fn step(&self) -> MutexGuard<'_, SandboxStep> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, console: Console, progress: Progress) {
        if let Some(recording) = &*self.recording.lock().unwrap_or_else(PoisonError::into_inner) {
            recording.progress(&progress);
        }
        let mut step = self.step();
        match progress {
            Progress::Pulling { image, layers_done, layers, bytes, total } => {
                let begun = match &*step {
                    SandboxStep::Pull(pull) if pull.image == image => pull.begun,
                    _ => {
                        if !is_possible() {
                            console.note(&format!("pulling image {image}"));
                        }
                        Instant::now()
                    }
                };
                *step = SandboxStep::Pull(Pull { image, begun, layers_done, layers, bytes, total });
                if is_possible() {
                    show(&format!("  {}", step.line()));
                }
            }
            Progress::Pulled { image } => {
                if let SandboxStep::Pull(pull) = &*step {
                    console.note(&pull.end());
                } else {
                    console.note(&format!("pulled image {image}"));
                }
                *step = SandboxStep::Unknown;
            }
            Progress::Copying { what, files, bytes, total } => {
                if !matches!(&*step, SandboxStep::Copy(copying) if copying.is_of(&what)) {
                    if !is_possible() && !self.announced.load(Ordering::Relaxed) {
                        console.note(&format!("copying {what}"));
                    }
                    *step = SandboxStep::Copy(Copying::new(what));
                }
                if let SandboxStep::Copy(copying) = &mut *step {
                    copying.advance(files, bytes, total);
                }
                if is_possible() {
                    show(&format!("  {}", step.line()));
                }
            }
            Progress::EndingProcesses { processes, commands } => {
                console.note(&ending(processes, &commands));
            }
            Progress::Starting { what } => *step = SandboxStep::Other(what),
        }
    }
}

/// Says which processes end with a sandbox that is stopped.
fn ending(processes: u64, commands: &[String]) -> String {
    let shown: Vec<String> =
        commands.iter().take(COMMANDS_NAMED).map(|command| text::printable(command)).collect();
    let more = match commands.len().saturating_sub(COMMANDS_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = if processes == 1 { "process" } else { "processes" };
    format!("ending {processes} {what} that commands left behind: {}{more}", shown.join("; "))
}

impl SandboxStep {
    fn line(&self) -> String {
        match self {
            Self::Unknown => "starting the sandbox …".to_owned(),
            Self::Other(what) => format!("{} …", text::printable(what)),
            Self::Pull(pull) => pull.line(),
            Self::Copy(copying) => copying.line(),
        }
    }
}

impl Pull {
    fn line(&self) -> String {
        let Self { image, layers_done, layers, bytes, total, .. } = self;
        let image = text::printable(image);
        if *layers == 0 {
            return format!("pulling image {image} …");
        }
        let layers = format!("{layers_done} of {}", text::count(*layers, "layer"));
        if *total == 0 {
            return format!("pulling {layers} of image {image}");
        }
        let full = u128::from(*bytes) * PULL_BAR as u128 / u128::from(*total);
        let full = usize::try_from(full).unwrap_or(PULL_BAR).min(PULL_BAR);
        // The name may be long, and what does not fit is cut.
        format!(
            "pulling {}{} {} of {}, {layers} of image {image}",
            "█".repeat(full),
            "░".repeat(PULL_BAR - full),
            text::bytes(*bytes),
            text::bytes(*total),
        )
    }

    fn end(&self) -> String {
        let mut parts = vec![format!("pulled image {}", self.image)];
        if self.total > 0 {
            parts.push(text::bytes(self.total));
        }
        let took = self.begun.elapsed();
        if took.as_secs() > 0 {
            parts.push(format!("in {}", text::span(took)));
        }
        parts.join(", ")
    }
}

/// Blanks and blocks of a bar.
const COPY_BAR: usize = 16;

/// Time after which a rate is shown; earlier it would be a guess.
const RATE_AFTER: Duration = Duration::from_millis(200);

/// A copy that is under way.
#[derive(Debug)]
pub(super) struct Copying {
    what: String,
    begun: Instant,
    files: u64,
    bytes: u64,
    total: Option<u64>,
}

impl Copying {
    pub(super) fn new(what: String) -> Self {
        Self { what, begun: Instant::now(), files: 0, bytes: 0, total: None }
    }

    /// Reports whether this is the copy of that.
    pub(super) fn is_of(&self, what: &str) -> bool {
        self.what == what
    }

    /// Takes how far it has come.
    pub(super) fn advance(&mut self, files: u64, bytes: u64, total: Option<u64>) {
        (self.files, self.bytes, self.total) = (files, bytes, total);
    }

    pub(super) fn line(&self) -> String {
        self.line_after(self.begun.elapsed())
    }

    fn line_after(&self, elapsed: Duration) -> String {
        let Self { what, files, bytes, total, .. } = self;
        let what = text::printable(what);
        if *files == 0 && *bytes == 0 {
            return format!("copying {what} …");
        }
        let mut line = "copying ".to_owned();
        let size = match total.filter(|total| *total > 0) {
            Some(total) => {
                let full = u128::from(*bytes) * COPY_BAR as u128 / u128::from(total);
                let full = usize::try_from(full).unwrap_or(COPY_BAR).min(COPY_BAR);
                line.extend(std::iter::repeat_n('█', full));
                line.extend(std::iter::repeat_n('░', COPY_BAR - full));
                line.push(' ');
                format!("{} of {}", text::bytes(*bytes), text::bytes(total))
            }
            None => text::bytes(*bytes),
        };
        line.extend([size, ", ".to_owned(), text::count(*files, "file")]);
        if elapsed >= RATE_AFTER {
            line.extend([" (".to_owned(), rate(*bytes, elapsed), ")".to_owned()]);
        }
        // The name may be long, and what does not fit is cut.
        line.extend([" of ".to_owned(), what]);
        line
    }
}

fn rate(bytes: u64, elapsed: Duration) -> String {
    let per_second = u128::from(bytes) * 1000 / elapsed.as_millis().max(1);
    format!("{}/s", text::bytes(u64::try_from(per_second).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(layers: usize, bytes: u64, total: u64) -> Pull {
        let image = "a/b:c\x1b[2J".to_owned();
        Pull { image, begun: Instant::now(), layers_done: 1, layers, bytes, total }
    }

    #[test]
    fn processes_that_are_ended_are_named_by_their_commands() {
        let commands = |count: usize| -> Vec<String> {
            (1..=count).map(|number| format!("sleep {number} &\n")).collect()
        };
        assert_eq!(
            ending(1, &commands(1)),
            "ending 1 process that commands left behind: sleep 1 &⏎"
        );
        let many = ending(9, &commands(7));
        assert!(many.starts_with("ending 9 processes that commands left behind: sleep 1 &⏎; "));
        assert!(many.ends_with("; sleep 5 &⏎ and 2 more"), "{many}");
    }

    #[test]
    fn a_bar_is_as_full_as_what_is_known_has_come() {
        assert_eq!(pull(0, 0, 0).line(), "pulling image a/b:c\\x1b[2J …");
        assert_eq!(pull(2, 0, 0).line(), "pulling 1 of 2 layers of image a/b:c\\x1b[2J");
        assert_eq!(
            pull(2, 512, 1024).line(),
            format!(
                "pulling {}{} 512 B of 1.0 KiB, 1 of 2 layers of image a/b:c\\x1b[2J",
                "█".repeat(12),
                "░".repeat(12)
            )
        );
        assert!(pull(2, u64::MAX, 1).line().contains(&"█".repeat(24)));
        assert!(!pull(2, u64::MAX, 1).line().contains('░'));
    }

    fn line(files: u64, bytes: u64, total: Option<u64>, millis: u64) -> String {
        let mut copying = Copying::new("the workspace\x1b[2J".to_owned());
        copying.advance(files, bytes, total);
        copying.line_after(Duration::from_millis(millis))
    }

    #[test]
    fn a_copy_tells_files_bytes_of_the_total_and_its_rate() {
        assert_eq!(line(0, 0, None, 0), "copying the workspace\\x1b[2J …");
        assert_eq!(
            line(3, 512 << 20, Some(1 << 30), 2000),
            format!(
                "copying {}{} 512.0 MiB of 1.0 GiB, 3 files (256.0 MiB/s) of the workspace\\x1b[2J",
                "█".repeat(8),
                "░".repeat(8)
            )
        );
    }

    #[test]
    fn what_is_not_known_yet_is_not_shown() {
        assert_eq!(line(1, 1536, None, 0), "copying 1.5 KiB, 1 file of the workspace\\x1b[2J");
        assert_eq!(
            line(1, 0, Some(0), 1000),
            "copying 0 B, 1 file (0 B/s) of the workspace\\x1b[2J"
        );
    }

    #[test]
    fn a_tree_that_grows_while_it_is_copied_breaks_no_line() {
        let line = line(u64::MAX, u64::MAX, Some(1), 0);
        assert!(line.contains(&"█".repeat(COPY_BAR)) && !line.contains('░'), "{line}");
        assert!(rate(u64::MAX, Duration::ZERO).ends_with("/s"));
    }
}
