//! A job's output that survives a lost connection.
//!
//! A [`JobStream`] follows one job. When the connection to the guest is lost it
//! makes another one, asks what became of the job, and goes on at the byte where
//! it was cut off. The command itself is never sent a second time.

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::OwnedRwLockReadGuard;
use vestal_wire::{AttachJob, Delivery, FaultCode, JobId, JobInfo, Outcome, Stream};

use super::running::{Follow, JobEvent, JobInput, RunningJob};
use super::{JobError, attach, begin, gather, kill, lookup};
use crate::client::{CallError, Connection};
use crate::command::Command;
use crate::output::{Capture, Output};
use crate::{Engine, Error, Sandbox, Task};

/// How often a connection is made again without anything new from the job.
const RECONNECTIONS: u32 = 3;

/// Pause before the second reconnection in a row; before the third it is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

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
    /// cannot be told.
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
            Outcome::Known(info) => JobOutcome::Ran(info),
            Outcome::NeverStarted => JobOutcome::NeverStarted { job },
            Outcome::Unknown => JobOutcome::Unknown { job },
        })
    }
}

/// Makes the connection to a job's guest, and makes it again when it was lost.
#[async_trait]
pub(crate) trait Connector: Send + Sync {
    /// Connects to the sandbox. This may start it, or make it anew.
    async fn connect(&self) -> Result<Connection, Error>;

    /// Connects to the recorded instance if its guest runs. What acts on a job
    /// that runs uses this: an instance that is started for it cannot have it.
    async fn connect_running(&self) -> Result<Connection, Error>;

    /// Makes [`Engine::close`] wait until the returned value is dropped.
    fn delay_close(&self) -> Option<OwnedRwLockReadGuard<()>>;
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
}

/// Connects to a sandbox that runs, without using or starting it.
pub(crate) struct Observer {
    pub(crate) engine: Engine,
    pub(crate) task: Task,
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
        self.engine.inner.delay_close()
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
    connector: Arc<dyn Connector>,
    /// The guest that the command was sent to first. Whether it started is
    /// always asked with that guest's identity, whichever guest answers.
    sent: Option<SentJob>,
    /// Whether the job is known to have been started.
    started: bool,
    reconnections: u32,
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
    fn may_have_started(&self) -> bool {
        self.started || self.sent.is_some()
    }

