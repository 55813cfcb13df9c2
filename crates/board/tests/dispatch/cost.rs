//! What a plan costs follows the slots and the lanes, not the tasks.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;
use vestal_board::dispatch::{
    BoardSnapshot, Caps, DispatchPolicy, DispatchView, Liveness, OutsideLoad, plan,
};
use vestal_board::store::{
    EventQuery, Lane, Read, ReadDetails, ReadEvents, ReadLists, ReadQueue, ReadRuns, ReadTasks,
    Relative, TaskQuery,
};
use vestal_board::{
    Attachment, Comment, FailureCount, LaneKey, Result, Run, RunId, Status, Task, TaskEvent,
    TaskId, Time,
};

use crate::fixture::LanesFixture;

/// Counts what is asked of a board, and how many rows that is.
struct Counted<'a> {
    read: Box<dyn Read + 'a>,
    asked: usize,
    rows: usize,
}

impl Counted<'_> {
    fn note_down<T>(&mut self, rows: Vec<T>) -> Vec<T> {
        self.asked += 1;
        self.rows += rows.len();
        rows
    }
}

/// What a plan has no business to ask.
const NEVER: &str = "a plan asks this";

#[async_trait]
impl Read for Counted<'_> {
    fn now(&self) -> Time {
        self.read.now()
    }
}

#[async_trait]
impl ReadQueue for Counted<'_> {
    async fn lanes(&mut self) -> Result<Vec<Lane>> {
        let rows = self.read.lanes().await?;
        Ok(self.note_down(rows))
    }

    async fn queue(&mut self, lane: &LaneKey, limit: u32) -> Result<Vec<Task>> {
        let rows = self.read.queue(lane, limit).await?;
        Ok(self.note_down(rows))
    }

    async fn due(&mut self, limit: u32) -> Result<Vec<Task>> {
        let rows = self.read.due(limit).await?;
        Ok(self.note_down(rows))
    }

    async fn guarded(&mut self, limit: u32) -> Result<Vec<Task>> {
        let rows = self.read.guarded(limit).await?;
        Ok(self.note_down(rows))
    }

    async fn next_moment(&mut self) -> Result<Option<Time>> {
        unreachable!("{NEVER}")
    }

    async fn running(&mut self) -> Result<Vec<Task>> {
        unreachable!("{NEVER}")
    }

    async fn counts(&mut self) -> Result<Vec<(Status, Option<String>, u64)>> {
        unreachable!("{NEVER}")
    }

    async fn oldest_queued(&mut self) -> Result<Option<Time>> {
        unreachable!("{NEVER}")
    }
}

#[async_trait]
impl ReadRuns for Counted<'_> {
    async fn live_runs(&mut self) -> Result<Vec<Run>> {
        let rows = self.read.live_runs().await?;
        Ok(self.note_down(rows))
    }

    async fn runs(&mut self, id: &TaskId, last: u32) -> Result<Vec<Run>> {
        let rows = self.read.runs(id, last).await?;
        Ok(self.note_down(rows))
    }

    async fn failures(&mut self, id: &TaskId) -> Result<Vec<FailureCount>> {
        let rows = self.read.failures(id).await?;
        Ok(self.note_down(rows))
    }

    async fn run(&mut self, _: RunId) -> Result<Option<Run>> {
        unreachable!("{NEVER}")
    }

    async fn completed_by(&mut self, _: &str, _: u32) -> Result<Vec<(Run, String)>> {
        unreachable!("{NEVER}")
    }
}

#[async_trait]
impl ReadTasks for Counted<'_> {
    async fn task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        let row = self.read.task(id).await?;
        Ok(self.note_down(row.into_iter().collect()).pop())
    }

    async fn names_like(&mut self, _: &str, _: u32) -> Result<Vec<TaskId>> {
        unreachable!("{NEVER}")
    }

    async fn task_with_key(&mut self, _: &str) -> Result<Option<Task>> {
        unreachable!("{NEVER}")
    }

    async fn made_by(&mut self, _: RunId) -> Result<u32> {
        unreachable!("{NEVER}")
    }
}

