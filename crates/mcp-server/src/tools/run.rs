//! `run`: a command, waited for or in the background.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use vestal_api::{RunSandboxView, RunView};
use vestal_sandbox::{Command, CommandInput, JobId, Sandbox, new_job_id};

use super::{Answer, SandboxTool, ToolEffect};
use crate::call::Call;
use crate::failure::ToolFailure;
use crate::limits::{COMMAND_SECONDS, MAX_COMMAND_SECONDS, OUTPUT_HEAD, OUTPUT_TAIL};

/// The session that commands run in unless another is named.
const DEFAULT_SESSION: &str = "main";

/// The name for "no session".
const NO_SESSION: &str = "none";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunTool {
    /// Shell text, of any length: pipes, redirections, several lines, `cd`, `export`.
    command: String,
    /// The directory to run it in, for this command only.
    workdir: Option<String>,
    /// The shell session: its directory, variables and functions are restored before the command
    /// and saved after it. `main` unless given; `none` starts clean and saves nothing. Commands
    /// that run at the same time should have different sessions.
    session: Option<String>,
    /// Seconds after which the command and everything it started are killed: 1 to 86400. Unless
    /// given, 180; with `background`, no limit.
    timeout_seconds: Option<u64>,
    /// Return at once with a job id, and let the command run on. See `job_logs`, `job_wait`,
    /// `job_write` and `job_kill`.
    background: Option<bool>,
    /// Text for standard input. Without it there is none; that of a background job stays open for
    /// `job_write`.
    stdin: Option<String>,
    /// Environment variables for this command only.
    env: Option<BTreeMap<String, String>>,
    /// Another sandbox than your own: a `task` that `sandbox_fork` or `sandbox_list` named.
    task: Option<String>,
}

impl SandboxTool for RunTool {
    const NAME: &'static str = "run";
    const TITLE: &'static str = "Run a command";
    const DESCRIPTION: &'static str = "\
Runs shell text in the durable sandbox and returns its output and exit code. A command that fails is a result with its exit code. \
Each stream of the result has at most the first 12 KiB and the last 20 KiB; `stdout_omitted` and `stderr_omitted` say how many bytes between them are left out, and job_logs with the same `job` reads them. \
Cancelling the call kills the command and everything it started. Pass `background: true` for servers, watchers and anything that takes more than a few minutes.";
    const EFFECT: ToolEffect = ToolEffect::Destroys;
    const OPEN_WORLD: bool = true;
    const WAITS: bool = true;
    type Output = RunView;

    async fn call(self, call: &Call) -> Result<Answer<RunView>, ToolFailure> {
        let background = self.background.unwrap_or(false);
        let limit = self.limit(background)?;
        let task = self.task.clone();
        let job = new_job_id();
        let command = self.into_command(&job, background, limit);
        let sandbox = call.sandbox(task.as_deref()).await?;
        let about = RunSandboxView::new(&sandbox, sandbox.instance().await);
        let mut view = RunView { sandbox: Some(about), ..RunView::default() };
        if background {
            let started = sandbox.spawn(command.kill_on_drop()).await?;
            view.set_started(&started);
            let text = format!(
                "Started job {job} in the background. job_logs with job {job:?} reads its output, job_wait waits for it, job_kill ends it.",
                job = started.id.as_str()
            );
            return Ok(Answer::new(view, text));
        }
        let command = command.kill_on_drop().capture(OUTPUT_HEAD, OUTPUT_TAIL);
        let output = call
            .watched(sandbox.run(command), || {
                let (sandbox, job) = (sandbox.clone(), job.clone());
                Box::pin(async move { state_of(&sandbox, &job).await })
            })
            .await?;
        view.set_output(&output);
        view.set_exit(&output, limit).map_err(|lost| {
            ToolFailure::new(lost.to_string()).advise(
                "look for its effects, then run it again if needed; the sandbox starts anew",
            )
        })?;
        let code = output.exit.code.map(Into::into);
        for warning in sandbox.warnings(code, output.session_error.as_deref()).await {
            view.advice.push(warning.to_string());
        }
        let text = in_words(&view);
        Ok(Answer::new(view, text))
    }
}

