//! Requests, the events on their way and their replies.

use minicbor::{Decode, Encode};

use crate::file::{FileCall, FileReply};
use crate::frame::Stream;
use crate::job::{AttachJob, JobId, JobInfo, Outcome, StartJob, WindowSize};
use crate::status::{Stats, Status};

/// What a host process asks of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// The guest's state. Answered by [`Reply::Status`]; never counts as use.
    #[n(0)]
    Status,
    /// What the sandbox consumes. Answered by [`Reply::Stats`]; never counts as use.
    #[n(1)]
    Stats,
    /// Resets the idle clock.
    #[n(2)]
    Touch,
    /// Runs a command. Answered by [`Event::Started`], output, [`Event::Ended`]
    /// and [`Reply::Job`].
    #[n(3)]
    Start(#[n(0)] Box<StartJob>),
    /// Follows a job, with the same answers as for [`Request::Start`].
    #[n(4)]
    Attach(#[n(0)] AttachJob),
    /// Answered by [`Reply::Job`] when the job has ended, or when the time is
    /// up and it has not.
    #[n(5)]
    Wait {
        /// The job.
        #[n(0)]
        id: JobId,
        /// Milliseconds to wait; absent: for ever; 0: what is known now.
        #[n(1)]
        timeout_ms: Option<u64>,
    },
    /// Jobs on record, oldest first. Answered by [`Reply::Jobs`].
    #[n(6)]
    Jobs {
        /// Only jobs that run or left processes behind.
        #[n(0)]
        running: bool,
        /// Most jobs to return, the newest.
        #[n(1)]
        limit: u32,
    },
    /// Asks what became of a command. Answered by [`Reply::Outcome`]. An id
    /// that is answered "never started" is refused afterwards.
    #[n(7)]
    Lookup {
        /// The job.
        #[n(0)]
        id: JobId,
        /// The incarnation the start was sent to.
        #[n(1)]
        incarnation: String,
        /// The boot id of that incarnation.
        #[n(2)]
        boot: String,
    },
    /// Kills every process of a job. Answered by [`Reply::Job`] once none is left.
    #[n(8)]
    Kill {
        /// The job.
        #[n(0)]
        id: JobId,
    },
    /// Sends a signal to the job's foreground process group.
    #[n(9)]
    Signal {
        /// The job.
        #[n(0)]
        id: JobId,
        /// The signal's number.
        #[n(1)]
        signal: i32,
    },
    /// Writes what comes on [`Stream::Input`] to the job's standard input.
    #[n(10)]
    Input {
        /// The job.
        #[n(0)]
        id: JobId,
        /// Closes standard input afterwards.
        #[n(1)]
        close: bool,
    },
    /// Changes the size of the job's terminal.
    #[n(11)]
    Resize {
        /// The job.
        #[n(0)]
        id: JobId,
        /// The new size.
        #[n(1)]
        size: WindowSize,
    },
    /// Forgets a session's saved state.
    #[n(12)]
    ResetSession {
        /// The session.
        #[n(0)]
        name: String,
    },
    /// An operation on files. Answered by [`Reply::File`].
    #[n(13)]
    File(#[n(0)] FileCall),
    /// Changes when the guest ends by itself.
    #[n(14)]
    Retain {
        /// Idle milliseconds; absent: never.
        #[n(0)]
        retention_ms: Option<u64>,
    },
    /// Ends the guest in order: jobs get SIGTERM, after the grace SIGKILL.
    /// Answered by [`Reply::Done`] when every job's processes are gone and no
    /// new job can start; the connection closes after it.
    #[n(15)]
    Shutdown {
        /// Milliseconds between SIGTERM and SIGKILL.
        #[n(0)]
        grace_ms: u64,
        /// Refused with [`FaultCode::Busy`] while a job runs or another client's
        /// call is open.
        #[n(1)]
        if_idle: bool,
    },
}

/// What a guest says on a channel before its reply.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Event {
    /// The command runs; nothing can make it "never started" any more.
    #[n(0)]
    Started {
        /// The shell's process id as the guest sees it.
        #[n(0)]
        pid: u32,
    },
    /// Bytes of a stream are left out here.
    #[n(1)]
    Gap {
        /// The stream: 1 for standard output, 2 for standard error.
        #[n(0)]
        stream: u8,
        /// How many.
        #[n(1)]
        bytes: u64,
    },
    /// The shell has ended and its output has been sent. The session may still
    /// be being saved; the reply follows when it is.
    #[n(2)]
    Ended(#[n(0)] Box<JobInfo>),
}

impl Event {
    /// Returns the event that tells of a gap in `stream`.
    pub const fn gap(stream: Stream, bytes: u64) -> Self {
        Self::Gap { stream: stream as u8, bytes }
    }
}

/// The last word on a channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// It was done.
    #[n(0)]
    Done,
    /// It failed.
    #[n(1)]
    Fault(#[n(0)] Fault),
    /// The guest's state.
    #[n(2)]
    Status(#[n(0)] Status),
    /// What the sandbox consumes.
    #[n(3)]
    Stats(#[n(0)] Stats),
    /// A job.
    #[n(4)]
    Job(#[n(0)] Box<JobInfo>),
    /// Jobs.
    #[n(5)]
    Jobs {
        /// The jobs, oldest first.
        #[n(0)]
        jobs: Vec<JobInfo>,
        /// Whether older ones were left out.
        #[n(1)]
        more: bool,
    },
    /// What became of a command.
    #[n(6)]
    Outcome(#[n(0)] Outcome),
    /// Result of an operation on files.
    #[n(7)]
    File(#[n(0)] FileReply),
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What kind of failure.
    #[n(0)]
    pub code: FaultCode,
    /// What happened, as a lowercase fragment.
    #[n(1)]
    pub message: String,
    /// The system's error number, where there is one.
    #[n(2)]
    pub errno: Option<i32>,
}

/// Kinds of failure, for programs to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FaultCode {
    /// The guest failed in a way that is its own fault.
    #[n(0)]
    Internal,
    /// The request cannot be understood or breaks a rule.
    #[n(1)]
    Invalid,
    /// The guest is too old for this request.
    #[n(2)]
    Unsupported,
    /// The host is talking to the wrong instance or version.
    #[n(3)]
    WrongInstance,
    /// The channel was cancelled.
    #[n(4)]
    Cancelled,
    /// The guest is ending.
    #[n(5)]
    ShuttingDown,
    /// Something is in use.
    #[n(6)]
    Busy,
    /// No such job.
    #[n(7)]
    NoSuchJob,
    /// The directory for the command is not there or cannot be entered.
    #[n(8)]
    NoWorkdir,
    /// No such file or directory.
    #[n(9)]
    NotFound,
    /// It is there already.
    #[n(10)]
    Exists,
    /// The file is of the wrong kind for this.
    #[n(11)]
    WrongKind,
    /// Not permitted.
    #[n(12)]
    Denied,
    /// The file is not the version expected, or an edit does not fit.
    #[n(13)]
    Conflict,
    /// No space, or a limit on size or number is reached.
    #[n(14)]
    NoSpace,
    /// Any other failure of the system.
    #[n(15)]
    System,
}

impl Fault {
    /// Returns a fault without a system error number.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), errno: None }
    }
}
