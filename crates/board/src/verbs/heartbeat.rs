//! A worker is still there.

use std::time::Duration;

use super::scene::Scene;
use super::{authority, limits};
use crate::authority::{Authority, Fence};
use crate::error::Refusal;
use crate::id::{RunId, TaskId};
use crate::run::Run;
use crate::store::Write;
use crate::time::Time;
use crate::{Board, Result};

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// How long the task is held from now on without another one.
    pub lease: Duration,
    /// Whether something was got done since the last one.
    pub activity: bool,
    /// What there is to say about it.
    pub note: Option<String>,
}

impl Board {
    /// Renews a worker's lease and returns until when. It is no event: a worker
    /// that lives is nothing to tell of.
    pub async fn heartbeat(&self, fence: &Fence, beat: Heartbeat) -> Result<Time> {
        let beat = beat.checked()?;
        let mut tx = self.write().await?;
        authority::fenced(&mut *tx, fence).await?;
        let Some(run) = tx.run(fence.run).await? else {
            return Err(authority::lost(fence, None));
        };
        let expires_at = beat.renew(&mut *tx, run).await?;
        tx.commit().await?;
        Ok(expires_at)
    }

    /// Renews the hold on a task that was claimed by hand; returns the run and
    /// until when it holds the task. A worker's lease is refused: one that hangs
    /// must not be kept alive by somebody else's hand.
    pub async fn renew(
        &self,
        by: &Authority,
        id: &TaskId,
        beat: Heartbeat,
    ) -> Result<(RunId, Time)> {
        let verb = "renew the hold on";
        let beat = beat.checked()?;
        let mut tx = self.write().await?;
        let Scene { task, run, .. } = Scene::find(&mut *tx, id).await?;
        authority::no_worker(by, verb, id)?;
        let Some(run) = run else {
            return Err(Refusal::Status { verb, task: task.id, status: task.status }.into());
        };
        let number = run.id;
        if run.host.is_some() {
            return Err(Refusal::Held { verb, task: task.id, run: number, owner: run.owner }.into());
        }
        let expires_at = beat.renew(&mut *tx, run).await?;
        tx.commit().await?;
        Ok((number, expires_at))
    }
}

impl Heartbeat {
    /// Returns it with a note that can be taken.
    fn checked(self) -> Result<Self> {
        let note = self.note.as_deref().map(limits::optional_reason).transpose()?;
        Ok(Self { note, ..self })
    }

    /// Writes it down and returns until when the run holds its task.
    async fn renew(self, tx: &mut dyn Write, mut run: Run) -> Result<Time> {
        let now = tx.now();
        run.expires_at = now.after(self.lease);
        run.heartbeat_at = Some(now);
        run.graced = false;
        if self.activity || self.note.is_some() {
            run.activity_at = Some(now);
        }
        run.note = self.note.filter(|note| !note.is_empty()).or(run.note);
        tx.update_run(&run).await?;
        Ok(run.expires_at)
    }
}
