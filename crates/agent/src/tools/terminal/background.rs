//! A command that goes on while the conversation does.

use vestal_sandbox::{Command, CommandInput, Error, JobInfo, Sandbox, new_job_id};

use super::result::CommandResult;
use super::{CommandRequest, WINDOW};
use crate::call_jobs::NotRecorded;
use crate::notebook::{Notebook, Watched};
use crate::tool::{ToolContext, ToolOutput};

/// Jobs that a conversation can watch at once; the oldest are forgotten first.
const MOST_WATCHED: usize = 64;

pub(super) async fn run(
    context: &ToolContext,
    sandbox: &Sandbox,
    request: CommandRequest,
    approval: Option<String>,
) -> ToolOutput {
    let started = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return CommandResult::interrupted("").into_output(),
        started = start(context, sandbox, &request) => started,
    };
    match started {
        Ok(info) => {
            let session_id = Some(info.id.to_string());
            let mut result = CommandResult {
                output: "Background process started".to_owned(),
                session_id,
                pid: info.pid,
                approval,
                ..CommandResult::default()
            };
            watch(&context.notebook, request, &info, &mut result);
            result.into_output()
        }
        Err(error) => CommandResult::not_run(context, &error).into_output(),
    }
}

/// Starts the job; once more if it is known not to have started.
async fn start(
    context: &ToolContext,
    sandbox: &Sandbox,
    request: &CommandRequest,
) -> Result<JobInfo, NotRecorded> {
    let mut is_second_attempt = false;
    loop {
        let id = new_job_id();
        let command = context.sandbox.in_session(Command::shell(request.command.as_str()));
        let mut command = command
            .stdin(CommandInput::Piped)
            // What a job prints is looked at while it runs, so it should not
            // sit in a buffer of its own.
            .secret_env("PYTHONUNBUFFERED", "1")
            .merge()
            .job_id(id.clone())
            // Until the model knows of the job, nobody could end it.
            .kill_on_drop();
        if let Some(dir) = &request.workdir {
            command = command.workdir(dir);
        }
        if request.pty {
            command = command.pty(WINDOW);
        }
        context.jobs.record(&context.call, sandbox, &id).await?;
        match Box::pin(sandbox.spawn(command)).await {
            Err(Error::NeverStarted { .. }) if !is_second_attempt => is_second_attempt = true,
            started => return Ok(started?),
        }
    }
}

/// Notes what the model wants to hear of the job.
fn watch(notebook: &Notebook, request: CommandRequest, info: &JobInfo, result: &mut CommandResult) {
    let CommandRequest { notify_on_complete, mut watch_patterns, .. } = request;
    watch_patterns.retain(|pattern| !pattern.is_empty());
    if notify_on_complete && !watch_patterns.is_empty() {
        watch_patterns.clear();
        result.watch_patterns_ignored =
            Some("notify_on_complete is set, so you get one notice, when it ends".to_owned());
    }
    if !notify_on_complete && watch_patterns.is_empty() {
        result.hint = Some(
            "look after it with process (poll, log, wait, kill); set notify_on_complete for work that ends"
                .to_owned(),
        );
        return;
    }
    result.notify_on_complete = notify_on_complete.then_some(true);
    result.watch_patterns.clone_from(&watch_patterns);
    let watched = Watched { job: info.id.to_string(), patterns: watch_patterns, seen: 0 };
    notebook.write(|notes| {
        let surplus = (notes.watched.len() + 1).saturating_sub(MOST_WATCHED);
        notes.watched.drain(..surplus);
        notes.watched.push(watched);
    });
}