impl RunTool {
    fn limit(&self, background: bool) -> Result<Option<Duration>, ToolFailure> {
        match self.timeout_seconds {
            Some(seconds @ 1..=MAX_COMMAND_SECONDS) => Ok(Some(Duration::from_secs(seconds))),
            Some(_) => Err(ToolFailure::argument(
                "timeout_seconds",
                format!("must be 1 to {MAX_COMMAND_SECONDS}"),
            )),
            None if background => Ok(None),
            None => Ok(Some(Duration::from_secs(COMMAND_SECONDS))),
        }
    }

    fn into_command(self, job: &JobId, background: bool, limit: Option<Duration>) -> Command {
        let mut command = Command::shell(self.command).job_id(job.clone());
        let session = self.session.filter(|name| !name.is_empty());
        let session = session.unwrap_or_else(|| DEFAULT_SESSION.to_owned());
        if session != NO_SESSION {
            command = command.session(session);
        }
        if let Some(dir) = self.workdir.filter(|dir| !dir.is_empty()) {
            command = command.workdir(dir);
        }
        if let Some(limit) = limit {
            command = command.timeout(limit);
        }
        for (name, value) in self.env.into_iter().flatten() {
            command = command.secret_env(name, value);
        }
        command.stdin(match self.stdin {
            Some(text) => CommandInput::Bytes(text.into_bytes()),
            None if background => CommandInput::Piped,
            None => CommandInput::Null,
        })
    }
}

/// Returns how far a command is, for who waits for it.
async fn state_of(sandbox: &Sandbox, job: &JobId) -> Option<String> {
    let info = sandbox.wait(job, Some(Duration::ZERO)).await.ok()?;
    let bytes = super::counted(info.stdout_bytes + info.stderr_bytes, "byte");
    Some(format!("job {job} is running, {bytes} of output"))
}

fn in_words(view: &RunView) -> String {
    let mut text = String::new();
    let job = view.job.as_deref().unwrap_or_default();
    for (name, output, omitted) in [
        ("stdout", &view.stdout, view.stdout_omitted),
        ("stderr", &view.stderr, view.stderr_omitted),
    ] {
        if output.is_empty() {
            continue;
        }
        if name == "stderr" {
            text.push_str("[stderr]\n");
        }
        text.push_str(output);
        if !output.ends_with('\n') {
            text.push('\n');
        }
        if omitted > 0 {
            // Writing to a string cannot fail.
            writeln!(
                text,
                "[{} of {name} left out above; job_logs with job {job:?} and {name}_from {OUTPUT_HEAD} reads them]",
                super::counted(omitted, "byte")
            )
            .ok();
        }
    }
    match (&view.error, view.exit_code) {
        (Some(error), code) => {
            writeln!(text, "[exit code {}: {error}]", code.unwrap_or_default()).ok();
        }
        (None, Some(code)) => {
            writeln!(text, "[exit code {code}]").ok();
        }
        (None, None) => {}
    }
    for advice in &view.advice {
        writeln!(text, "[{advice}]").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_in_words_says_what_is_left_out_and_where_it_is() {
        let view = RunView {
            job: Some("j-1".to_owned()),
            exit_code: Some(2),
            stdout: "a".to_owned(),
            stderr: "b\n".to_owned(),
            stderr_omitted: 1,
            ..RunView::default()
        };
        assert_eq!(
            in_words(&view),
            "a\n[stderr]\nb\n[1 byte of stderr left out above; job_logs with job \"j-1\" and stderr_from 12288 reads them]\n[exit code 2]\n"
        );
        let silent = RunView { exit_code: Some(0), ..RunView::default() };
        assert_eq!(in_words(&silent), "[exit code 0]\n");
    }
}
