//! The states of a slot on disk: what is desired, which the supervisor writes, and what is,
//! which only the child writes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files;
use crate::policy::ChildEnd;
use crate::slot::{BootRule, SlotService};

/// Version of the files that this crate writes.
pub(crate) const VERSION: u64 = 1;

/// What an operator wants of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Desired {
    /// It runs, and is started again when it ends.
    Running,
    /// It stays down.
    Stopped,
}

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// It cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer version wrote it.
    #[error("{} has version {version}; this program knows {VERSION}: use the newer program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct DesiredFile {
    version: u64,
    desired: Desired,
    updated_at: String,
}

/// Reads the desired state; nothing if it was never set.
pub fn read_desired(path: &Path) -> Result<Option<Desired>, StateFileError> {
    read::<DesiredFile>(path).map(|file| file.map(|file| file.desired))
}

/// Writes the desired state. A file of a newer version is left alone.
///
/// Only for the holder of the supervisor's lock: there is one writer at a time.
pub(crate) fn write_desired(path: &Path, desired: Desired) -> Result<(), StateFileError> {
    match read_desired(path) {
        Ok(Some(same)) if same == desired => return Ok(()),
        Err(newer @ StateFileError::Newer { .. }) => return Err(newer),
        // What is damaged is replaced by what was asked for now.
        Ok(_) | Err(StateFileError::Io { .. } | StateFileError::Damaged { .. }) => {}
    }
    write(path, &DesiredFile { version: VERSION, desired, updated_at: now() })
}

/// The state of a child in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actual {
    /// One word: `gateway_state`, or `state` of what is not a gateway.
    pub state: String,
    /// The process that wrote it: `pid`, if it says so.
    pub pid: Option<u32>,
    /// Why it is so: `exit_reason`.
    pub reason: Option<String>,
    /// Its parts by name: `platforms`.
    pub parts: BTreeMap<String, PartState>,
}

/// The state of a part of a child, such as a server in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartState {
    /// One word.
    pub state: String,
    /// Where it listens.
    #[serde(default)]
    pub address: Option<String>,
    /// What is wrong with it.
    #[serde(default)]
    pub error_message: Option<String>,
}

/// Reads the state that the child wrote last.
pub fn read_actual(path: &Path) -> Result<Option<Actual>, StateFileError> {
    let Some(state) = read::<Value>(path)? else { return Ok(None) };
    let damaged =
        |reason: &str| StateFileError::Damaged { path: path.into(), reason: reason.into() };
    let object = state.as_object().ok_or_else(|| damaged("it is not an object"))?;
    let state = match object.get("gateway_state").or_else(|| object.get("state")) {
        Some(Value::String(state)) if is_word(state) => state.clone(),
        Some(_) => return Err(damaged("its state is not a word")),
        None => return Ok(None),
    };
    let reason = object.get("exit_reason").and_then(Value::as_str).map(str::to_owned);
    // Parts are shown and nothing depends on them, so that odd ones are left out.
    let parts = object.get("platforms").and_then(Value::as_object).into_iter().flatten();
    let parts = parts
        .filter_map(|(name, part)| Some((name.clone(), PartState::deserialize(part).ok()?)))
        .collect();
    let pid = object.get("pid").and_then(Value::as_u64).and_then(|pid| pid.try_into().ok());
    Ok(Some(Actual { state, pid, reason, parts }))
}

impl Actual {
    /// Reports whether another process than this one wrote it. A child that does not say who it is
    /// is believed.
    pub(crate) fn is_of_another(&self, pid: Option<u32>) -> bool {
        self.pid.is_some() && self.pid != pid
    }
}

/// A state goes into a line of a log, so that it must be one word.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 32
        && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// What a supervisor that begins finds of a slot.
#[derive(Debug)]
pub(crate) struct Prior {
    /// The state before: what was desired, else what the child wrote last, else nothing.
    pub(crate) state: Option<String>,
    /// Whether it is to be started.
    pub(crate) comes_back: bool,
}

