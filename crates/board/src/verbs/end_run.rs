//! A run ended without bringing its task on.

use super::{Moved, steps};
use crate::dispatch::FailurePolicy;
use crate::id::RunId;
use crate::run::Outcome;
use crate::{Board, Result};

/// How a run ended that did not bring its task on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// How: by a failure, or because the task was taken away.
    pub outcome: Outcome,
    /// In words.
    pub error: String,
    /// The exit code of its worker.
    pub exit_code: Option<i32>,
}

impl Board {
    /// Ends a run. Its task is tried again after a while, or given up. A run
    /// that has ended stays as it is.
    pub async fn end_run(&self, run: RunId, end: RunEnd, policy: &FailurePolicy) -> Result<Moved> {
        let mut tx = self.write().await?;
        let moved = steps::end_run_in(&mut *tx, run, &end, policy).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
