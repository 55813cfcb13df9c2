//! Logs of a supervisor: of each slot, of what was decided at boot, and the supervisor's own output.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use vestal_logs::{LogEntry, LogFiles, LogWriter};

use crate::slot::SlotName;
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

/// Bytes that may wait for a slow reader.
const MAX_QUEUED: usize = 1 << 20;

/// Where lines go raw. Clones write to the same.
#[derive(Debug, Clone)]
pub(crate) struct RawOutput {
    queue: mpsc::Sender<Vec<u8>>,
    counts: Arc<LineCounts>,
    /// What each line begins with.
    prefix: Arc<str>,
}

#[derive(Debug, Default)]
struct LineCounts {
    queued: AtomicUsize,
    left_out: AtomicU64,
}

impl RawOutput {
    /// Starts the thread that writes.
    pub(crate) fn start(mut to: Box<dyn Write + Send>) -> std::io::Result<Self> {
        let (queue, lines) = mpsc::channel::<Vec<u8>>();
        let counts = Arc::new(LineCounts::default());
        let shared = Arc::clone(&counts);
        let write = move || {
            let mut broken = false;
            for line in lines {
                // A reader that is gone is not a reason to hold the queue.
                broken = broken || to.write_all(&line).and_then(|()| to.flush()).is_err();
                shared.queued.fetch_sub(line.len(), Ordering::AcqRel);
            }
        };
        std::thread::Builder::new().name("raw-output".to_owned()).spawn(write)?;
        Ok(Self { queue, counts, prefix: Arc::from("") })
    }

    /// Returns the output for the lines of a slot: they begin with its name.
    pub(crate) fn of(&self, slot: &SlotName) -> Self {
        Self { prefix: format!("{slot}: ").into(), ..self.clone() }
    }

    /// Passes a line on, without its newline.
    pub(crate) fn line(&self, line: &[u8]) {
        if self.counts.queued.load(Ordering::Acquire) + line.len() > MAX_QUEUED {
            self.counts.left_out.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let left_out = self.counts.left_out.swap(0, Ordering::AcqRel);
        if left_out > 0 {
            self.send(
                format!("supervisor: {left_out} lines are only in the logs: the output is read too slowly\n")
                    .into_bytes(),
            );
        }
        let mut bytes = Vec::with_capacity(self.prefix.len() + line.len() + 1);
        bytes.extend_from_slice(self.prefix.as_bytes());
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        self.send(bytes);
    }

    /// Waits until everything was written, for as long as `timeout`.
    pub(crate) async fn drain(&self, timeout: Duration) {
        let deadline = tokio::time::Instant::now() + timeout;
        while self.counts.queued.load(Ordering::Acquire) > 0
            && tokio::time::Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn send(&self, bytes: Vec<u8>) {
        self.counts.queued.fetch_add(bytes.len(), Ordering::AcqRel);
        // The thread ends with the last sender, so there is always a receiver.
        self.queue.send(bytes).ok();
    }
}

/// Size at which the file is moved to `.1`.
const MAX_BOOT_BYTES: u64 = 256 << 10;

/// Returns the log of what was decided at boot, in the directory of logs.
pub fn boot_log_files(logs_dir: &Path) -> LogFiles {
    LogFiles::new(logs_dir.join("container-boot.log"), MAX_BOOT_BYTES, 1)
}

/// What was done about a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BootAction {
    Registered,
    Started,
    Failed(String),
}

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    /// A profile, or what should be one.
    Profile(&'a str),
    /// A service that the home has once.
    Service(&'a str),
}

impl<'a> From<&'a SlotName> for Subject<'a> {
    fn from(name: &'a SlotName) -> Self {
        name.service_of_home().map_or(Self::Profile(name.as_str()), Self::Service)
    }
}

/// The file `container-boot.log`.
#[derive(Debug)]
pub(crate) struct BootLog {
    writer: Mutex<LogWriter>,
}

impl BootLog {
    pub(crate) fn new(logs_dir: &Path) -> Self {
        Self { writer: Mutex::new(LogWriter::new(boot_log_files(logs_dir))) }
    }

    /// Notes a decision. A log that cannot be written keeps no slot down.
    pub(crate) fn note(&self, subject: &Subject<'_>, prior: Option<&str>, action: &BootAction) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writer.write(line(subject, prior, action).as_bytes()) {
            let path = writer.files().path().display();
            tracing::warn!(%error, %path, "cannot write the boot log");
        }
    }
}

fn line(subject: &Subject<'_>, prior: Option<&str>, action: &BootAction) -> String {
    let (word, reason) = match action {
        BootAction::Registered => ("registered", String::new()),
        BootAction::Started => ("started", String::new()),
        BootAction::Failed(reason) => ("failed", format!(" reason={}", one_line(reason))),
    };
    let (kind, name) = match subject {
        Subject::Profile(name) => ("profile", name),
        Subject::Service(name) => ("service", name),
    };
    let (time, name) = (state::now(), one_word(name));
    format!(
        "{time} {kind}={name} prior_state={} action={word}{reason}\n",
        prior.unwrap_or("missing")
    )
}

/// A name may be anything that stands in a directory; in the log it is one word.
fn one_word(name: &str) -> String {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'=') {
        return name.to_owned();
    }
    format!("{name:?}").replace(' ', "\\u{20}").replace('=', "\\u{3d}")
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
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

#[cfg(test)]
mod output_tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Whether it is open, and what came through.
    type State = (bool, Vec<u8>);

    #[derive(Clone, Default)]
    struct Gate(Arc<(Mutex<State>, Condvar)>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let (lock, opened) = &*self.0;
            let mut state = opened.wait_while(lock.lock().unwrap(), |state| !state.0).unwrap();
            state.1.extend_from_slice(bytes);
            opened.notify_all();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_nobody_and_gets_the_gap_reported() {
        let gate = Gate::default();
        let raw = RawOutput::start(Box::new(gate.clone())).unwrap();
        let raw = raw.of(&SlotName::new("a").unwrap());
        let long = vec![b'x'; 64 << 10];
        // Nothing is taken, and still every call returns.
        (0..100).for_each(|_| raw.line(&long));
        let (lock, opened) = &*gate.0;
        lock.lock().unwrap().0 = true;
        opened.notify_all();
        while raw.counts.queued.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        raw.line(b"after");
        let state = opened
            .wait_while(lock.lock().unwrap(), |state| !state.1.ends_with(b"\na: after\n"))
            .unwrap();
        let text = String::from_utf8(state.1.clone()).unwrap();
        let whole = text.lines().filter(|line| line.len() == "a: ".len() + long.len()).count();
        let reported = format!("supervisor: {} lines are only in the logs", 100 - whole);
        assert!((1..=16).contains(&whole), "{whole}");
        assert!(text.contains(&reported), "{reported}");
    }
}

#[cfg(test)]
mod boot_log_tests {
    use super::*;

    #[test]
    fn a_decision_is_one_line_whatever_the_name_is() {
        let lines = [
            line(&Subject::Profile("work"), Some("running"), &BootAction::Started),
            line(&Subject::Service("dashboard"), None, &BootAction::Registered),
            line(
                &Subject::Profile("a b\nprofile=c"),
                None,
                &BootAction::Failed("bad\nname".into()),
            ),
        ];
        let shown: Vec<&str> = lines.iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(
            shown,
            [
                "profile=work prior_state=running action=started\n",
                "service=dashboard prior_state=missing action=registered\n",
                "profile=\"a\\u{20}b\\nprofile\\u{3d}c\" prior_state=missing action=failed reason=bad name\n",
            ]
        );
    }
}
