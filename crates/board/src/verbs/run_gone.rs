//! Nothing is left of a worker.

use super::steps;
use crate::id::RunId;
use crate::{Board, Result};

impl Board {
    /// Writes down that nothing is left of a run's worker.
    pub async fn run_gone(&self, run: RunId) -> Result<()> {
        let mut tx = self.write().await?;
        steps::gone_in(&mut *tx, run).await?;
        tx.commit().await
    }
}
