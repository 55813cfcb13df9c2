//! A job that is being followed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use vestal_wire::limits::WINDOW;
use vestal_wire::{CallEvent, CallReply, CallRequest, JobId, JobInfo, OutputDelivery, Stream};

use super::JobError;
use crate::client::{
    CallError, Channel, ChannelMessage, Connection, InputSource, StreamSender, Violation, feed,
};
use crate::command::CommandInput;
use crate::output::gap_of;

/// How long a guest may take to kill a job whose input failed.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// How a slow follower affects the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Every byte comes; a slow follower slows the job down.
    EveryByte,
    /// The job is never slowed down; a slow follower gets events for gaps.
    Lossy,
}

impl Follow {
    /// Returns the protocol's word for it.
    pub const fn delivery(self) -> OutputDelivery {
        match self {
            Self::EveryByte => OutputDelivery::EveryByte,
            Self::Lossy => OutputDelivery::Lossy,
        }
    }
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// The command runs.
    Started {
        /// The shell's process id as the guest sees it.
        pid: u32,
    },
    /// Bytes of standard output.
    Stdout(Bytes),
    /// Bytes of standard error.
    Stderr(Bytes),
    /// Bytes are left out here.
    Gap {
        /// Of which stream.
        stream: Stream,
        /// How many.
        bytes: u64,
    },
    /// The shell has ended and its output has come. The session's state may
    /// still be being saved.
    Ended(Box<JobInfo>),
}

/// A job that is followed on one connection. Dropping it ends the following, not
/// the job.
pub struct RunningJob {
    id: JobId,
    channel: Channel,
    input: Option<JobInput>,
    feeder: Option<Feeder>,
    /// Whether input of the job comes through this connection alone: on a
    /// terminal it comes by other calls.
    feeds_input: bool,
    input_taken: bool,
    /// Whether anything came that only a started job sends.
    has_started: bool,
    last: Option<JobInfo>,
}

/// The standard input of a job that was started with [`CommandInput::Piped`].
pub struct JobInput {
    outgoing: StreamSender,
}

impl JobInput {
    /// Writes to the job's standard input, as fast as the job reads. Returns
    /// whether the job took it all.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        self.outgoing.write(bytes).await
    }

    /// Closes the job's standard input.
    pub fn close(self) {
        self.outgoing.end();
    }
}

/// A task that sends what is too long to be sent at once.
struct Feeder {
    task: JoinHandle<()>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RunningJob {
    pub(super) fn attached(id: JobId, channel: Channel) -> Self {
        Self {
            id,
            channel,
            input: None,
            feeder: None,
            feeds_input: false,
            input_taken: false,
            has_started: false,
            last: None,
        }
    }

    /// Sends what belongs to the request beside its message: at once what fits
    /// into the window, by a task of its own what does not.
    pub(super) async fn started(
        id: JobId,
        channel: Channel,
        on_terminal: bool,
        text: Option<Vec<u8>>,
        input: CommandInput,
    ) -> Self {
        let mut job = Self::attached(id, channel);
        job.feeds_input = !on_terminal && !matches!(input, CommandInput::Null);
        let at_once = |bytes: &Vec<u8>| bytes.len() <= WINDOW as usize;
        if text.as_ref().is_none_or(at_once)
            && !matches!(&input, CommandInput::Reader(_))
            && !matches!(&input, CommandInput::Bytes(bytes) if !at_once(bytes))
        {
            if let Some(text) = &text {
                send(job.channel.outgoing(Stream::Text), text).await;
            }
            match input {
                CommandInput::Bytes(bytes) => {
                    send(job.channel.outgoing(Stream::Input), &bytes).await;
                }
                CommandInput::Piped => {
                    job.input = Some(JobInput { outgoing: job.channel.outgoing(Stream::Input) });
                }
                CommandInput::Null | CommandInput::Reader(_) => {}
            }
        } else {
            if matches!(input, CommandInput::Piped) {
                job.input = Some(JobInput { outgoing: job.channel.outgoing(Stream::Input) });
            }
            job.feeder = Some(Feeder::spawn(&job, text, input));
        }
        job
    }

    /// Returns the job's id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Returns the connection the job is followed on.
    pub fn connection(&self) -> &Connection {
        self.channel.connection()
    }

    /// Returns whether the job is known to have been started.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Returns what happens next; `None` after the guest's final reply.
    /// Safe to drop half-way: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<JobEvent>, JobError> {
        loop {
            let incoming = match self.channel.recv().await {
                Ok(incoming) => incoming,
                Err(error) => return Err(self.error(error)),
            };
            self.has_started |=
                matches!(incoming, Some(ChannelMessage::Data(..) | ChannelMessage::Event(_)));
            return Ok(Some(match incoming {
                Some(ChannelMessage::Data(Stream::Stdout, bytes)) => JobEvent::Stdout(bytes),
                Some(ChannelMessage::Data(Stream::Stderr, bytes)) => JobEvent::Stderr(bytes),
                Some(ChannelMessage::Event(event)) => match event {
                    CallEvent::Started { pid } => JobEvent::Started { pid },
                    CallEvent::Ended(info) => JobEvent::Ended(info),
                    gap @ CallEvent::Gap { .. } => match gap_of(&gap) {
                        Some((stream, bytes)) => JobEvent::Gap { stream, bytes },
                        None => continue,
                    },
                },
                Some(ChannelMessage::Reply(CallReply::Job(info))) => {
                    self.last = Some(*info);
                    if let Some(source) = self.feeder.as_ref().and_then(Feeder::failure) {
                        return Err(JobError::Input { job: self.id.clone(), source });
                    }
                    return Ok(None);
                }
                Some(ChannelMessage::Reply(_)) => return Err(self.violate(Violation::WrongReply)),
                Some(ChannelMessage::Data(..) | ChannelMessage::End(_)) => continue,
                None => return Ok(None),
            }));
        }
    }

