//! A worker was started.

use serde_json::json;

use super::authority;
use crate::authority::Fence;
use crate::event::{Kind, NewEvent};
use crate::run::Process;
use crate::{Board, Result};

impl Board {
    /// Writes down that the worker of a run was started, and where it works.
    ///
    /// If the task was taken away in the meantime the process is written down
    /// all the same, so that somebody sees to its end, and the answer is
    /// [`Error::Fenced`](crate::Error::Fenced): stop it.
    pub async fn started(&self, fence: &Fence, process: Process, workspace: &str) -> Result<()> {
        let mut tx = self.write().await?;
        let held = authority::fenced(&mut *tx, fence).await;
        let run = tx.run(fence.run).await?.filter(|run| run.task_id == fence.task);
        let Some(mut run) = run else {
            return held.map(drop);
        };
        // Whoever started it and the worker itself may both say so; one of them
        // may have died before.
        if run.process.as_ref() == Some(&process) {
            return held.map(drop);
        }
        let payload = json!({
            "pid": process.pid, "host": process.host.name, "workspace": workspace
        });
        run.host = Some(process.host.clone());
        run.process = Some(process);
        run.workspace = Some(workspace.to_owned()).filter(|text| !text.is_empty());
        run.gone = false;
        tx.update_run(&run).await?;
        let (task, run) = (fence.task.clone(), Some(fence.run));
        tx.tell(&[NewEvent { task, run, kind: Kind::Spawned, payload }]).await?;
        tx.commit().await?;
        held.map(drop)
    }
}
