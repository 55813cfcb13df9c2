//! Copies of a sandbox: to go back to, and to try things in.

use jiff::Zoned;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{ForkedView, RestoredView, SnapshotView};
use vestal_sandbox::{SnapshotName, WhileBusy};

use super::connection::SandboxCall;
use super::failure::SandboxFailure;
use super::methods::{given, task_of};

fn snapshot_name(text: &str) -> Result<SnapshotName, SandboxFailure> {
    text.parse().map_err(|error| SandboxFailure::param("snapshot", error))
}

fn while_busy(stop: bool) -> WhileBusy {
    if stop { WhileBusy::Stop } else { WhileBusy::Refuse }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotCreateParams {
    /// The task of the sandbox.
    task: String,
    /// Its name; the time unless given.
    snapshot: Option<String>,
    /// A line to remember it by.
    note: Option<String>,
    /// End running jobs first; they are an error otherwise.
    #[serde(default)]
    stop: bool,
}

pub(super) async fn create(
    call: SandboxCall,
    params: SnapshotCreateParams,
) -> Result<SnapshotView, SandboxFailure> {
    let (engine, task) = (call.server.engine(), task_of(&params.task)?);
    let name = match given(params.snapshot) {
        Some(name) => snapshot_name(&name)?,
        None => vestal_operations::free_snapshot_name(engine, &task, &Zoned::now()).await?,
    };
    let note = given(params.note);
    let kept = engine.snapshot(&task, &name, note.as_deref(), while_busy(params.stop)).await?;
    Ok(SnapshotView::from(&kept))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotListParams {
    /// The task of the sandbox; all of the profile unless given.
    task: Option<String>,
}

/// Snapshots.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SnapshotListResult {
    snapshots: Vec<SnapshotView>,
}

pub(super) async fn list(
    call: SandboxCall,
    params: SnapshotListParams,
) -> Result<SnapshotListResult, SandboxFailure> {
    let task = given(params.task).map(|task| task_of(&task)).transpose()?;
    let found = call.server.engine().snapshots(task.as_ref()).await?;
    Ok(SnapshotListResult { snapshots: found.iter().map(SnapshotView::from).collect() })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreParams {
    /// The task of the sandbox.
    task: String,
    /// The name of the snapshot.
    snapshot: String,
    /// End running jobs first; they are an error otherwise.
    #[serde(default)]
    stop: bool,
}

pub(super) async fn restore(
    call: SandboxCall,
    params: RestoreParams,
) -> Result<RestoredView, SandboxFailure> {
    let (task, name) = (task_of(&params.task)?, snapshot_name(&params.snapshot)?);
    let restored = call.server.engine().restore(&task, &name, while_busy(params.stop)).await?;
    Ok(RestoredView::new(&task, &restored))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotDeleteParams {
    /// The task of the sandbox.
    task: String,
    /// The name of the snapshot.
    snapshot: String,
}

pub(super) async fn delete(
    call: SandboxCall,
    params: SnapshotDeleteParams,
) -> Result<SnapshotView, SandboxFailure> {
    let (task, name) = (task_of(&params.task)?, snapshot_name(&params.snapshot)?);
    let removed = call.server.engine().remove_snapshot(&task, &name).await?;
    Ok(SnapshotView::from(&removed))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkParams {
    /// The task of the sandbox to copy.
    task: String,
    /// The task of the copy, which must have no sandbox. A directory that is mounted in the first is in the
    /// copy, too, and part of its task: the `task` of the answer has it.
    to: String,
    /// The snapshot to copy; the sandbox as it is unless given.
    snapshot: Option<String>,
    /// End running jobs first; they are an error otherwise.
    #[serde(default)]
    stop: bool,
}

pub(super) async fn fork(
    call: SandboxCall,
    params: ForkParams,
) -> Result<ForkedView, SandboxFailure> {
    let (engine, from) = (call.server.engine(), task_of(&params.task)?);
    let to = params.to.parse().map_err(|error| SandboxFailure::param("to", error))?;
    let name = given(params.snapshot).map(|name| snapshot_name(&name)).transpose()?;
    let to = vestal_operations::fork_target(engine, &from, &to).await?;
    let forked = engine.fork(&from, name.as_ref(), &to, while_busy(params.stop)).await?;
    Ok(ForkedView::new(&from, name.as_ref(), &forked))
}
