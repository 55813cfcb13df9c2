//! All servers of a profile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use vestal_agent::redact::Redactor;
use vestal_agent::{Tool, ToolSource};
use vestal_config::Settings;

use crate::connect::{Live, connect, leave};
use crate::keys;
use crate::plan::ServerPlan;
use crate::server::{ConnectedServer, ServerError, ServerStatus, ServersShared, keep, list};
use crate::settings::{McpServer, McpServerName};
use crate::stderr::ServerLog;
use crate::tool::{RemoteTool, ToolStatus, UniqueNames, one_line};

/// What toolsets of servers begin with; alone it stands for all of them.
const TOOLSET: &str = "mcp";

/// How long the end of the servers is waited for.
const CLOSE_WITHIN: Duration = Duration::from_secs(4);

/// The servers of a profile, connected to in the background from the beginning
/// on. Dropping it ends them.
#[derive(Debug)]
pub struct Servers {
    all: Vec<Arc<ConnectedServer>>,
    /// The names of all servers in the settings, in order.
    names: Vec<String>,
    shared: Arc<ServersShared>,
    keepers: Mutex<JoinSet<()>>,
    /// When the first turn waits no longer for those that are still being asked.
    startup_deadline: Instant,
    built: Mutex<Built>,
}

/// The tools of a version.
#[derive(Default)]
struct Built {
    version: u64,
    tools: Vec<Arc<dyn Tool>>,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What a look at a server found.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// What it calls itself, with its version.
    pub about: Option<String>,
    /// The version of the protocol it speaks.
    pub protocol: String,
    /// Its tools that are taken.
    pub tools: Vec<ToolStatus>,
    /// How long it took.
    pub took: Duration,
}

impl Servers {
    /// Begins to connect to the servers that the settings name. To be called
    /// within a runtime; nothing is waited for. Settings that cannot be
    /// understood are news, and nothing else.
    pub fn from_settings(settings: &Settings) -> Arc<Self> {
        let found = settings.get(&keys::MCP_SERVERS);
        // Without servers this costs nothing worth the name.
        let none = found.as_ref().is_ok_and(|found| found.value.is_empty());
        let redactor = if none { Redactor::off() } else { redactor(settings) };
        let shared = ServersShared::new(ServerLog::new(&settings.home().logs_dir(), redactor));
        match found {
            Ok(found) => Self::begin(settings, found.value.iter(), shared),
            Err(error) => {
                shared.notify(format!("no MCP server is used: {error}"));
                Self::begin(settings, std::iter::empty(), shared)
            }
        }
    }

    /// Begins to connect to servers that something else than the settings names.
    pub fn of(settings: &Settings, named: &[(McpServerName, McpServer)]) -> Arc<Self> {
        let log = ServerLog::new(&settings.home().logs_dir(), redactor(settings));
        let named = named.iter().map(|(name, server)| (name, server));
        Self::begin(settings, named, ServersShared::new(log))
    }

