//! Copies of a sandbox: to go back to, and to try things in.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{ForkedView, RestoredView, SnapshotView};
use vestal_sandbox::{SnapshotName, WhileBusy};

use super::{Answer, SandboxTool, ToolEffect, ToolTable, counted};
use crate::call::Call;
use crate::failure::ToolFailure;

pub(super) fn add_to(table: &mut ToolTable) {
    table.add_described::<SnapshotCreate>();
    table.add_described::<SnapshotList>();
    table.add_described::<SnapshotRestore>();
    table.add_described::<SandboxFork>();
}

fn snapshot_name(text: &str) -> Result<SnapshotName, ToolFailure> {
    text.parse().map_err(|error| ToolFailure::argument("snapshot", error))
}

fn busy(stop: Option<bool>) -> WhileBusy {
    if stop.unwrap_or(false) { WhileBusy::Stop } else { WhileBusy::Refuse }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SnapshotCreate {
    /// Its name; the time unless given.
    name: Option<String>,
    /// A line to remember it by.
    note: Option<String>,
    /// End running jobs first. Unless given, running jobs are an error.
    stop: Option<bool>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for SnapshotCreate {
    const NAME: &'static str = "snapshot_create";
    const TITLE: &'static str = "Keep a snapshot";
    const DESCRIPTION: &'static str = "\
Keeps a copy of the sandbox, its files and installed software, to go back to with snapshot_restore. The sandbox is stopped for it, and started by its next use. Directories of the user that are mounted are not copied.";
    /// With `stop`, jobs end.
    const EFFECT: ToolEffect = ToolEffect::Destroys;
    const WAITS: bool = true;
    type Output = SnapshotView;

    async fn call(self, call: &Call) -> Result<Answer<SnapshotView>, ToolFailure> {
        let task = call.task(self.task.as_deref())?;
        let name =
            self.name.unwrap_or_else(|| Timestamp::now().strftime("%Y-%m-%d-%H%M%S").to_string());
        let name = snapshot_name(&name)?;
        let busy = busy(self.stop);
        let kept = call.engine().snapshot(&task, &name, self.note.as_deref(), busy);
        let kept = call.watched(kept, || Box::pin(async { Some("copying".to_owned()) })).await?;
        let view = SnapshotView::from(&kept);
        let files = counted(view.files, "file");
        let text = format!("Kept snapshot {} of {}: {files}.", view.name, view.task);
        Ok(Answer::new(view, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SnapshotList {
    /// Another sandbox than your own.
    task: Option<String>,
}

/// The snapshots of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
struct SnapshotsOutput {
    /// The oldest first.
    snapshots: Vec<SnapshotView>,
}

impl SandboxTool for SnapshotList {
    const NAME: &'static str = "snapshot_list";
    const TITLE: &'static str = "List snapshots";
    const DESCRIPTION: &'static str = "Lists the snapshots of the sandbox, the oldest first.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Output = SnapshotsOutput;

    async fn call(self, call: &Call) -> Result<Answer<SnapshotsOutput>, ToolFailure> {
        let task = call.task(self.task.as_deref())?;
        let found = call.engine().snapshots(Some(&task)).await?;
        let snapshots: Vec<SnapshotView> = found.iter().map(SnapshotView::from).collect();
        let lines = snapshots.iter().map(|one| {
            let note = one.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
            format!("{}, {}, {}{note}", one.name, one.created_at, counted(one.bytes, "byte"))
        });
        let mut text = lines.collect::<Vec<_>>().join("\n");
        if snapshots.is_empty() {
            text.push_str("There are no snapshots.");
        }
        Ok(Answer::new(SnapshotsOutput { snapshots }, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SnapshotRestore {
    /// The name of the snapshot.
    snapshot: String,
    /// End running jobs first. Unless given, running jobs are an error.
    stop: Option<bool>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for SnapshotRestore {
    const NAME: &'static str = "snapshot_restore";
    const TITLE: &'static str = "Go back to a snapshot";
    const DESCRIPTION: &'static str = "\
Makes the sandbox what it was when a snapshot was kept. What it is now is lost; keep a snapshot of it first if it may be needed. Directories of the user that are mounted stay as they are.";
    const EFFECT: ToolEffect = ToolEffect::Destroys;
    const WAITS: bool = true;
    type Output = RestoredView;

    async fn call(self, call: &Call) -> Result<Answer<RestoredView>, ToolFailure> {
        let task = call.task(self.task.as_deref())?;
        let name = snapshot_name(&self.snapshot)?;
        let restored = call.engine().restore(&task, &name, busy(self.stop));
        let restored =
            call.watched(restored, || Box::pin(async { Some("restoring".to_owned()) })).await?;
        let view = RestoredView::new(&task, &restored);
        let text = format!("The sandbox is what it was in snapshot {name}.");
        Ok(Answer::new(view, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SandboxFork {
    /// A short name for the copy: letters, digits, hyphens, underscores, dots.
    name: String,
    /// The snapshot to copy. Unless given, the sandbox as it is.
    snapshot: Option<String>,
    /// End running jobs first. Unless given, running jobs are an error.
    stop: Option<bool>,
    /// Another sandbox to copy than your own.
    task: Option<String>,
}

impl SandboxTool for SandboxFork {
    const NAME: &'static str = "sandbox_fork";
    const TITLE: &'static str = "Copy a sandbox";
    const DESCRIPTION: &'static str = "\
Makes a new sandbox as a copy of one, to try something in. Pass the `task` of the result to the other tools to work in the copy; the original stays as it is. A directory of the user's that is mounted is not copied: the copy works in the same one, and changes there are changes of the user's files.";
    /// With `stop`, jobs of the original end.
    const EFFECT: ToolEffect = ToolEffect::Destroys;
    const WAITS: bool = true;
    type Output = ForkedView;

    async fn call(self, call: &Call) -> Result<Answer<ForkedView>, ToolFailure> {
        let from = call.task(self.task.as_deref())?;
        let to = call.fork(&from, &self.name).await?;
        let name = self.snapshot.as_deref().map(snapshot_name).transpose()?;
        let forked = call.engine().fork(&from, name.as_ref(), &to, busy(self.stop));
        let forked =
            call.watched(forked, || Box::pin(async { Some("copying".to_owned()) })).await?;
        let view = ForkedView::new(&from, name.as_ref(), &forked);
        let mut text = format!("The copy is the sandbox of task {:?}.", view.task);
        // A directory that is mounted is part of the task.
        if view.task.contains("@/") {
            text.push_str(
                " It works in the same directory of the user's: changes there are changes of the user's files.",
            );
        }
        Ok(Answer::new(view, text))
    }
}
