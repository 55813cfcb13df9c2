//! What may be wrong with tasks.

use super::row::Columns;
use super::task_row::{self, shelf};
use super::transaction::Transaction;
use crate::Result;
use crate::id::TaskId;
use crate::status::Status;
use crate::task::{Failure, Task};
use crate::time::Time;

/// How far back events are looked at: far enough for a busy day, and not for ever.
const LATEST_EVENTS: i64 = 50_000;

impl Transaction {
    pub(super) async fn tasks_failing(
        &mut self,
        at_least: u32,
        limit: u32,
    ) -> Result<Vec<(TaskId, Failure)>> {
        let text = "SELECT task_id, cause, count, error, at FROM failures WHERE count >= $1 \
                    ORDER BY count DESC, task_id, cause LIMIT $2";
        let statement = sqlx::query(text).bind(i64::from(at_least)).bind(i64::from(limit));
        self.each(statement, |row| {
            let mut columns = Columns::of(row, "a failure");
            let task = columns.word()?;
            let failure = Failure {
                cause: columns.word()?,
                count: columns.count()?,
                error: columns.text()?,
                at: columns.time()?,
            };
            Ok((task, failure))
        })
        .await
    }

    pub(super) async fn tasks_blocked_before(
        &mut self,
        moment: Time,
        limit: u32,
    ) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            task_row::columns!(),
            " FROM tasks WHERE shelf IN ($1, $2) AND updated_at <= $3 \
             ORDER BY updated_at, seq LIMIT $4"
        );
        let statement = sqlx::query(text)
            .bind(shelf(Status::Blocked, true))
            .bind(shelf(Status::Blocked, false))
            .bind(moment.millis())
            .bind(i64::from(limit));
        self.each(statement, task_row::read).await
    }

    pub(super) async fn tasks_blocked_often(
        &mut self,
        since: Time,
        at_least: u32,
        limit: u32,
    ) -> Result<Vec<(TaskId, u32)>> {
        let text = "SELECT task_id, count(*) FROM \
                    (SELECT task_id, kind, created_at FROM events ORDER BY id DESC LIMIT $1) \
                    AS latest WHERE kind IN ('blocked', 'block_loop_detected') \
                    AND created_at >= $2 \
                    GROUP BY task_id HAVING count(*) >= $3 ORDER BY 2 DESC, 1 LIMIT $4";
        let statement = sqlx::query(text)
            .bind(LATEST_EVENTS)
            .bind(since.millis())
            .bind(i64::from(at_least))
            .bind(i64::from(limit));
        self.each(statement, |row| {
            let mut columns = Columns::of(row, "a count");
            Ok((columns.word()?, columns.count()?))
        })
        .await
    }
}
