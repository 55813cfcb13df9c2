//! In which conversation a worker works.

use super::{authority, limits};
use crate::authority::Fence;
use crate::{Board, Result};

impl Board {
    /// Writes down in which conversation a worker works: what it leaves behind
    /// in its sandbox is found by that, should it die.
    pub async fn run_session(&self, fence: &Fence, session: &str) -> Result<()> {
        let session = limits::name("the conversation", session)?;
        let mut tx = self.write().await?;
        authority::fenced(&mut *tx, fence).await?;
        let Some(mut run) = tx.run(fence.run).await? else {
            return Err(authority::lost(fence, None));
        };
        run.session_id = Some(session);
        tx.update_run(&run).await?;
        tx.commit().await
    }
}
