//! What can go wrong with a guest, and what a guest may answer to a request.

use std::io;
use std::time::Duration;

use vestal_wire::{
    CallReply, CallRequest, CommandOutcome, EncodeError, Fault, FileOp, FileReply, FrameKind,
    HelloError, JobId, Stream,
};

use super::inbox::STREAMS;

/// How a guest broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A frame's header is outside the limits.
    #[error("bad frame: {0}")]
    Frame(String),
    /// A message is none.
    #[error("{kind:?} frame that cannot be decoded: {error}")]
    Undecodable {
        /// The frame's kind.
        kind: FrameKind,
        /// The decoder's message.
        error: String,
    },
    /// A kind of frame that a guest never sends at this point.
    #[error("unexpected {0:?} frame")]
    UnexpectedKind(FrameKind),
    /// A frame for a channel that is not open.
    #[error("{kind:?} frame for channel {channel}, which is not open")]
    UnknownChannel {
        /// The channel named.
        channel: u32,
        /// The frame's kind.
        kind: FrameKind,
    },
    /// Bytes on a stream that the request does not have.
    #[error("{0:?} is not a stream of this request")]
    UnexpectedStream(Stream),
    /// More bytes than the window allows.
    #[error("{len} bytes on {stream:?} with {left} left in the window")]
    Window {
        /// The stream.
        stream: Stream,
        /// Bytes that came.
        len: usize,
        /// Bytes that were still allowed.
        left: u32,
    },
    /// Something on a stream after its end.
    #[error("{0:?} continues after its end")]
    AfterEnd(Stream),
    /// An event that cannot come now, or for this request.
    #[error("event out of turn: {0}")]
    Event(&'static str),
    /// Events pile up faster than anybody could want them.
    #[error("flood of events")]
    EventFlood,
    /// A reply of another type than the request asks for.
    #[error("reply of the wrong type")]
    WrongReply,
    /// Credit beyond what can be counted.
    #[error("credit overflow on {0:?}")]
    Credit(Stream),
    /// The guest does not read what it is sent.
    #[error("the guest keeps sending and reads nothing")]
    Unread,
    /// An answer that contradicts the question or itself.
    #[error("{0}")]
    Claim(&'static str),
}

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The guest closed it or is gone.
    #[error("the guest closed the connection")]
    Vanished,
    /// The transport failed.
    #[error("the connection failed: {message}")]
    Io {
        /// The kind of error.
        kind: io::ErrorKind,
        /// The error as text.
        message: String,
    },
    /// The guest broke the protocol and was cut off.
    #[error("the guest broke the protocol: {0}")]
    Violation(#[from] Violation),
    /// This process let go of it.
    #[error("the connection was released")]
    Released,
}

impl From<&io::Error> for Closed {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            // What a transport says when its other end is gone.
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted => Self::Vanished,
            kind => Self::Io { kind, message: error.to_string() },
        }
    }
}

/// A call that did not succeed.
///
/// `sent` says whether the whole request had been handed to the transport. If
/// it is false the guest cannot have acted on it.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest answered that it failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The connection ended before the answer.
    #[error("lost the guest: {reason}")]
    Lost {
        /// Whether the guest may have received the request.
        sent: bool,
        /// How the connection ended.
        reason: Closed,
    },
    /// The guest broke the protocol; the connection is closed.
    #[error("the guest broke the protocol: {violation}")]
    Protocol {
        /// Whether the guest may have received the request.
        sent: bool,
        /// What it did.
        violation: Violation,
    },
    /// No answer within the time given.
    #[error("the guest did not answer in time")]
    Deadline {
        /// Whether the guest may have received the request.
        sent: bool,
    },
    /// The request cannot be put into a frame.
    #[error("the request cannot be sent: {0}")]
    Unsendable(#[from] EncodeError),
}

impl CallError {
    /// Returns the error of a call that was under way when the connection ended.
    pub(crate) fn closed(reason: Closed, sent: bool) -> Self {
        match reason {
            Closed::Violation(violation) => Self::Protocol { sent, violation },
            reason => Self::Lost { sent, reason },
        }
    }

    /// Returns whether the guest may have received the whole request.
    pub fn sent(&self) -> bool {
        match self {
            Self::Fault(_) => true,
            Self::Lost { sent, .. } | Self::Protocol { sent, .. } | Self::Deadline { sent } => {
                *sent
            }
            Self::Unsendable(_) => false,
        }
    }
}

