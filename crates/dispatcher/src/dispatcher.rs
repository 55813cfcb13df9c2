//! The dispatcher: it carries out what a plan decides.
//!
//! A pass decides about some boards together: it looks, plans, and writes down what
//! it is about to do in one short transaction of each board. What takes time,
//! starting and stopping workers, comes after, each by itself and outside of any
//! lock.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vestal_board::dispatch::Policy;
use vestal_config::Environment;
use vestal_process::Patience;

use crate::GIT_TIMEOUT;
use crate::gc::GcPolicy;
use crate::launch::Launcher;
use crate::life::{Children, RunKey};
use crate::memory::Room;
use crate::said::Said;
use crate::workspace::Git;

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

/// Workers that a host has, however little room there is.
const FEWEST: u64 = 2;

/// How much time a worker that is stopped gets, unless somebody says otherwise:
/// enough to end what it runs in its sandbox, and to report.
pub const PATIENCE: Patience =
    Patience { grace: Duration::from_secs(25), kill: Duration::from_secs(10) };

/// Carries out what plans decide. Clones share the workers they started.
#[derive(Clone)]
pub struct Dispatcher {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) git: Git,
    pub(crate) children: Children,
    /// Runs whose workers are being stopped by this process.
    pub(crate) stopping: Mutex<HashSet<RunKey>>,
    /// Directories that workers are being started in by this process.
    pub(crate) taken: Mutex<HashSet<PathBuf>>,
    /// What was said that is said once.
    pub(crate) said: Mutex<HashSet<String>>,
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

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.shared.options.policy
    }

    /// Returns what may be done while so many workers are at work on this host.
    pub(crate) fn policy_with(&self, workers: u64) -> Policy {
        let mut policy = self.policy().clone();
        if let Some(room) = self.options().room.as_ref().and_then(|room| room()) {
            let most = workers.saturating_add(room).max(FEWEST);
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            policy.caps.host = Some(policy.caps.host.map_or(most, |cap| cap.min(most)));
        }
        policy
    }

    pub(crate) fn tell(&self, said: Said) {
        (self.shared.options.tell)(said);
    }

    /// Says something unless it was said before.
    pub(crate) fn tell_once(&self, said: Said) {
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

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
