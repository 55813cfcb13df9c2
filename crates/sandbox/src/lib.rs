#![doc = include_str!("../README.md")]

mod backends;
mod command;
mod embedded;
mod engine;
mod error;
mod failpoint;
mod key;
mod mounts;
mod notice;
mod output;
mod overrides;
mod ports;
mod profile;
mod publish;
mod sandbox;
mod snapshot;
mod spec;
mod store;
mod sync;

pub mod backend;
pub mod client;
pub mod files;
pub mod job;
pub mod settings;

pub use backends::{backend_in_effect, registered as registered_backends, schema};
pub use command::{Command, CommandInput, InvalidCommand, new_job_id};
pub use embedded::GUEST;
pub use engine::{
    CLOSE_WITHIN, DiskUsage, Engine, EngineOptions, FilesOnRemoval, LastKnown, LeftBehind, Pruned,
    ReapReason, Reaped, Removal, SandboxSummary, StateBefore, SummaryState,
};
pub use error::{CopyError, CredentialError, Error};
#[cfg(feature = "failpoints")]
pub use failpoint::NAMES as FAILPOINTS;
pub use job::{interactive_shell, redraw_terminal};
pub use key::{HomeId, InvalidTask, Key, TaskName, label_value};
pub use notice::{Notice, Progress, ProgressSink, Wording};
pub use output::{Captured, CapturedOutput};
pub use overrides::Overrides;
pub use ports::{PortStream, connect_port, listening_ports};
pub use profile::{ProfileSandboxes, ProfileSandboxesError};
pub use publish::{Bundle, BundleContent, BundleError, BundleItem, PublishError, PublishedName};
pub use sandbox::{Cleanup, JobWarning, Opening, Reach, Sandbox, SyncMode, SyncStatus};
pub use settings::{BackendChoice, Isolation, SandboxSettings, VariableForwarding, keys};
pub use snapshot::{
    Forked, InvalidSnapshotName, Rebuild, Rebuilt, Restored, Snapshot, SnapshotName, WhileBusy,
};
pub use spec::{Ceiling, Comparison, Drift, Spec, Tightening};
pub use store::{HomeError, LockError, StoreError};
pub use sync::{SyncConflict, SyncError, SyncReport, SyncSide};
pub use vestal_process::{ProcessHandle, ProcessId, boot_id};
pub use vestal_wire::{
    AttachJob, Cause, CreateMode, DirectoryEntry, EnvVar, Fault, FaultCode, FileEdit, FileKind,
    FileVersion, FoundMatches, InvalidJobId, JobExit, JobId, JobInfo, JobState, ListeningPort,
    Match, Metadata, OutputDelivery, SandboxStats, SearchQuery, SessionState, Status, Stream,
    WindowSize,
};
