#![doc = include_str!("../README.md")]

mod call;
mod enclosure;
mod file;
mod frame;
mod hello;
mod job;
mod settings;

pub mod limits;

pub use call::{Event, Fault, FaultCode, ListeningPort, Reply, Request, Stats, Status};
pub use enclosure::{
    Bind, Enclosure, FileIdentity, IdRange, Mapping, Network, OverlayDirs, Purpose, Root,
    SandboxMount, UserLimits, Users,
};
pub use file::{
    CreateMode, DirectoryEntry, Edit, FileCall, FileKind, FileOp, FileReply, Found, Match,
    Metadata, SearchQuery, Version,
};
pub use frame::{
    DecodeError, EncodeError, FrameError, FrameKind, HEADER_LEN, Header, Stream, decode, encode,
    read_frame, write_frame,
};
pub use hello::{Hello, HelloError, MAJOR, MINOR, Role, Welcome};
pub use job::{
    AttachJob, Cause, Command, Delivery, EnvVar, Exit, InvalidJobId, JobId, JobInfo, JobState,
    Outcome, SessionState, ShellText, StartJob, Stdin, WindowSize,
};
pub use settings::{GuestSettings, NOT_A_JOURNAL};
