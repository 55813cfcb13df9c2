//! What a guest may answer to which request.

use vestal_wire::{FileOp, FileReply, JobId, Outcome, Reply, Request, Stream};

use super::flow::STREAMS;

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
}

impl Expectation {
    /// Returns what may answer `request`.
    pub(crate) fn of(request: &Request) -> Self {
        let mut streams = [false; STREAMS];
        let mut events = false;
        let mut job = None;
        let shape = match request {
            Request::Status => Shape::Status,
            Request::Stats => Shape::Stats,
            Request::Start(start) => {
                events = true;
                job = Some(start.id.clone());
                Shape::Job
            }
            Request::Attach(attach) => {
                events = true;
                job = Some(attach.id.clone());
                Shape::Job
            }
            Request::Wait { id, .. } | Request::Kill { id } => {
                job = Some(id.clone());
                Shape::Job
            }
            Request::Jobs { .. } => Shape::Jobs,
            Request::Lookup { id, .. } => {
                job = Some(id.clone());
                Shape::Outcome
            }
            Request::File(call) => {
                streams[Stream::Content as usize] = matches!(call.op, FileOp::Read { .. });
                Shape::of_file(&call.op)
            }
            Request::Touch
            | Request::Signal { .. }
            | Request::Input { .. }
            | Request::Resize { .. }
            | Request::ResetSession { .. }
            | Request::Retain { .. }
            | Request::Shutdown { .. } => Shape::Done,
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
    pub(crate) fn accepts(&self, reply: &Reply) -> bool {
        let about = match reply {
            Reply::Job(info) | Reply::Outcome(Outcome::Known(info)) => self.is_about(&info.id),
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
            FileOp::Mkdir { .. } | FileOp::Move { .. } | FileOp::Delete { .. } => Self::FileDone,
        }
    }

    /// Returns the shape of a reply; a fault answers everything and has none.
    const fn of_reply(reply: &Reply) -> Option<Self> {
        Some(match reply {
            Reply::Fault(_) => return None,
            Reply::Done => Self::Done,
            Reply::Status(_) => Self::Status,
            Reply::Stats(_) => Self::Stats,
            Reply::Job(_) => Self::Job,
            Reply::Jobs { .. } => Self::Jobs,
            Reply::Outcome(_) => Self::Outcome,
            Reply::File(FileReply::Read { .. }) => Self::FileRead,
            Reply::File(FileReply::Written { .. }) => Self::FileWritten,
            Reply::File(FileReply::List { .. }) => Self::FileList,
            Reply::File(FileReply::Stat(_)) => Self::FileStat,
            Reply::File(FileReply::Found(_)) => Self::FileFound,
            Reply::File(FileReply::Done) => Self::FileDone,
        })
    }
}
