//! Makes the agent from the settings.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vestal_agent::redact::Redactor;
use vestal_agent::{Agent, Parts, PromptParts, Workspace};
use vestal_config::{AnyKey as _, BackendChoice, Settings, keys};
use vestal_conversations::Store;
use vestal_mcp::Servers;
use vestal_model::{Endpoint, Models};
use vestal_sandbox::backend::Confinement;
use vestal_sandbox::{Engine, Overrides};
use vestal_worker::Desk;

use crate::console::log;
use crate::context::Context;
use crate::error::Failure;

/// Makes the agent of the profile. Nothing is started and nobody is asked;
/// the file of the conversations is opened. `toolsets` are those that somebody
/// asks for by name: the board is touched by those alone who do.
pub(crate) async fn build(
    context: &Context,
    settings: &Arc<Settings>,
    toolsets: &[String],
) -> Result<Agent, Failure> {
    let redactor = begin_log(settings)?;
    let mut tools = vestal_agent::tools::standard();
    if toolsets.iter().any(|name| name == vestal_worker::tools::TOOLSET) {
        let boards = vestal_board::settings::boards(settings)?;
        let choice = context.environment().kanban_board().map(Cow::into_owned);
        let name = settings.home().profile().to_string();
        vestal_worker::tools::add_to(&mut tools, &Desk::of_person(boards, choice, name));
    }
    let own = Arc::clone(settings);
    let remember = Arc::new(move |pattern: &str| {
        vestal_config::append(&own, keys::COMMAND_ALLOWLIST.name(), pattern)
            .map(drop)
            .map_err(|error| error.to_string())
    });
    let engine = context.engine()?;
    let store = Store::open(settings.home().dir().join("state.db")).await?;
    let (memory, remembering) = vestal_memory::from_settings(settings, &redactor, &store)?;
    for tool in remembering {
        tools.add(tool);
    }
    let skills = vestal_skills::from_settings(settings);
    skills.add_to(&mut tools);
    skills.equip(&engine, &redactor);
    Ok(Agent::new(Parts {
        engine,
        store,
        models: Models::new(vestal_agent::settings::model_options(settings)?)?,
        tools,
        sources: vec![Arc::new(skills), Servers::from_settings(settings)],
        memory,
        redactor,
        options: vestal_agent::settings::options(settings)?,
        remember,
    }))
}

/// Returns who is asked: the model named, else the configured one.
pub(crate) fn endpoints(
    settings: &Settings,
    model: Option<&str>,
) -> Result<Vec<Endpoint>, Failure> {
    let found = vestal_agent::settings::endpoints(settings, model);
    found.map_err(|error| Failure::no_endpoint(error, settings.home().profile()))
}

/// Begins the program's own log, and returns what keeps secrets out of it and
/// of whatever else is stored and shown.
pub(crate) fn begin_log(settings: &Settings) -> Result<Arc<Redactor>, Failure> {
    let redactor = redactor(settings)?;
    let masking = Arc::clone(&redactor);
    log::begin(&settings.home().logs_dir(), move |line| masking.redact(line).into_owned());
    Ok(redactor)
}

/// Returns what keeps secrets out of what is stored and shown.
pub(crate) fn redactor(settings: &Settings) -> Result<Arc<Redactor>, Failure> {
    if settings.get(&keys::SECURITY_REDACT_SECRETS)?.value {
        Ok(Arc::new(Redactor::new(vestal_agent::settings::known_secrets(settings))))
    } else {
        Ok(Arc::new(Redactor::off()))
    }
}

/// Where a conversation is begun.
#[derive(Debug)]
pub(crate) struct Workplace {
    /// The directory that `vestal` was started in.
    pub(crate) cwd: Option<PathBuf>,
    /// What the model is told about it.
    pub(crate) prompt: PromptParts,
}

/// Where a sandbox has the directory that it was made for.
const WORKSPACE: &str = "/workspace";

fn mounted(host: &Path) -> Workspace {
    Workspace::Mounted { host: host.to_owned(), inside: WORKSPACE.into() }
}

impl Workplace {
    /// Finds out where a conversation is begun.
    pub(crate) fn find(
        engine: &Engine,
        settings: &Arc<Settings>,
        overrides: &Overrides,
        is_attended: bool,
    ) -> Result<Self, Failure> {
        let cwd = std::env::current_dir().ok();
        let backend = match (&overrides.backend, settings.get(&keys::BACKEND)?.value) {
            (Some(backend), _) => Some(backend.clone()),
            (None, BackendChoice::Auto) => None,
            (None, choice) => Some(choice.as_str().to_owned()),
        };
        let mounts =
            overrides.mount.is_some() || settings.get(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE)?.value;
        let confinement = backend.as_deref().and_then(|backend| engine.confinement(backend));
        let sees_cwd = mounts || confinement == Some(Confinement::None);
        let instructions = settings.get(&keys::AGENT_SYSTEM_PROMPT)?.value;
        let prompt = PromptParts {
            persona: vestal_agent::persona(&settings.home().dir()),
            instructions: instructions.get().map(str::to_owned),
            project: cwd.clone().filter(|_| sees_cwd),
            profile: settings.home().profile().to_string(),
            backend,
            is_attended,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            workspace: cwd.clone().map(|dir| match (&overrides.mount, confinement) {
                (Some(host), _) => mounted(host),
                (None, Some(Confinement::None)) => Workspace::Host(dir),
                (None, _) if mounts => mounted(&dir),
                (None, None) => Workspace::Unsettled(dir),
                (None, _) => Workspace::Unseen(dir),
            }),
            skills: vestal_skills::from_settings(settings).prompt(),
            ..PromptParts::default()
        };
        Ok(Self { cwd, prompt })
    }
}
