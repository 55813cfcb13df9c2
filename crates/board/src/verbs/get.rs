//! Reading a task.

use crate::id::TaskId;
use crate::task::Task;
use crate::{Board, Result};

impl Board {
    /// Returns a task.
    pub async fn get(&self, id: &TaskId) -> Result<Task> {
        let mut tx = self.read().await?;
        super::scene::find(&mut *tx, id).await
    }
}
