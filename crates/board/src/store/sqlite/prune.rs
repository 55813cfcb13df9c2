//! What is forgotten with time.

use super::transaction::Transaction;
use crate::Result;
use crate::store::Retention;

impl Transaction {
    pub(super) async fn forget(&mut self, keep: &Retention) -> Result<(u64, u64)> {
        self.tell_all().await?;
        let age = i64::try_from(keep.events.as_millis()).unwrap_or(i64::MAX);
        let before = self.moment().millis().saturating_sub(age);
        let events = sqlx::query(
            "DELETE FROM events WHERE created_at < $1 AND kind <> 'created' \
             AND task_id IS NOT NULL AND id < (SELECT max(id) FROM events) AND $2 <= ( \
                 SELECT count(*) FROM ( \
                     SELECT 1 FROM events AS newer \
                     WHERE newer.task_id = events.task_id AND newer.id > events.id LIMIT $2 \
                 ) AS kept)",
        )
        .bind(before)
        .bind(i64::from(keep.events_per_task));
        let events = self.execute(events).await?;
        // The newest row keeps its number from coming back.
        let places = "DELETE FROM events WHERE task_id IS NULL \
                      AND id < (SELECT max(id) FROM events)";
        self.execute(sqlx::query(places)).await?;
        // A run that may have left something is kept until that is settled.
        let runs = sqlx::query(
            "DELETE FROM runs WHERE ended_at < $1 AND gone = 1 AND $2 <= ( \
                 SELECT count(*) FROM ( \
                     SELECT 1 FROM runs AS newer \
                     WHERE newer.task_id = runs.task_id AND newer.id > runs.id LIMIT $2 \
                 ) AS kept)",
        )
        .bind(before)
        .bind(i64::from(keep.runs_per_task));
        let runs = self.execute(runs).await?;
        let lanes = "DELETE FROM lanes WHERE queued = 0 AND guarded = 0 AND running = 0";
        self.execute(sqlx::query(lanes)).await?;
        Ok((events, runs))
    }
}
