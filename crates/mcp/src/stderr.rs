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

/// Name of the log.
const FILE: &str = "mcp-stderr.log";

/// Size at which the log is put aside, in place of the one put aside before.
const LARGEST: u64 = 1 << 20;

/// Bytes of one connection's output that are logged.
const BUDGET: usize = 1 << 20;

/// Characters of a line.
const LINE: usize = 1000;

/// Lines that are remembered for error messages, and how many of them are reported.
const REMEMBERED: usize = 40;
const TOLD: usize = 3;

/// Characters of a line that are reported.
const TOLD_CHARACTERS: usize = 200;

/// Words of lines that say what went wrong. What comes last often does not:
/// runtimes end with a stack, their version, or where their log is.
const ERROR_WORDS: &[&str] =
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
        (!lines.is_empty()).then(|| format!("it printed: {}", relevant_lines(&lines).join(" / ")))
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
fn relevant_lines<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let tells = |line: &str| {
        let line = line.to_lowercase();
        ERROR_WORDS.iter().any(|word| line.contains(word))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn log(dir: &Path) -> ServerLog {
        ServerLog::new(&dir.join("logs"), Redactor::new(["hunter2-secret".to_owned()]))
    }

    #[tokio::test]
    async fn lines_are_kept_with_the_servers_name_and_without_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let tail = StderrTail::default();
        let printed = b"one\n\n\x1b[31mtwo\n key hunter2-secret\nlast".as_slice();
        log(dir.path()).follow("files".to_owned(), printed, tail.clone()).await;
        let path = dir.path().join("logs/mcp-stderr.log");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(lines[..2], ["[files] one", "[files] [31mtwo"]);
        assert_eq!((lines.len(), lines[3]), (4, "[files] last"));
        assert!(!text.contains("hunter2-secret"), "{text}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let redactor = Redactor::new(["hunter2-secret".to_owned()]);
        let words = tail.in_words(&redactor).unwrap();
        assert!(
            words.starts_with("it printed: [31mtwo / ") && words.ends_with(" / last"),
            "{words}"
        );
        assert!(!words.contains("hunter2-secret"), "{words}");
    }

    #[tokio::test]
    async fn a_flood_is_taken_and_only_its_beginning_kept() {
        let dir = tempfile::tempdir().unwrap();
        let flood = "some words of a server that does not stop\n".repeat(200_000);
        for _ in 0..3 {
            let tail = StderrTail::default();
            log(dir.path()).follow("loud".to_owned(), flood.as_bytes(), tail).await;
        }
        let size =
            |name: &str| std::fs::metadata(dir.path().join("logs").join(name)).unwrap().len();
        let whole = size("mcp-stderr.log") + size("mcp-stderr.log.1");
        assert!(whole < 2 * LARGEST + 4096, "{whole}");
        let files = std::fs::read_dir(dir.path().join("logs")).unwrap().count();
        assert_eq!(files, 2);
    }

    #[tokio::test]
    async fn the_message_is_the_error_and_not_only_the_end_of_a_stack() {
        let node = "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n\
                Error: Cannot find module '/srv/server.js'\n    at Module._resolve (loader:1225)\n\
                {\n  requireStack: []\n}\n\nNode.js v22.4.0\n";
        let python = "Traceback (most recent call last):\n  File \"/srv/a.py\", line 1, in <module>\n\
                  import b\nModuleNotFoundError: No module named 'b'\n";
        for (printed, expected) in [
            (node, "it printed: Error: Cannot find module '/srv/server.js' / } / Node.js v22.4.0"),
            (
                python,
                "it printed: File \"/srv/a.py\", line 1, in <module> / import b / \
             ModuleNotFoundError: No module named 'b'",
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let tail = StderrTail::default();
            log(dir.path()).follow("it".to_owned(), printed.as_bytes(), tail.clone()).await;
            assert_eq!(tail.in_words(&Redactor::default()).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn what_comes_after_a_flood_is_not_kept_but_reported() {
        let dir = tempfile::tempdir().unwrap();
        let tail = StderrTail::default();
        let printed = format!("{}the disk is full\n", "again\n".repeat(300_000));
        log(dir.path()).follow("loud".to_owned(), printed.as_bytes(), tail.clone()).await;
        let words = tail.in_words(&Redactor::default()).unwrap();
        assert!(words.ends_with(" / the disk is full"), "{words}");
    }
}
