//! Commands in the foreground: the call waits for the end.

use std::time::Duration;

use tokio::time::timeout;
use vestal_sandbox::job::{Follow, JobEvent, JobOutcome, JobStream};
use vestal_sandbox::{Cause, Command, Error, JobId, JobInfo, JobState, Sandbox, new_job_id};

use super::meaning::meaning;
use super::result::{CommandResult, CommandStatus, with_line};
use super::{CommandRequest, WINDOW};
use crate::call_jobs::NotRecorded;
use crate::tool::{ToolContext, ToolOutput};
use crate::tools::output::{KeptOutput, OutputBuffer};

/// The exit code of a command that timed out.
const TIMED_OUT: i32 = 124;

/// How long a guest may take to kill a command.
const KILL_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for the output of a killed command.
const LAST_OUTPUT_WITHIN: Duration = Duration::from_secs(1);

/// How a command ended.
#[derive(Debug)]
enum CommandEnd {
    Ended(Box<JobInfo>),
    /// The turn was interrupted, and all that the command had started was killed.
    Interrupted,
}

pub(super) async fn run(
    context: &ToolContext,
    sandbox: &Sandbox,
    request: CommandRequest,
    approval: Option<String>,
) -> ToolOutput {
    let command = || {
        let command = context.sandbox.in_session(Command::shell(request.command.as_str()));
        let mut command = command.timeout(request.timeout).merge();
        if let Some(dir) = &request.workdir {
            command = command.workdir(dir);
        }
        if request.pty { command.pty(WINDOW) } else { command }
    };
    let mut printed = OutputBuffer::new(context, context.limits.output_bytes);
    let followed = follow(context, sandbox, command, &mut printed).await;
    let KeptOutput { mut text, omitted, .. } = printed.finish();
    if request.pty {
        // A terminal ends lines this way, which says nothing about the output.
        text = text.replace("\r\n", "\n");
    }
    let text = context.redactor.redact(&text);
    match followed {
        Ok(CommandEnd::Ended(info)) => {
            let info = recounted(sandbox, &request.command, info).await;
            let warning = warning(context, sandbox, &info).await;
            let result = ended(&request, &text, &info).with_omitted(omitted, &info);
            CommandResult { approval, warning, ..result }.into_output()
        }
        Ok(CommandEnd::Interrupted) => {
            // What a person approved is not what happened.
            let approval = approval.map(|approval| format!("{approval}; then interrupted"));
            CommandResult { approval, ..CommandResult::interrupted(&text) }.into_output()
        }
        Err(error) => {
            let mut result = CommandResult::not_run(context, &error);
            result.output = text.into_owned();
            result.into_output()
        }
    }
}

/// Runs a command to its end and keeps what it prints. It is run at most once:
/// only if it is known never to have started, because the guest had ended
/// before it could be sent, it is given to the next guest under another id.
async fn follow(
    context: &ToolContext,
    sandbox: &Sandbox,
    command: impl Fn() -> Command,
    printed: &mut OutputBuffer<'_>,
) -> Result<CommandEnd, NotRecorded> {
    let mut is_second_attempt = false;
    loop {
        let id = new_job_id();
        context.jobs.record(&context.call, sandbox, &id).await?;
        let command = command().job_id(id.clone()).kill_on_drop();
        let mut job = tokio::select! {
            biased;
            () = context.cancel.cancelled() => {
                // It may have been sent, and must not run after "interrupted" is reported.
                kill_and_drain(sandbox, &id, std::future::ready(())).await;
                return Ok(CommandEnd::Interrupted);
            }
            job = Box::pin(sandbox.start(command, Follow::EveryByte)) => job?,
        };
        let drained = tokio::select! {
            biased;
            () = context.cancel.cancelled() => None,
            drained = drain(&mut job, printed) => Some(drained),
        };
        match drained {
            None => {
                kill_and_drain(sandbox, &id, drain(&mut job, printed)).await;
                return Ok(CommandEnd::Interrupted);
            }
            Some(drained) => drained?,
        }
        match job.finish().await? {
            JobOutcome::NeverStarted { .. } if !is_second_attempt => is_second_attempt = true,
            outcome => return Ok(CommandEnd::Ended(Box::new(outcome.into_info()?))),
        }
    }
}

