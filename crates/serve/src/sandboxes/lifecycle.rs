//! Sandboxes: opened, listed, kept, stopped, removed.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{RemovedView, RunSandboxView, SandboxView, StoppedView};
use vestal_config::{AnyKey as _, Override, Settings};
use vestal_sandbox::{FilesOnRemoval, Overrides, SandboxSummary, TaskName, keys};

use super::connection::SandboxCall;
use super::failure::{FailureKind, SandboxFailure};
use super::methods::{Acknowledged, NoParams, TaskParams, given, task_of};
use super::server::OpenedTask;

/// How long a guest may take to notice that its sandbox is in use.
const TOUCH_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenParams {
    /// The task; `default` unless given.
    task: Option<String>,
    /// The backend to use if the sandbox has to be made; an existing one must be on it.
    backend: Option<String>,
    /// The container image to use if the sandbox has to be made.
    image: Option<String>,
    /// A directory of this machine, absolute, that is the sandbox's workspace. It is part of the task: the
    /// `task` of the answer has it.
    mount: Option<PathBuf>,
}

/// A sandbox that was opened.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct OpenResult {
    /// Its task, by which the other methods find it.
    task: String,
    /// The sandbox.
    sandbox: RunSandboxView,
    /// What is to be known about it, a sentence each.
    notices: Vec<String>,
}

pub(super) async fn open(
    call: SandboxCall,
    params: OpenParams,
) -> Result<OpenResult, SandboxFailure> {
    let engine = call.server.engine();
    let asked = match given(params.task) {
        Some(task) => task_of(&task)?,
        None => TaskName::default_task(),
    };
    if params.mount.as_ref().is_some_and(|dir| !dir.is_absolute()) {
        return Err(SandboxFailure::param("mount", "must be an absolute path"));
    }
    let backend = given(params.backend);
    let backend = backend.map(|name| backend_named(engine.settings(), &name)).transpose()?;
    let image = given(params.image);
    let overrides = Overrides { backend, image, mount: params.mount, ..Overrides::default() };
    let image = overrides.image.is_some();
    let sandbox = call.server.open(OpenedTask { asked, overrides }).await?;
    if image && engine.takes_images(sandbox.backend()) == Some(false) {
        let message = format!(
            "sandbox {} is on the backend {}, which has no images",
            sandbox.task(),
            sandbox.backend()
        );
        return Err(SandboxFailure::new(FailureKind::Conflict, message)
            .advise("give the image a sandbox of its own, of another task"));
    }
    Ok(OpenResult {
        task: sandbox.task().to_string(),
        sandbox: RunSandboxView::new(&sandbox, sandbox.instance().await),
        notices: sandbox.notice_texts(),
    })
}

/// Returns the backend that a name stands for.
fn backend_named(settings: &Settings, name: &str) -> Result<String, SandboxFailure> {
    let invalid = |error: &dyn std::fmt::Display| SandboxFailure::param("backend", error);
    let named =
        Override::parse(&vestal_sandbox::schema(), &format!("{}={name}", keys::BACKEND.name()))
            .map_err(|error| invalid(&error))?;
    let environment = settings.environment().clone();
    let settings = Settings::load(
        &vestal_sandbox::schema(),
        settings.home().clone(),
        environment,
        vec![named],
    );
    let choice = settings.get(&keys::BACKEND).map_err(|error| invalid(&error))?.value;
    Ok(choice.as_str().to_owned())
}

/// The sandboxes of a profile.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SandboxListResult {
    sandboxes: Vec<SandboxView>,
}

pub(super) async fn list(
    call: SandboxCall,
    _: NoParams,
) -> Result<SandboxListResult, SandboxFailure> {
    let found = call.server.engine().list().await?;
    Ok(SandboxListResult { sandboxes: found.iter().map(SandboxView::from).collect() })
}

pub(super) async fn touch(
    call: SandboxCall,
    params: TaskParams,
) -> Result<Acknowledged, SandboxFailure> {
    let connection = call.server.engine().observe(&task_of(&params.task)?).await?;
    connection.touch(TOUCH_WITHIN).await?;
    Ok(Acknowledged {})
}

pub(super) async fn stop(
    call: SandboxCall,
    params: TaskParams,
) -> Result<StoppedView, SandboxFailure> {
    let (engine, task) = (call.server.engine(), task_of(&params.task)?);
    let found = engine.inspect(&task).await?;
    let in_memory = found.iter().any(SandboxSummary::has_files_in_memory);
    let was_running = engine.stop(&task).await?;
    Ok(StoppedView { task: task.to_string(), was_running, files_lost: in_memory && was_running })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveParams {
    /// The task of the sandbox.
    task: String,
    /// Remove workspace, home and snapshots, too.
    #[serde(default)]
    files: bool,
}

pub(super) async fn remove(
    call: SandboxCall,
    params: RemoveParams,
) -> Result<RemovedView, SandboxFailure> {
    let task = task_of(&params.task)?;
    let files = if params.files { FilesOnRemoval::Remove } else { FilesOnRemoval::Keep };
    let removal = call.server.engine().remove(&task, files).await?;
    call.server.forget(&task);
    Ok(RemovedView::new(&task, &removal))
}
