//! Finding a job again after the connection to its guest was lost, and killing one
//! whose caller is gone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::OwnedRwLockReadGuard;
use vestal_wire::{AttachJob, CommandOutcome, FaultCode, JobId, JobInfo};

use super::running::RunningJob;
use super::{JobError, attach, kill, lookup};
use crate::client::{CallError, Connection};
use crate::engine::owned;
use crate::{Engine, Error, Sandbox, TaskName};

/// How often a connection is made again without anything new from the job.
pub(super) const RECONNECTIONS: u32 = 3;

/// Pause before the second reconnection in a row; before the third it is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

/// How many guests a command is sent to until one starts it. A stop for a copy
/// takes one guest away, and several copies can follow each other.
pub(crate) const MAX_GUESTS: u32 = 5;

/// How long a guest that is shutting down may take to close its connections.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_mins(1);

/// Waits until a guest that is shutting down has closed its connection: until then
/// the same guest would be asked again. Returns whether it has.
pub(crate) async fn has_shut_down(guest: &Connection) -> bool {
    tokio::time::timeout(SHUTDOWN_TIMEOUT, guest.closed()).await.is_ok()
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// It was started. Its state says whether it has ended, and how.
    Ran(Box<JobInfo>),
    /// It was not started and never will be.
    NeverStarted {
        /// The job.
        job: JobId,
    },
    /// It may have run: the records that could tell are gone.
    Unknown {
        /// The job.
        job: JobId,
    },
}

impl JobOutcome {
    /// Returns what is known of the job; an error if it did not run or if that
    /// cannot be determined.
    pub fn into_info(self) -> Result<JobInfo, Error> {
        match self {
            Self::Ran(info) => Ok(*info),
            Self::NeverStarted { job } => Err(Error::NeverStarted { job }),
            Self::Unknown { job } => Err(Error::OutcomeUnknown { job }),
        }
    }
}

/// A job and the guest that it was sent to: what is needed to ask later what
/// became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentJob {
    /// The job.
    pub job: JobId,
    incarnation: String,
    boot: String,
    may_have_arrived: bool,
}

impl SentJob {
    /// Returns a job that may have been sent to this guest.
    pub fn new(job: JobId, incarnation: &str, boot: &str) -> Self {
        let (incarnation, boot) = (incarnation.to_owned(), boot.to_owned());
        Self { job, incarnation, boot, may_have_arrived: true }
    }

    /// Returns the job of a lost connection; none if the error is another one.
    pub(crate) fn lost(error: &JobError) -> Option<Self> {
        match error {
            JobError::Lost { job, incarnation, boot, sent, .. } => {
                Some(Self { may_have_arrived: *sent, ..Self::new(job.clone(), incarnation, boot) })
            }
            _ => None,
        }
    }

    /// Asks a guest what became of the job.
    pub(crate) async fn outcome(&self, connection: &Connection) -> Result<JobOutcome, CallError> {
        let job = self.job.clone();
        if !self.may_have_arrived {
            return Ok(JobOutcome::NeverStarted { job });
        }
        Ok(match lookup(connection, &self.job, &self.incarnation, &self.boot).await? {
            CommandOutcome::Known(info) => JobOutcome::Ran(info),
            CommandOutcome::NeverStarted => JobOutcome::NeverStarted { job },
            CommandOutcome::Unknown => JobOutcome::Unknown { job },
        })
    }
}

/// Makes the connection to a job's guest, and makes it again when it was lost.
#[async_trait]
pub(crate) trait Connector: Send + Sync {
    /// Connects to the sandbox. This may start it, or rebuild it.
    async fn connect(&self) -> Result<Connection, Error>;

    /// Connects to the recorded instance if its guest runs. What acts on a job
    /// that runs uses this: an instance that is started for it cannot have it.
    async fn connect_running(&self) -> Result<Connection, Error>;

    /// Makes [`Engine::close`] wait until the returned value is dropped.
    fn delay_close(&self) -> Option<OwnedRwLockReadGuard<()>>;

    /// Brings back what a job that has ended has changed.
    async fn job_ended(&self) {}
}

#[async_trait]
impl Connector for Sandbox {
    async fn connect(&self) -> Result<Connection, Error> {
        self.connection().await
    }

    async fn connect_running(&self) -> Result<Connection, Error> {
        self.running_connection().await
    }

    fn delay_close(&self) -> Option<OwnedRwLockReadGuard<()>> {
        Self::delay_close(self)
    }

    async fn job_ended(&self) {
        self.bring_back().await;
    }
}

/// Connects to a sandbox that runs, without using or starting it.
pub(crate) struct Observer {
    pub(crate) engine: Engine,
    pub(crate) task: TaskName,
}

#[async_trait]
impl Connector for Observer {
    async fn connect(&self) -> Result<Connection, Error> {
        self.engine.observe(&self.task).await
    }

    async fn connect_running(&self) -> Result<Connection, Error> {
        self.connect().await
    }

    fn delay_close(&self) -> Option<OwnedRwLockReadGuard<()>> {
        owned::delay_close(&self.engine.inner)
    }
}

