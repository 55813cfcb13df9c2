//! Listing tasks.

use crate::store::Query;
use crate::task::Task;
use crate::{Board, Result};

impl Board {
    /// Returns tasks.
    pub async fn list(&self, query: &Query) -> Result<Vec<Task>> {
        self.read().await?.list(query).await
    }
}