    /// Adds to an error that the job may still be running, unless the error
    /// tells what became of it.
    fn with_job(&self, job: &JobId, error: Error) -> Error {
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

/// Runs a command to its end and returns what it printed. After a lost
/// connection the result is fetched from the guest that ran it.
pub(crate) async fn run(connector: Arc<dyn Connector>, command: Command) -> Result<Output, Error> {
    let (head, tail) = command.capture_limits();
    let delivery = Delivery::Captured { head, tail };
    let kills = command.kills_on_drop();
    let prepared = command.prepare(delivery).map_err(JobError::from)?;
    let id = prepared.start.id.clone();
    let connection = connector.connect().await?;
    let guard = kills.then(|| KillOnDrop::new(Arc::clone(&connector), id.clone()));
    let mut recovery = Recovery::new(connector);
    let request = AttachJob { id, stdout_from: 0, stderr_from: 0, follow: true, delivery };
    let mut job = begin(&connection, prepared).await;
    let output = loop {
        let error = match job {
            Ok(mut job) => {
                job.close_input();
                match gather(&mut job, Capture::new(head, tail)).await {
                    Ok(output) => break Ok(output),
                    Err(error) => {
                        recovery.started |= job.has_started();
                        error
                    }
                }
            }
            Err(error) => error,
        };
        if error.is_refusal() && !recovery.may_have_started() {
            break Err(error.into());
        }
        if let Err(error) = recovery.lose(error) {
            return Err(recovery.with_job(&request.id, error.into()));
        }
        match recovery.reattach(request.clone()).await {
            Ok(Recovered::Attached(again)) => job = Ok(*again),
            Ok(Recovered::NeverStarted(job)) => break Err(Error::NeverStarted { job }),
            Ok(Recovered::Unknown(job)) => break Err(Error::OutcomeUnknown { job }),
            Err(error) => return Err(recovery.with_job(&request.id, error)),
        }
    };
    if let Some(guard) = guard {
        guard.release();
    }
    output
}

/// A job that is followed to its end, through lost connections.
///
/// Dropping it ends the following. It ends the job only if the command was
/// started with [`Command::kill_on_drop`].
pub struct JobStream {
    id: JobId,
    state: State,
    recovery: Recovery,
    /// Where to go on: how much of the output has been returned.
    position: AttachJob,
    guard: Option<KillOnDrop>,
    has_ended: bool,
}

enum State {
    Following(Box<RunningJob>),
    Lost,
    Over(JobOutcome),
}

impl JobStream {
    /// Starts a command and follows it.
    pub(crate) async fn start(
        connector: Arc<dyn Connector>,
        command: Command,
        follow: Follow,
    ) -> Result<Self, Error> {
        let kills = command.kills_on_drop();
        let prepared = command.prepare(follow.delivery()).map_err(JobError::from)?;
        let connection = connector.connect().await?;
        let id = prepared.start.id.clone();
        let guard = kills.then(|| KillOnDrop::new(Arc::clone(&connector), id.clone()));
        let position = AttachJob {
            id: id.clone(),
            stdout_from: 0,
            stderr_from: 0,
            follow: true,
            delivery: follow.delivery(),
        };
        let recovery = Recovery::new(connector);
        let mut stream =
            Self { id, state: State::Lost, recovery, position, guard, has_ended: false };
        match begin(&connection, prepared).await {
            Ok(job) => stream.state = State::Following(Box::new(job)),
            Err(error) => stream.lose(error)?,
        }
        Ok(stream)
    }

    /// Follows a job that is on record, from where the request says.
    pub(crate) async fn attach(
        connector: Arc<dyn Connector>,
        request: AttachJob,
    ) -> Result<Self, Error> {
        let connection = connector.connect().await?;
        let mut recovery = Recovery::new(connector);
        recovery.started = true;
        let mut stream = Self {
            id: request.id.clone(),
            state: State::Lost,
            recovery,
            position: request.clone(),
            guard: None,
            has_ended: false,
        };
        match attach(&connection, request).await {
            Ok(job) => stream.state = State::Following(Box::new(job)),
            Err(error) if error.is_refusal() => return Err(error.into()),
            Err(error) => stream.lose(error)?,
        }
        Ok(stream)
    }

    /// Returns the job's id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Returns what happens next; `None` when there is no more to come, and
    /// [`JobStream::finish`] tells why. Safe to drop half-way: nothing is lost.
    ///
    /// After an error of the connection it may be called again, and goes on
    /// where it was. [`Error::LostJob`] means that the job may still be running;
    /// other errors mean that it is not, or say themselves what is known.
    pub async fn next(&mut self) -> Result<Option<JobEvent>, Error> {
        loop {
            match &mut self.state {
                State::Over(_) => return Ok(None),
                State::Following(job) => match job.next().await {
                    Ok(Some(event)) => {
                        if self.is_new(&event) {
                            return Ok(Some(event));
                        }
                    }
                    Ok(None) => {
                        let info = job.take_info()?;
                        self.end(JobOutcome::Ran(Box::new(info)));
                    }
                    Err(error) => self.lose(error)?,
                },
                State::Lost => match self.recovery.reattach(self.position.clone()).await {
                    Ok(Recovered::Attached(job)) => self.state = State::Following(job),
                    Ok(Recovered::NeverStarted(job)) => self.end(JobOutcome::NeverStarted { job }),
                    Ok(Recovered::Unknown(job)) => self.end(JobOutcome::Unknown { job }),
                    Err(error) => return Err(self.recovery.with_job(&self.id, error)),
                },
            }
        }
    }

    /// Passes over all that is still to come and returns what became of the
    /// job: how it ended and what became of the session's state, that it never
    /// started, or that nobody can tell.
    pub async fn finish(mut self) -> Result<JobOutcome, Error> {
        loop {
            match self.state {
                State::Over(outcome) => return Ok(outcome),
                State::Following(_) | State::Lost => drop(self.next().await?),
            }
        }
    }

    /// Kills every process of the job and returns when none is left. A sandbox
    /// that has been stopped is not started for it.
    pub async fn kill(&mut self) -> Result<JobInfo, Error> {
        let connection = self.recovery.connector.connect_running().await?;
        let info = kill(&connection, &self.id).await?;
        self.release();
        Ok(info)
    }

    /// Writes to the standard input of a job started with
    /// [`crate::Input::Piped`]. Returns whether the job took it all.
    pub async fn write_input(&mut self, bytes: &[u8]) -> bool {
        match &mut self.state {
            State::Following(job) => job.write_input(bytes).await,
            State::Lost | State::Over(_) => false,
        }
    }

    /// Closes the job's standard input.
    pub fn close_input(&mut self) {
        if let State::Following(job) = &mut self.state {
            job.close_input();
        }
    }

    /// Takes the job's standard input, to be written while events are awaited.
    pub fn take_input(&mut self) -> Option<JobInput> {
        match &mut self.state {
            State::Following(job) => job.take_input(),
            State::Lost | State::Over(_) => None,
        }
    }

    /// Counts what is returned, so that it is not returned again after a
    /// reconnection. Returns false for what a new connection repeats.
    fn is_new(&mut self, event: &JobEvent) -> bool {
        let (stream, bytes) = match event {
            JobEvent::Started { .. } => {
                return !std::mem::replace(&mut self.recovery.started, true);
            }
            JobEvent::Ended(_) => {
                self.recovery.reconnections = 0;
                return !std::mem::replace(&mut self.has_ended, true);
            }
            JobEvent::Stdout(bytes) => (Stream::Stdout, bytes.len() as u64),
            JobEvent::Stderr(bytes) => (Stream::Stderr, bytes.len() as u64),
            JobEvent::Gap { stream, bytes } => (*stream, *bytes),
        };
        let position = match stream {
            Stream::Stderr => &mut self.position.stderr_from,
            _ => &mut self.position.stdout_from,
        };
        *position = position.saturating_add(bytes);
        self.recovery.started = true;
        self.recovery.reconnections = 0;
        true
    }

    fn lose(&mut self, error: JobError) -> Result<(), Error> {
        if error.is_refusal() && !self.recovery.may_have_started() {
            self.release();
            return Err(error.into());
        }
        // What a captured run prints has no position to go on from.
        let lost = if matches!(self.position.delivery, Delivery::EveryByte | Delivery::Lossy) {
            self.recovery.lose(error)
        } else {
            Err(error)
        };
        if let Err(error) = lost {
            return Err(self.recovery.with_job(&self.id, error.into()));
        }
        self.state = State::Lost;
        Ok(())
    }

    fn end(&mut self, outcome: JobOutcome) {
        self.state = State::Over(outcome);
        self.release();
    }

    fn release(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
    }
}

impl fmt::Debug for JobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobStream")
            .field("id", &self.id)
            .field("stdout", &self.position.stdout_from)
            .field("stderr", &self.position.stderr_from)
            .finish_non_exhaustive()
    }
}
