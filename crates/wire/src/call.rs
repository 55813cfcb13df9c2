//! Requests, the events before their replies, and the replies.

use minicbor::{Decode, Encode};

use crate::file::{FileCall, FileReply};
use crate::frame::Stream;
use crate::job::{AttachJob, CommandOutcome, JobId, JobInfo, StartJob, WindowSize};

/// A request from a host process to a guest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum CallRequest {
    /// Returns the guest's state as [`CallReply::Status`]. Does not count as use.
    #[n(0)]
    Status,
    /// Returns the sandbox's resource usage as [`CallReply::Stats`]. Does not count
    /// as use.
    #[n(1)]
    Stats,
    /// Resets the idle clock.
    #[n(2)]
    Touch,
    /// Runs a command. Answered by [`CallEvent::Started`], output, [`CallEvent::Ended`]
    /// and [`CallReply::Job`].
    #[n(3)]
    Start(#[n(0)] Box<StartJob>),
    /// Follows a job. Answered like [`CallRequest::Start`].
    #[n(4)]
    Attach(#[n(0)] AttachJob),
    /// Waits until a job has ended or the time is up. Answered by [`CallReply::Job`].
    #[n(5)]
    Wait {
        /// The job.
        #[n(0)]
        id: JobId,
        /// Milliseconds to wait. Absent: no limit; 0: return the current state.
        #[n(1)]
        timeout_ms: Option<u64>,
    },
    /// Returns the jobs on record, oldest first, as [`CallReply::Jobs`].
    #[n(6)]
    Jobs {
        /// Only jobs that run or have processes left.
        #[n(0)]
        running: bool,
        /// Maximum number of jobs; the newest are returned.
        #[n(1)]
        limit: u32,
    },
    /// Returns what became of a command, as [`CallReply::Outcome`]. An id reported as
    /// "never started" is refused afterwards.
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
    /// Kills every process of a job. Answered by [`CallReply::Job`] once none is left.
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
    /// Writes the bytes of [`Stream::Input`] to the job's standard input.
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
    /// Deletes a session's saved state.
    #[n(12)]
    ResetSession {
        /// The session.
        #[n(0)]
        name: String,
    },
    /// Performs a file operation. Answered by [`CallReply::File`].
    #[n(13)]
    File(#[n(0)] FileCall),
    /// Changes the retention time.
    #[n(14)]
    Retain {
        /// Idle milliseconds; absent: never.
        #[n(0)]
        retention_ms: Option<u64>,
    },
    /// Shuts the guest down: jobs get SIGTERM, and after the grace period
    /// SIGKILL. Answered by [`CallReply::Done`] when all processes of jobs are gone
    /// and no new job can start; then the connection closes.
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
    /// Returns the TCP ports that processes of jobs listen on, as
    /// [`CallReply::Ports`]. Since 1.1.
    #[n(16)]
    Ports,
    /// Connects to a TCP port that a process of a job listens on:
    /// [`Stream::Input`] goes there, [`Stream::Content`] comes from there.
    /// Answered by [`FileReply::Done`] when the process has closed the
    /// connection. Since 1.1.
    #[n(17)]
    Connect {
        /// The port.
        #[n(0)]
        port: u16,
    },
}

/// A message on a channel before its reply.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum CallEvent {
    /// The command runs. From now on it cannot be "never started".
    #[n(0)]
    Started {
        /// The shell's process id as the guest sees it.
        #[n(0)]
        pid: u32,
    },
    /// Bytes of a stream are omitted here.
    #[n(1)]
    Gap {
        /// The stream: 1 for standard output, 2 for standard error.
        #[n(0)]
        stream: u8,
        /// Number of bytes.
        #[n(1)]
        bytes: u64,
    },
    /// The shell has ended and its output has been sent. The reply follows when
    /// the session is saved.
    #[n(2)]
    Ended(#[n(0)] Box<JobInfo>),
}

impl CallEvent {
    /// Returns the event for a gap in `stream`.
    pub const fn gap(stream: Stream, bytes: u64) -> Self {
        Self::Gap { stream: stream as u8, bytes }
    }
}

/// The reply to a request, which closes the channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum CallReply {
    /// The request was carried out.
    #[n(0)]
    Done,
    /// The request failed.
    #[n(1)]
    Fault(#[n(0)] Fault),
    /// The guest's state.
    #[n(2)]
    Status(#[n(0)] Status),
    /// Resource usage of the sandbox.
    #[n(3)]
    Stats(#[n(0)] SandboxStats),
    /// A job.
    #[n(4)]
    Job(#[n(0)] Box<JobInfo>),
    /// Jobs.
    #[n(5)]
    Jobs {
        /// The jobs, oldest first.
        #[n(0)]
        jobs: Vec<JobInfo>,
        /// Whether older jobs were left out.
        #[n(1)]
        more: bool,
    },
    /// What became of a command.
    #[n(6)]
    Outcome(#[n(0)] CommandOutcome),
    /// Result of an operation on files.
    #[n(7)]
    File(#[n(0)] FileReply),
    /// Ports that processes of jobs listen on, by number.
    #[n(8)]
    Ports(#[n(0)] Vec<ListeningPort>),
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The kind of failure.
    #[n(0)]
    pub code: FaultCode,
    /// What happened, as a lowercase fragment.
    #[n(1)]
    pub message: String,
    /// The system's error number, if there is one.
    #[n(2)]
    pub errno: Option<i32>,
}

/// Kinds of failure that programs can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FaultCode {
    /// An internal error of the guest.
    #[n(0)]
    Internal,
    /// The request cannot be understood or violates a rule.
    #[n(1)]
    Invalid,
    /// The guest is too old for this request.
    #[n(2)]
    Unsupported,
    /// The host is connected to the wrong instance or version.
    #[n(3)]
    WrongInstance,
    /// The channel was cancelled.
    #[n(4)]
    Cancelled,
    /// The guest is shutting down.
    #[n(5)]
    ShuttingDown,
    /// Something is in use.
    #[n(6)]
    Busy,
    /// No such job.
    #[n(7)]
    NoSuchJob,
    /// The directory for the command does not exist or cannot be entered.
    #[n(8)]
    NoWorkdir,
    /// No such file or directory.
    #[n(9)]
    NotFound,
    /// It already exists.
    #[n(10)]
    Exists,
    /// The file has the wrong kind for this operation.
    #[n(11)]
    WrongKind,
    /// Not permitted.
    #[n(12)]
    Denied,
    /// The file does not have the expected version, or an edit does not apply.
    #[n(13)]
    Conflict,
    /// No space, or a limit was reached.
    #[n(14)]
    NoSpace,
    /// Any other system error.
    #[n(15)]
    System,
}

impl Fault {
    /// Returns a fault without a system error number.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), errno: None }
    }
}

/// The guest's state, for listings.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Status {
    /// Milliseconds since the last use; 0 while a job runs.
    #[n(0)]
    pub idle_ms: u64,
    /// Milliseconds of idle time left before the guest ends.
    #[n(1)]
    pub expires_in_ms: Option<u64>,
    /// Jobs with a running shell.
    #[n(2)]
    pub jobs_running: u32,
    /// Jobs on record.
    #[n(3)]
    pub jobs_known: u32,
    /// Milliseconds since the guest started.
    #[n(4)]
    pub up_ms: u64,
    /// Last use, in milliseconds of Unix time.
    #[n(5)]
    pub last_used_ms: u64,
}

/// Resource usage of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SandboxStats {
    /// Processes of the sandbox, without the guest's own.
    #[n(0)]
    pub processes: u32,
    /// Their resident memory in bytes.
    #[n(1)]
    pub memory_bytes: u64,
    /// CPU time of living and ended processes, in milliseconds.
    #[n(2)]
    pub cpu_ms: u64,
    /// Bytes of job logs.
    #[n(3)]
    pub log_bytes: u64,
    /// Resident memory of the guest in bytes.
    #[n(4)]
    pub guest_bytes: u64,
}

/// A TCP port that a process of a job listens on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ListeningPort {
    /// The port.
    #[n(0)]
    pub port: u16,
    /// The address, as text.
    #[n(1)]
    pub address: String,
    /// The process, as the guest sees it.
    #[n(2)]
    pub pid: u32,
    /// The name of its program.
    #[n(3)]
    pub program: String,
    /// The job it is of, unless its job has been forgotten.
    #[n(4)]
    pub job: Option<JobId>,
}