#[async_trait]
impl ReadLists for Counted<'_> {
    async fn finished_after(
        &mut self,
        since: Time,
        seq: i64,
        limit: u32,
    ) -> Result<Vec<(Time, i64, TaskId)>> {
        self.read.finished_after(since, seq, limit).await
    }

    async fn list(&mut self, _: &TaskQuery) -> Result<Vec<Task>> {
        unreachable!("{NEVER}")
    }

    async fn count(&mut self, _: &TaskQuery) -> Result<u64> {
        unreachable!("{NEVER}")
    }

    async fn failing(&mut self, _: u32, _: u32) -> Result<Vec<(TaskId, FailureCount)>> {
        unreachable!("{NEVER}")
    }

    async fn blocked_before(&mut self, _: Time, _: u32) -> Result<Vec<Task>> {
        unreachable!("{NEVER}")
    }

    async fn blocked_repeatedly(&mut self, _: Time, _: u32, _: u32) -> Result<Vec<(TaskId, u32)>> {
        unreachable!("{NEVER}")
    }
}

#[async_trait]
impl ReadDetails for Counted<'_> {
    async fn parents(&mut self, _: &TaskId) -> Result<Vec<Relative>> {
        unreachable!("{NEVER}")
    }

    async fn children(&mut self, _: &TaskId) -> Result<Vec<Relative>> {
        unreachable!("{NEVER}")
    }

    async fn waits_for(&mut self, _: &TaskId, _: &TaskId) -> Result<bool> {
        unreachable!("{NEVER}")
    }

    async fn comments(&mut self, _: &TaskId, _: u32) -> Result<Vec<Comment>> {
        unreachable!("{NEVER}")
    }

    async fn attachments(&mut self, _: &TaskId) -> Result<Vec<Attachment>> {
        unreachable!("{NEVER}")
    }

    async fn attachment(&mut self, _: i64) -> Result<Option<Attachment>> {
        unreachable!("{NEVER}")
    }

    async fn stored_files(&mut self) -> Result<Vec<String>> {
        unreachable!("{NEVER}")
    }

    async fn note(&mut self, _: &str) -> Result<Option<Value>> {
        unreachable!("{NEVER}")
    }
}

#[async_trait]
impl ReadEvents for Counted<'_> {
    async fn events(&mut self, _: &TaskId, _: u32) -> Result<Vec<TaskEvent>> {
        unreachable!("{NEVER}")
    }

    async fn events_after(&mut self, _: &EventQuery) -> Result<Vec<TaskEvent>> {
        unreachable!("{NEVER}")
    }

    async fn last_event(&mut self) -> Result<i64> {
        unreachable!("{NEVER}")
    }
}

/// Returns how often the board is asked for a plan, for how many rows, and how
/// many tasks the plan starts and leaves.
async fn cost(fixture: &LanesFixture, policy: &DispatchPolicy) -> (usize, usize, usize, u64) {
    let read = fixture.place.read().await.unwrap();
    let mut counted = Counted { read, asked: 0, rows: 0 };
    let view = DispatchView {
        profiles: BTreeSet::from(["ada".to_owned(), "grace".to_owned()]),
        outside: OutsideLoad::default(),
        busy_elsewhere: BTreeSet::new(),
        life: &|_| Liveness::Alive,
    };
    let snapshot = BoardSnapshot::take(&mut counted, policy, view).await.unwrap();
    let plan = plan(&snapshot, policy);
    let left = plan.result.skipped_capped.count + plan.result.skipped_unassigned.count;
    (counted.asked, counted.rows, plan.starts.len(), left)
}

#[tokio::test]
async fn a_plan_reads_as_much_of_a_large_board_as_of_a_small_one() {
    let fixture = LanesFixture::with(&["ada", "grace"]).await;
    let caps = Caps { board: Some(8), ..Caps::default() };
    let policy = DispatchPolicy { caps, ..fixture.policy() };
    for name in ["ada", "grace", ""] {
        fixture.tasks(name, 200).await;
    }
    let small = cost(&fixture, &policy).await;
    assert_eq!((small.2, small.3), (8, 592));
    for name in ["ada", "grace", ""] {
        fixture.tasks(name, 3_000).await;
    }
    let large = cost(&fixture, &policy).await;
    assert_eq!((large.2, large.3), (8, 9_592));
    assert_eq!((large.0, large.1), (small.0, small.1), "questions and rows");
    assert!(large.1 < 600, "{} rows", large.1);
}

#[tokio::test]
async fn a_plan_reads_little_where_everything_is_at_its_cap() {
    let fixture = LanesFixture::with(&["ada", "grace"]).await;
    let caps = Caps { profile: Some(4), ..Caps::default() };
    let policy = DispatchPolicy { caps, ..fixture.policy() };
    fixture.tasks("ada", 3_000).await;
    assert_eq!(fixture.dispatch(&policy).await.starts.len(), 4);
    let (asked, rows, starts, _) = cost(&fixture, &policy).await;
    assert_eq!(starts, 0);
    assert!(asked < 20 && rows < 250, "{asked} questions, {rows} rows");
}
