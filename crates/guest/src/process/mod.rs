//! Processes of jobs: a supervisor per job, terminals, and the end of whole trees.
//!
//! A job's shell is not a child of the guest but of a small supervisor, which
//! is a child subreaper: whatever the job forks, also with `setsid` or twice,
//! stays among its descendants. So "no process of this job is left" is
//! something `waitpid` can prove.

mod child;
mod launch;
pub(crate) mod memfile;
mod protocol;
mod pty;
mod report;
mod standing;
mod supervisor;

pub mod supervise;
pub mod tree;

pub use launch::{ChildEnds, Launch, LaunchCommand};
pub use pty::{open_pty, resize};
pub use report::{FailedStep, Report, WaitStatus};
pub(crate) use standing::Standing;
pub(crate) use supervise::DEFAULT_PATH;
pub use supervisor::Supervisor;