impl Prior {
    /// Reads it. An error means that nobody knows whether the slot is wanted.
    pub(crate) fn read(service: &SlotService) -> Result<Self, StateFileError> {
        let state = match read_desired(&service.desired) {
            Ok(Some(Desired::Running)) => Some("running".to_owned()),
            Ok(Some(Desired::Stopped)) => Some("stopped".to_owned()),
            Ok(None) if service.boot == BootRule::AsBefore => {
                read_actual(&service.actual)?.map(|actual| actual.state)
            }
            Ok(None) => None,
            // It is asked for whatever is on record.
            Err(_) if service.boot == BootRule::Always => None,
            Err(error) => return Err(error),
        };
        let ran = matches!(state.as_deref(), Some("running" | "draining" | "degraded"));
        Ok(Self { state, comes_back: ran || service.boot == BootRule::Always })
    }
}

/// Reads a file with a version.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    path: &Path,
) -> Result<Option<T>, StateFileError> {
    let failed = |source| StateFileError::Io { action: "read", path: path.into(), source };
    let Some(bytes) = files::read(path).map_err(failed)? else { return Ok(None) };
    let damaged = |reason: String| StateFileError::Damaged { path: path.into(), reason };
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match value.get("version").map(Value::as_u64) {
        Some(Some(version)) if version > VERSION => {
            return Err(StateFileError::Newer { path: path.into(), version });
        }
        Some(None) => return Err(damaged("its version is not a number".to_owned())),
        Some(Some(_)) | None => {}
    }
    serde_json::from_value(value).map(Some).map_err(|error| damaged(error.to_string()))
}

/// Replaces a file.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<(), StateFileError> {
    let failed = |source| StateFileError::Io { action: "write", path: path.into(), source };
    let mut bytes = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
    bytes.push(b'\n');
    files::replace(path, &bytes).map_err(failed)
}

/// Returns the time as it stands in files and logs.
pub(crate) fn now() -> String {
    stamp(jiff::Timestamp::now())
}

/// Returns a time in RFC 3339 with milliseconds.
pub(crate) fn stamp(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

/// What a slot does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// It is down. What is desired says whether that is wanted; if not, there is no supervisor.
    Stopped,
    /// Its child was started and is not ready yet.
    Starting,
    /// Its child is ready.
    Running,
    /// Its child ended and is started again later.
    Backoff,
    /// Its child was asked to end.
    Stopping,
    /// It is down until somebody asks for it; the reason says why.
    Failed,
}

/// How the last child of a slot ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastExit {
    /// How.
    pub ended: ChildEnd,
    /// When, in RFC 3339.
    pub at: String,
}

/// All that a supervisor knows of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: SlotState,
    /// Its process.
    pub pid: Option<u32>,
    /// When its process was started.
    pub started_at: Option<String>,
    /// When its process announced that it is ready.
    pub ready_at: Option<String>,
    /// How often its child ended by itself and was started again since the supervisor began.
    pub restarts: u64,
    /// How its last child ended.
    pub last_exit: Option<LastExit>,
    /// When it is started again.
    pub next_start_at: Option<String>,
    /// What is wanted of it; nothing if that was never set.
    pub desired: Option<Desired>,
    /// The state in its child's own words.
    pub actual: Option<String>,
    /// The parts of its child, in its own words.
    #[serde(default)]
    pub parts: BTreeMap<String, PartState>,
    /// Why it is not running although it should.
    pub reason: Option<String>,
    /// The directory of its log.
    pub log: PathBuf,
}

/// What an order came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderResult {
    /// It was started and is ready.
    Started,
    /// It was running and ready before.
    WasRunning,
    /// It was ended, and every process of it is gone.
    Stopped,
    /// It was not running before.
    WasStopped,
}

