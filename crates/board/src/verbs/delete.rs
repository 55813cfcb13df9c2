//! A task that was put away is removed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{authority, scene};
use crate::authority::Authority;
use crate::error::Refusal;
use crate::id::TaskId;
use crate::leftovers::remember_deleted;
use crate::log::log_path;
use crate::status::Status;
use crate::{Board, Result};

/// Runs that are looked at: more than any task has whose workers may live.
const RUNS: u32 = 1000;

impl Board {
    /// Removes a task that was put away, and all that hangs on it. One whose
    /// worker may still be there is kept until it is gone: with the task, all
    /// trace of the worker would go.
    pub async fn delete(&self, by: &Authority, id: &TaskId) -> Result<()> {
        authority::no_worker(by, "delete", id)?;
        let mut tx = self.write().await?;
        let task = scene::find(&mut *tx, id).await?;
        match task.status {
            Status::Archived => {}
            Status::Triage
            | Status::Todo
            | Status::Scheduled
            | Status::Ready
            | Status::Running
            | Status::Blocked
            | Status::Review
            | Status::Done => {
                let status = task.status;
                return Err(Refusal::Status { verb: "delete", task: id.clone(), status }.into());
            }
        }
        if let Some(run) = tx.runs(id, RUNS).await?.into_iter().find(|run| !run.gone) {
            let (run, owner) = (run.id, run.owner);
            return Err(Refusal::Held { verb: "delete", task: id.clone(), run, owner }.into());
        }
        let files = tx.attachments(id).await?;
        remember_deleted(&mut *tx, &task).await?;
        tx.delete_task(&task).await?;
        tx.commit().await?;
        let here = files.iter().filter(|file| file.host == self.host().name);
        let here: Vec<PathBuf> = here.map(|file| self.attachment_path(file)).collect();
        for path in here.iter().chain([&log_path(self.dir(), id)]) {
            remove(path);
        }
        // The directory of the task's files goes with the last of them.
        here.first().and_then(|path| path.parent()).map(fs::remove_dir);
        Ok(())
    }
}

/// Removes a file of a task that is gone. What stays, is on another host, or is
/// left by a crash at this moment, belongs to no task and is collected later.
fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "cannot be removed now");
        }
        _ => {}
    }
}
