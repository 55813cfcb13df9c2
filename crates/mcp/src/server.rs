//! One server: kept connected, and asked again when it went away.

mod keep;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::Peer;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use vestal_agent::redact::Redactor;

use crate::connect::Watchers;
use crate::plan::ServerPlan;
use crate::stderr::ServerLog;
use crate::tool::Offered;

pub(crate) use keep::{keep, list};

/// Notices that wait to be shown; of more, the latest are kept.
const MOST_NOTICES: usize = 50;

/// What the servers of a process share.
#[derive(Debug)]
pub(crate) struct ServersShared {
    /// Changes whenever the tools of a server have.
    version: AtomicU64,
    notices: Mutex<VecDeque<String>>,
    pub(crate) log: ServerLog,
    /// Fires when nobody needs the servers any more.
    pub(crate) cancel: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct ConnectedServer {
    pub(crate) plan: ServerPlan,
    pub(crate) shared: Arc<ServersShared>,
    phase: watch::Sender<ServerPhase>,
    offered: Mutex<Arc<[Offered]>>,
    /// Notified when a caller waits for a connection.
    wanted: Notify,
    /// Whether it was told that the first turn goes without it.
    is_marked_late: AtomicBool,
}

/// Where things stand with a server.
#[derive(Debug, Clone)]
pub(crate) enum ServerPhase {
    /// It is being connected to; so many attempts were made before.
    Connecting { attempts: u64 },
    /// It answers.
    Up(Arc<ServerConnection>),
    /// It does not; so many attempts were made.
    Down { trouble: ServerError, attempts: u64 },
}

impl ServerPhase {
    fn is_settled(&self) -> bool {
        !matches!(self, Self::Connecting { attempts: 0 })
    }
}

/// A connection that calls go over.
#[derive(Debug)]
pub(crate) struct ServerConnection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) watchers: Watchers,
    /// Fires when it is known why the connection has ended.
    pub(crate) lost: CancellationToken,
    why: Mutex<String>,
}

/// How a server is doing, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Its name in the settings.
    pub name: String,
    /// Whether it answers.
    pub state: ServerState,
    /// How many tools it has that are taken.
    pub tools: usize,
    /// What is wrong, if something is.
    pub error: Option<String>,
}

/// Whether a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// It is being connected to.
    Connecting,
    /// It does.
    Connected,
    /// It does not.
    Failed,
}

impl ServersShared {
    pub(crate) fn new(log: ServerLog) -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(0),
            notices: Mutex::default(),
            log,
            cancel: CancellationToken::new(),
        })
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn notify(&self, notice: String) {
        let mut all = lock(&self.notices);
        if all.len() >= MOST_NOTICES {
            all.pop_front();
        }
        all.push_back(notice);
    }

    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.notices)).into()
    }
}

impl ConnectedServer {
    pub(crate) fn new(plan: ServerPlan, shared: Arc<ServersShared>) -> Arc<Self> {
        Arc::new(Self {
            plan,
            shared,
            phase: watch::Sender::new(ServerPhase::Connecting { attempts: 0 }),
            offered: Mutex::new(Arc::default()),
            wanted: Notify::new(),
            is_marked_late: AtomicBool::new(false),
        })
    }

    /// Returns the tools it has.
    pub(crate) fn offered(&self) -> Arc<[Offered]> {
        Arc::clone(&lock(&self.offered))
    }

