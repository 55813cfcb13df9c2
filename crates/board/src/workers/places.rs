//! What finished tasks left in sandboxes.
//!
//! A worker that finishes its task removes its own place. But a task may have
//! been worked on by several profiles, or be finished by a person after its
//! worker had left: then nobody is there who would remove what is in the
//! sandboxes of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use vestal_config::ProfileName;

use super::dispatcher::sweep;
use super::launch::Launcher;
use super::life::{Parental, life};
use crate::dispatch::Life;
use crate::id::TaskId;
use crate::run::{Outcome, Run};
use crate::status::Status;
use crate::store::{Order, Query, Read};
use crate::time::Time;
use crate::{Board, Result};

/// Until when finished tasks have been seen to, by each host for itself.
const SEEN: &str = "places";
/// Sandboxes that nobody used for so long are collected anyway.
const WINDOW: Duration = Duration::from_hours(7 * 24);
/// Tasks that are seen to at once; the others have their turn next time.
const AT_ONCE: usize = 100;
/// Tasks that are read at once.
const PAGE: u32 = 200;
/// Runs of a task that are looked at.
const RUNS: u32 = 50;

/// Has removed what tasks that were finished since the last time left in the
/// sandboxes of this host, and returns of how many.
pub(super) async fn sweep_finished(board: &Board, launcher: &dyn Launcher) -> Result<u64> {
    let mut read = board.read().await?;
    let now = read.now();
    let name = format!("{SEEN} of {}", board.host().name);
    let mut finished = finished(&mut *read, &name, now).await?;
    finished.sort();
    finished.truncate(AT_ONCE);
    let mut seen = now;
    let mut left = Vec::new();
    for (at, task) in &finished {
        let runs = read.runs(task, RUNS).await?;
        let may_live = |run: &Run| {
            let life = life(run, board.host(), Parental::Stranger);
            !run.gone && !matches!(life, Life::Gone { .. } | Life::Person)
        };
        if runs.iter().any(|run| run.is_open() || may_live(run)) {
            // Its worker may still be about to tidy up.
            seen = seen.min(*at);
            continue;
        }
        left.extend(abandoned(runs, board));
    }
    if finished.len() == AT_ONCE
        && let Some((last, _)) = finished.last()
    {
        seen = seen.min(*last);
    }
    drop(read);
    let tasks: std::collections::BTreeSet<_> = left.iter().map(|run| &run.task_id).collect();
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    // One after the other: it is urgent for nobody.
    for run in &left {
        if let Some(under_way) = sweep(board, run, launcher).await
            && let Err(error) = under_way.await
        {
            tracing::warn!(%error, task = %run.task_id, "cleaning up was given up");
        }
    }
    let mut write = board.write().await?;
    write.set_note(&name, Some(&json!({ "until": seen.millis() }))).await?;
    write.commit().await?;
    Ok(count)
}

/// Returns tasks that were finished since the last time, and when.
async fn finished(
    read: &mut (dyn Read + '_),
    name: &str,
    now: Time,
) -> Result<Vec<(Time, TaskId)>> {
    let note = read.note(name).await?;
    let seen = note.and_then(|note| note.get("until")?.as_i64()).map(Time::from_millis);
    let is_old = |at: Time| seen.is_some_and(|seen| at < seen) || at.after(WINDOW) < now;
    let mut query = Query {
        statuses: vec![Status::Done, Status::Archived],
        order: Order::Updated,
        limit: Some(PAGE),
        ..Query::default()
    };
    let mut finished = Vec::new();
    loop {
        let page = read.list(&query).await?;
        let more = page.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
        let fresh = page.iter().filter(|task| !is_old(task.updated_at));
        let before = finished.len();
        finished.extend(fresh.map(|task| (task.updated_at, task.id.clone())));
        if !more || finished.len() - before < page.len() {
            return Ok(finished);
        }
        query.offset += PAGE;
    }
}

/// Returns the last run of each profile that worked on a task here and may have
/// left something.
fn abandoned(runs: Vec<Run>, board: &Board) -> Vec<Run> {
    let mut last: BTreeMap<ProfileName, Run> = BTreeMap::new();
    let finisher = runs.iter().max_by_key(|run| run.id).cloned();
    for run in runs {
        let here = run.process.is_some() && run.host_name() == Some(&board.host().name);
        if let Some(profile) = run.profile.clone().filter(|_| here) {
            last.insert(profile, run);
        }
    }
    // Whoever said that it is done has tidied up behind itself.
    if let Some(Run { profile: Some(profile), outcome: Some(Outcome::Completed), .. }) = finisher {
        last.remove(&profile);
    }
    last.into_values().collect()
}
