//! Jobs: listed, read, followed, waited for, written to and killed, whoever started them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{JobView, LogsView};
use vestal_sandbox::job::{self, AfterInput, JobFilter, OutputWindow};
use vestal_sandbox::{CommandInput, Error, JobId, JobInfo, TaskName};

use super::connection::SandboxCall;
use super::failure::SandboxFailure;
use super::limits::{LISTED, LOG, MAX_LISTED, MAX_LOG, MAX_SECONDS};
use super::methods::{sent_bytes, task_of};
use super::run::follow_output;

fn job_id(text: &str) -> Result<JobId, SandboxFailure> {
    text.parse().map_err(|error| SandboxFailure::param("job", error))
}

/// Finds a job, in a sandbox that is started for that if it was stopped.
async fn find(
    call: &SandboxCall,
    task: &str,
    id: &str,
) -> Result<(TaskName, JobInfo), SandboxFailure> {
    let (task, id) = (task_of(task)?, job_id(id)?);
    let connection = call.server.engine().existing_connection(&task).await?;
    let info = job::wait(&connection, &id, Some(Duration::ZERO)).await?;
    Ok((task, info))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobListParams {
    /// The task of the sandbox.
    task: String,
    /// List jobs that have ended, too.
    #[serde(default)]
    all: bool,
    /// At most so many, the newest: 200 unless given, 1000 at most.
    limit: Option<u32>,
}

/// The jobs of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JobListResult {
    /// The jobs, the oldest first.
    jobs: Vec<JobView>,
    /// Whether there are older ones.
    more: bool,
}

