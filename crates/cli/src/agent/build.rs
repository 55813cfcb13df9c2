//! Makes the agent from the settings.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use vestal_agent::redact::Redactor;
use vestal_agent::{Agent, Parts, PromptParts};
use vestal_config::{AnyKey as _, BackendChoice, Settings, keys};
use vestal_conversations::Store;
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
    let remembering = Arc::clone(settings);
    let remember = Arc::new(move |pattern: &str| {
        vestal_config::append(&remembering, keys::COMMAND_ALLOWLIST.name(), pattern)
            .map(drop)
            .map_err(|error| error.to_string())
    });
    Ok(Agent::new(Parts {
        engine: context.engine()?,
        store: Store::open(settings.home().dir().join("state.db")).await?,
        models: Models::new(vestal_agent::settings::model_options(settings)?)?,
        tools,
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
    Ok(vestal_agent::settings::endpoints(settings, model)?)
}

/// Begins the program's own log, and returns what keeps secrets out of it and
/// of whatever else is stored and shown.
pub(crate) fn begin_log(settings: &Settings) -> Result<Arc<Redactor>, Failure> {
    let redactor = Arc::new(redactor(settings)?);
    let masking = Arc::clone(&redactor);
    log::begin(&settings.home().logs_dir(), move |line| masking.redact(line).into_owned());
    Ok(redactor)
}

fn redactor(settings: &Settings) -> Result<Redactor, Failure> {
    if settings.get(&keys::SECURITY_REDACT_SECRETS)?.value {
        Ok(Redactor::new(settings.known_secrets()))
    } else {
        Ok(Redactor::off())
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

impl Workplace {
    /// Finds out where a conversation is begun.
    pub(crate) fn find(
        engine: &Engine,
        settings: &Settings,
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
            role: None,
            project: cwd.clone().filter(|_| sees_cwd),
            profile: settings.home().profile().to_string(),
            backend,
            is_attended,
        };
        Ok(Self { cwd, prompt })
    }
}