    /// Writes to the standard input of a job started with [`CommandInput::Piped`].
    /// Returns whether the job took it all.
    pub async fn write_input(&mut self, bytes: &[u8]) -> bool {
        match &mut self.input {
            Some(input) => input.write(bytes).await,
            None => false,
        }
    }

    /// Closes the job's standard input.
    pub fn close_input(&mut self) {
        if let Some(input) = self.input.take() {
            input.close();
        }
    }

    /// Takes the job's standard input, to be written while events are awaited.
    pub fn take_input(&mut self) -> Option<JobInput> {
        self.input_taken = self.input.is_some();
        self.input.take()
    }

    /// Waits for the final reply, which says what became of the session's state,
    /// and skips everything before it.
    pub async fn finish(mut self) -> Result<JobInfo, JobError> {
        while self.next().await?.is_some() {}
        self.take_info()
    }

    /// Returns the final reply, which has come.
    pub(super) fn take_info(&mut self) -> Result<JobInfo, JobError> {
        match self.last.take() {
            Some(info) => Ok(info),
            None => Err(self.violate(Violation::WrongReply)),
        }
    }

    /// Closes the connection and returns the error for the caller.
    pub(super) fn violate(&self, violation: Violation) -> JobError {
        self.error(self.channel.violate(violation))
    }

    fn error(&self, error: CallError) -> JobError {
        // A failed input is the cause of the fault that may follow from it.
        if let (CallError::Fault(_), Some(source)) =
            (&error, self.feeder.as_ref().and_then(Feeder::failure))
        {
            return JobError::Input { job: self.id.clone(), source };
        }
        match JobError::new(self.connection(), &self.id, error) {
            JobError::Lost { job, sent: true, source, .. } if self.is_feeding() => {
                JobError::InputLost { job, source }
            }
            error => error,
        }
    }

    /// Returns whether the job's input still comes through this connection.
    fn is_feeding(&self) -> bool {
        self.feeds_input
            && (self.input.is_some()
                || self.input_taken
                || self.feeder.as_ref().is_some_and(|feeder| !feeder.task.is_finished()))
    }
}

impl Feeder {
    fn spawn(job: &RunningJob, text: Option<Vec<u8>>, input: CommandInput) -> Self {
        let failure = Arc::new(Mutex::new(None));
        let texts = job.channel.outgoing(Stream::Text);
        let inputs = job.channel.outgoing(Stream::Input);
        let feeding = InputFeed {
            connection: job.connection().clone(),
            id: job.id.clone(),
            failure: Arc::clone(&failure),
        };
        let task = tokio::spawn(async move {
            if let Some(text) = text {
                send(texts, &text).await;
            }
            feeding.input(inputs, input).await;
        });
        Self { task, failure }
    }

    fn failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct InputFeed {
    connection: Connection,
    id: JobId,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl InputFeed {
    async fn input(self, outgoing: StreamSender, input: CommandInput) {
        let fed = match input {
            CommandInput::Null | CommandInput::Piped => Ok(()),
            CommandInput::Bytes(bytes) => feed(outgoing, InputSource::Bytes(&bytes)).await,
            CommandInput::Reader(mut reader) => {
                feed(outgoing, InputSource::Reader(&mut *reader)).await
            }
        };
        if let Err(error) = fed {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            let kill = CallRequest::Kill { id: self.id.clone() };
            if let Err(error) = self.connection.call_within(kill, KILL_LIMIT).await {
                tracing::warn!(job = %self.id, %error, "failed to kill a job without its input");
            }
        }
    }
}

/// Sends a whole stream. If the guest wants no more, its reply says why.
async fn send(mut outgoing: StreamSender, bytes: &[u8]) {
    if outgoing.write(bytes).await {
        outgoing.end();
    }
}
