//! Frames and messages between a host process and the guest in a sandbox.
//!
//! The crate does no I/O of its own beyond [`std::io::Read`] and
//! [`std::io::Write`]; both sides bring their own event loop. See the crate's
//! README for the protocol.

mod call;
mod codec;
mod enclosure;
mod file;
mod frame;
mod hello;
mod job;
mod settings;
mod status;

pub mod limits;

pub use call::{Event, Fault, FaultCode, Reply, Request};
pub use codec::{DecodeError, EncodeError, decode, encode};
pub use enclosure::{
    Bind, Enclosure, FileIdentity, IdRange, Layers, Mapping, Network, Place, Purpose, Root,
    UserLimits, Users,
};
pub use file::{
    CreateMode, Edit, Entry, FileCall, FileKind, FileOp, FileReply, Found, Match, Metadata,
    SearchQuery, Version,
};
pub use frame::{FrameError, HEADER_LEN, Header, Kind, Stream, read_frame, write_frame};
pub use hello::{Hello, HelloError, MAJOR, MINOR, Role, Welcome};
pub use job::{
    AttachJob, Cause, Command, Delivery, EnvVar, Exit, InvalidJobId, JobId, JobInfo, JobState,
    Outcome, SessionState, ShellText, StartJob, Stdin, WindowSize,
};
pub use settings::{GuestSettings, NOT_A_JOURNAL};
pub use status::{Stats, Status};
