#![doc = include_str!("../README.md")]

mod job;
mod sandbox;
mod snapshot;
mod transfer;

pub use job::{
    EndCause, JobPhase, JobView, RunSandboxView, RunView, SandboxBefore, SessionResult, timestamp,
};
pub use sandbox::{
    DriftView, GuestFacts, GuestView, OverridesView, ReapCause, ReapedView, RemovedView,
    SandboxDetailsView, SandboxState, SandboxView, StatsView, StoppedView, TaskStatsView,
};
pub use snapshot::{ForkedView, RebuiltView, RestoredView, SnapshotView};
pub use transfer::{CopiedView, Endpoint, TransferError, TransferPlan};
