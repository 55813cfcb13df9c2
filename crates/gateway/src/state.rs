//! `gateway_state.json`: what a gateway says about itself.
//!
//! The gateway is the only writer. What the operator wants is kept elsewhere, by the
//! supervisor, so that neither can overwrite the other's file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;

/// The version of the file.
const VERSION: u32 = 1;

/// A state is a few hundred bytes; a larger file is not one.
const MAX_BYTES: u64 = 1 << 20;

/// What a gateway is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayPhase {
    /// It is coming up.
    Starting,
    /// Everything it was asked to serve is served.
    Running,
    /// Something it was asked to serve is not.
    Degraded,
    /// It takes no new work and waits for what runs.
    Draining,
    /// It was stopped on purpose.
    Stopped,
    /// It could not start, and trying again will not help.
    StartupFailed,
}

impl GatewayPhase {
    /// Returns the word that the file has for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Degraded => "degraded",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::StartupFailed => "startup_failed",
        }
    }
}

/// What a part of a gateway is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenerPhase {
    /// It is coming up.
    Connecting,
    /// It serves.
    Connected,
    /// It does not serve; the error says why.
    Failed,
    /// It was stopped.
    Stopped,
}

impl ListenerPhase {
    /// Returns the word that the file has for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// One part of a gateway: the API server, the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerState {
    /// What it is doing.
    pub state: ListenerPhase,
    /// Where it listens, if it does.
    #[serde(default)]
    pub address: Option<String>,
    /// A name for the error that stays the same.
    #[serde(default)]
    pub error_code: Option<String>,
    /// What went wrong.
    #[serde(default)]
    pub error_message: Option<String>,
    /// When this was last written.
    pub updated_at: Timestamp,
}

/// What a gateway says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayState {
    /// The version of the file.
    pub version: u32,
    /// Always `vestal-gateway`.
    pub kind: String,
    /// The profile it serves.
    pub profile: String,
    /// Its pid.
    pub pid: u32,
    /// The start time of that process, in clock ticks since boot.
    pub start_time: u64,
    /// The boot in which it ran.
    pub boot_id: String,
    /// What it is doing.
    pub gateway_state: GatewayPhase,
    /// Why it ended or could not start.
    #[serde(default)]
    pub exit_reason: Option<String>,
    /// Whether it ended in order to be started again.
    #[serde(default)]
    pub restart_requested: bool,
    /// Turns that run.
    #[serde(default)]
    pub active_agents: usize,
    /// Questions of its turns that wait for a person.
    #[serde(default)]
    pub waiting_questions: usize,
    /// Its parts, by name.
    #[serde(default)]
    pub platforms: BTreeMap<String, ListenerState>,
    /// When it started.
    pub started_at: Timestamp,
    /// When this was last written.
    pub updated_at: Timestamp,
}

impl GatewayState {
    /// Returns the process that wrote it.
    pub fn process(&self) -> ProcessId {
        ProcessId { pid: self.pid, start: self.start_time, boot: self.boot_id.clone() }
    }
}

/// Why a state could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GatewayStateError {
    /// The file cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a state.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program wrote it.
    #[error("{} has version {found}, and this program knows {VERSION}; update vestal", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// Returns the file in a profile's home.
pub fn state_path(home: &Path) -> PathBuf {
    home.join("gateway_state.json")
}

/// Reads the state in a profile's home; nothing if there never was a gateway. It says what the
/// last gateway wrote, whether or not that one is alive.
pub fn read_state(home: &Path) -> Result<Option<GatewayState>, GatewayStateError> {
    let path = state_path(home);
    let bytes = match read_regular(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(GatewayStateError::Io { path, source }),
    };
    let damaged = |reason: serde_json::Error| GatewayStateError::Damaged {
        path: path.clone(),
        reason: reason.to_string(),
    };
    let raw: serde_json::Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    match raw.get("version").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(VERSION) => Err(GatewayStateError::Newer { path, found }),
        _ => serde_json::from_value(raw).map(Some).map_err(damaged),
    }
}

/// Reads a file without following a link or waiting for a pipe.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The state of this process, written to its file with every change.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    state: Mutex<GatewayState>,
}

impl StateFile {
    /// Begins the state of this process and writes it.
    pub(crate) fn begin(home: &Path, profile: &str) -> io::Result<Self> {
        let process = ProcessId::current()?;
        let now = Timestamp::now();
        let state = GatewayState {
            version: VERSION,
            kind: "vestal-gateway".to_owned(),
            profile: profile.to_owned(),
            pid: process.pid,
            start_time: process.start,
            boot_id: process.boot,
            gateway_state: GatewayPhase::Starting,
            exit_reason: None,
            restart_requested: false,
            active_agents: 0,
            waiting_questions: 0,
            platforms: BTreeMap::new(),
            started_at: now,
            updated_at: now,
        };
        let file = Self { path: state_path(home), state: Mutex::new(state) };
        file.try_update(|_| ())?;
        Ok(file)
    }

