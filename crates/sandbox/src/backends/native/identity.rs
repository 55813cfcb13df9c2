//! The first process of an instance, as the host counts processes.
//!
//! The stage writes it down before anything runs in the sandbox, where the
//! sandbox cannot reach it, so that whoever finds a half-made instance can tell
//! which process to end.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vestal_process::ProcessId;

use super::locator::NativeLocator;
use crate::backend::{BackendError, Instance};

#[derive(Deserialize)]
struct Record {
    pid: u32,
    pid_start: u64,
    boot: String,
}

/// Returns the file that says who the first process is.
pub(super) fn record_file(instance_dir: &Path) -> PathBuf {
    instance_dir.join("init.json")
}

/// Returns the first process that was last written down, dead or alive.
pub(super) fn read(instance_dir: &Path) -> std::io::Result<Option<ProcessId>> {
    match std::fs::read(record_file(instance_dir)) {
        Ok(bytes) => {
            // Half a file cannot be: it is written by rename. Anything else
            // that is unreadable tells as little as an absent one.
            let record = serde_json::from_slice::<Record>(&bytes).ok();
            Ok(record.map(|found| ProcessId {
                pid: found.pid,
                start: found.pid_start,
                boot: found.boot,
            }))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Forgets the process of an earlier start.
pub(super) fn forget(instance_dir: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(record_file(instance_dir)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the living first process of an instance: the one recorded, else the
/// one written down, for an instance whose creator died before recording it.
pub(super) fn living(instance: &Instance) -> Result<Option<ProcessId>, BackendError> {
    if let Some(locator) = NativeLocator::of(&instance.locator)
        && locator.process.is_alive()
    {
        return Ok(Some(locator.process));
    }
    let written = read(&instance.dir)
        .map_err(BackendError::io(format!("read {}", record_file(&instance.dir).display())))?;
    Ok(written.filter(ProcessId::is_alive))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(dir: &Path) -> Instance {
        Instance { id: "i1".into(), dir: dir.into(), locator: serde_json::Value::Null }
    }

    #[test]
    fn a_process_is_told_by_more_than_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let me = ProcessId::current().unwrap();
        let write = |start: u64| {
            let text = serde_json::json!({ "pid": me.pid, "pid_start": start, "boot": me.boot });
            std::fs::write(record_file(dir.path()), text.to_string()).unwrap();
        };
        assert_eq!(living(&instance(dir.path())).unwrap(), None);
        write(me.start + 1);
        assert_eq!(living(&instance(dir.path())).unwrap(), None);
        write(me.start);
        assert_eq!(living(&instance(dir.path())).unwrap(), Some(me));
        forget(dir.path()).unwrap();
        forget(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_read_names_nobody() {
        let dir = tempfile::tempdir().unwrap();
        for garbage in ["", "{", "[]", r#"{"pid":-1}"#] {
            std::fs::write(record_file(dir.path()), garbage).unwrap();
            assert_eq!(read(dir.path()).unwrap(), None, "{garbage}");
        }
    }
}