pub(super) async fn list(
    call: SandboxCall,
    params: JobListParams,
) -> Result<JobListResult, SandboxFailure> {
    let task = task_of(&params.task)?;
    let filter = if params.all { JobFilter::All } else { JobFilter::Running };
    let limit = params.limit.unwrap_or(LISTED).clamp(1, MAX_LISTED);
    let engine = call.server.engine();
    let connection = match engine.observe(&task).await {
        Ok(connection) => connection,
        // Nothing runs in it; it is not started to say so.
        Err(Error::Stopped { .. }) if filter == JobFilter::Running => {
            return Ok(JobListResult { jobs: Vec::new(), more: false });
        }
        Err(Error::Stopped { .. }) => engine.existing_connection(&task).await?,
        Err(error) => return Err(error.into()),
    };
    let listed = job::jobs(&connection, filter, limit).await?;
    let jobs = listed.jobs.iter().map(|job| JobView::new(task.as_str(), job)).collect();
    Ok(JobListResult { jobs, more: listed.more })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogsParams {
    /// The task of the sandbox.
    task: String,
    /// The job.
    job: String,
    /// The first byte of standard output to return. Unless given, the newest output is returned.
    stdout_from: Option<u64>,
    /// The first byte of standard error to return. Unless given, the newest is returned.
    stderr_from: Option<u64>,
    /// At most so many bytes of each: 262144 unless given, 4194304 at most.
    max_bytes: Option<u64>,
}

pub(super) async fn logs(
    call: SandboxCall,
    params: LogsParams,
) -> Result<LogsView, SandboxFailure> {
    let (task, info) = find(&call, &params.task, &params.job).await?;
    let limit = params.max_bytes.unwrap_or(LOG).clamp(1, MAX_LOG);
    let begin = |from: Option<u64>, written: u64| from.unwrap_or(written.saturating_sub(limit));
    let window = OutputWindow {
        stdout_from: begin(params.stdout_from, info.stdout_bytes),
        stderr_from: begin(params.stderr_from, info.stderr_bytes),
        limit,
    };
    let output = call.server.engine().job_output(&task, &info, window).await?;
    Ok(LogsView::new(task.as_str(), window, &output))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowParams {
    /// The task of the sandbox.
    task: String,
    /// The job.
    job: String,
    /// The first byte of standard output to send; the very first unless given.
    #[serde(default)]
    stdout_from: u64,
    /// The first byte of standard error to send; the very first unless given.
    #[serde(default)]
    stderr_from: u64,
    /// Bytes of output to send at most until `request.grant` allows more; all unless given. A job that
    /// runs is never held up: output that is not taken in time is left out, and counted.
    window: Option<usize>,
}

pub(super) async fn follow(
    call: SandboxCall,
    params: FollowParams,
) -> Result<JobView, SandboxFailure> {
    let (task, info) = find(&call, &params.task, &params.job).await?;
    let (stdout_from, stderr_from) = (params.stdout_from, params.stderr_from);
    let window = OutputWindow { stdout_from, stderr_from, limit: u64::MAX };
    call.request.grant(params.window.unwrap_or_default());
    let mut stream = call.server.engine().observe_job(&task, window.attach(&info, true)).await?;
    let from = (stdout_from, stderr_from);
    follow_output(&call, &mut stream, &info.id, from, params.window.is_some()).await?;
    let info = stream.finish().await?.into_info()?;
    Ok(JobView::new(task.as_str(), &info))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitParams {
    /// The task of the sandbox.
    task: String,
    /// The job.
    job: String,
    /// Seconds to wait at most; as long as it takes unless given. The job runs on after that.
    timeout: Option<f64>,
}

pub(super) async fn wait(call: SandboxCall, params: WaitParams) -> Result<JobView, SandboxFailure> {
    let limit = match params.timeout {
        Some(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(_) => return Err(SandboxFailure::param("timeout", "must be 0 to 1000000000 seconds")),
        None => None,
    };
    let (task, id) = (task_of(&params.task)?, job_id(&params.job)?);
    let sandbox = call.server.sandbox(&task).await?;
    Ok(JobView::new(task.as_str(), &sandbox.wait(&id, limit).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobKillParams {
    /// The task of the sandbox.
    task: String,
    /// The job.
    job: String,
    /// The number of a signal for its foreground processes, such as 2 for SIGINT. Unless given, every
    /// process of the job is killed.
    signal: Option<i32>,
}

pub(super) async fn kill(
    call: SandboxCall,
    params: JobKillParams,
) -> Result<JobView, SandboxFailure> {
    let (task, id) = (task_of(&params.task)?, job_id(&params.job)?);
    let connection = call.server.engine().observe(&task).await?;
    let info = match params.signal {
        Some(signal) => {
            job::signal(&connection, &id, signal).await?;
            job::wait(&connection, &id, Some(Duration::ZERO)).await?
        }
        None => job::kill(&connection, &id).await?,
    };
    Ok(JobView::new(task.as_str(), &info))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobWriteParams {
    /// The task of the sandbox.
    task: String,
    /// The job.
    job: String,
    /// Text to write.
    text: Option<String>,
    /// Bytes to write in base64, in place of `text`.
    base64: Option<String>,
    /// Close standard input afterwards.
    #[serde(default)]
    close: bool,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JobWriteResult {
    /// How many bytes.
    written: usize,
    /// Whether standard input was closed.
    closed: bool,
}

pub(super) async fn write(
    call: SandboxCall,
    params: JobWriteParams,
) -> Result<JobWriteResult, SandboxFailure> {
    let (task, id) = (task_of(&params.task)?, job_id(&params.job)?);
    let bytes = sent_bytes(params.text, params.base64.as_deref())?;
    let bytes = match bytes {
        Some(bytes) => bytes,
        None if params.close => Vec::new(),
        None => return Err(SandboxFailure::param("text", "give it, `base64`, or `close`")),
    };
    let (written, closed) = (bytes.len(), params.close);
    if let Some(input) = call.requests.input(&id) {
        let mut input = input.lock().await;
        let took_all = match input.as_mut() {
            Some(input) => input.write(&bytes).await,
            None => false,
        };
        if !took_all {
            let message = format!("job {id} does not read its standard input any more");
            return Err(
                SandboxFailure::new(super::failure::FailureKind::Conflict, message).of_job(&id)
            );
        }
        if closed && let Some(input) = input.take() {
            input.close();
        }
        return Ok(JobWriteResult { written, closed });
    }
    let connection = call.server.engine().observe(&task).await?;
    let after = if closed { AfterInput::Close } else { AfterInput::KeepOpen };
    job::write(&connection, &id, CommandInput::Bytes(bytes), after).await?;
    Ok(JobWriteResult { written, closed })
}