    /// Returns the state.
    pub(crate) fn read(&self) -> GatewayState {
        self.lock().clone()
    }

    /// Changes the state and writes it. A file that cannot be written keeps nothing from being
    /// served; it is reported, and the next change tries again.
    pub(crate) fn update(&self, change: impl FnOnce(&mut GatewayState)) {
        if let Err(error) = self.try_update(change) {
            tracing::warn!(%error, path = %self.path.display(), "the state of the gateway was not written");
        }
    }

    /// Records that everything is served, as far as no part has failed.
    pub(crate) fn serves(&self) {
        self.update(|state| state.gateway_state = phase_of_parts(state));
    }

    /// Forgets a part that has nothing to tell any more.
    pub(crate) fn remove_listener(&self, name: &str) {
        self.update(|state| drop(state.platforms.remove(name)));
    }

    /// Changes the state of one part.
    pub(crate) fn listener(&self, name: &str, change: impl FnOnce(&mut ListenerState)) {
        self.update(|state| {
            let now = Timestamp::now();
            let listener = state.platforms.entry(name.to_owned()).or_insert(ListenerState {
                state: ListenerPhase::Connecting,
                address: None,
                error_code: None,
                error_message: None,
                updated_at: now,
            });
            change(listener);
            listener.updated_at = now;
            // While it serves, its state follows its parts.
            if matches!(state.gateway_state, GatewayPhase::Running | GatewayPhase::Degraded) {
                state.gateway_state = phase_of_parts(state);
            }
        });
    }

    /// Written while the state is locked, so that an older state never replaces a newer one.
    fn try_update(&self, change: impl FnOnce(&mut GatewayState)) -> io::Result<()> {
        let mut state = self.lock();
        change(&mut state);
        state.updated_at = Timestamp::now();
        let mut bytes = serde_json::to_vec_pretty(&*state).map_err(io::Error::other)?;
        bytes.push(b'\n');
        replace(&self.path, &bytes)
    }

    fn lock(&self) -> MutexGuard<'_, GatewayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the phase of a gateway that serves.
fn phase_of_parts(state: &GatewayState) -> GatewayPhase {
    let is_failed = |part: &ListenerState| part.state == ListenerPhase::Failed;
    if state.platforms.values().any(is_failed) {
        GatewayPhase::Degraded
    } else {
        GatewayPhase::Running
    }
}

/// Replaces a file by rename. The temporary file has a fixed name: there is one writer.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("json.tmp");
    // Whatever an earlier process left there is not written through.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    // After a power cut the name must not point at an empty file.
    file.sync_data()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read_state(home.path()).unwrap(), None);
        let file = StateFile::begin(home.path(), "ada").unwrap();
        file.update(|state| state.gateway_state = GatewayPhase::Running);
        file.listener("api_server", |listener| listener.state = ListenerPhase::Connected);
        let read = read_state(home.path()).unwrap().unwrap();
        assert_eq!(read, file.read());
        assert_eq!(read.process(), ProcessId::current().unwrap());
        assert_eq!(read.gateway_state, GatewayPhase::Running);
    }

    #[test]
    fn a_part_that_failed_before_all_was_served_makes_it_degraded() {
        let home = tempfile::tempdir().unwrap();
        let file = StateFile::begin(home.path(), "ada").unwrap();
        file.listener("schedules", |part| part.state = ListenerPhase::Failed);
        assert_eq!(file.read().gateway_state, GatewayPhase::Starting);
        file.serves();
        assert_eq!(file.read().gateway_state, GatewayPhase::Degraded);
        file.listener("schedules", |part| part.state = ListenerPhase::Connected);
        assert_eq!(file.read().gateway_state, GatewayPhase::Running);
    }

    #[test]
    fn a_damaged_or_newer_state_is_an_error_and_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let path = state_path(home.path());
        for (text, what) in
            [("[]", "is damaged"), ("{", "is damaged"), (r#"{"version":99}"#, "has version 99")]
        {
            fs::write(&path, text).unwrap();
            let error = read_state(home.path()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(matches!(read_state(home.path()), Err(GatewayStateError::Damaged { .. })));
    }

    #[test]
    fn a_pipe_in_place_of_the_state_blocks_nobody() {
        let home = tempfile::tempdir().unwrap();
        let path = state_path(home.path());
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert!(matches!(read_state(home.path()), Err(GatewayStateError::Io { .. })));
    }
}
