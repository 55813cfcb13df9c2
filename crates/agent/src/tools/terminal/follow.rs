//! Following a command to its end, whatever happens on the way.

use std::time::Duration;

use tokio::time::timeout;
use vestal_sandbox::job::{Follow, JobError, JobEvent, RunningJob};
use vestal_sandbox::{Command, Error, Lost, Sandbox, new_job_id};
use vestal_wire::{AttachJob, Delivery, JobId, JobInfo};

use super::leash::Leash;
use crate::call_jobs::NotRecorded;
use crate::tool::ToolContext;
use crate::tools::output::OutputBuffer;

/// How often a lost connection is made again for one command.
const RECONNECTIONS: u32 = 3;

/// How long a guest may take to kill a command.
const KILL_WITHIN: Duration = Duration::from_secs(10);

/// How long a killed command has to hand over what it had printed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a command came to its end.
#[derive(Debug)]
pub(super) enum Followed {
    /// It ended.
    Ended(Box<JobInfo>),
    /// The turn was interrupted, and all the command had started was killed.
    Interrupted,
}

/// Runs a command and keeps what it prints. It is run at most once: after a
/// lost connection it is followed again where it was lost, and only if it is
/// known never to have started, because the guest had ended before it could be
/// told, it is given to the guest that comes after it.
pub(super) async fn run(
    context: &ToolContext,
    sandbox: &Sandbox,
    command: impl Fn() -> Command,
    printed: &mut OutputBuffer<'_>,
) -> Result<Followed, NotRecorded> {
    let mut spare = 1;
    loop {
        let id = new_job_id();
        context.jobs.record(&context.call, sandbox, &id).await?;
        let leash = Leash::new(sandbox, id.clone());
        let command = command().job_id(id.clone());
        let mut following = Box::pin(follow(sandbox, &id, command, printed));
        let ended = tokio::select! {
            biased;
            () = context.cancel.cancelled() => {
                last_words(sandbox, &id, following).await;
                leash.release();
                return Ok(Followed::Interrupted);
            }
            ended = &mut following => ended,
        };
        match ended {
            Ok(info) => {
                leash.release();
                return Ok(Followed::Ended(Box::new(info)));
            }
            Err(Error::NeverStarted { .. }) if spare > 0 => {
                leash.release();
                spare -= 1;
            }
            Err(error) => {
                if !may_run(&error) {
                    leash.release();
                }
                return Err(error.into());
            }
        }
    }
}

/// Kills a job and lets what follows it hear the end, for a while.
pub(crate) async fn last_words(
    sandbox: &Sandbox,
    id: &JobId,
    following: impl Future<Output: Sized>,
) {
    let kill = Box::pin(sandbox.kill(id));
    match timeout(KILL_WITHIN, kill).await {
        Ok(Ok(_)) => {
            // What it had printed is worth having, if it is there at once.
            drop(timeout(LAST_WORDS, following).await);
        }
        Ok(Err(error)) => tracing::debug!(job = %id, %error, "nothing to kill"),
        Err(_) => tracing::warn!(job = %id, "the job is still being killed"),
    }
}

async fn follow(
    sandbox: &Sandbox,
    id: &JobId,
    command: Command,
    printed: &mut OutputBuffer<'_>,
) -> Result<JobInfo, Error> {
    let mut taken = 0;
    let mut lost = match sandbox.start(command, Follow::EveryByte).await {
        Ok(job) => match drain(job, printed, &mut taken).await {
            Ok(info) => return Ok(info),
            Err(error) => Lost::from_error(error)?,
        },
        Err(Error::Job(error)) => Lost::from_error(error)?,
        Err(error) => return Err(error),
    };
    let mut tries = 0;
    loop {
        sandbox.outcome(&lost).await?;
        let request = AttachJob {
            id: id.clone(),
            stdout_from: taken,
            stderr_from: 0,
            follow: true,
            delivery: Delivery::EveryByte,
        };
        let error = match sandbox.attach(request).await {
            Ok(job) => match drain(job, printed, &mut taken).await {
                Ok(info) => return Ok(info),
                Err(error) => error,
            },
            Err(Error::Job(error)) => error,
            Err(error) => return Err(error),
        };
        tries += 1;
        if tries == RECONNECTIONS {
            return Err(error.into());
        }
        lost = Lost::from_error(error)?;
    }
}

/// Takes all that a job prints. The last word is waited for: only then is the
/// session's state there for the next command.
pub(super) async fn drain(
    mut job: RunningJob,
    printed: &mut OutputBuffer<'_>,
    taken: &mut u64,
) -> Result<JobInfo, JobError> {
    while let Some(event) = job.next().await? {
        match event {
            JobEvent::Stdout(bytes) => {
                *taken += bytes.len() as u64;
                printed.push(&bytes);
            }
            JobEvent::Stderr(bytes) => printed.push(&bytes),
            JobEvent::Gap { bytes, .. } => {
                *taken += bytes;
                printed.gap(bytes);
            }
            JobEvent::Started { .. } | JobEvent::Ended(_) => {}
        }
    }
    job.finish().await
}

/// Reports whether a command may run although its caller got an error.
fn may_run(error: &Error) -> bool {
    !matches!(
        error,
        Error::Job(JobError::Fault(_) | JobError::Invalid(_) | JobError::TooLarge(_))
            | Error::NeverStarted { .. }
    )
}
