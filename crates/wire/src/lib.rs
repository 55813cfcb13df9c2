#![doc = include_str!("../README.md")]

mod call;
mod enclosure;
mod file;
mod frame;
mod hello;
mod job;
mod settings;

pub mod limits;
pub mod machine;
pub mod survey;
pub mod tree;

pub use call::{
    CallEvent, CallReply, CallRequest, Fault, FaultCode, ListeningPort, SandboxStats, Status,
};
pub use enclosure::{
    Bind, ContainerConfinement, Enclosure, FileIdentity, IdRange, Mapping, Network, OverlayDirs,
    Purpose, Root, RuntimeLaunch, SandboxMount, UserLimits, UserMapping,
};
pub use file::{
    CreateMode, DirectoryEntry, FileCall, FileEdit, FileKind, FileOp, FileReply, FileVersion,
    FoundMatches, Match, Metadata, SearchQuery, TreeOp,
};
pub use frame::{
    DecodeError, EncodeError, FrameError, FrameKind, HEADER_LEN, Header, Stream, decode, encode,
    read_frame, write_frame,
};
pub use hello::{Hello, HelloError, HostRole, MAJOR, MINOR, Welcome};
pub use job::{
    AttachJob, Cause, CommandOutcome, EnvVar, InvalidJobId, JobCommand, JobExit, JobId, JobInfo,
    JobState, OutputDelivery, SessionState, ShellText, StartJob, Stdin, WindowSize,
};
pub use settings::{GuestSettings, NOT_A_JOURNAL};
