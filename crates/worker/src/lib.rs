#![doc = include_str!("../README.md")]

mod attempt;
mod cleanup;
mod context;
mod inputs;
mod limits;
mod log;
mod prompt;
mod report;
mod run;
mod scratch;
mod workspace;

pub mod tools;

pub use cleanup::{SweepError, SweepParts, sweep};
pub use context::AgentBoard;
pub use limits::ProcessLimits;
pub use log::TaskLog;
pub use report::{WorkerExit, WorkerReport};
pub use run::{WorkerParts, run};
pub use scratch::{ScratchError, ScratchFile, ScratchFiles, scratch_files};
