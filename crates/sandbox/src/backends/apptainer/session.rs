//! The processes of an instance on this machine: the guest, and what Apptainer runs
//! beside the container, such as the programs behind its fuse mounts.
//!
//! All of them are in the session that the stage has made for the start. The guest is
//! killed first: Apptainer then takes its mounts apart and ends. Who kills Apptainer
//! instead, leaves those programs behind; they are found by their session and their
//! mount namespace.

use std::time::{Duration, Instant};

use vestal_process::{ProcessId, ProcessSession};

use super::records::LaunchRecord;
use crate::backend::{BackendError, Instance};
use crate::backends::guest_process;

/// How long Apptainer may take to take its mounts apart once the guest is gone.
const TIDY_WITHIN: Duration = Duration::from_secs(5);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the living processes of a start.
fn members(record: &LaunchRecord) -> std::io::Result<Vec<ProcessId>> {
    let session = ProcessSession { leader: record.session.clone(), marks: Vec::new() };
    let mut members = session.members()?;
    if let Some(namespace) = &record.namespace {
        for member in session.members_in_namespace(namespace)? {
            if !members.contains(&member) {
                members.push(member);
            }
        }
    }
    Ok(members)
}

/// Ends all processes of a start.
pub(super) async fn end(
    record: &LaunchRecord,
    instance: &Instance,
    timeout: Duration,
) -> Result<(), BackendError> {
    let begun = Instant::now();
    let tidies = match &record.guest {
        Some(guest) => {
            guest_process::kill(guest, instance, timeout).await?;
            TIDY_WITHIN.min(timeout / 2)
        }
        // The container is still being built: nothing in it is to be kept.
        None => Duration::ZERO,
    };
    loop {
        let looked = members(record);
        let left = looked.map_err(BackendError::io("look for the processes of the container"))?;
        if left.is_empty() {
            return Ok(());
        }
        if begun.elapsed() >= timeout {
            let pids: Vec<u32> = left.into_iter().map(|process| process.pid).collect();
            let reason = format!("processes {pids:?} of its container do not die");
            return Err(BackendError::WontEnd { id: instance.id.clone(), reason });
        }
        if begun.elapsed() >= tidies {
            for process in &left {
                let handle = process
                    .handle()
                    .map_err(BackendError::io("open a process of the container"))?;
                if let Some(handle) = handle {
                    handle.kill().map_err(BackendError::io("kill a process of the container"))?;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
