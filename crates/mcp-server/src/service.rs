//! What is served, to any number of clients.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use vestal_board::boards::Boards;
use vestal_sandbox::{Engine, Overrides};

use crate::http::CallsInFlight;
use crate::limits;
use crate::server::SandboxServer;
use crate::task::TaskChoice;
use crate::tools::ToolTable;
use crate::tools::board::BoardAccess;

/// A set of tools that is offered as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Toolset {
    /// Commands, jobs, files, snapshots and sandboxes.
    Sandbox,
    /// Tasks of the board.
    Board,
}

/// A name that no toolset has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a toolset; there are sandbox and board")]
pub struct UnknownToolset(String);

impl FromStr for Toolset {
    type Err = UnknownToolset;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "sandbox" => Ok(Self::Sandbox),
            "board" => Ok(Self::Board),
            _ => Err(UnknownToolset(name.to_owned())),
        }
    }
}

impl fmt::Display for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sandbox => "sandbox",
            Self::Board => "board",
        })
    }
}

/// Which sandboxes a client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxScope {
    /// Its own, and the copies that it has made of it.
    Own,
    /// All of the profile.
    All,
}

/// What clients are offered.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// In which task they work unless they name another.
    pub task: TaskChoice,
    /// What is asked for the sandbox of that task, if it is made.
    pub overrides: Overrides,
    /// Which sandboxes they may use.
    pub scope: SandboxScope,
    /// Which tools they have.
    pub toolsets: Vec<Toolset>,
    /// Whether commands may run on this machine without isolation; clients are told of it.
    pub unconfined: bool,
}

/// Sandboxes and the board, for clients of the Model Context Protocol. Clones are the same service.
#[derive(Clone)]
pub struct McpService {
    inner: Arc<ServiceState>,
}

/// What the connections share.
pub(crate) struct ServiceState {
    pub(crate) engine: Engine,
    pub(crate) options: ServiceOptions,
    pub(crate) tools: ToolTable,
    pub(crate) board: Option<BoardAccess>,
    /// Turns of calls that work.
    pub(crate) working: Arc<Semaphore>,
    /// Places of calls that wait for a command.
    pub(crate) waiting: Arc<Semaphore>,
    pub(crate) calls: CallsInFlight,
}

impl McpService {
    /// Returns a service over an engine. The toolset `board` needs the boards, and which of them the
    /// environment names.
    pub fn new(
        engine: Engine,
        options: ServiceOptions,
        boards: Option<(Boards, Option<String>)>,
    ) -> Self {
        let has_board = options.toolsets.contains(&Toolset::Board);
        let board =
            boards.filter(|_| has_board).map(|(boards, choice)| BoardAccess::new(boards, choice));
        let mut toolsets = options.toolsets.clone();
        if board.is_none() {
            toolsets.retain(|toolset| *toolset != Toolset::Board);
        }
        Self {
            inner: Arc::new(ServiceState {
                engine,
                tools: ToolTable::new(&toolsets),
                board,
                options,
                working: Arc::new(Semaphore::new(limits::WORKING)),
                waiting: Arc::new(Semaphore::new(limits::WAITING)),
                calls: CallsInFlight::default(),
            }),
        }
    }

    /// Returns what answers one client, whose calls end when it is gone.
    pub(crate) fn server(&self, gone: CancellationToken) -> SandboxServer {
        SandboxServer::new(Arc::clone(&self.inner), gone)
    }

    pub(crate) fn calls(&self) -> &CallsInFlight {
        &self.inner.calls
    }
}

impl fmt::Debug for McpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpService").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
