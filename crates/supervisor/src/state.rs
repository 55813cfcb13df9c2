//! The states of a slot on disk: what is desired, which the supervisor writes, and what is,
//! which only the child writes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files;

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
pub enum StateError {
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
pub fn read_desired(path: &Path) -> Result<Option<Desired>, StateError> {
    read::<DesiredFile>(path).map(|file| file.map(|file| file.desired))
}

/// Writes the desired state. A file of a newer version is left alone.
///
/// Only for the holder of the supervisor's lock: there is one writer at a time.
pub(crate) fn write_desired(path: &Path, desired: Desired) -> Result<(), StateError> {
    match read_desired(path) {
        Ok(Some(same)) if same == desired => return Ok(()),
        Err(newer @ StateError::Newer { .. }) => return Err(newer),
        // What is damaged is replaced by what was asked for now.
        Ok(_) | Err(StateError::Io { .. } | StateError::Damaged { .. }) => {}
    }
    write(path, &DesiredFile { version: VERSION, desired, updated_at: now() })
}

/// The state of a child in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actual {
    /// One word: `gateway_state`.
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
pub fn read_actual(path: &Path) -> Result<Option<Actual>, StateError> {
    let Some(state) = read::<Value>(path)? else { return Ok(None) };
    let damaged = |reason: &str| StateError::Damaged { path: path.into(), reason: reason.into() };
    let object = state.as_object().ok_or_else(|| damaged("it is not an object"))?;
    let state = match object.get("gateway_state") {
        Some(Value::String(state)) if is_word(state) => state.clone(),
        Some(_) => return Err(damaged("gateway_state is not a word")),
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

/// Returns the state before this boot: what was desired, else what the child wrote last, else
/// nothing.
pub(crate) fn prior(desired: &Path, actual: &Path) -> Result<Option<String>, StateError> {
    match read_desired(desired)? {
        Some(Desired::Running) => Ok(Some("running".to_owned())),
        Some(Desired::Stopped) => Ok(Some("stopped".to_owned())),
        None => Ok(read_actual(actual)?.map(|actual| actual.state)),
    }
}

/// Reports whether a slot that was in this state is started at boot.
pub(crate) fn comes_back(prior: Option<&str>) -> bool {
    matches!(prior, Some("running" | "draining" | "degraded"))
}

/// Reads a file with a version.
pub(crate) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let failed = |source| StateError::Io { action: "read", path: path.into(), source };
    let Some(bytes) = files::read(path).map_err(failed)? else { return Ok(None) };
    let damaged = |reason: String| StateError::Damaged { path: path.into(), reason };
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match value.get("version").map(Value::as_u64) {
        Some(Some(version)) if version > VERSION => {
            return Err(StateError::Newer { path: path.into(), version });
        }
        Some(None) => return Err(damaged("its version is not a number".to_owned())),
        Some(Some(_)) | None => {}
    }
    serde_json::from_value(value).map(Some).map_err(|error| damaged(error.to_string()))
}

/// Replaces a file.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    let failed = |source| StateError::Io { action: "write", path: path.into(), source };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (desired, actual) = (dir.path().join("desired.json"), dir.path().join("state.json"));
        (dir, desired, actual)
    }

    #[test]
    fn what_is_desired_comes_before_what_was() {
        let (_dir, desired, actual) = files();
        assert_eq!(prior(&desired, &actual).unwrap(), None);
        for (was, comes) in [
            ("running", true),
            ("draining", true),
            ("degraded", true),
            ("stopped", false),
            ("starting", false),
            ("startup_failed", false),
        ] {
            std::fs::write(&actual, format!("{{\"gateway_state\":\"{was}\",\"pid\":1}}")).unwrap();
            let prior = prior(&desired, &actual).unwrap();
            assert_eq!(prior.as_deref(), Some(was));
            assert_eq!(comes_back(prior.as_deref()), comes, "{was}");
        }
        write_desired(&desired, Desired::Running).unwrap();
        assert_eq!(prior(&desired, &actual).unwrap().as_deref(), Some("running"));
        write_desired(&desired, Desired::Stopped).unwrap();
        assert_eq!(prior(&desired, &actual).unwrap().as_deref(), Some("stopped"));
        assert!(!comes_back(None));
    }

    #[test]
    fn broken_files_are_errors_and_a_newer_one_is_not_touched() {
        let (_dir, desired, actual) = files();
        for broken in [&b"[]"[..], b"{", b"\xff", b"{\"gateway_state\":7}", b"{\"version\":\"x\"}"]
        {
            std::fs::write(&actual, broken).unwrap();
            let error = prior(&desired, &actual).unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "{error}");
        }
        let newer = b"{\"version\":2,\"desired\":\"running\"}";
        std::fs::write(&desired, newer).unwrap();
        let refused = write_desired(&desired, Desired::Stopped).unwrap_err();
        assert!(matches!(refused, StateError::Newer { version: 2, .. }), "{refused}");
        assert_eq!(std::fs::read(&desired).unwrap(), newer);
    }
}
