//! Coordinates the commands of a shell session: which one saves its state, and which
//! ones wait for that.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use vestal_wire::limits::MAX_SESSION_NAME;

use crate::serve::JobKey;
use crate::state_file;

/// The sessions of a sandbox.
#[derive(Debug)]
pub(crate) struct Sessions {
    dir: PathBuf,
    /// Sessions with running commands.
    busy: HashMap<String, SessionTurns>,
}

/// The running commands of one session.
#[derive(Debug, Default)]
struct SessionTurns {
    /// The next turn; a later command has a higher turn.
    next: u64,
    /// The turn after the last one that was saved.
    settled: u64,
    /// Turns of running commands whose state is to be saved.
    running: BTreeSet<u64>,
    /// Turns of commands that have ended and are being saved.
    saving: BTreeSet<u64>,
    /// Jobs that start after the session was saved.
    waiting: Vec<JobKey>,
}

/// Whether a command's state becomes the session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveDecision {
    Save,
    /// A command that started later supersedes it.
    Superseded,
}

impl Sessions {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, busy: HashMap::new() }
    }

    /// Returns the file with a session's state.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(file_name(name))
    }

    /// Creates the directory if it is missing.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match std::fs::DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }

    /// Lets a job wait if the session is being saved. Returns whether it must
    /// wait.
    pub(crate) fn wait(&mut self, name: &str, job: JobKey) -> bool {
        match self.busy.get_mut(name) {
            Some(book) if !book.saving.is_empty() => {
                book.waiting.push(job);
                true
            }
            _ => false,
        }
    }

    /// Removes a waiting job.
    pub(crate) fn leave(&mut self, name: &str, job: JobKey) {
        if let Some(book) = self.busy.get_mut(name) {
            book.waiting.retain(|waiting| *waiting != job);
        }
    }

    /// Returns the turn of a command whose state is to be saved.
    pub(crate) fn begin(&mut self, name: &str) -> u64 {
        let book = self.busy.entry(name.to_owned()).or_default();
        let turn = book.next;
        book.next += 1;
        book.running.insert(turn);
        turn
    }

    /// Records that a command has ended and its state will be saved.
    pub(crate) fn finished(&mut self, name: &str, turn: u64) {
        if let Some(book) = self.busy.get_mut(name) {
            book.saving.insert(turn);
        }
    }

    /// Returns whether the state of a command becomes the session's.
    pub(crate) fn decision(&self, name: &str, turn: u64) -> SaveDecision {
        match self.busy.get(name) {
            Some(book) if book.settled > turn => SaveDecision::Superseded,
            Some(book) if book.running.range(turn + 1..).next().is_some() => {
                SaveDecision::Superseded
            }
            _ => SaveDecision::Save,
        }
    }

    /// Records the end of a command's turn, and whether it was saved. Returns the
    /// jobs that waited for it.
    pub(crate) fn end(&mut self, name: &str, turn: u64, saved: bool) -> Vec<JobKey> {
        let Some(book) = self.busy.get_mut(name) else {
            return Vec::new();
        };
        book.running.remove(&turn);
        book.saving.remove(&turn);
        if saved {
            book.settled = book.settled.max(turn + 1);
        }
        let ready =
            if book.saving.is_empty() { std::mem::take(&mut book.waiting) } else { Vec::new() };
        if book.running.is_empty() && book.waiting.is_empty() {
            self.busy.remove(name);
        }
        ready
    }

    /// Deletes a session's state. Running commands do not save theirs any more.
    pub(crate) fn reset(&mut self, name: &str) -> io::Result<()> {
        if let Some(book) = self.busy.get_mut(name) {
            book.settled = book.next;
        }
        let path = self.path(name);
        // Jobs can put anything there.
        state_file::clear(&path)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

/// Returns whether a session may have this name.
pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_SESSION_NAME).contains(&name.len()) && !name.contains('\0')
}

/// Returns the file name for a session: the name itself if it is plain, else its
/// base 32 encoding.
fn file_name(name: &str) -> PathBuf {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.bytes().all(plain) {
        Path::new(&format!("n.{name}")).into()
    } else {
        Path::new(&format!("x.{}", base32(name.as_bytes()))).into()
    }
}

fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut bits, mut count) = (0_u16, 0);
    for byte in bytes {
        bits = bits << 8 | u16::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(DIGITS[usize::from(bits >> count & 31)] as char);
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        text.push(DIGITS[usize::from(bits << (5 - count) & 31)] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> (tempfile::TempDir, Sessions) {
        let dir = tempfile::tempdir().unwrap();
        let sessions = Sessions::new(dir.path().join("sessions"));
        (dir, sessions)
    }

    #[test]
    fn the_last_started_command_wins() {
        let (_dir, mut sessions) = sessions();
        let (first, second) = (sessions.begin("s"), sessions.begin("s"));
        assert_eq!(sessions.decision("s", first), SaveDecision::Superseded);
        sessions.end("s", first, false);
        assert_eq!(sessions.decision("s", second), SaveDecision::Save);
    }

    #[test]
    fn a_command_that_outlasts_a_later_saved_one_is_superseded() {
        let (_dir, mut sessions) = sessions();
        let (first, second) = (sessions.begin("s"), sessions.begin("s"));
        sessions.end("s", second, true);
        assert_eq!(sessions.decision("s", first), SaveDecision::Superseded);
    }

    #[test]
    fn a_later_command_that_left_nothing_stands_in_nobodys_way() {
        let (_dir, mut sessions) = sessions();
        let (first, second) = (sessions.begin("s"), sessions.begin("s"));
        sessions.end("s", second, false);
        assert_eq!(sessions.decision("s", first), SaveDecision::Save);
    }

    #[test]
    fn a_job_waits_while_the_session_is_being_saved() {
        let (_dir, mut sessions) = sessions();
        let turn = sessions.begin("s");
        assert!(!sessions.wait("s", JobKey(1)));
        sessions.finished("s", turn);
        assert!(sessions.wait("s", JobKey(2)));
        assert!(!sessions.wait("other", JobKey(3)));
        assert_eq!(sessions.decision("s", turn), SaveDecision::Save);
        assert_eq!(sessions.end("s", turn, true), [JobKey(2)]);
        assert!(!sessions.wait("s", JobKey(4)));
    }

    #[test]
    fn a_reset_has_the_last_word_over_commands_that_run() {
        let (_dir, mut sessions) = sessions();
        let turn = sessions.begin("s");
        sessions.reset("s").unwrap();
        assert_eq!(sessions.decision("s", turn), SaveDecision::Superseded);
        let later = sessions.begin("s");
        assert_eq!(sessions.decision("s", later), SaveDecision::Save);
    }

    #[test]
    fn every_name_has_a_file_of_its_own_that_fits_a_directory() {
        let long = "\u{00fc}".repeat(MAX_SESSION_NAME / 2);
        let names = ["main", "Main", "a/b", "..", "x.ob2g6", &long];
        let files: std::collections::HashSet<_> = names.into_iter().map(file_name).collect();
        assert_eq!(files.len(), names.len());
        for file in files {
            assert!(file.as_os_str().len() < 220 && file.components().count() == 1, "{file:?}");
        }
        assert!(is_valid_name(&long) && !is_valid_name("") && !is_valid_name("a\0b"));
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
    }
}
