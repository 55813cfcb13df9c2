//! Processes of jobs: supervisors, terminals and process trees.
//!
//! A job's shell is not a child of the guest but of a small supervisor, which is a
//! child subreaper: whatever the job forks, even with `setsid` or a double fork, stays
//! among its descendants. So `waitpid` can prove that no process of the job is left.

mod child;
mod invocation;
pub(crate) mod protocol;

pub mod supervise;
pub mod tree;

pub(crate) use child::JobRights;
pub use child::{open_pty, resize};
pub(crate) use invocation::DEFAULT_PATH;
pub use protocol::{
    ChildEnds, FailedStep, Launch, LaunchCommand, SupervisorProcess, SupervisorReport, WaitStatus,
};
