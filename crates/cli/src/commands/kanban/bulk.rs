//! Doing the same to several tasks: each for itself, so that one that cannot
//! be moved does not keep the others.

use std::future::Future;

use vestal_api::BulkMovedView;
use vestal_board::{Board, TaskId};

use super::desk::Desk;
use super::steps::{self, Step};
use crate::error::Failure;
use crate::exit::Exit;

/// What became of each task.
/// Does something to each of the tasks named, says what became of them, and
/// returns 0 only where all of it went well.
pub(super) async fn each<F>(
    desk: &Desk<'_>,
    names: &[String],
    json: bool,
    act: impl Fn(Board, TaskId) -> F,
) -> Result<Exit, Failure>
where
    F: Future<Output = vestal_board::Result<Step>>,
{
    let mut told = Vec::with_capacity(names.len());
    let mut exit = Exit::Success;
    for name in names {
        let done = async {
            let (board, id) = desk.task(name).await?;
            let step = act(board.clone(), id).await?;
            Ok::<_, Failure>(steps::settle(desk, &board, step).await)
        };
        match done.await {
            Ok(settled) => {
                if !json {
                    settled.tell(desk)?;
                }
                told.push(BulkMovedView::Moved(Box::new(settled.view())));
            }
            Err(failure) => {
                desk.console().explain(&failure);
                exit = worse(exit, failure.exit());
                let error = failure.message().unwrap_or_default().to_owned();
                told.push(BulkMovedView::Failed { task_id: name.clone(), error });
            }
        }
    }
    if json {
        desk.print(&told)?;
    }
    Ok(exit)
}

/// Returns the worse of two ends: a failure of ours hides a refusal.
pub(super) fn worse(one: Exit, other: Exit) -> Exit {
    if other.code() > one.code() { other } else { one }
}
