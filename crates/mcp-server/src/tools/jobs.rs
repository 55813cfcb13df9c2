//! Jobs: listed, read, waited for, written to and killed, whoever started them.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{JobPhase, JobView, LogsView};
use vestal_sandbox::job::{self, AfterInput, JobFilter, OutputWindow};
use vestal_sandbox::{CommandInput, Error, JobId, JobInfo, TaskName};

use super::{Answer, SandboxTool, ToolEffect, ToolTable, counted};
use crate::call::Call;
use crate::failure::ToolFailure;
use crate::limits::{LOG_BYTES, MAX_LOG_BYTES, MAX_WAIT_SECONDS, WAIT_SECONDS};

/// Jobs that are listed unless the call says otherwise, and at most.
const LISTED: u32 = 50;
const MAX_LISTED: u32 = 500;

pub(super) fn add_to(table: &mut ToolTable) {
    table.add_described::<JobList>();
    table.add_described::<JobLogs>();
    table.add_described::<JobWait>();
    table.add_described::<JobKill>();
    table.add_described::<JobWrite>();
}

fn job_id(text: &str) -> Result<JobId, ToolFailure> {
    text.parse().map_err(|error| {
        ToolFailure::argument("job", error).advise("job_list lists the jobs of the sandbox")
    })
}

/// Finds a job, in a sandbox that is started for that if it was stopped.
async fn find(
    call: &Call,
    task: Option<&str>,
    id: &str,
) -> Result<(TaskName, JobInfo), ToolFailure> {
    let (task, id) = (call.task(task)?, job_id(id)?);
    let connection = call.existing_connection(&task).await?;
    let info = job::wait(&connection, &id, Some(Duration::ZERO)).await?;
    Ok((task, info))
}

