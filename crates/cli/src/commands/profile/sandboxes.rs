//! The sandboxes of a profile that is deleted or renamed.

use vestal_config::Home;
use vestal_sandbox::{ProfileSandboxes, ProfileSandboxesError, Summary};

use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::values::quoted;

/// Finds the sandboxes of a profile; nothing where it never had any.
pub(super) async fn find(
    context: &Context,
    home: &Home,
) -> Result<Option<ProfileSandboxes>, Failure> {
    if !ProfileSandboxes::may_exist(home) {
        return Ok(None);
    }
    let finding = ProfileSandboxes::find(context.engine_of(home.clone())?, home);
    Ok(Some(context.console.while_waiting("looking for sandboxes", finding).await?))
}

/// Says of each sandbox what is removed with its instance.
pub(super) fn plans(sandboxes: &ProfileSandboxes) -> Vec<String> {
    sandboxes.instances().map(plan).collect()
}

fn plan(own: &Summary) -> String {
    let jobs = text::count(own.jobs_running, "running job");
    let is_a_system = own.description.image.is_some() || own.description.tier.is_some();
    let installed = if is_a_system { ", with everything installed in it" } else { "" };
    format!("{}: the sandbox on {} with {jobs} will be removed{installed}", own.task, own.backend)
}

impl From<ProfileSandboxesError> for Failure {
    fn from(error: ProfileSandboxesError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ProfileSandboxesError::Hidden { dir, .. } => failure.advise(format!(
                "terminal.sandbox_dir hides them; to list them: vestal --set terminal.sandbox_dir={} ps",
                quoted(&dir.to_string_lossy())
            )),
            ProfileSandboxesError::Left { .. } | ProfileSandboxesError::Io { .. } => failure,
            ProfileSandboxesError::Unreachable { sandboxes, .. } => failure
                .advise(sandboxes.join("\n"))
                .advise("start the engine, or see what works here: vestal doctor"),
            ProfileSandboxesError::InVolumes { .. } => failure.advise(
                "copy out what you need with `vestal cp`, then remove it with `vestal rm --files`",
            ),
            ProfileSandboxesError::Engine(error) => error.into(),
            ProfileSandboxesError::Sandbox { task, source } => Self::from(*source).about(&task),
        }
    }
}
