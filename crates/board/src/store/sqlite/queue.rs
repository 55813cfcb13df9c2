//! What comes next.

use super::row::Columns;
use super::task_row::{self, shelf, status_on};
use super::transaction::Transaction;
use crate::status::Status;
use crate::task::{LaneKey, Task};
use crate::time::Time;
use crate::{Error, Result};

impl Transaction {
    pub(super) async fn queue_of(&mut self, lane: &LaneKey, limit: u32) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            task_row::columns!(),
            " FROM tasks WHERE queue_as = $1 AND tenant = $2 AND workspace_host = $3 \
             ORDER BY rank, seq LIMIT $4"
        );
        let statement = sqlx::query(text)
            .bind(lane.profile.clone())
            .bind(lane.tenant.clone())
            .bind(lane.host.clone())
            .bind(i64::from(limit));
        self.each(statement, task_row::read).await
    }

    pub(super) async fn tasks_due(&mut self, limit: u32) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            task_row::columns!(),
            " FROM tasks WHERE wake_at <= $1 ORDER BY wake_at, seq LIMIT $2"
        );
        let statement = sqlx::query(text).bind(self.moment().millis()).bind(i64::from(limit));
        self.each(statement, task_row::read).await
    }

    pub(super) async fn tasks_guarded(&mut self, limit: u32) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            task_row::columns!(),
            " FROM tasks WHERE wake_at IS NOT NULL AND status IN ('ready', 'review') \
             ORDER BY wake_at, seq LIMIT $1"
        );
        self.each(sqlx::query(text).bind(i64::from(limit)), task_row::read).await
    }

    pub(super) async fn first_moment(&mut self) -> Result<Option<Time>> {
        let text = "SELECT (SELECT min(wake_at) FROM tasks WHERE wake_at IS NOT NULL), \
                           (SELECT min(expires_at) FROM runs \
                            WHERE (ended_at IS NULL OR gone = 0) AND ended_at IS NULL)";
        let Some(row) = self.first(sqlx::query(text)).await? else { return Ok(None) };
        let mut columns = Columns::of(&row, "a moment");
        let (wake, expiry) = (columns.times()?, columns.times()?);
        Ok(wake.into_iter().chain(expiry).min())
    }

    pub(super) async fn tasks_running(&mut self) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            task_row::columns!(),
            " FROM tasks WHERE shelf IN ($1, $2) ORDER BY seq"
        );
        let statement = sqlx::query(text)
            .bind(shelf(Status::Running, true))
            .bind(shelf(Status::Running, false));
        self.each(statement, task_row::read).await
    }

    pub(super) async fn count_by_status(&mut self) -> Result<Vec<(Status, Option<String>, u64)>> {
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

    pub(super) async fn queued_longest(&mut self) -> Result<Option<Time>> {
        let text = "SELECT min(queued_at) FROM tasks WHERE queue_as IS NOT NULL";
        let row = self.first(sqlx::query(text)).await?;
        row.as_ref().map_or(Ok(None), |row| Columns::of(row, "a moment").times())
    }
}
