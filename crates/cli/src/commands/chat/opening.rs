//! What the command line asks for, as a request to open a conversation.

use vestal_config::Settings;
use vestal_conversations::Title;
use vestal_runtime::{OpenRequest, Placement, SandboxChoice, Toolsets, Which};
use vestal_sandbox::Task;

use super::ChatArgs;
use crate::cli::Wanted;
use crate::context::Context;
use crate::error::Failure;

impl ChatArgs {
    /// Returns the request for the conversation that the command line asks for.
    pub(super) fn request(&self, context: &Context) -> Result<OpenRequest, Failure> {
        let is_placed = self.task.is_some() || self.backend.is_some() || self.mount_cwd;
        let placement = if is_placed {
            let (backend, mount_cwd) = (self.backend.clone(), self.mount_cwd);
            let wanted = Wanted { backend, image: None, mount_cwd };
            placement(context, self.task.clone(), &wanted)?
        } else {
            Placement::Remembered
        };
        Ok(OpenRequest {
            which: match &self.resume {
                Some(wanted) => Which::Named(wanted.clone()),
                None if self.goes_on => Which::Latest,
                None => Which::New,
            },
            title: self.title.clone().map(Title::Given),
            model: self.model.clone(),
            placement,
            cwd: std::env::current_dir().ok(),
            toolsets: self.toolsets.clone().map_or(Toolsets::Configured, Toolsets::Only),
            max_turns: self.max_turns,
            ..OpenRequest::new(SOURCE)
        })
    }
}

/// What conversations that begin here are marked with.
const SOURCE: &str = "cli";

/// Returns the sandbox that options of the command line ask for.
pub(super) fn placement(
    context: &Context,
    task: Option<Task>,
    wanted: &Wanted,
) -> Result<Placement, Failure> {
    let task = task.unwrap_or_else(Task::default_task);
    Ok(Placement::In(SandboxChoice::new(task, context.overrides(wanted)?)))
}

/// Returns the toolsets that are asked for by name.
pub(super) fn toolsets(
    settings: &Settings,
    wanted: Option<&[String]>,
) -> Result<Vec<String>, Failure> {
    match wanted {
        Some(wanted) => Ok(wanted.to_vec()),
        None => Ok(vestal_agent::settings::selection(settings)?.toolsets),
    }
}
