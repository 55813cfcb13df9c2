//! The dispatcher: it carries out what a plan decides.
//!
//! A pass decides about some boards together: it looks, plans, and writes down what
//! it is about to do in one short transaction of each board. What takes time,
//! starting and stopping workers, comes after, each by itself and outside of any
//! lock.

mod catalogue;
mod launching;
mod pass;
mod stopping;
mod surroundings;
mod sweeping;
mod tick;
mod watch;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vestal_config::Environment;
use vestal_process::Patience;

pub use catalogue::OpenBoards;
pub use stopping::{Stopped, stop_worker};
pub(super) use sweeping::{bare_order, sweep, sweep_as};
pub use tick::Mode;

use super::GIT_TIMEOUT;
use super::gc::GcPolicy;
use super::launch::Launcher;
use super::life::{Children, RunKey};
use super::said::Said;
use super::workspace::Git;
use crate::dispatch::Policy;

/// What a dispatcher goes by.
pub struct Options {
    /// The file that dispatchers of this host lock while they decide.
    pub lock: PathBuf,
    /// What may be done.
    pub policy: Policy,
    /// Returns how many more workers this host has room for; none: that is not asked.
    pub room: Option<Room>,
    /// What starts workers.
    pub launcher: Arc<dyn Launcher>,
    /// Returns the profiles there are.
    pub profiles: Arc<dyn Fn() -> BTreeSet<String> + Send + Sync>,
    /// The environment that git is run with.
    pub environment: Environment,
    /// How much time a worker that is stopped gets.
    pub patience: Patience,
    /// How often to look although nothing tells to.
    pub interval: Duration,
    /// What is kept when boards are tidied, once a day; none: they are not.
    pub retention: Option<GcPolicy>,
    /// Hears what is done, as it happens.
    pub tell: Arc<dyn Fn(Said) + Send + Sync>,
}

/// Returns how many more workers a host has room for, where it can tell.
pub type Room = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// Workers that a host has, however little room there is.
const FEWEST: u64 = 2;

/// How much time a worker that is stopped gets, unless somebody says otherwise:
/// enough to end what it runs in its sandbox, and to report.
pub const PATIENCE: Patience =
    Patience { grace: Duration::from_secs(25), kill: Duration::from_secs(10) };

/// Carries out what plans decide. Clones share the workers they started.
#[derive(Clone)]
pub struct Dispatcher {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    git: Git,
    children: Children,
    /// Runs whose workers are being stopped by this process.
    stopping: Mutex<HashSet<RunKey>>,
    /// Directories that workers are being started in by this process.
    taken: Mutex<HashSet<PathBuf>>,
    /// What was said that is said once.
    said: Mutex<HashSet<String>>,
}

impl Dispatcher {
    /// Returns a dispatcher.
    pub fn new(options: Options) -> Self {
        let git = Git::new(&options.environment, GIT_TIMEOUT);
        let shared = Shared {
            options,
            git,
            children: Children::default(),
            stopping: Mutex::default(),
            taken: Mutex::default(),
            said: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    fn options(&self) -> &Options {
        &self.shared.options
    }

    fn policy(&self) -> &Policy {
        &self.shared.options.policy
    }

    /// Returns what may be done while so many workers are at work on this host.
    fn policy_with(&self, workers: u64) -> Policy {
        let mut policy = self.policy().clone();
        if let Some(room) = self.options().room.as_ref().and_then(|room| room()) {
            let most = workers.saturating_add(room).max(FEWEST);
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            policy.caps.host = Some(policy.caps.host.map_or(most, |cap| cap.min(most)));
        }
        policy
    }

    fn tell(&self, said: Said) {
        (self.shared.options.tell)(said);
    }

    /// Says something unless it was said before.
    fn tell_once(&self, said: Said) {
        if lock(&self.shared.said).insert(said.to_string()) {
            self.tell(said);
        }
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("lock", &self.options().lock).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
