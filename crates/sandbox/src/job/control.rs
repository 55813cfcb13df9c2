//! Acting on jobs and sessions of any process by their names, and finding jobs by
//! their ids, in one sandbox or in all that run. Interactive shells are jobs on a terminal that
//! any process can follow and leave again.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use vestal_wire::{CallReply, CallRequest, CommandOutcome, FaultCode, JobId, JobInfo, WindowSize};

use super::JobError;
use crate::client::{
    CallError, Connection, FeedError, InputSource, Violation, feed_for_reply, millis,
};
use crate::{Command, CommandInput, Engine, Error, SummaryState, TaskName};

/// Which jobs to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFilter {
    /// All on record.
    All,
    /// Those that run or left processes behind.
    Running,
}

/// Jobs on record, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobInfo>,
    /// Whether older ones were left out.
    pub more: bool,
}

/// What becomes of a job's standard input after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterInput {
    /// It stays open for the next write.
    KeepOpen,
    /// It is closed.
    Close,
}

/// Waits until a job has ended, or until the time is up, and returns what is
/// known of it then. Without a time limit it waits for ever.
#[boxed]
pub async fn wait(
    connection: &Connection,
    id: &JobId,
    limit: Option<Duration>,
) -> Result<JobInfo, CallError> {
    let request = CallRequest::Wait { id: id.clone(), timeout_ms: limit.map(millis) };
    info(connection, connection.call(request).await?)
}

/// Kills every process of a job. Returns once none is left.
#[boxed]
pub async fn kill(connection: &Connection, id: &JobId) -> Result<JobInfo, CallError> {
    info(connection, connection.call(CallRequest::Kill { id: id.clone() }).await?)
}

/// Sends a signal to a job's foreground process group.
#[boxed]
pub async fn signal(connection: &Connection, id: &JobId, signal: i32) -> Result<(), CallError> {
    connection.call(CallRequest::Signal { id: id.clone(), signal }).await.map(drop)
}

/// Changes the size of a job's terminal.
#[boxed]
pub async fn resize(
    connection: &Connection,
    id: &JobId,
    size: WindowSize,
) -> Result<(), CallError> {
    connection.call(CallRequest::Resize { id: id.clone(), size }).await.map(drop)
}

/// Writes to a job's standard input, as fast as the job reads.
#[boxed]
pub async fn write(
    connection: &Connection,
    id: &JobId,
    input: CommandInput,
    after: AfterInput,
) -> Result<(), JobError> {
    let lost = |error| JobError::new(connection, id, error);
    let request = CallRequest::Input { id: id.clone(), close: after == AfterInput::Close };
    let mut channel = connection.channel(request).await.map_err(lost)?;
    let written = match input {
        CommandInput::Null | CommandInput::Piped => {
            feed_for_reply(&mut channel, InputSource::Bytes(&[])).await
        }
        CommandInput::Bytes(bytes) => {
            feed_for_reply(&mut channel, InputSource::Bytes(&bytes)).await
        }
        CommandInput::Reader(mut reader) => {
            feed_for_reply(&mut channel, InputSource::Reader(&mut *reader)).await
        }
    };
    match written {
        Ok(_) => Ok(()),
        Err(FeedError::Call(error)) => Err(lost(error)),
        Err(FeedError::Source(source)) => Err(JobError::Input { job: id.clone(), source }),
    }
}

/// Lists at most `limit` jobs, the newest.
#[boxed]
pub async fn jobs(
    connection: &Connection,
    filter: JobFilter,
    limit: u32,
) -> Result<JobList, CallError> {
    let running = filter == JobFilter::Running;
    match connection.call(CallRequest::Jobs { running, limit }).await? {
        CallReply::Jobs { jobs, more } if jobs.len() <= limit as usize => {
            Ok(JobList { jobs, more })
        }
        CallReply::Jobs { .. } => {
            Err(connection.violate(Violation::Claim("more jobs than were asked for")))
        }
        _ => Err(connection.wrong_reply()),
    }
}

