//! Lanes and queues: what can be started next.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::row::{ColumnValue, Columns, StatementBatch};
use super::tasks::{self, shelf, status_on};
use super::transaction::Transaction;
use crate::store::{Lane, ReadQueue};
use crate::task::{LaneKey, LaneShare, Status, Task};
use crate::time::Time;
use crate::{Error, Result};

/// What changes in the lanes.
#[derive(Default)]
pub(super) struct Deltas {
    lanes: BTreeMap<LaneKey, [i64; 3]>,
}

impl Deltas {
    /// Counts a task so many times.
    pub(super) fn add(&mut self, task: &Task, times: i64) {
        if let Some((key, share)) = task.lane_share() {
            let at = match share {
                LaneShare::Queued => 0,
                LaneShare::Guarded => 1,
                LaneShare::Running => 2,
            };
            self.lanes.entry(key).or_default()[at] += times;
        }
    }

    /// Adds the statements that write it, and returns how many rows they change.
    pub(super) fn write(&self, script: &mut StatementBatch) -> usize {
        let mut rows = 0;
        for (key, &[queued, guarded, running]) in &self.lanes {
            if [queued, guarded, running] == [0; 3] {
                continue;
            }
            let [profile, tenant, host] =
                [&key.profile, &key.tenant, &key.host].map(|text| ColumnValue::from(text.as_str()));
            rows += 1;
            // Where something goes away, the lane is there, and a row with less
            // than nothing in it would be refused.
            if queued < 0 || guarded < 0 || running < 0 {
                script.push("UPDATE lanes SET queued = queued + ").value(queued);
                script.push(", guarded = guarded + ").value(guarded);
                script.push(", running = running + ").value(running);
                script.push(" WHERE profile = ").bind(&profile);
                script.push(" AND tenant = ").bind(&tenant);
                script.push(" AND host = ").bind(&host).end();
            } else {
                let counts = [queued, guarded, running].map(ColumnValue::from);
                let [queued, guarded, running] = counts;
                script
                    .push("INSERT INTO lanes (profile, tenant, host, queued, guarded, running) VALUES ")
                    .tuple(&[profile, tenant, host, queued, guarded, running])
                    .push(
                        " ON CONFLICT (profile, tenant, host) DO UPDATE SET \
                         queued = lanes.queued + excluded.queued, \
                         guarded = lanes.guarded + excluded.guarded, \
                         running = lanes.running + excluded.running",
                    )
                    .end();
            }
        }
        rows
    }
}

#[async_trait]
impl ReadQueue for Transaction {
    async fn lanes(&mut self) -> Result<Vec<Lane>> {
        let text = "SELECT profile, tenant, host, queued, guarded, running FROM lanes \
                    WHERE queued + guarded + running > 0 ORDER BY profile, tenant, host";
        self.each(sqlx::query(text), |row| {
            let mut columns = Columns::of(row, "a lane");
            let key = LaneKey {
                profile: columns.text()?,
                tenant: columns.text()?,
                host: columns.text()?,
            };
            Ok(Lane {
                key,
                queued: columns.count()?,
                guarded: columns.count()?,
                running: columns.count()?,
            })
        })
        .await
    }

    async fn queue(&mut self, lane: &LaneKey, limit: u32) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            tasks::columns!(),
            " FROM tasks WHERE queue_as = $1 AND tenant = $2 AND workspace_host = $3 \
             ORDER BY rank, seq LIMIT $4"
        );
        let statement = sqlx::query(text)
            .bind(lane.profile.clone())
            .bind(lane.tenant.clone())
            .bind(lane.host.clone())
            .bind(i64::from(limit));
        self.each(statement, tasks::read).await
    }

    async fn due(&mut self, limit: u32) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            tasks::columns!(),
            " FROM tasks WHERE wake_at <= $1 ORDER BY wake_at, seq LIMIT $2"
        );
        let statement = sqlx::query(text).bind(self.moment().millis()).bind(i64::from(limit));
        self.each(statement, tasks::read).await
    }

    async fn guarded(&mut self, limit: u32) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            tasks::columns!(),
            " FROM tasks WHERE wake_at IS NOT NULL AND status IN ('ready', 'review') \
             ORDER BY wake_at, seq LIMIT $1"
        );
        self.each(sqlx::query(text).bind(i64::from(limit)), tasks::read).await
    }

    async fn next_moment(&mut self) -> Result<Option<Time>> {
        let text = "SELECT (SELECT min(wake_at) FROM tasks WHERE wake_at IS NOT NULL), \
                           (SELECT min(expires_at) FROM runs \
                            WHERE (ended_at IS NULL OR gone = 0) AND ended_at IS NULL)";
        let Some(row) = self.first(sqlx::query(text)).await? else { return Ok(None) };
        let mut columns = Columns::of(&row, "a moment");
        let (wake, expiry) = (columns.times()?, columns.times()?);
        Ok(wake.into_iter().chain(expiry).min())
    }

    async fn running(&mut self) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            tasks::columns!(),
            " FROM tasks WHERE shelf IN ($1, $2) ORDER BY seq"
        );
        let statement = sqlx::query(text)
            .bind(shelf(Status::Running, true))
            .bind(shelf(Status::Running, false));
        self.each(statement, tasks::read).await
    }

    async fn counts(&mut self) -> Result<Vec<(Status, Option<String>, u64)>> {
        // The index has all of it: the status follows from the shelf.
        let text = "SELECT assignee, shelf, count(*) FROM tasks GROUP BY assignee, shelf";
        let mut counts: Vec<(Status, Option<String>, u64)> = Vec::new();
        for row in self.all(sqlx::query(text)).await? {
            let mut columns = Columns::of(&row, "a count");
            let (assignee, shelf) = (columns.texts()?, columns.int()?);
            let number: u64 = columns.count()?;
            let status = status_on(shelf).ok_or_else(|| Error::Unreadable {
                what: "the shelf of a task".to_owned(),
                reason: format!("there is no shelf {shelf}"),
            })?;
            let same = counts.iter_mut().find(|(s, a, _)| *s == status && *a == assignee);
            match same {
                Some((_, _, sum)) => *sum += number,
                None => counts.push((status, assignee, number)),
            }
        }
        counts.sort();
        Ok(counts)
    }

    async fn oldest_queued(&mut self) -> Result<Option<Time>> {
        let text = "SELECT min(queued_at) FROM tasks WHERE queue_as IS NOT NULL";
        let row = self.first(sqlx::query(text)).await?;
        row.as_ref().map_or(Ok(None), |row| Columns::of(row, "a moment").times())
    }
}
