//! Workers: the processes that work on tasks, where they work, and what becomes
//! of them. See the crate's README for the contract.

mod catalogue;
mod dispatcher;
mod environment;
mod failpoint;
mod gc;
mod launch;
mod launching;
mod life;
mod lock;
mod memory;
mod pass;
mod places;
mod program;
mod said;
mod stopping;
mod surroundings;
mod sweeping;
mod tick;
mod watch;
mod watch_lock;
mod workspace;

use std::time::Duration;

pub use catalogue::OpenBoards;
pub use dispatcher::{Dispatcher, Options, PATIENCE};
pub use gc::{Collected, GcPolicy, KeptTree, gc};
pub use launch::{LaunchError, Launched, Launcher, Order};
pub use memory::{Room, memory_room};
pub use program::ProgramLauncher;
pub use said::Said;
pub use stopping::{Stopped, stop_worker};
pub use tick::Mode;
pub use watch_lock::{WatchLock, host_lock_path, is_watched};
pub use workspace::{Place, WorkspaceError};

/// How long git may take for one thing.
const GIT_TIMEOUT: Duration = Duration::from_mins(1);

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
