//! Finding what a name on the command line stands for.

use vestal_api::{JobNotFound, JobPrefix, closest_name};
use vestal_sandbox::client::{CallError, Connection};
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Engine, Error, FaultCode, JobInfo, Overrides, Summary, SummaryState, Task};

use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::values::quoted;

/// Jobs asked for when one is looked for by the beginning of its id.
const SEARCHED: u32 = 1000;

/// A job and a way to reach it.
#[derive(Debug)]
pub(crate) struct FoundJob {
    pub(crate) task: Task,
    pub(crate) connection: Connection,
    pub(crate) info: JobInfo,
}

/// Returns the task that a name stands for, or the one meant when none is
/// given. Every verb that takes a task asks here: where the directory that
/// `vestal` is started in is mounted, it is part of the task.
pub(crate) fn task(engine: &Engine, name: Option<&Task>) -> Result<Task, Failure> {
    let Some(name) = name else {
        return Ok(engine.scoped(&Task::default_task())?);
    };
    let scoped = engine.scoped(name)?;
    let is_there = |task: &Task| engine.sandboxes_dir().join(engine.key(task).dir_name()).is_dir();
    // A sandbox that nothing is mounted in is still found by the name it has.
    if scoped != *name && !is_there(&scoped) && is_there(name) {
        return Ok(name.clone());
    }
    Ok(scoped)
}

/// Finds a job: in the sandbox of the task given, which is started if it was
/// stopped, else in all that run.
pub(crate) async fn job(
    context: &Context,
    engine: &Engine,
    name: Option<&Task>,
    wanted: &JobPrefix,
) -> Result<FoundJob, Failure> {
    if name.is_some() {
        let task = task(engine, name)?;
        let connection = connect(context, engine, &task).await?;
        let found = search(&task, connection, wanted).await?;
        return single(found, wanted, &[]);
    }
    let summaries = engine.list().await?;
    let mut found = Vec::new();
    for summary in summaries.iter().filter(|summary| summary.state == SummaryState::Running) {
        // Instances that belong to a process are that process's own business.
        let Some(task) = parse(summary).filter(|_| !summary.owned) else {
            continue;
        };
        match engine.observe(&task).await {
            Ok(connection) => found.extend(search(&task, connection, wanted).await?),
            // It has ended since it was listed.
            Err(Error::Stopped { .. } | Error::NoSandbox { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    single(found, wanted, &summaries)
}

/// Connects to the sandbox of a task, started if it was stopped, never made.
async fn connect(context: &Context, engine: &Engine, task: &Task) -> Result<Connection, Failure> {
    match engine.observe(task).await {
        Ok(connection) => Ok(connection),
        Err(Error::Stopped { .. }) => {
            let sandbox = context.sandbox(engine, task, &Overrides::default()).await?;
            Ok(sandbox.connection().await?)
        }
        Err(error) => Err(explain(engine, error).await),
    }
}

/// Returns the failure of a call about one sandbox; if there is none of that
/// name, with the name that was probably meant.
pub(crate) async fn explain(engine: &Engine, error: Error) -> Failure {
    let Error::NoSandbox { task: wanted } = &error else {
        return error.into();
    };
    let others = engine.list().await.unwrap_or_default();
    let meant = closest_name(wanted, others.iter().map(|summary| summary.task.as_str()))
        .map(|task| format!("did you mean {}?", quoted(task)));
    let failure = Failure::from(error);
    match meant {
        Some(meant) => failure.advise(meant),
        None => failure,
    }
}

/// Returns the jobs of a sandbox whose ids begin as wanted.
async fn search(
    task: &Task,
    connection: Connection,
    wanted: &JobPrefix,
) -> Result<Vec<FoundJob>, Failure> {
    // A full id is asked for by itself: it may be older than what is listed.
    if let Some(id) = wanted.as_id() {
        match job::wait(&connection, &id, Some(std::time::Duration::ZERO)).await {
            Ok(info) => {
                return Ok(vec![FoundJob { task: task.clone(), connection, info }]);
            }
            Err(CallError::Fault(fault)) if fault.code == FaultCode::NoSuchJob => {}
            Err(error) => return Err(error.into()),
        }
    }
    let list = job::jobs(&connection, JobFilter::All, SEARCHED).await?;
    let matching = list.jobs.into_iter().filter(|info| wanted.matches(&info.id));
    Ok(matching
        .map(|info| FoundJob { task: task.clone(), connection: connection.clone(), info })
        .collect())
}

/// Returns the only job that was found, or says why there is none to act on.
fn single(
    found: Vec<FoundJob>,
    wanted: &JobPrefix,
    searched: &[Summary],
) -> Result<FoundJob, Failure> {
    let stopped = searched
        .iter()
        .filter(|summary| summary.state == SummaryState::Stopped && !summary.owned)
        .map(|summary| quoted(&summary.task));
    Ok(wanted.only(found, |job| &job.info, stopped.collect())?)
}

impl From<JobNotFound> for Failure {
    fn from(error: JobNotFound) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            JobNotFound::Ambiguous { count, jobs, .. } => {
                let unnamed = count - jobs.len();
                let failure = jobs.iter().fold(failure, |failure, (id, command)| {
                    failure.advise(format!("{id}  {}", text::printable(command)))
                });
                match unnamed {
                    0 => failure,
                    more => {
                        failure.advise(format!("and {more} older; `vestal jobs --all` lists them"))
                    }
                }
            }
            JobNotFound::Unknown { stopped, .. } => {
                let failure = failure.advise("`vestal jobs --all` lists the jobs on record");
                if stopped.is_empty() {
                    return failure;
                }
                failure.advise(format!(
                    "stopped sandboxes were not searched; to look there: -t {}",
                    stopped.join(" or -t ")
                ))
            }
        }
    }
}

fn parse(summary: &Summary) -> Option<Task> {
    summary.task.parse().ok()
}