/// A greeting that led to no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The guest did not answer the greeting in time.
    #[error("no greeting from the guest within {0:?}")]
    Timeout(Duration),
    /// The guest closed the connection instead of answering.
    #[error("the guest closed the connection instead of answering")]
    Vanished,
    /// The transport failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The two sides speak different versions.
    #[error(transparent)]
    Version(#[from] HelloError),
    /// Another instance answered.
    #[error("another guest answered in the place of instance {wanted}: {found}")]
    WrongInstance {
        /// The instance asked for.
        wanted: String,
        /// The instance that answered, or its reason when it refused.
        found: String,
    },
    /// The guest refused.
    #[error("the guest refused: {0}")]
    Refused(Fault),
    /// The guest broke the protocol.
    #[error("the guest broke the protocol: {0}")]
    Protocol(#[from] Violation),
}

/// What may come on a channel, known from the request that opened it.
#[derive(Debug)]
pub(crate) struct Expectation {
    streams: [bool; STREAMS],
    events: bool,
    job: Option<JobId>,
    shape: Shape,
}

/// The type of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Done,
    Status,
    Stats,
    Job,
    Jobs,
    Outcome,
    FileRead,
    FileWritten,
    FileList,
    FileStat,
    FileFound,
    FileDone,
    Ports,
}

impl Expectation {
    /// Returns what may answer `request`.
    pub(crate) fn of(request: &CallRequest) -> Self {
        let mut streams = [false; STREAMS];
        let mut events = false;
        let mut job = None;
        let shape = match request {
            CallRequest::Status => Shape::Status,
            CallRequest::Stats => Shape::Stats,
            CallRequest::Start(start) => {
                events = true;
                job = Some(start.id.clone());
                Shape::Job
            }
            CallRequest::Attach(attach) => {
                events = true;
                job = Some(attach.id.clone());
                Shape::Job
            }
            CallRequest::Wait { id, .. } | CallRequest::Kill { id } => {
                job = Some(id.clone());
                Shape::Job
            }
            CallRequest::Jobs { .. } => Shape::Jobs,
            CallRequest::Lookup { id, .. } => {
                job = Some(id.clone());
                Shape::Outcome
            }
            CallRequest::Ports => Shape::Ports,
            CallRequest::Connect { .. } => {
                streams[Stream::Content as usize] = true;
                Shape::FileDone
            }
            CallRequest::File(call) => {
                streams[Stream::Content as usize] =
                    matches!(call.op, FileOp::Read { .. } | FileOp::Tree { .. });
                Shape::of_file(&call.op)
            }
            CallRequest::Touch
            | CallRequest::Signal { .. }
            | CallRequest::Input { .. }
            | CallRequest::Resize { .. }
            | CallRequest::ResetSession { .. }
            | CallRequest::Retain { .. }
            | CallRequest::Shutdown { .. } => Shape::Done,
        };
        if events {
            streams[Stream::Stdout as usize] = true;
            streams[Stream::Stderr as usize] = true;
        }
        Self { streams, events, job, shape }
    }

    /// Returns whether the guest may send bytes on `stream`.
    pub(crate) fn allows(&self, stream: Stream) -> bool {
        self.streams[stream as usize]
    }

    /// Returns whether events may come at all.
    pub(crate) fn allows_events(&self) -> bool {
        self.events
    }

    /// Returns whether `id` is the job the request is about.
    pub(crate) fn is_about(&self, id: &JobId) -> bool {
        self.job.as_ref().is_none_or(|job| job == id)
    }

    /// Returns whether `reply` is of the type the request asks for.
    pub(crate) fn accepts(&self, reply: &CallReply) -> bool {
        let about = match reply {
            CallReply::Job(info) | CallReply::Outcome(CommandOutcome::Known(info)) => {
                self.is_about(&info.id)
            }
            _ => true,
        };
        about && Shape::of_reply(reply).is_none_or(|shape| shape == self.shape)
    }
}

impl Shape {
    const fn of_file(op: &FileOp) -> Self {
        match op {
            FileOp::Read { .. } => Self::FileRead,
            FileOp::Write { .. } | FileOp::Patch { .. } => Self::FileWritten,
            FileOp::List { .. } => Self::FileList,
            FileOp::Stat { .. } => Self::FileStat,
            FileOp::Search(_) => Self::FileFound,
            FileOp::Mkdir { .. }
            | FileOp::Move { .. }
            | FileOp::Delete { .. }
            | FileOp::Tree { .. } => Self::FileDone,
        }
    }

    /// Returns the shape of a reply; a fault answers everything and has none.
    const fn of_reply(reply: &CallReply) -> Option<Self> {
        Some(match reply {
            CallReply::Fault(_) => return None,
            CallReply::Done => Self::Done,
            CallReply::Status(_) => Self::Status,
            CallReply::Stats(_) => Self::Stats,
            CallReply::Job(_) => Self::Job,
            CallReply::Jobs { .. } => Self::Jobs,
            CallReply::Outcome(_) => Self::Outcome,
            CallReply::File(FileReply::Read { .. }) => Self::FileRead,
            CallReply::File(FileReply::Written { .. }) => Self::FileWritten,
            CallReply::File(FileReply::List { .. }) => Self::FileList,
            CallReply::File(FileReply::Stat(_)) => Self::FileStat,
            CallReply::File(FileReply::Found(_)) => Self::FileFound,
            CallReply::File(FileReply::Done) => Self::FileDone,
            CallReply::Ports(_) => Self::Ports,
        })
    }
}
