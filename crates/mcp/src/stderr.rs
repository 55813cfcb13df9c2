//! What servers print on their standard error, in one bounded log.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use vestal_agent::redact::Redactor;

use crate::tool::one_line;

#[cfg(test)]
#[path = "stderr_tests.rs"]
mod tests;

/// Name of the log.
const FILE: &str = "mcp-stderr.log";

/// Size at which the log is put aside, in place of the one put aside before.
const LARGEST: u64 = 1 << 20;

/// Bytes of one connection's output that are logged.
const BUDGET: usize = 1 << 20;

/// Characters of a line.
const LINE: usize = 1000;

/// Lines that are remembered for error messages, and how many of them are told.
const REMEMBERED: usize = 40;
const TOLD: usize = 3;

/// Characters of a line that are told.
const TOLD_CHARACTERS: usize = 200;

/// Words of lines that say what went wrong. What comes last often does not:
/// runtimes end with a stack, their version, or where their log is.
const TELLING: &[&str] =
    &["error", "cannot", "can't", "could not", "not found", "denied", "failed", "no such"];

/// The log of all servers of a profile. Several processes write to it.
#[derive(Debug, Clone)]
pub(crate) struct ServerLog {
    path: Arc<Path>,
    redactor: Redactor,
}

/// The last lines that a server printed, as they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl StderrTail {
    /// Returns the lines that say most, in words that follow others.
    pub(crate) fn in_words(&self, redactor: &Redactor) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = lines.iter().map(|line| masked_line(line, redactor)).collect();
        let lines: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        (!lines.is_empty()).then(|| format!("it printed: {}", telling(&lines).join(" / ")))
    }

    fn push(&self, line: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= REMEMBERED {
            lines.pop_front();
        }
        lines.push_back(line.to_vec());
    }
}

fn masked_line(line: &[u8], redactor: &Redactor) -> String {
    // Masked before it is cut: half a secret is not known as one.
    let text = one_line(&String::from_utf8_lossy(line), LINE);
    crate::tool::shortened(&redactor.redact(&text), TOLD_CHARACTERS)
}

/// Chooses the first lines that say what went wrong, and the last ones.
fn telling<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let tells = |line: &str| {
        let line = line.to_lowercase();
        TELLING.iter().any(|word| line.contains(word))
    };
    let mut chosen: Vec<usize> =
        (0..lines.len()).filter(|at| lines.get(*at).is_some_and(|line| tells(line))).collect();
    chosen.truncate(TOLD - 1);
    let others: Vec<usize> = (0..lines.len()).rev().filter(|at| !chosen.contains(at)).collect();
    let room = TOLD - chosen.len();
    chosen.extend(others.into_iter().take(room));
    chosen.sort_unstable();
    chosen.into_iter().filter_map(|at| lines.get(at).copied()).collect()
}

impl ServerLog {
    pub(crate) fn new(dir: &Path, redactor: Redactor) -> Self {
        Self { path: dir.join(FILE).into(), redactor }
    }

    /// Returns what masks secrets in a server's words.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Takes a server's standard error to its end, so that it never waits for
    /// a reader; only the beginning of a flood is kept.
    pub(crate) async fn follow(
        self,
        server: String,
        mut stream: impl AsyncRead + Unpin,
        tail: StderrTail,
    ) {
        let mut writer = StderrWriter { log: self, server, left: BUDGET, file: None };
        let mut buffer = vec![0; 8192];
        let mut line: Vec<u8> = Vec::new();
        loop {
            let read = stream.read(&mut buffer).await.unwrap_or_default();
            for byte in buffer.get(..read).unwrap_or_default() {
                if *byte != b'\n' {
                    if line.len() < 4 * LINE {
                        line.push(*byte);
                    }
                    continue;
                }
                writer.line(&line, &tail);
                line.clear();
            }
            if read == 0 {
                if !line.is_empty() {
                    writer.line(&line, &tail);
                }
                return;
            }
        }
    }
}

struct StderrWriter {
    log: ServerLog,
    server: String,
    left: usize,
    file: Option<File>,
}

impl StderrWriter {
    fn line(&mut self, bytes: &[u8], tail: &StderrTail) {
        tail.push(bytes);
        if self.left == 0 {
            return;
        }
        let text = one_line(&String::from_utf8_lossy(bytes), LINE);
        if text.is_empty() {
            return;
        }
        let text = self.log.redactor.redact(&text).into_owned();
        self.left = self.left.saturating_sub(text.len() + 1);
        self.write(&text);
        if self.left == 0 {
            self.write("(what it prints from here on is not kept)");
        }
    }

    fn write(&mut self, text: &str) {
        let line = format!("{:.0} [{}] {text}\n", Timestamp::now(), self.server);
        // A log that cannot be written must not be in a server's way.
        if let Err(error) = self.append(&line) {
            tracing::debug!(%error, "the log of the MCP servers cannot be written");
            self.file = None;
        }
    }

    fn append(&mut self, line: &str) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.log.path)?),
        };
        file.write_all(line.as_bytes())?;
        if file.metadata()?.len() > LARGEST {
            self.file = None;
            put_aside(&self.log.path)?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Puts a log that is full aside, unless another process just has.
fn put_aside(path: &Path) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|about| about.len() > LARGEST) {
        std::fs::rename(path, old(path))?;
    }
    Ok(())
}

fn old(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}
