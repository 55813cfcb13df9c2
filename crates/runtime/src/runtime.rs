//! The assembly: settings and an engine become an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use vestal_agent::approvals::Remember;
use vestal_agent::redact::Redactor;
use vestal_agent::settings::EndpointError;
use vestal_agent::{Agent, AgentParts, OpenError, PromptParts, Registry, WorkspaceView, keys};
use vestal_config::{AnyKey as _, ConfigError, ProfileName, Settings};
use vestal_conversations::ConversationStore;
use vestal_mcp::{ReloadableServers, ServerStatus};
use vestal_model::{Endpoint, Models, SetupError};
use vestal_sandbox::backend::Confinement;
use vestal_sandbox::{Engine, Overrides, TaskName};
use vestal_skills::Skills;

use crate::schedule_tool::ScheduleTool;
use crate::{NoVerbs, Verbs};

/// The file of the conversations in a profile's home.
pub(crate) const STORE_FILE: &str = "state.db";

/// The agent of one profile with what its conversations are opened from. Cheap
/// to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) settings: Arc<Settings>,
    pub(crate) agent: Agent,
    pub(crate) skills: Skills,
    servers: Arc<ReloadableServers>,
    verbs: Arc<dyn Verbs>,
}

impl Runtime {
    /// Returns a builder for the agent of the profile whose sandboxes the engine keeps.
    pub fn builder(engine: Engine) -> RuntimeBuilder {
        RuntimeBuilder {
            settings: Arc::clone(engine.settings()),
            engine,
            redactor: None,
            tools: vestal_agent::tools::standard(),
            remember: Arc::new(|_| Err("no user is available to approve it".to_owned())),
            verbs: Arc::new(NoVerbs),
        }
    }

    /// Returns the agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Returns the same runtime, whose conversations also have the tools of a source of their own.
    #[must_use]
    pub fn with_source(&self, source: Arc<dyn vestal_agent::ToolSource>) -> Self {
        Self { agent: self.agent.with_source(source), ..self.clone() }
    }

    /// Returns the settings it was assembled from.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Returns the skills of the profile.
    pub fn skills(&self) -> &Skills {
        &self.skills
    }

    /// Returns what runs verbs of the command line that are typed in a conversation.
    pub fn verbs(&self) -> &Arc<dyn Verbs> {
        &self.verbs
    }

    /// Reads the MCP servers from the settings again, connects to them, ends those from before, and
    /// returns how they are doing. Conversations get their tools with the next turn.
    #[boxed]
    pub async fn reload_mcp(&self) -> Vec<ServerStatus> {
        self.servers.reload(&self.settings.reload()).await
    }

    /// Closes the store under all clones, which must not be used after it. What was
    /// written is on disk already, so that a failure is logged only.
    #[boxed]
    pub async fn close(self) {
        if let Err(error) = self.agent.store().clone().close().await {
            tracing::debug!(%error, "the store of conversations was not closed");
        }
    }
}

/// Assembles a [`Runtime`].
pub struct RuntimeBuilder {
    settings: Arc<Settings>,
    engine: Engine,
    redactor: Option<Arc<Redactor>>,
    tools: Registry,
    remember: Remember,
    verbs: Arc<dyn Verbs>,
}

impl RuntimeBuilder {
    /// Runs verbs of the command line that are typed in a conversation, such as
    /// `/kanban list`, for front ends without a terminal.
    #[must_use]
    pub fn verbs(mut self, verbs: Arc<dyn Verbs>) -> Self {
        self.verbs = verbs;
        self
    }

    /// Uses a redactor that exists already instead of one made from the settings.
    #[must_use]
    pub fn redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.redactor = Some(redactor);
        self
    }

    /// Adds tools of the front end to the standard ones.
    #[must_use]
    pub fn tools(mut self, add: impl FnOnce(&mut Registry)) -> Self {
        add(&mut self.tools);
        self
    }

    /// Writes approvals "for always" to the settings of the profile. Without this
    /// they are refused, which is right where no person can give them.
    #[must_use]
    pub fn remember_approvals(mut self) -> Self {
        let settings = Arc::clone(&self.settings);
        self.remember = Arc::new(move |pattern: &str| {
            vestal_config::append(&settings, keys::COMMAND_ALLOWLIST.name(), pattern)
                .map(drop)
                .map_err(|error| error.to_string())
        });
        self
    }

    /// Assembles the agent. Opens the store of conversations and begins to
    /// connect to MCP servers; no sandbox is started and no model is asked.
    #[boxed]
    pub async fn build(self) -> Result<Runtime, RuntimeError> {
        let Self { settings, engine, redactor, mut tools, remember, verbs } = self;
        let redactor = match redactor {
            Some(redactor) => redactor,
            None => crate::redactor(&settings)?,
        };
        let store = ConversationStore::open(settings.home().dir().join(STORE_FILE)).await?;
        let (memory, memory_tools) = vestal_memory::from_settings(&settings, &redactor, &store)?;
        for tool in memory_tools {
            tools.add(tool);
        }
        tools.add(Arc::new(ScheduleTool::new(&settings, store.clone())));
        vestal_web::add_to(&mut tools, &settings)?;
        let skills = vestal_skills::from_settings(&settings);
        skills.add_to(&mut tools);
        skills.equip(&engine, &redactor);
        let servers = ReloadableServers::from_settings(&settings);
        let agent = Agent::new(AgentParts {
            engine,
            store,
            models: Models::new(vestal_agent::settings::model_options(&settings)?)?,
            tools,
            sources: vec![
                Arc::new(skills.clone()),
                Arc::clone(&servers) as Arc<dyn vestal_agent::ToolSource>,
            ],
            memory,
            redactor,
            options: vestal_agent::settings::options(&settings)?,
            remember,
        });
        Ok(Runtime { settings, agent, skills, servers, verbs })
    }
}