/// Asks what became of a command whose connection was lost. If the answer is
/// "never started", it never will be.
#[boxed]
pub async fn lookup(
    connection: &Connection,
    id: &JobId,
    incarnation: &str,
    boot: &str,
) -> Result<CommandOutcome, CallError> {
    let request = CallRequest::Lookup {
        id: id.clone(),
        incarnation: incarnation.to_owned(),
        boot: boot.to_owned(),
    };
    match connection.call(request).await? {
        CallReply::Outcome(outcome) => Ok(outcome),
        _ => Err(connection.wrong_reply()),
    }
}

fn info(connection: &Connection, reply: CallReply) -> Result<JobInfo, CallError> {
    match reply {
        CallReply::Job(info) => Ok(*info),
        _ => Err(connection.wrong_reply()),
    }
}

/// Most jobs that are looked at. A guest lists as many as there is room for.
const MANY: u32 = 100_000;

/// How often jobs are looked for. Those that are killed can start no others, so
/// a guest that always has more is not to be believed.
const ROUNDS: u32 = 100;

/// How long a guest may take to forget a session.
const SHORT_CALL: Duration = Duration::from_secs(10);

/// Returns the jobs of a session that run or left processes behind, no
/// matter which process started them.
#[boxed]
pub async fn of_session(connection: &Connection, session: &str) -> Result<Vec<JobInfo>, CallError> {
    let listed = jobs(connection, JobFilter::Running, MANY).await?;
    Ok(listed.jobs.into_iter().filter(|job| job.session.as_deref() == Some(session)).collect())
}

/// Kills every process of a session's jobs and forgets its state. Returns the
/// jobs that were killed, once none of their processes is left.
#[boxed]
pub async fn end_session(
    connection: &Connection,
    session: &str,
) -> Result<Vec<JobInfo>, CallError> {
    let mut killed = Vec::new();
    for _ in 0..ROUNDS {
        // A job that is being killed may have started another one.
        let left = of_session(connection, session).await?;
        if left.is_empty() {
            connection.reset_session(session, SHORT_CALL).await?;
            return Ok(killed);
        }
        for job in left {
            match kill(connection, &job.id).await {
                Ok(info) => killed.push(info),
                // It ended, and was forgotten.
                Err(CallError::Fault(fault)) if fault.code == FaultCode::NoSuchJob => {}
                Err(error) => return Err(error),
            }
        }
    }
    Err(connection.violate(Violation::Claim("jobs that run on however often they are killed")))
}

/// Jobs of a sandbox that are searched, the youngest first.
const SEARCHED: u32 = 1000;

/// A job and a way to reach it.
#[derive(Debug)]
pub struct FoundJob {
    /// The task whose sandbox has it.
    pub task: TaskName,
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
        let Ok(task) = summary.task.parse::<TaskName>() else { continue };
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
    task: &TaskName,
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

/// Runs the best shell there is, in the place of the one that reads this.
const SHELL_TEXT: &str = "\
if command -v bash >/dev/null 2>&1; then exec bash -i; else exec \"${SHELL:-sh}\" -i; fi";

/// Returns the command of an interactive shell that starts from a session's saved state, on a
/// terminal of this size. It continues when nobody follows it, and ends by itself.
#[must_use]
pub fn interactive_shell(session: &str, size: WindowSize) -> Command {
    // A background job has no say in its session: commands that run beside the shell are not
    // told that it has the last word.
    Command::shell(SHELL_TEXT).background().session(session).stdin(CommandInput::Piped).pty(size)
}

/// Makes programs that fill the screen draw it again: they do so when the size of their terminal
/// changes, and so it is changed there and back.
#[boxed]
pub async fn redraw_terminal(connection: &Connection, id: &JobId, size: WindowSize) {
    let other = WindowSize { rows: size.rows.saturating_sub(1).max(1), ..size };
    for size in [other, size] {
        if let Err(error) = resize(connection, id, size).await {
            tracing::debug!(%error, "the size was not passed on");
        }
    }
}
