//! The part of the prompt about directory, mounts, backend and profile.

use std::path::{Path, PathBuf};

use vestal_agent::{PromptParts, WorkspaceView};
use vestal_config::{ConfigError, Settings};
use vestal_sandbox::backend::Confinement;
use vestal_sandbox::{Overrides, TaskName};

use crate::Runtime;

/// Where a sandbox has the directory that was mounted into it.
const WORKSPACE: &str = "/workspace";

/// The directory and the prompt of a conversation.
pub(crate) struct PromptContext {
    /// The directory on this machine that the conversation is about.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) prompt: PromptParts,
}

impl Runtime {
    /// Returns what the model is told in every conversation of the profile.
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
        // Who is at no directory, as a client of a gateway, works where commands start.
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