    fn begin<'s>(
        settings: &Settings,
        named: impl Iterator<Item = (&'s McpServerName, &'s McpServer)>,
        shared: Arc<ServersShared>,
    ) -> Arc<Self> {
        let mut servers = Vec::new();
        let mut names = Vec::new();
        for (name, server) in named {
            names.push(name.to_string());
            if server.enabled {
                let plan = ServerPlan::new(settings, name.as_str(), server);
                servers.push(ConnectedServer::new(plan, Arc::clone(&shared)));
            }
        }
        let startup_deadline =
            settings.get(&keys::MCP_DISCOVERY_TIMEOUT).map(|found| found.value.duration());
        let startup_deadline = startup_deadline.unwrap_or_else(|error| {
            shared.notify(error.to_string());
            keys::MCP_DISCOVERY_TIMEOUT.default_value().duration()
        });
        let mut keepers = JoinSet::new();
        for server in &servers {
            keepers.spawn(keep(Arc::clone(server)));
        }
        Arc::new(Self {
            all: servers,
            names,
            shared,
            keepers: Mutex::new(keepers),
            startup_deadline: Instant::now() + startup_deadline,
            built: Mutex::default(),
        })
    }

    /// Reports whether the settings name none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns how each server is doing, in order of name.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.all.iter().map(|server| server.status()).collect()
    }

    /// Ends the servers. When this returns, none of their processes is left,
    /// unless one does not let itself be ended.
    #[boxed]
    pub async fn close(&self) {
        self.shared.cancel.cancel();
        let mut keepers =
            std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async { while keepers.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_WITHIN, all).await.is_err() {
            tracing::debug!("some MCP servers take long to end");
        }
    }

    /// Connects to one server, asks what it has, and ends it again.
    #[boxed]
    pub async fn probe(
        settings: &Settings,
        name: &str,
        server: &McpServer,
    ) -> Result<Probe, ServerError> {
        let began = std::time::Instant::now();
        let plan = ServerPlan::new(settings, name, server);
        let log = ServerLog::new(&settings.home().logs_dir(), redactor(settings));
        let Live { running, mut remains, .. } =
            connect(&plan, &log, &CancellationToken::new()).await?;
        let listed = list(&plan, running.peer()).await;
        let about = running.peer().peer_info();
        leave(running).await;
        let listed = match listed {
            Err(trouble) => Err(trouble.with(&remains.end_details().await).masked(log.redactor())),
            listed => listed,
        };
        remains.end().await;
        let known = settings.get(&keys::MCP_SERVERS).map(|found| found.value);
        let known = known.as_ref().map(|known| known.iter().map(|(name, _)| name.as_str()));
        let mut names = UniqueNames::among(known.into_iter().flatten());
        let tools =
            listed?.iter().map(|own| ToolStatus::new(names.give(name, &own.name), own)).collect();
        let own = about.as_ref().and_then(|about| about.server_info.as_ref());
        Ok(Probe {
            about: own.map(|own| one_line(&format!("{} {}", own.name, own.version), 200)),
            protocol: about
                .as_ref()
                .map(|about| one_line(&about.protocol_version.to_string(), 40))
                .unwrap_or_default(),
            tools,
            took: began.elapsed(),
        })
    }

    fn build(&self) -> Vec<Arc<dyn Tool>> {
        let mut names = UniqueNames::among(self.names.iter().map(String::as_str));
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in &self.all {
            let toolset = format!("{TOOLSET}-{}", server.plan.name);
            for own in server.offered().iter() {
                tools.push(Arc::new(RemoteTool {
                    name: names.give(&server.plan.name, &own.name),
                    toolset: toolset.clone(),
                    own: own.clone(),
                    server: Arc::clone(server),
                }));
            }
        }
        tools
    }
}

#[async_trait]
impl ToolSource for Servers {
    async fn settle(&self) {
        let all = async {
            for server in &self.all {
                server.settled().await;
            }
        };
        if tokio::time::timeout_at(self.startup_deadline, all).await.is_ok() {
            return;
        }
        // A late server is there from the next turn on. A one-shot has none, and
        // in any case a model that lacks tools should not come as a surprise.
        let late = self.all.iter().filter(|server| !server.is_settled() && server.mark_late());
        for server in late {
            self.shared.notify(format!(
                "the MCP server {} has not answered yet, so its tools are missing in this turn; \
                 mcp_discovery_timeout says how long they are waited for",
                server.plan.name
            ));
        }
    }

    fn version(&self) -> u64 {
        self.shared.version()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.shared.version();
        if built.version != version {
            // A change in between is seen by the next who looks.
            *built = Built { version, tools: self.build() };
        }
        built.tools.clone()
    }

    fn take_notices(&self) -> Vec<String> {
        self.shared.take_notices()
    }

    fn may_offer(&self, name: &str) -> bool {
        name == TOOLSET || name.starts_with("mcp-") || name.starts_with("mcp_")
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.shared.cancel.cancel();
        // They end by themselves, and their programs with them.
        let keepers = self.keepers.get_mut().unwrap_or_else(PoisonError::into_inner);
        keepers.detach_all();
    }
}

fn redactor(settings: &Settings) -> Redactor {
    match settings.get(&vestal_agent::keys::SECURITY_REDACT_SECRETS) {
        Ok(found) if !found.value => Redactor::off(),
        _ => Redactor::new(settings.known_secrets()),
    }
}