impl SlotStatus {
    /// Returns the status of a slot that was never started.
    pub(crate) fn new(name: &str, log: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            state: SlotState::Stopped,
            pid: None,
            started_at: None,
            ready_at: None,
            restarts: 0,
            last_exit: None,
            next_start_at: None,
            desired: None,
            actual: None,
            parts: BTreeMap::new(),
            reason: None,
            log,
        }
    }

    /// Returns the status of what cannot be a slot.
    pub(crate) fn broken(name: &str, reason: String, log: PathBuf) -> Self {
        Self { state: SlotState::Failed, reason: Some(reason), ..Self::new(name, log) }
    }

    /// Adds what the files of the slot say. Where they do not tell whether it is wanted, it is not
    /// simply down: it has failed.
    pub(crate) fn with_files(mut self, service: &SlotService) -> Self {
        let desired = read_desired(&service.desired);
        let actual = read_actual(&service.actual);
        let mut trouble = None;
        match desired {
            Ok(desired) => self.desired = desired,
            Err(error) => trouble = Some(error.to_string()),
        }
        match actual {
            Ok(Some(mut actual)) => {
                // What a process served that is gone is not served any more; what it could not
                // serve may be why it is gone.
                if actual.is_of_another(self.pid) {
                    actual.parts.retain(|_, part| part.error_message.is_some());
                    actual.parts.values_mut().for_each(|part| part.address = None);
                }
                self.actual = Some(actual.state);
                self.parts = actual.parts;
            }
            Ok(None) => {}
            Err(error) => trouble = trouble.or(Some(error.to_string())),
        }
        if self.state == SlotState::Stopped && Prior::read(service).is_err() {
            self.state = SlotState::Failed;
        }
        if service.boot == BootRule::Always && self.state != SlotState::Stopped {
            self.desired = Some(Desired::Running);
        }
        self.reason = self.reason.or(trouble);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn service() -> (tempfile::TempDir, SlotService) {
        let dir = tempfile::tempdir().unwrap();
        let service = SlotService {
            argv: Vec::new(),
            env: BTreeMap::new(),
            dir: dir.path().into(),
            desired: dir.path().join("desired.json"),
            actual: dir.path().join("state.json"),
            log_dir: dir.path().join("log"),
            boot: BootRule::AsBefore,
            stop_within: Duration::ZERO,
            ready_within: Duration::ZERO,
        };
        (dir, service)
    }

    /// Returns the state before and whether the slot comes back.
    fn prior(service: &SlotService) -> (Option<String>, bool) {
        let Prior { state, comes_back } = Prior::read(service).unwrap();
        (state, comes_back)
    }

    fn write_actual(service: &SlotService, state: &str) {
        std::fs::write(&service.actual, format!("{{\"gateway_state\":\"{state}\",\"pid\":1}}"))
            .unwrap();
    }

    #[test]
    fn what_is_desired_comes_before_what_was() {
        let (_dir, service) = service();
        assert_eq!(prior(&service), (None, false));
        for (was, comes) in [
            ("running", true),
            ("draining", true),
            ("degraded", true),
            ("stopped", false),
            ("starting", false),
            ("startup_failed", false),
        ] {
            write_actual(&service, was);
            assert_eq!(prior(&service), (Some(was.to_owned()), comes));
        }
        write_desired(&service.desired, Desired::Running).unwrap();
        assert_eq!(prior(&service), (Some("running".to_owned()), true));
        write_desired(&service.desired, Desired::Stopped).unwrap();
        assert_eq!(prior(&service), (Some("stopped".to_owned()), false));
    }

    #[test]
    fn a_service_that_runs_only_when_asked_does_not_come_back_because_it_ran() {
        let (_dir, mut service) = service();
        service.boot = BootRule::IfDesired;
        write_actual(&service, "running");
        assert_eq!(prior(&service), (None, false));
        write_desired(&service.desired, Desired::Running).unwrap();
        assert_eq!(prior(&service), (Some("running".to_owned()), true));
        // The environment of the supervisor asks for it, whatever was desired before.
        service.boot = BootRule::Always;
        write_desired(&service.desired, Desired::Stopped).unwrap();
        assert_eq!(prior(&service), (Some("stopped".to_owned()), true));
        std::fs::write(&service.desired, "{").unwrap();
        assert_eq!(prior(&service), (None, true));
        // What is not a gateway says `state`.
        std::fs::write(&service.actual, "{\"state\":\"ready\"}").unwrap();
        assert_eq!(read_actual(&service.actual).unwrap().unwrap().state, "ready");
    }

    #[test]
    fn broken_files_are_errors_and_a_newer_one_is_not_touched() {
        let (_dir, service) = service();
        for broken in [&b"[]"[..], b"{", b"\xff", b"{\"gateway_state\":7}", b"{\"version\":\"x\"}"]
        {
            std::fs::write(&service.actual, broken).unwrap();
            let error = Prior::read(&service).unwrap_err();
            assert!(matches!(error, StateFileError::Damaged { .. }), "{error}");
        }
        let newer = b"{\"version\":2,\"desired\":\"running\"}";
        std::fs::write(&service.desired, newer).unwrap();
        let refused = write_desired(&service.desired, Desired::Stopped).unwrap_err();
        assert!(matches!(refused, StateFileError::Newer { version: 2, .. }), "{refused}");
        assert_eq!(std::fs::read(&service.desired).unwrap(), newer);
    }
}
