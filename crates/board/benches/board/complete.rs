//! Completing tasks of a large board.

use std::time::Instant;

use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_board::store::{Order, TaskQuery};
use vestal_board::{Board, Status, TaskCompletion};

use crate::Scale;
use crate::fixture::{LARGE, person};

/// What the alternative did, recorded, on a board of 1,000.
const THEIRS: f64 = 125.0;

pub(crate) async fn measure(board: &Board, scale: Scale) -> Result<Vec<BenchRow>> {
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
        row.beside(Figure::PerSecond(THEIRS))
            .bar(Bar::AtLeast(Figure::PerSecond(1_000.0)))
            .note("a commit each; the alternative's figure was recorded, of 1,000 tasks"),
    ])
}
