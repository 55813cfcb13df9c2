//! A job's output that survives a lost connection.
//!
//! A [`JobStream`] follows one job. When the connection to the guest is lost it
//! makes another one, asks what became of the job, and continues at the byte where
//! it was cut off (`recovery.rs`). The command itself is sent a second time only to
//! the guest after one that refused it while shutting down.

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

use std::fmt;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use vestal_wire::{AttachJob, Fault, FaultCode, JobId, JobInfo, OutputDelivery, Stream};

use super::recovery::{
    Connector, JobOutcome, KillOnDrop, MAX_GUESTS, Recovered, Recovery, has_shut_down,
};
use super::running::{Follow, JobEvent, JobInput, RunningJob};
use super::{JobError, attach, begin, gather, kill};
use crate::Error;
use crate::client::Connection;
use crate::command::{Command, CommandInput};
use crate::output::{Capture, CapturedOutput};

/// Runs a command to its end and returns what it printed. After a lost
/// connection the result is fetched from the guest that ran it.
pub(crate) async fn run(
    connector: Arc<dyn Connector>,
    command: Command,
) -> Result<CapturedOutput, Error> {
    let (head, tail) = command.capture_limits();
    let delivery = OutputDelivery::Captured { head, tail };
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
    state: StreamState,
    recovery: Recovery,
    /// Where to continue: how much of the output has been returned.
    position: AttachJob,
    guard: Option<KillOnDrop>,
    has_ended: bool,
    /// Whether what the job has changed is brought back.
    is_settled: bool,
    /// The command, as long as another guest may have to be given it.
    spare: Option<SpareCommand>,
}

/// A command that can be sent once more, under the same id.
struct SpareCommand {
    command: Command,
    /// Guests that have refused it.
    refusals: u32,
}

