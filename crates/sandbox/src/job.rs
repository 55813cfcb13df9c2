//! Jobs of a sandbox: run, start, follow, and act on them.
//!
//! A [`JobStream`] follows a job through lost connections. The functions that
//! take a [`Connection`] stand for that connection alone: nothing there tries
//! twice. A caller that loses the guest learns the job's id and whether the
//! request had left, and asks with [`lookup`] its outcome.

mod collect;
mod control;
mod recovery;
mod running;
mod stream;

#[cfg(test)]
#[path = "job_hostile_tests.rs"]
mod hostile_tests;
#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use vestal_wire::{
    AttachJob, CallRequest, Fault, FaultCode, JobId, JobInfo, JobState, OutputDelivery,
};

use crate::client::{CallError, Connection, Violation};
use crate::command::{Command, CommandInput, InvalidCommand, PreparedCommand};
use crate::output::{Capture, CapturedOutput};

pub use collect::{JobOutput, OutputWindow, StreamPart};
pub use control::{
    AfterInput, FoundJob, FoundJobs, JobFilter, JobList, end_session, find, find_in,
    interactive_shell, jobs, kill, lookup, of_session, redraw_terminal, resize, signal, wait,
    write,
};
pub use recovery::{JobOutcome, SentJob};
pub(crate) use recovery::{KillOnDrop, MAX_GUESTS, Observer, has_shut_down};
pub use running::{Follow, JobEvent, JobInput, RunningJob};
pub use stream::JobStream;
pub(crate) use stream::run as run_through_losses;

/// A command that did not lead to a result.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The command was not sent: no guest would take it.
    #[error(transparent)]
    Invalid(#[from] InvalidCommand),
    /// The command was not sent: with its environment it is too large.
    #[error(transparent)]
    TooLarge(vestal_wire::EncodeError),
    /// The guest answered that it failed.
    #[error(transparent)]
    Fault(Fault),
    /// The guest was lost, or cut off, before the answer. The job may run; a
    /// [`lookup`] with these values tells.
    #[error("lost sight of job {job}: {source}")]
    Lost {
        /// The job.
        job: JobId,
        /// The incarnation of the guest the command was for.
        incarnation: String,
        /// The boot id of that guest.
        boot: String,
        /// Whether the guest may have received the command. If not, it was
        /// certainly not run.
        sent: bool,
        /// What happened.
        source: CallError,
    },
    /// The connection was lost while the job was being given its input, of
    /// which it may have a part only. The job is not followed any further.
    #[error(
        "lost the connection while job {job} was given its input, which may be incomplete: {source}"
    )]
    InputLost {
        /// The job.
        job: JobId,
        /// What happened.
        source: CallError,
    },
    /// The source of the job's input failed. A command that was started with
    /// that input has been killed, rather than continue with a part of it.
    #[error("the input of job {job} failed: {source}")]
    Input {
        /// The job.
        job: JobId,
        /// What happened.
        source: io::Error,
    },
}

impl JobError {
    pub(crate) fn new(connection: &Connection, job: &JobId, error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => Self::Fault(naming_limit(fault)),
            CallError::Unsendable(error) => Self::TooLarge(error),
            source => Self::Lost {
                job: job.clone(),
                incarnation: connection.welcome().incarnation.clone(),
                boot: connection.welcome().boot.clone(),
                sent: source.sent(),
                source,
            },
        }
    }
}

/// Adds which limit a guest has met that cannot start a process: "resource temporarily unavailable"
/// names none.
fn naming_limit(mut fault: Fault) -> Fault {
    if fault.code == FaultCode::System && fault.errno == Some(Errno::AGAIN.raw_os_error()) {
        fault.message.push_str(
            "; as many processes run as may: in this sandbox (terminal.container_pids, which \
             `vestal inspect` shows), or of its user; end some of its jobs, or stop it",
        );
    }
    fault
}

