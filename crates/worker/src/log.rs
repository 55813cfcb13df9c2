//! The log of a task's workers, and the events of a turn that go into it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Zoned;
use vestal_agent::redact::Redactor;
use vestal_agent::{EventSink, TurnEvent};
use vestal_board::LogPolicy;

use crate::run::ActivityFlag;

/// The longest entry in bytes. The whole text is in the conversation.
const LONGEST: usize = 16 * 1024;

/// The log of a task's workers, of bounded size. Clones write to the same file.
#[derive(Clone)]
pub struct TaskLog {
    shared: Arc<Mutex<TaskLogWriter>>,
    redactor: Arc<Redactor>,
}

impl TaskLog {
    /// Opens a log to append to it.
    pub fn open(path: &Path, policy: LogPolicy, redactor: Arc<Redactor>) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = append_to(path)?;
        let writer = TaskLogWriter { path: path.to_owned(), file, policy };
        Ok(Self { shared: Arc::new(Mutex::new(writer)), redactor })
    }

    /// Writes an entry with a timestamp and masked secrets. If that fails, the program's own log says
    /// so, and the work continues.
    pub fn write(&self, text: &str) {
        // Masked before truncation: half a secret would not be recognised.
        let mut shown = self.redactor.redact(text).into_owned();
        if shown.len() > LONGEST {
            shown.truncate(shown.floor_char_boundary(LONGEST));
            shown.push_str(" …");
        }
        let now = Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        let mut lines = String::with_capacity(shown.len() + 32);
        for (index, line) in shown.trim_end().lines().enumerate() {
            // The lines of one entry stand below each other.
            let before = if index == 0 { now.as_str() } else { "                   " };
            lines.extend([before, "  ", &printable(line), "\n"]);
        }
        let mut writer = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writer.append(lines.as_bytes()) {
            tracing::warn!(%error, log = %writer.path.display(), "the log cannot be written");
        }
    }
}

impl std::fmt::Debug for TaskLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

/// Replaces control characters, which could command the reader's terminal.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

struct TaskLogWriter {
    path: PathBuf,
    file: File,
    policy: LogPolicy,
}

impl TaskLogWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let own = self.file.metadata()?;
        let is_there = fs::metadata(&self.path).is_ok_and(|there| same(&own, &there));
        if !is_there {
            // Another worker of the task rotated it, or it was removed.
            self.reopen()?;
        } else if own.len() > 0 && own.len() + bytes.len() as u64 > self.policy.rotate_at {
            self.rotate()?;
            self.reopen()?;
        }
        self.file.write_all(bytes)
    }

    fn rotate(&self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.policy.backups == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.policy.backups).rev() {
            match fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, numbered(1))
    }

    /// Opens a new file. If stdout or stderr go to the old one, they are redirected to it too.
    fn reopen(&mut self) -> io::Result<()> {
        let file = append_to(&self.path)?;
        let old = self.file.metadata()?;
        let was_old = |fd: io::Result<rustix::fs::Stat>| {
            fd.is_ok_and(|stat| stat.st_dev == old.dev() && stat.st_ino == old.ino())
        };
        let of =
            |fd: &dyn Fn() -> rustix::io::Result<rustix::fs::Stat>| fd().map_err(io::Error::from);
        if was_old(of(&|| rustix::fs::fstat(io::stdout()))) {
            rustix::stdio::dup2_stdout(&file)?;
        }
        if was_old(of(&|| rustix::fs::fstat(io::stderr()))) {
            rustix::stdio::dup2_stderr(&file)?;
        }
        self.file = file;
        Ok(())
    }
}

fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    one.dev() == other.dev() && one.ino() == other.ino()
}

fn append_to(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

/// The most bytes of one answer of the model that are logged.
const MOST_TEXT: usize = 64 * 1024;

/// Returns an event sink that writes the log and records activity.
pub(crate) fn event_sink(log: TaskLog, activity: ActivityFlag) -> EventSink {
    let logger = Arc::new(EventLogger { log, activity, words: Mutex::default() });
    EventSink::new(move |event| {
        event.log();
        logger.record(&event, "");
    })
}

struct EventLogger {
    log: TaskLog,
    activity: ActivityFlag,
    /// The model's answer so far; it arrives in pieces.
    words: Mutex<String>,
}

impl EventLogger {
    fn record(&self, event: &TurnEvent, who: &str) {
        match event {
            TurnEvent::Text { text } => {
                self.activity.note();
                if who.is_empty() {
                    let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
                    if words.len() < MOST_TEXT {
                        words.push_str(text);
                    }
                }
            }
            TurnEvent::Reasoning { .. }
            | TurnEvent::CallAnnounced { .. }
            | TurnEvent::ToolOutput { .. } => {
                self.activity.note();
            }
            TurnEvent::ModelCalled { .. } => {
                self.activity.note();
                if who.is_empty() {
                    self.flush();
                }
            }
            TurnEvent::ToolStarted { name, summary, .. } => {
                self.activity.note();
                let about = if summary.is_empty() { String::new() } else { format!(": {summary}") };
                self.log.write(&format!("{who}{name}{about}"));
            }
            TurnEvent::ToolEnded { name, is_error, took, preview, .. } => {
                self.activity.note();
                let took = took.as_secs_f64();
                if *is_error {
                    let first = preview.lines().next().unwrap_or_default();
                    self.log.write(&format!("{who}{name} failed after {took:.1} s: {first}"));
                } else if took >= 10.0 {
                    self.log.write(&format!("{who}{name} took {took:.0} s"));
                }
            }
            TurnEvent::Discarded { reason, retry_after } => {
                if who.is_empty() {
                    self.words.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
                let again = retry_after
                    .map(|after| format!("; trying again in {:.0} s", after.as_secs_f64()));
                self.log.write(&format!("{who}warning: {reason}{}", again.unwrap_or_default()));
            }
            TurnEvent::Warning { text } => self.log.write(&format!("{who}warning: {text}")),
            TurnEvent::Compressed { messages, .. } => {
                self.log.write(&format!("{who}summarised {messages} messages"));
            }
            TurnEvent::Child { index, event, .. } => {
                self.record(event, &format!("{who}[helper {}] ", index + 1));
            }
            TurnEvent::TurnEnded { .. } => {
                if who.is_empty() {
                    self.flush();
                }
            }
            TurnEvent::TurnStarted { .. }
            | TurnEvent::Compressing { .. }
            | TurnEvent::Steered { .. }
            | TurnEvent::PlanPresented { .. }
            | TurnEvent::ModeChanged { .. }
            | TurnEvent::FileChanged { .. } => {}
        }
    }

    fn flush(&self) {
        let words = std::mem::take(&mut *self.words.lock().unwrap_or_else(PoisonError::into_inner));
        if !words.trim().is_empty() {
            self.log.write(words.trim());
        }
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
