//! Sandboxes: listed and stopped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{SandboxView, StoppedView};
use vestal_sandbox::SandboxSummary;

use super::{Answer, SandboxTool, ToolEffect, ToolTable};
use crate::call::Call;
use crate::failure::ToolFailure;

pub(super) fn add_to(table: &mut ToolTable) {
    table.add_described::<SandboxList>();
    table.add_described::<SandboxStop>();
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SandboxList {}

/// The sandboxes.
#[derive(Debug, Serialize, JsonSchema)]
struct SandboxesOutput {
    /// The task of your own sandbox, which tools use unless they are given another `task`. It is
    /// made at its first use.
    own: String,
    /// The sandboxes that you may use.
    sandboxes: Vec<SandboxView>,
}

impl SandboxTool for SandboxList {
    const NAME: &'static str = "sandbox_list";
    const TITLE: &'static str = "List sandboxes";
    const DESCRIPTION: &'static str = "\
Lists the sandboxes that you may use: your own, copies of it, and others if the user allows it; with backend, state and number of running jobs.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Output = SandboxesOutput;

    async fn call(self, call: &Call) -> Result<Answer<SandboxesOutput>, ToolFailure> {
        let found = call.engine().list().await?;
        let may_use =
            |summary: &&SandboxSummary| summary.task.parse().is_ok_and(|task| call.may_use(&task));
        let sandboxes: Vec<SandboxView> =
            found.iter().filter(may_use).map(SandboxView::from).collect();
        let own = call.own().to_string();
        let lines = sandboxes.iter().map(|sandbox| {
            format!(
                "{}{}: {} on {}, jobs running: {}",
                sandbox.task,
                if sandbox.task == own { " (your own)" } else { "" },
                sandbox.state.as_str(),
                sandbox.backend,
                sandbox.jobs_running
            )
        });
        let mut text = lines.collect::<Vec<_>>().join("\n");
        if !sandboxes.iter().any(|sandbox| sandbox.task == own) {
            text.extend([format!("\n{own} (your own) is made at its first use.")]);
        }
        Ok(Answer::new(SandboxesOutput { own, sandboxes }, text.trim_start()))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SandboxStop {
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for SandboxStop {
    const NAME: &'static str = "sandbox_stop";
    const TITLE: &'static str = "Stop a sandbox";
    const DESCRIPTION: &'static str = "\
Stops the sandbox: every job in it ends, files and installed software stay. Its next use starts it again.";
    const EFFECT: ToolEffect = ToolEffect::Replaces;
    type Output = StoppedView;

    async fn call(self, call: &Call) -> Result<Answer<StoppedView>, ToolFailure> {
        let task = call.task(self.task.as_deref())?;
        let found = call.engine().inspect(&task).await?;
        let files_lost = found.iter().any(SandboxSummary::has_files_in_memory);
        let was_running = call.engine().stop(&task).await?;
        let view = StoppedView {
            task: task.to_string(),
            was_running,
            files_lost: files_lost && was_running,
        };
        let text = match (view.was_running, view.files_lost) {
            (false, _) => "It was not running.",
            (true, false) => "Stopped; its files stay.",
            (true, true) => "Stopped; its files were in memory and are gone.",
        };
        Ok(Answer::new(view, text))
    }
}
