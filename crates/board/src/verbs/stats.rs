//! How a board stands.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::status::Status;
use crate::store::Query;
use crate::time::Time;
use crate::{Board, Result};

/// How a board stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// How many tasks there are of each status that has any.
    pub by_status: BTreeMap<Status, u64>,
    /// The same for each profile; those of nobody are left out.
    pub by_assignee: BTreeMap<String, BTreeMap<Status, u64>>,
    /// How long the task has waited for a worker that has waited longest.
    pub oldest_ready_age_seconds: Option<u64>,
    /// Tasks that a person should look at.
    pub needs_attention: u64,
    /// The moment.
    pub now: Time,
}

impl Board {
    /// Returns how the board stands.
    pub async fn stats(&self) -> Result<Stats> {
        let mut tx = self.read().await?;
        let now = tx.now();
        let mut by_status = BTreeMap::new();
        let mut by_assignee: BTreeMap<String, BTreeMap<Status, u64>> = BTreeMap::new();
        for (status, assignee, count) in tx.counts().await? {
            *by_status.entry(status).or_default() += count;
            if let Some(assignee) = assignee {
                *by_assignee.entry(assignee).or_default().entry(status).or_default() += count;
            }
        }
        let attention = Query { needs_attention: true, ..Query::default() };
        Ok(Stats {
            by_status,
            by_assignee,
            oldest_ready_age_seconds: tx.oldest_queued().await?.map(|at| at.until(now).as_secs()),
            needs_attention: tx.count(&attention).await?,
            now,
        })
    }
}