    /// Takes note of the tools it has; those who look learn of a change.
    fn offer(&self, tools: Vec<Offered>) {
        let mut offered = lock(&self.offered);
        if **offered != *tools {
            *offered = tools.into();
            self.shared.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits until the first attempt to connect has ended.
    pub(crate) async fn settled(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is ours, so it is still there.
        drop(phase.wait_for(ServerPhase::is_settled).await);
    }

    /// Reports whether the first attempt to connect has ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.phase.borrow().is_settled()
    }

    /// Notes that it is told that a turn goes without it; reports whether it was
    /// not yet.
    pub(crate) fn mark_late(&self) -> bool {
        !self.is_marked_late.swap(true, Ordering::AcqRel)
    }

    /// Returns a connection; one that is gone is made again.
    pub(crate) async fn connection(&self) -> Result<Arc<ServerConnection>, ServerError> {
        let mut phase = self.phase.subscribe();
        let (ServerPhase::Connecting { attempts } | ServerPhase::Down { attempts, .. }) =
            phase.borrow().clone()
        else {
            return self.up();
        };
        self.wanted.notify_one();
        let is_decided = |phase: &ServerPhase| match phase {
            ServerPhase::Connecting { .. } => false,
            ServerPhase::Up(_) => true,
            ServerPhase::Down { trouble, attempts: made } => {
                *made > attempts || !trouble.may_pass()
            }
        };
        // Both the connection and the tools have their time; nobody waits longer.
        let within = self.plan.connect_timeout.saturating_mul(3);
        drop(tokio::time::timeout(within, phase.wait_for(is_decided)).await);
        self.up()
    }

    fn up(&self) -> Result<Arc<ServerConnection>, ServerError> {
        match &*self.phase.borrow() {
            ServerPhase::Up(connection) => Ok(Arc::clone(connection)),
            ServerPhase::Down { trouble, .. } => Err(trouble.clone()),
            ServerPhase::Connecting { .. } => {
                Err(ServerError::Failed("it is being connected to; try again".to_owned()))
            }
        }
    }

    /// Returns how it is doing.
    pub(crate) fn status(&self) -> ServerStatus {
        let (state, error) = match &*self.phase.borrow() {
            ServerPhase::Connecting { .. } => (ServerState::Connecting, None),
            ServerPhase::Up(_) => (ServerState::Connected, None),
            ServerPhase::Down { trouble, .. } => (ServerState::Failed, Some(trouble.to_string())),
        };
        ServerStatus { name: self.plan.name.clone(), state, tools: self.offered().len(), error }
    }
}

impl ServerConnection {
    /// Returns why the connection has ended; to be asked when it has.
    pub(crate) fn why(&self) -> String {
        lock(&self.why).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these is whole after each statement, whatever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a server cannot be used. What it says is for people and for the model:
/// it names what is wrong and what to do, and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The settings ask for what cannot be done. Trying again would not help.
    #[error("{0}")]
    Settings(String),
    /// Its program is nowhere.
    #[error("{0}")]
    NotFound(String),
    /// Its program could not be started, or ended, or did not answer as it should.
    #[error("{0}")]
    Failed(String),
    /// It did not answer in time.
    #[error("it did not answer within {} s{hint}", .within.as_secs())]
    Late {
        /// How long it had.
        within: Duration,
        /// What is known besides.
        hint: String,
    },
    /// It requires authorization.
    #[error("{0}")]
    Unauthorized(String),
}

impl ServerError {
    /// Returns the same with what is known besides, if that may explain it.
    pub(crate) fn with(self, words: &str) -> Self {
        match self {
            Self::Failed(text) => Self::Failed(text + words),
            Self::Late { within, hint } => Self::Late { within, hint: hint + words },
            other => other,
        }
    }

    /// Returns the same without the secrets in it: much of it may be a server's own words.
    pub(crate) fn masked(self, redactor: &Redactor) -> Self {
        let masked = |text: String| redactor.redact(&text).into_owned();
        match self {
            Self::Settings(text) => Self::Settings(masked(text)),
            Self::NotFound(text) => Self::NotFound(masked(text)),
            Self::Failed(text) => Self::Failed(masked(text)),
            Self::Late { within, hint } => Self::Late { within, hint: masked(hint) },
            Self::Unauthorized(text) => Self::Unauthorized(masked(text)),
        }
    }

    /// Reports whether trying again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Settings(_) | Self::NotFound(_) | Self::Unauthorized(_) => false,
            Self::Failed(_) | Self::Late { .. } => true,
        }
    }
}