/// Kills a job with all its processes when it is dropped before it was released.
pub(crate) struct KillOnDrop {
    connector: Arc<dyn Connector>,
    job: Option<JobId>,
}

impl KillOnDrop {
    pub(crate) fn new(connector: Arc<dyn Connector>, job: JobId) -> Self {
        Self { connector, job: Some(job) }
    }

    pub(crate) fn release(mut self) {
        self.job = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let (Some(job), Ok(runtime)) = (self.job.take(), Handle::try_current()) else { return };
        let connector = Arc::clone(&self.connector);
        // A process that ends right after this would end before the job does.
        let close = connector.delay_close();
        runtime.spawn(async move {
            let killed = match connector.connect_running().await {
                Ok(connection) => kill(&connection, &job).await.map(drop).map_err(Error::from),
                Err(error) => Err(error),
            };
            if let Err(error) = killed {
                tracing::debug!(%job, %error, "a job that was dropped was not killed");
            }
            drop(close);
        });
    }
}

/// Finds a job again after its connection was lost.
pub(crate) struct Recovery {
    pub(super) connector: Arc<dyn Connector>,
    /// The guest that the command was sent to first. Whether it started is
    /// always asked with that guest's identity, whichever guest answers.
    sent: Option<SentJob>,
    /// Whether the job is known to have been started.
    pub(super) started: bool,
    pub(super) reconnections: u32,
}

/// What a reconnection found.
pub(crate) enum Recovered {
    /// The job is followed again.
    Attached(Box<RunningJob>),
    /// It was not started and never will be.
    NeverStarted(JobId),
    /// The records that could tell are gone.
    Unknown(JobId),
}

impl Recovery {
    pub(crate) fn new(connector: Arc<dyn Connector>) -> Self {
        Self { connector, sent: None, started: false, reconnections: 0 }
    }

    /// Returns whether the job may have been started. As long as it cannot have
    /// been, a refusal proves that it does not run.
    pub(super) fn may_have_started(&self) -> bool {
        self.started || self.sent.is_some()
    }

    /// Adds to an error that the job may still be running, unless the error
    /// tells its outcome.
    #[expect(clippy::match_same_arms, reason = "an arm between them takes some of the second")]
    pub(super) fn with_job(&self, job: &JobId, error: Error) -> Error {
        let source = match error {
            // What has been stopped or removed runs no jobs.
            error @ (Error::Stopped { .. } | Error::NoSandbox { .. }) => return error,
            Error::Job(JobError::Lost { source, .. }) => Error::Call(source),
            Error::Job(JobError::Fault(fault))
                if self.may_have_started() && fault.code != FaultCode::NoSuchJob =>
            {
                Error::Job(JobError::Fault(fault))
            }
            // They name the job themselves, or it was never sent.
            error @ Error::Job(_) => return error,
            error => error,
        };
        Error::LostJob { job: job.clone(), source: Box::new(source) }
    }

    /// Takes note of a lost connection. Returns the error if it is another one,
    /// or if there were too many in a row.
    pub(crate) fn lose(&mut self, error: JobError) -> Result<(), JobError> {
        let Some(sent) = SentJob::lost(&error) else { return Err(error) };
        let may_have_arrived = sent.may_have_arrived || self.started;
        self.sent.get_or_insert(SentJob { may_have_arrived, ..sent });
        if self.reconnections == RECONNECTIONS {
            self.reconnections = 0;
            return Err(error);
        }
        tracing::debug!(%error, "reconnecting to follow the job");
        self.reconnections += 1;
        Ok(())
    }

    /// Connects again and follows the job from where `request` says. Safe to
    /// drop half-way and to repeat.
    pub(crate) async fn reattach(&mut self, request: AttachJob) -> Result<Recovered, Error> {
        loop {
            let pause = PAUSE * self.reconnections.saturating_sub(1);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            match self.try_reattach(&request).await {
                Ok(recovered) => return Ok(recovered),
                Err(Error::Job(error)) => self.lose(error)?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_reattach(&self, request: &AttachJob) -> Result<Recovered, Error> {
        if let Some(sent) = self.sent.as_ref().filter(|sent| !sent.may_have_arrived) {
            return Ok(Recovered::NeverStarted(sent.job.clone()));
        }
        let connection = self.connector.connect().await?;
        let lost = |error| JobError::new(&connection, &request.id, error);
        if let Some(sent) = &self.sent {
            match sent.outcome(&connection).await.map_err(lost)? {
                JobOutcome::Ran(_) => {}
                // It was seen to run: only the record of it is gone.
                JobOutcome::NeverStarted { job } if self.started => {
                    return Ok(Recovered::Unknown(job));
                }
                JobOutcome::NeverStarted { job } => return Ok(Recovered::NeverStarted(job)),
                JobOutcome::Unknown { job } => return Ok(Recovered::Unknown(job)),
            }
        }
        let job = attach(&connection, request.clone()).await?;
        Ok(Recovered::Attached(Box::new(job)))
    }
}
