//! Following what happens.

use crate::event::Event;
use crate::store::EventQuery;
use crate::{Board, Result};

impl Board {
    /// Returns events of all tasks after a number, oldest first.
    pub async fn events_after(&self, query: &EventQuery) -> Result<Vec<Event>> {
        self.read().await?.events_after(query).await
    }
}
