//! Finding jobs by their ids, in one sandbox or in all that run.

use std::time::Duration;

use vestal_wire::{FaultCode, JobId, JobInfo};

use super::{JobFilter, jobs, wait};
use crate::client::{CallError, Connection};
use crate::{Engine, Error, SummaryState, Task};

/// Jobs of a sandbox that are searched, the youngest first.
const SEARCHED: u32 = 1000;

/// A job and a way to reach it.
#[derive(Debug)]
pub struct FoundJob {
    /// The task whose sandbox has it.
    pub task: Task,
    /// A connection to that sandbox.
    pub connection: Connection,
    /// What is known of the job.
    pub info: JobInfo,
}

/// What was found in the sandboxes of an engine.
#[derive(Debug, Default)]
pub struct FoundJobs {
    /// The jobs.
    pub jobs: Vec<FoundJob>,
    /// Tasks of stopped sandboxes, which were not searched.
    pub stopped: Vec<String>,
}

/// Returns the jobs with an id, or whose ids `matches` accepts, in all sandboxes that run. Nothing
/// is started, and it does not count as use.
pub async fn find(
    engine: &Engine,
    id: Option<&JobId>,
    matches: impl Fn(&JobId) -> bool,
) -> Result<FoundJobs, Error> {
    let mut found = FoundJobs::default();
    // Instances that belong to a process are that process's own business.
    for summary in engine.list().await?.iter().filter(|summary| !summary.owned) {
        match summary.state {
            SummaryState::Running => {}
            SummaryState::Stopped => {
                found.stopped.push(summary.task.clone());
                continue;
            }
            SummaryState::Unresponsive | SummaryState::Absent | SummaryState::Unknown => continue,
        }
        let Ok(task) = summary.task.parse::<Task>() else { continue };
        match engine.observe(&task).await {
            Ok(connection) => found.jobs.extend(find_in(&task, connection, id, &matches).await?),
            // It has ended since it was listed, or does not answer any more.
            Err(Error::Stopped { .. } | Error::Unresponsive { .. } | Error::NoSandbox { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the jobs with an id, or whose ids `matches` accepts, in the sandbox at the other end of
/// a connection.
pub async fn find_in(
    task: &Task,
    connection: Connection,
    id: Option<&JobId>,
    matches: impl Fn(&JobId) -> bool,
) -> Result<Vec<FoundJob>, CallError> {
    // A full id is asked for by itself: it may be older than what is listed.
    if let Some(id) = id {
        match wait(&connection, id, Some(Duration::ZERO)).await {
            Ok(info) => return Ok(vec![FoundJob { task: task.clone(), connection, info }]),
            Err(CallError::Fault(fault)) if fault.code == FaultCode::NoSuchJob => {}
            Err(error) => return Err(error),
        }
    }
    let listed = jobs(&connection, JobFilter::All, SEARCHED).await?.jobs;
    let found = listed.into_iter().filter(|info| matches(&info.id));
    Ok(found
        .map(|info| FoundJob { task: task.clone(), connection: connection.clone(), info })
        .collect())
}