impl JobError {
    /// Returns whether a guest, or the protocol, refused what was asked. As the
    /// answer to a command that was sent once, it proves that nothing runs.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Fault(_) | Self::Invalid(_) | Self::TooLarge(_))
    }
}

/// Runs a command to its end and returns what it printed, bounded by
/// [`Command::capture`].
///
/// Dropping the future leaves the job running; [`kill`] ends it.
pub async fn run(connection: &Connection, command: Command) -> Result<CapturedOutput, JobError> {
    let (head, tail) = command.capture_limits();
    let prepared = command.prepare(OutputDelivery::Captured { head, tail })?;
    let mut job = begin(connection, prepared).await?;
    job.close_input();
    gather(&mut job, Capture::new(head, tail)).await
}

/// Keeps what a job prints until it has ended.
async fn gather(job: &mut RunningJob, mut capture: Capture) -> Result<CapturedOutput, JobError> {
    while let Some(event) = job.next().await? {
        let kept = match event {
            JobEvent::Stdout(bytes) => capture.data(vestal_wire::Stream::Stdout, &bytes),
            JobEvent::Stderr(bytes) => capture.data(vestal_wire::Stream::Stderr, &bytes),
            JobEvent::Gap { stream, bytes } => capture.gap(stream, bytes),
            JobEvent::Started { .. } | JobEvent::Ended(_) => Ok(()),
        };
        kept.map_err(|violation| job.violate(violation))?;
    }
    let info = job.take_info()?;
    let JobState::Ended(exit) = info.state else {
        return Err(job.violate(Violation::Claim("a reply for a job that has not ended")));
    };
    Ok(CapturedOutput {
        job: info.id,
        exit,
        stdout: capture.stdout,
        stderr: capture.stderr,
        cwd: info.cwd.into(),
        session_state: info.session_state,
        session_error: info.session_error,
        duration: info.duration_us.map(Duration::from_micros),
    })
}

/// Starts a command whose output is followed as it comes.
pub async fn start(
    connection: &Connection,
    command: Command,
    follow: Follow,
) -> Result<RunningJob, JobError> {
    begin(connection, command.prepare(follow.delivery())?).await
}

/// Starts a background job and returns once it runs. Input that the command
/// brings is handed over before that; with [`CommandInput::Piped`] it stays open for
/// [`write()`].
pub async fn spawn_background(
    connection: &Connection,
    command: Command,
) -> Result<JobInfo, JobError> {
    let mut prepared = command.background().prepare(OutputDelivery::Detached)?;
    // The channel ends with the start, so input has to take another one.
    let input = std::mem::take(&mut prepared.input);
    let job = begin(connection, prepared).await?;
    let info = job.finish().await?;
    match input {
        CommandInput::Null | CommandInput::Piped => {}
        CommandInput::Bytes(_) | CommandInput::Reader(_) => {
            // The command runs: a connection that is lost now loses its input, not the start.
            let written = write(connection, &info.id, input, AfterInput::Close).await;
            written.map_err(|error| match error {
                JobError::Lost { job, source, .. } => JobError::InputLost { job, source },
                error => error,
            })?;
        }
    }
    Ok(info)
}

/// Follows a job that somebody started, also one that has ended.
pub async fn attach(connection: &Connection, request: AttachJob) -> Result<RunningJob, JobError> {
    let id = request.id.clone();
    let channel = connection
        .channel(CallRequest::Attach(request))
        .await
        .map_err(|error| JobError::new(connection, &id, error))?;
    Ok(RunningJob::attached(id, channel))
}

async fn begin(connection: &Connection, prepared: PreparedCommand) -> Result<RunningJob, JobError> {
    let PreparedCommand { start, text, input } = prepared;
    let (id, on_terminal) = (start.id.clone(), start.pty.is_some());
    let channel = connection
        .channel(CallRequest::Start(Box::new(start)))
        .await
        .map_err(|error| JobError::new(connection, &id, error))?;
    Ok(RunningJob::started(id, channel, on_terminal, text, input).await)
}
