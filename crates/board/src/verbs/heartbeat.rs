//! A worker is still there.

use std::time::Duration;

use super::{authority, limits};
use crate::authority::Fence;
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
        let note = beat.note.as_deref().map(limits::optional_reason).transpose()?;
        let mut tx = self.write().await?;
        authority::fenced(&mut *tx, fence).await?;
        let now = tx.now();
        let Some(mut run) = tx.run(fence.run).await? else {
            return Err(authority::lost(fence, None));
        };
        run.expires_at = now.after(beat.lease);
        run.heartbeat_at = Some(now);
        run.graced = false;
        if beat.activity || note.is_some() {
            run.activity_at = Some(now);
        }
        run.note = note.filter(|note| !note.is_empty()).or(run.note);
        tx.update_run(&run).await?;
        tx.commit().await?;
        Ok(run.expires_at)
    }
}
