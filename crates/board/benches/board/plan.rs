//! Planning: a snapshot and the decision.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;
use vestal_board::dispatch::{
    BoardSnapshot, Caps, DispatchPolicy, DispatchView, FailurePolicy, Liveness, OutsideLoad, Shown,
    plan,
};
use vestal_board::store::{Order, TaskQuery};
use vestal_board::{Board, Status, TaskCompletion};

use crate::Scale;
use crate::fixture::{LARGE, PROFILES, person};

const SLOTS: u32 = 8;

/// What the alternative took, recorded, by the size of the board.
const THEIRS: [(usize, Duration); 3] = [
    (1_000, Duration::from_millis(182)),
    (10_000, Duration::from_millis(1_590)),
    (50_000, Duration::from_millis(9_200)),
];

pub(crate) async fn measure(board: &Board, scale: Scale, size: usize) -> Result<Vec<BenchRow>> {
    let policy = DispatchPolicy {
        host: board.host().clone(),
        caps: Caps { host: Some(SLOTS), ..Caps::default() },
        default_assignee: None,
        lease: Duration::from_mins(15),
        stale_after: None,
        failures: FailurePolicy::default(),
        shown: Shown::First(100),
    };
    let mut samples = Samples::default();
    for round in 0..scale.plans + 5 {
        let begun = Instant::now();
        let mut read = board.read().await?;
        let view = DispatchView {
            profiles: PROFILES.iter().map(|&name| name.to_owned()).collect(),
            outside: OutsideLoad::default(),
            busy_elsewhere: BTreeSet::new(),
            life: &|_| Liveness::Unknown,
        };
        let snapshot = BoardSnapshot::take(&mut *read, &policy, view).await?;
        let plan = plan(&snapshot, &policy);
        let time = begun.elapsed();
        drop(read);
        let left = plan.result.skipped_capped.count;
        if plan.starts.len() != usize::try_from(SLOTS)? || left != u64::try_from(size)? - 8 {
            return Err(format!("{} are started and {left} left", plan.starts.len()).into());
        }
        if round >= 5 {
            samples.push(time);
        }
    }
    let row = BenchRow::times(format!("plan: {size} ready tasks, {SLOTS} slots"), &samples)
        .bar(Bar::AtMost(Figure::Milliseconds(5.0)));
    let theirs = THEIRS.iter().find(|(theirs, _)| *theirs == size);
    Ok(vec![match theirs {
        Some((_, theirs)) => {
            row.beside(Figure::time(*theirs)).note("the alternative's figures were recorded")
        }
        None => row,
    }])
}

/// What the alternative did, recorded, on a board of 1,000.
const THEIRS_PER_SECOND: f64 = 125.0;

pub(crate) async fn measure_completions(board: &Board, scale: Scale) -> Result<Vec<BenchRow>> {
    // The last ones: the next plan still finds the first.
    let query = TaskQuery {
        statuses: vec![Status::Ready],
        order: Order::CreatedDesc,
        limit: Some(u32::try_from(scale.completions)?),
        ..TaskQuery::default()
    };
    let tasks = board.list(&query).await?;
    if tasks.len() != scale.completions {
        return Err(format!("{} tasks are ready", tasks.len()).into());
    }
    let begun = Instant::now();
    for task in &tasks {
        let done =
            TaskCompletion { summary: Some("It is done.".to_owned()), ..TaskCompletion::default() };
        board.complete(&person(), &task.id, done).await?;
    }
    let time = begun.elapsed();
    // They go back, so that the board is as large as before.
    for task in &tasks {
        board.reopen(&person(), &task.id, "").await?;
    }
    let count = u64::try_from(tasks.len())?;
    let row = BenchRow::single(
        format!("complete, on a board of {LARGE} tasks"),
        Figure::per_second(count, time),
    );
    Ok(vec![
        row.beside(Figure::PerSecond(THEIRS_PER_SECOND))
            .bar(Bar::AtLeast(Figure::PerSecond(1_000.0)))
            .note("a commit each; the alternative's figure was recorded, of 1,000 tasks"),
    ])
}
