//! Starts, watches and stops the worker processes of boards. See the crate's README for the contract.

mod boards;
mod diff;
mod dispatcher;
mod export;
mod failpoint;
mod gc;
mod git;
mod launcher;
mod liveness;
mod load;
mod locks;
mod merge;
mod new_files;
mod own_git;
mod pass;
mod start;
mod stop;
mod watch;
mod workspace;
mod worktree;

pub use boards::OpenBoards;
pub use diff::{Change, ChangedFile, DiffError, DiffRange, TaskDiff, diff};
pub use dispatcher::{DispatchEvent, DispatchMode, Dispatcher, DispatcherOptions, STOP_TIMEOUTS};
pub use export::{ExportError, ExportedPatch, OnExisting, export};
pub use gc::{CollectedLeftovers, GcPolicy, KeptTree, gc};
pub use launcher::{LaunchError, LaunchSpec, Launched, Launcher, ProgramLauncher};
pub use load::{MemoryRoom, memory_room};
pub use locks::{WatchLock, host_lock_path, is_watched};
pub use merge::{
    MergeError, MergeMethod, MergeObstacle, MergePlan, MergeRequest, Merged, merge, plan_merge,
};
pub use new_files::{NewFile, diff_of_new};
pub use own_git::{SHARED_OBJECTS, collect_commits, own_git_dir, prepare_own_git};
pub use stop::{Stopped, stop_worker};
pub use workspace::{WorkspaceDir, WorkspaceError, check_workspace};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