enum StreamState {
    Following(Box<RunningJob>),
    Lost,
    /// This guest refused the command, because it is shutting down.
    Refused(Connection),
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
        let spare = command.try_clone();
        let prepared = command.prepare(follow.delivery()).map_err(JobError::from)?;
        let connection = connector.connect().await?;
        let id = prepared.start.id.clone();
        // A caller that has taken the input writes to the first guest only.
        let spare = spare
            .filter(|_| !matches!(prepared.input, CommandInput::Piped))
            .map(|command| SpareCommand { command: command.job_id(id.clone()), refusals: 0 });
        let guard = kills.then(|| KillOnDrop::new(Arc::clone(&connector), id.clone()));
        let position = AttachJob {
            id: id.clone(),
            stdout_from: 0,
            stderr_from: 0,
            follow: true,
            delivery: follow.delivery(),
        };
        let recovery = Recovery::new(connector);
        let mut stream = Self {
            id,
            state: StreamState::Lost,
            recovery,
            position,
            guard,
            has_ended: false,
            is_settled: false,
            spare,
        };
        match begin(&connection, prepared).await {
            Ok(job) => stream.state = StreamState::Following(Box::new(job)),
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
            state: StreamState::Lost,
            recovery,
            position: request.clone(),
            guard: None,
            has_ended: false,
            is_settled: false,
            spare: None,
        };
        match attach(&connection, request).await {
            Ok(job) => stream.state = StreamState::Following(Box::new(job)),
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
    /// After an error of the connection it may be called again, and continues
    /// where it was. [`Error::LostJob`] means that the job may still be running;
    /// other errors mean that it is not, or say themselves what is known.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<JobEvent>, Error> {
        loop {
            match &mut self.state {
                StreamState::Over(_) => {
                    if !self.is_settled {
                        self.recovery.connector.job_ended().await;
                        self.is_settled = true;
                    }
                    return Ok(None);
                }
                StreamState::Following(job) => match job.next().await {
                    Ok(Some(event)) => {
                        if self.is_new(&event) {
                            return Ok(Some(event));
                        }
                    }
                    Ok(None) => {
                        let info = job.take_info()?;
                        self.end(JobOutcome::Ran(Box::new(info)));
                    }
                    Err(error) if is_shutdown(&error) && self.spare.is_some() => {
                        self.state = StreamState::Refused(job.connection().clone());
                    }
                    Err(error) => self.lose(error)?,
                },
                StreamState::Refused(guest) => {
                    let guest = guest.clone();
                    self.send_to_next(&guest).await?;
                }
                StreamState::Lost => match self.recovery.reattach(self.position.clone()).await {
                    Ok(Recovered::Attached(job)) => self.state = StreamState::Following(job),
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
    #[boxed]
    pub async fn finish(mut self) -> Result<JobOutcome, Error> {
        loop {
            match self.state {
                StreamState::Over(outcome) if self.is_settled => return Ok(outcome),
                _ => drop(self.next().await?),
            }
        }
    }

    /// Kills every process of the job and returns when none is left. A sandbox
    /// that has been stopped is not started for it.
    #[boxed]
    pub async fn kill(&mut self) -> Result<JobInfo, Error> {
        let connection = self.recovery.connector.connect_running().await?;
        let info = kill(&connection, &self.id).await?;
        self.release();
        Ok(info)
    }

    /// Writes to the standard input of a job started with
    /// [`crate::CommandInput::Piped`]. Returns whether the job took it all.
    #[boxed]
    pub async fn write_input(&mut self, bytes: &[u8]) -> bool {
        match &mut self.state {
            StreamState::Following(job) => job.write_input(bytes).await,
            StreamState::Lost | StreamState::Refused(_) | StreamState::Over(_) => false,
        }
    }

    /// Closes the job's standard input.
    pub fn close_input(&mut self) {
        if let StreamState::Following(job) = &mut self.state {
            job.close_input();
        }
    }

    /// Takes the job's standard input, to be written while events are awaited.
    pub fn take_input(&mut self) -> Option<JobInput> {
        match &mut self.state {
            StreamState::Following(job) => job.take_input(),
            StreamState::Lost | StreamState::Refused(_) | StreamState::Over(_) => None,
        }
    }

    /// Sends the command to the guest that comes after one that refused it. Safe to
    /// drop half-way: a guest that has the job already follows it.
    async fn send_to_next(&mut self, guest: &Connection) -> Result<(), Error> {
        let refused = || {
            let message = "the guest is shutting down".to_owned();
            JobError::Fault(Fault { code: FaultCode::ShuttingDown, message, errno: None })
        };
        let spare = self.spare.as_ref().filter(|spare| spare.refusals + 1 < MAX_GUESTS);
        let Some(command) = spare.and_then(|spare| spare.command.try_clone()) else {
            return self.lose(refused());
        };
        if !has_shut_down(guest).await {
            return self.lose(refused());
        }
        let prepared = command.prepare(self.position.delivery).map_err(JobError::from)?;
        let connection = self.recovery.connector.connect().await?;
        let begun = begin(&connection, prepared).await;
        if let Some(spare) = &mut self.spare {
            spare.refusals += 1;
        }
        match begun {
            Ok(job) => self.state = StreamState::Following(Box::new(job)),
            Err(error) => self.lose(error)?,
        }
        Ok(())
    }

    /// Counts what is returned, so that it is not returned again after a
    /// reconnection. Returns false for what a new connection repeats.
    fn is_new(&mut self, event: &JobEvent) -> bool {
        self.spare = None;
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
        // What a captured run prints has no position to continue from.
        let lost = if matches!(
            self.position.delivery,
            OutputDelivery::EveryByte | OutputDelivery::Lossy
        ) {
            self.recovery.lose(error)
        } else {
            Err(error)
        };
        if let Err(error) = lost {
            return Err(self.recovery.with_job(&self.id, error.into()));
        }
        self.state = StreamState::Lost;
        Ok(())
    }

    fn end(&mut self, outcome: JobOutcome) {
        self.state = StreamState::Over(outcome);
        self.release();
    }

    fn release(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
    }
}

/// Returns whether a guest refused a command because it is shutting down.
fn is_shutdown(error: &JobError) -> bool {
    matches!(error, JobError::Fault(fault) if fault.code == FaultCode::ShuttingDown)
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