/// Returns the models that are asked, in order: the named one, else the configured one
/// with its fallbacks.
pub fn endpoints(settings: &Settings, model: Option<&str>) -> Result<Vec<Endpoint>, RuntimeError> {
    vestal_agent::settings::endpoints(settings, model).map_err(|reason| RuntimeError::Endpoint {
        reason,
        profile: settings.home().profile().clone(),
    })
}

/// Returns the redactor that the settings ask for. It keeps their secrets out of
/// everything that is stored or shown.
pub fn redactor(settings: &Settings) -> Result<Arc<Redactor>, ConfigError> {
    let redactor = if settings.get(&keys::SECURITY_REDACT_SECRETS)?.value {
        Redactor::new(vestal_agent::settings::known_secrets(settings))
    } else {
        Redactor::off()
    };
    Ok(Arc::new(redactor))
}

/// Why an agent could not be assembled or a conversation not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A setting has a value that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The settings name no model that can be asked.
    #[error("{reason}")]
    Endpoint {
        /// What is missing.
        reason: EndpointError,
        /// The profile whose settings they are.
        profile: ProfileName,
    },
    /// The client for model providers cannot be made.
    #[error(transparent)]
    Model(#[from] SetupError),
    /// The store of conversations failed, or has no such conversation.
    #[error(transparent)]
    Store(#[from] vestal_conversations::Error),
    /// The conversation could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No tool belongs to a toolset of that name.
    #[error("there is no toolset {name:?}; there are: {}", .known.join(", "))]
    UnknownToolset {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
}

/// Where a sandbox has the directory that was mounted into it.
const WORKSPACE: &str = "/workspace";

/// The directory and the prompt of a conversation.
pub(crate) struct PromptContext {
    /// The directory on this machine that the conversation is about.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) prompt: PromptParts,
}

impl Runtime {
    /// Returns the parts of the prompt that every conversation of the profile has.
    pub(crate) fn base_prompt(&self, settings: &Settings) -> Result<PromptParts, ConfigError> {
        let instructions = settings.get(&vestal_agent::keys::AGENT_SYSTEM_PROMPT)?.value;
        Ok(PromptParts {
            persona: vestal_agent::persona(&settings.home().dir()),
            instructions: instructions.get().map(str::to_owned),
            profile: settings.home().profile().to_string(),
            skills: self.skills.prompt(),
            ..PromptParts::default()
        })
    }

    /// Returns the context of a conversation that a person begins in `cwd`.
    /// Which sandbox it gets may not be settled yet; `task` is the one whose it is, if that is known.
    pub(crate) fn person_context(
        &self,
        settings: &Settings,
        cwd: Option<PathBuf>,
        task: Option<&TaskName>,
        overrides: &Overrides,
    ) -> Result<PromptContext, ConfigError> {
        let configured = settings.get(&vestal_sandbox::keys::BACKEND)?.value.named();
        let backend = overrides.backend.clone().or_else(|| configured.map(str::to_owned));
        let mounts = overrides.mount.is_some()
            || settings.get(&vestal_sandbox::keys::DOCKER_MOUNT_CWD_TO_WORKSPACE)?.value;
        let engine = self.agent.engine();
        // A client without a directory, such as one of a gateway, works where commands start.
        let works_in = task.and_then(|task| engine.host_start_dir(task, overrides).ok().flatten());
        let cwd = cwd.or(works_in);
        let confinement = backend.as_deref().and_then(|backend| engine.confinement(backend));
        let sees_cwd = mounts || confinement == Some(Confinement::None);
        let prompt = PromptParts {
            project: cwd.clone().filter(|_| sees_cwd),
            backend,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            workspace: cwd.clone().map(|dir| match (&overrides.mount, confinement) {
                (Some(host), Some(Confinement::Remote)) => {
                    WorkspaceView::Copied { host: host.clone() }
                }
                (Some(host), _) => mounted(host),
                (None, Some(Confinement::Remote)) if mounts => WorkspaceView::Copied { host: dir },
                (None, Some(Confinement::None)) => WorkspaceView::Host(dir),
                (None, _) if mounts => mounted(&dir),
                (None, None) => WorkspaceView::Unsettled(dir),
                (None, _) => WorkspaceView::Unseen(dir),
            }),
            ..self.base_prompt(settings)?
        };
        Ok(PromptContext { cwd, prompt })
    }
}

fn mounted(host: &Path) -> WorkspaceView {
    WorkspaceView::Mounted { host: host.to_owned(), inside: WORKSPACE.into() }
}
