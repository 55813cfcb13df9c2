//! The log of a task's workers: what a person wants to read afterwards.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Zoned;
use vestal_agent::redact::Redactor;
use vestal_board::LogPolicy;

/// Bytes of one entry; what is longer is in the conversation.
const LONGEST: usize = 16 * 1024;

/// A log that is written line by line and never grows without bound, however
/// long its worker runs. Clones write to the same one.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Mutex<Writer>>,
    redactor: Arc<Redactor>,
}

impl Log {
    /// Opens a log; what is in it stays.
    pub fn open(path: &Path, policy: LogPolicy, redactor: Arc<Redactor>) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = append_to(path)?;
        let writer = Writer { path: path.to_owned(), file, policy };
        Ok(Self { shared: Arc::new(Mutex::new(writer)), redactor })
    }

    /// Writes an entry, without secrets and with the time before it. A log that
    /// cannot be written stops no work: what is said goes into the program's own.
    pub fn write(&self, text: &str) {
        // Masked before it is cut: half of a secret would not be known as one.
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

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

/// Leaves out what could command the terminal of whoever reads it.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

struct Writer {
    path: PathBuf,
    file: File,
    policy: LogPolicy,
}

impl Writer {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let own = self.file.metadata()?;
        let is_there = fs::metadata(&self.path).is_ok_and(|there| same(&own, &there));
        if !is_there {
            // Another worker of the task put it aside, or somebody removed it.
            self.reopen()?;
        } else if own.len() > 0 && own.len() + bytes.len() as u64 > self.policy.rotate_at {
            self.put_aside()?;
            self.reopen()?;
        }
        self.file.write_all(bytes)
    }

    fn put_aside(&self) -> io::Result<()> {
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

    /// Goes on in a new file, and so does what this process prints, where that
    /// went to the old one: else it would be written to a file that is gone.
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

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