fn in_words(job: &JobView) -> String {
    let state = match (job.state, job.exit_code) {
        (JobPhase::Ended, Some(code)) => format!("ended with exit code {code}"),
        (JobPhase::Ended, None) => "ended; its exit code is not known".to_owned(),
        (state, _) => state.as_str().to_owned(),
    };
    format!("{} {state}: {}", job.id, job.command)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobList {
    /// List jobs that have ended, too. Unless given, only those that run.
    all: Option<bool>,
    /// At most so many, the newest: 50 unless given, 500 at most.
    limit: Option<u32>,
    /// Another sandbox than your own.
    task: Option<String>,
}

/// The jobs of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
struct JobsOutput {
    /// The jobs, oldest first.
    jobs: Vec<JobView>,
    /// Whether there are older ones.
    more: bool,
}

impl SandboxTool for JobList {
    const NAME: &'static str = "job_list";
    const TITLE: &'static str = "List jobs";
    const DESCRIPTION: &'static str = "\
Lists the jobs of the sandbox: every command is one, also those that earlier conversations started in the background. With `all: true` also those that have ended.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Output = JobsOutput;

    async fn call(self, call: &Call) -> Result<Answer<JobsOutput>, ToolFailure> {
        let task = call.task(self.task.as_deref())?;
        let filter = if self.all.unwrap_or(false) { JobFilter::All } else { JobFilter::Running };
        let limit = self.limit.unwrap_or(LISTED).min(MAX_LISTED);
        let listed = match call.engine().observe(&task).await {
            Ok(connection) => Some(job::jobs(&connection, filter, limit).await?),
            // Nothing runs in it; it is not started to say so.
            Err(Error::Stopped { .. }) if filter == JobFilter::Running => None,
            Err(Error::NoSandbox { .. }) if task == *call.own() => None,
            Err(Error::Stopped { .. }) => {
                let connection = call.existing_connection(&task).await?;
                Some(job::jobs(&connection, filter, limit).await?)
            }
            Err(error) => return Err(error.into()),
        };
        let (jobs, more) =
            listed.map_or_else(Default::default, |listed| (listed.jobs, listed.more));
        let jobs: Vec<JobView> = jobs.iter().map(|job| JobView::new(task.as_str(), job)).collect();
        let mut text = jobs.iter().map(in_words).collect::<Vec<_>>().join("\n");
        if jobs.is_empty() {
            text.push_str("There are no such jobs.");
        }
        if more {
            text.push_str("\n[older jobs are left out; `limit` lists more]");
        }
        Ok(Answer::new(JobsOutput { jobs, more }, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobLogs {
    /// The job.
    job: String,
    /// The first byte of standard output to return. Unless given, the newest output is returned.
    stdout_from: Option<u64>,
    /// The first byte of standard error to return. Unless given, the newest is returned.
    stderr_from: Option<u64>,
    /// At most so many bytes of each stream: 16384 unless given, 262144 at most.
    max_bytes: Option<u64>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for JobLogs {
    const NAME: &'static str = "job_logs";
    const TITLE: &'static str = "Read the output of a job";
    const DESCRIPTION: &'static str = "\
Returns what a job wrote, running or ended. Offsets are bytes since its start: pass `next` of an answer as `stdout_from` or `stderr_from` to go on where it ended.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Output = LogsView;

    async fn call(self, call: &Call) -> Result<Answer<LogsView>, ToolFailure> {
        let (task, info) = find(call, self.task.as_deref(), &self.job).await?;
        let limit = self.max_bytes.unwrap_or(LOG_BYTES).clamp(1, MAX_LOG_BYTES);
        let begin = |from: Option<u64>, written: u64| from.unwrap_or(written.saturating_sub(limit));
        let window = OutputWindow {
            stdout_from: begin(self.stdout_from, info.stdout_bytes),
            stderr_from: begin(self.stderr_from, info.stderr_bytes),
            limit,
        };
        let output = call.engine().job_output(&task, &info, window).await?;
        let view = LogsView::new(task.as_str(), window, &output);
        let mut text = String::new();
        for (name, part, written) in [
            ("stdout", &view.stdout, view.job.stdout_bytes),
            ("stderr", &view.stderr, view.job.stderr_bytes),
        ] {
            if written == 0 {
                continue;
            }
            // Writing to a string cannot fail.
            writeln!(text, "[{name}, bytes {} to {} of {written}]", part.from, part.next).ok();
            if part.omitted > 0 {
                writeln!(text, "[{} of it are not kept]", counted(part.omitted, "byte")).ok();
            }
            text.push_str(&part.text);
            if !part.text.ends_with('\n') && !part.text.is_empty() {
                text.push('\n');
            }
            if part.next < written {
                let left = counted(written - part.next, "byte");
                writeln!(text, "[{left} more from {name}_from {} on]", part.next).ok();
            }
        }
        writeln!(text, "[{}]", in_words(&view.job)).ok();
        Ok(Answer::new(view, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobWait {
    /// The job.
    job: String,
    /// Seconds to wait at most: 60 unless given, 3600 at most. The job runs on after that.
    timeout_seconds: Option<u64>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for JobWait {
    const NAME: &'static str = "job_wait";
    const TITLE: &'static str = "Wait for a job";
    const DESCRIPTION: &'static str = "\
Waits until a job has ended or the time is up, and returns its state and exit code. Neither the end of the time nor cancelling the call ends the job.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const WAITS: bool = true;
    type Output = JobView;

    async fn call(self, call: &Call) -> Result<Answer<JobView>, ToolFailure> {
        let seconds = self.timeout_seconds.unwrap_or(WAIT_SECONDS).min(MAX_WAIT_SECONDS);
        let (task, id) = (call.task(self.task.as_deref())?, job_id(&self.job)?);
        let connection = call.existing_connection(&task).await?;
        let waiting = job::wait(&connection, &id, Some(Duration::from_secs(seconds)));
        let info = call
            .watched(waiting, || {
                let state = format!("waiting for job {id}");
                Box::pin(async move { Some(state) })
            })
            .await?;
        let view = JobView::new(task.as_str(), &info);
        if view.state == JobPhase::Ended {
            call.bring_back(&task).await;
        }
        let text = in_words(&view);
        Ok(Answer::new(view, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobKill {
    /// The job.
    job: String,
    /// The number of a signal for its foreground processes, such as 2 for SIGINT. Unless given,
    /// every process of the job is killed.
    signal: Option<i32>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for JobKill {
    const NAME: &'static str = "job_kill";
    const TITLE: &'static str = "Kill a job";
    const DESCRIPTION: &'static str = "\
Kills every process that a job started, also detached ones, and returns when none is left; or sends its foreground processes a signal.";
    const EFFECT: ToolEffect = ToolEffect::Replaces;
    type Output = JobView;

    async fn call(self, call: &Call) -> Result<Answer<JobView>, ToolFailure> {
        let (task, id) = (call.task(self.task.as_deref())?, job_id(&self.job)?);
        let connection = call.engine().observe(&task).await?;
        let info = match self.signal {
            Some(signal) => {
                job::signal(&connection, &id, signal).await?;
                job::wait(&connection, &id, Some(Duration::ZERO)).await?
            }
            None => {
                let killed = job::kill(&connection, &id).await?;
                call.bring_back(&task).await;
                killed
            }
        };
        let view = JobView::new(task.as_str(), &info);
        let text = in_words(&view);
        Ok(Answer::new(view, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobWrite {
    /// The job.
    job: String,
    /// Text to write. End a line with \n.
    text: Option<String>,
    /// Bytes to write in base64, in place of `text`.
    base64: Option<String>,
    /// Close standard input afterwards, so that the job sees its end.
    close: Option<bool>,
    /// Another sandbox than your own.
    task: Option<String>,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
struct WrittenOutput {
    /// The job.
    job: String,
    /// How many bytes.
    written: usize,
    /// Whether standard input was closed.
    closed: bool,
}

impl SandboxTool for JobWrite {
    const NAME: &'static str = "job_write";
    const TITLE: &'static str = "Write to a job";
    const DESCRIPTION: &'static str =
        "Writes to the standard input of a background job, as fast as it reads.";
    const EFFECT: ToolEffect = ToolEffect::Destroys;
    const OPEN_WORLD: bool = true;
    /// Until the job has read it.
    const WAITS: bool = true;
    type Output = WrittenOutput;

    async fn call(self, call: &Call) -> Result<Answer<WrittenOutput>, ToolFailure> {
        let closed = self.close.unwrap_or(false);
        let bytes = match (self.text, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(encoded)) => {
                STANDARD.decode(encoded).map_err(|error| ToolFailure::argument("base64", error))?
            }
            (None, None) if closed => Vec::new(),
            _ => {
                let problem = "give either `text` or `base64`; `close` alone closes standard input";
                return Err(ToolFailure::argument("text", problem));
            }
        };
        let (task, id) = (call.task(self.task.as_deref())?, job_id(&self.job)?);
        let connection = call.engine().observe(&task).await?;
        let after = if closed { AfterInput::Close } else { AfterInput::KeepOpen };
        let written = bytes.len();
        job::write(&connection, &id, CommandInput::Bytes(bytes), after).await?;
        let text = format!("Wrote {}.", counted(written as u64, "byte"));
        Ok(Answer::new(WrittenOutput { job: id.to_string(), written, closed }, text))
    }
}
