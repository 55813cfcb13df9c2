//! Workers: the processes that work on tasks, where they work, and what becomes
//! of them.

mod dispatcher;
mod environment;
mod gc;
mod launch;
mod life;
mod lock;
mod log;
mod memory;
mod places;
mod program;
mod said;
mod workspace;

use std::time::Duration;

pub use dispatcher::{Dispatcher, Mode, OpenBoards, Options, PATIENCE, Room, Stopped, stop_worker};
pub use gc::{Collected, GcPolicy, KeptTree, gc};
pub use launch::{LaunchError, Launched, Launcher, Order};
pub use log::{LogPolicy, log_path};
pub(crate) use memory::room as memory_room;
pub(crate) use places::remember_deleted;
pub use program::ProgramLauncher;
pub use said::Said;
pub use workspace::{Place, WorkspaceError};

/// How long git may take for one thing.
const GIT_TIMEOUT: Duration = Duration::from_mins(1);
