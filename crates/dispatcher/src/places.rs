//! What finished tasks left in sandboxes.
//!
//! A worker that finishes its task removes its own place. But a task may have
//! been worked on by several profiles, be finished by a person after its worker
//! had left, or be kept for the sake of a child that another profile works on: then
//! nobody is there who would remove what is in the sandboxes of the others. And of
//! a task that was deleted nothing but a note is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vestal_board::dispatch::Life;
use vestal_board::leftovers::{self, Cursor, RUNS};
use vestal_board::store::Read;
use vestal_board::{Board, Outcome, Result, Run, RunId, TaskId, Time, Workspace, log_path};
use vestal_config::ProfileName;

use crate::launch::Launcher;
use crate::life::{Parental, life};
use crate::sweeping::{bare_order, sweep, sweep_as};

/// Sandboxes that nobody used for so long are collected anyway.
const WINDOW: Duration = Duration::from_hours(7 * 24);
/// Tasks that are seen to at once; the others have their turn next time.
const AT_ONCE: u32 = 100;

/// Has removed what tasks that were finished or deleted since the last time left in
/// the sandboxes of this host, and returns of how many.
pub(crate) async fn sweep_finished(board: &Board, launcher: &dyn Launcher) -> Result<u64> {
    let host = &board.host().name;
    let mut read = board.read().await?;
    let now = read.now();
    let window = i64::try_from(WINDOW.as_millis()).unwrap_or(i64::MAX);
    let oldest = Cursor { at: Time::from_millis(now.millis().saturating_sub(window)), seq: 0 };
    let begun = leftovers::cursor(&mut *read, host).await?.map_or(oldest, |seen| seen.max(oldest));
    let mut seen = begun;
    let mut waits = false;
    let mut left = BTreeMap::new();
    for (at, seq, task) in read.finished_after(begun.at, begun.seq, AT_ONCE).await? {
        let runs = read.runs(&task, RUNS).await?;
        if runs.iter().any(|run| may_live(run, board)) {
            // Its worker may still be about to tidy up.
            waits = true;
            continue;
        }
        if !waits {
            seen = Cursor { at, seq };
        }
        let tidied = finisher(&runs);
        for run in parents_runs(&mut *read, &task, board, tidied.as_ref()).await? {
            left.entry((run.task_id.clone(), run.profile.clone())).or_insert(run);
        }
        for run in runs_here(runs, board, tidied.as_ref()) {
            left.insert((run.task_id.clone(), run.profile.clone()), run);
        }
    }
    let deleted = leftovers::deleted(&mut *read, host).await?;
    drop(read);
    let tasks: BTreeSet<&TaskId> =
        left.keys().map(|(task, _)| task).chain(deleted.iter().map(|(task, _)| task)).collect();
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    // One after the other: it is urgent for nobody.
    for run in left.values() {
        if let Some(under_way) = sweep(board, run, launcher).await
            && let Err(error) = under_way.await
        {
            tracing::warn!(%error, task = %run.task_id, "cleaning up was given up");
        }
    }
    for (task, profile) in &deleted {
        let order = bare_order(board, task.clone(), RunId::new(0), profile.clone());
        if let Some(under_way) = sweep_as(&order, launcher).await
            && let Err(error) = under_way.await
        {
            tracing::warn!(%error, %task, "cleaning up was given up");
        }
        // What cleans up has written there, and nobody will read it.
        if board.read().await?.task(task).await?.is_none()
            && let Err(error) = std::fs::remove_file(log_path(board.dir(), task))
        {
            tracing::debug!(%error, %task, "the log of a deleted task");
        }
    }
    if seen == begun && deleted.is_empty() {
        return Ok(count);
    }
    let mut write = board.write().await?;
    leftovers::set_cursor(&mut *write, host, seen).await?;
    let rest: Vec<_> = leftovers::deleted(&mut *write, host)
        .await?
        .into_iter()
        .filter(|entry| !deleted.contains(entry))
        .collect();
    leftovers::set_deleted(&mut *write, host, &rest).await?;
    write.commit().await?;
    Ok(count)
}

/// Reports whether a worker of this host may still be there.
fn may_live(run: &Run, board: &Board) -> bool {
    let life = life(run, board.host(), Parental::Stranger);
    matches!(life, Life::Alive | Life::Unknown) && (run.is_open() || !run.gone)
}

/// Returns the profile whose worker said that a task is done: it has tidied up
/// behind itself, and in its own sandbox behind those before it.
fn finisher(runs: &[Run]) -> Option<ProfileName> {
    let last = runs.iter().max_by_key(|run| run.id)?;
    last.profile.clone().filter(|_| last.outcome == Some(Outcome::Completed))
}

/// Returns the last run here of each profile but one.
fn runs_here(runs: Vec<Run>, board: &Board, but: Option<&ProfileName>) -> Vec<Run> {
    let mut last: BTreeMap<ProfileName, Run> = BTreeMap::new();
    for run in runs {
        let here = run.process.is_some() && run.host_name() == Some(&board.host().name);
        if let Some(profile) = run.profile.clone().filter(|_| here)
            && but != Some(&profile)
        {
            last.insert(profile, run);
        }
    }
    last.into_values().collect()
}

/// Returns the runs here of tasks before one that kept their scratch places for its
/// sake and for nobody else's any more.
async fn parents_runs(
    read: &mut (dyn Read + '_),
    task: &TaskId,
    board: &Board,
    but: Option<&ProfileName>,
) -> Result<Vec<Run>> {
    let mut found = Vec::new();
    for parent in read.parents(task).await? {
        let Some(parent) = read.task(&parent.id).await? else { continue };
        if parent.workspace != Workspace::Scratch || !parent.status.satisfies_children() {
            continue;
        }
        let children = read.children(&parent.id).await?;
        if children.iter().all(|child| child.status.satisfies_children()) {
            found.extend(runs_here(read.runs(&parent.id, RUNS).await?, board, but));
        }
    }
    Ok(found)
}