/// Reads the output of a job to its end.
pub(super) async fn drain(
    job: &mut JobStream,
    printed: &mut OutputBuffer<'_>,
) -> Result<(), Error> {
    while let Some(event) = job.next().await? {
        match event {
            JobEvent::Stdout(bytes) | JobEvent::Stderr(bytes) => printed.push(&bytes),
            JobEvent::Gap { bytes, .. } => printed.gap(bytes),
            JobEvent::Started { .. } | JobEvent::Ended(_) => {}
        }
    }
    Ok(())
}

/// Kills a job and reads the rest of its output, if that comes at once.
pub(crate) async fn kill_and_drain(
    sandbox: &Sandbox,
    id: &JobId,
    draining: impl Future<Output: Sized>,
) {
    let kill = Box::pin(sandbox.kill(id));
    match timeout(KILL_WITHIN, kill).await {
        Ok(Ok(_)) => drop(timeout(LAST_OUTPUT_WITHIN, draining).await),
        Ok(Err(error)) => tracing::debug!(job = %id, %error, "nothing to kill"),
        Err(_) => tracing::warn!(job = %id, "the job is still being killed"),
    }
}

pub(super) fn ended(request: &CommandRequest, text: &str, info: &JobInfo) -> CommandResult {
    let JobState::Ended(exit) = info.state else {
        let error = format!("job {} has not ended", info.id);
        return CommandResult::failed(CommandStatus::Error, error);
    };
    match (exit.cause, exit.code) {
        (Cause::TimedOut, _) => {
            let seconds = request.timeout.as_secs_f64();
            let line = format!("[Command timed out after {seconds} s and was killed]");
            CommandResult {
                output: with_line(text, &line),
                exit_code: TIMED_OUT,
                ..CommandResult::default()
            }
        }
        (Cause::Lost, _) | (_, None) => CommandResult {
            output: text.to_owned(),
            ..CommandResult::failed(
                CommandStatus::Error,
                "the sandbox ended while the command ran; how it ended is not known",
            )
        },
        (cause, Some(code)) => {
            let output = match cause {
                Cause::Killed => with_line(text, "[Command was killed from outside]"),
                _ => text.to_owned(),
            };
            let exit_code = i32::from(code);
            CommandResult {
                exit_code_meaning: meaning(&request.command, exit_code, text).map(str::to_owned),
                output,
                exit_code,
                ..left_running(info)
            }
        }
    }
}

/// Returns what the model must know of an ended job besides its result.
pub(crate) async fn warning(
    context: &ToolContext,
    sandbox: &Sandbox,
    info: &JobInfo,
) -> Option<String> {
    let warnings = sandbox.job_warnings(info).await;
    let mut texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    texts.extend(sandbox.take_sync_notes());
    (!texts.is_empty()).then(|| context.redactor.redact(&texts.join("; ")).into_owned())
}

/// Returns the state of a job, with the processes it left behind counted again: the reply
/// may come before they are known. This asks again only for commands that put something
/// into the background.
async fn recounted(sandbox: &Sandbox, command: &str, info: Box<JobInfo>) -> Box<JobInfo> {
    let others = ["&&", "&>", ">&", "<&", "|&"];
    let command = others.iter().fold(command.to_owned(), |text, other| text.replace(other, ""));
    if info.processes > 0 || !command.contains('&') {
        return info;
    }
    match Box::pin(sandbox.wait(&info.id, Some(Duration::ZERO))).await {
        Ok(now) => Box::new(JobInfo { processes: now.processes, ..*info }),
        Err(_) => info,
    }
}

/// Says what a command has left behind, if anything.
fn left_running(info: &JobInfo) -> CommandResult {
    if info.processes == 0 {
        return CommandResult::default();
    }
    CommandResult {
        session_id: Some(info.id.to_string()),
        hint: Some(format!(
            "{} of its processes still run; the process tool knows them by this session_id. To follow what they print, start them with background=true.",
            info.processes
        )),
        ..CommandResult::default()
    }
}
