//! What became of a command whose caller was ended.

use serde_json::Value;
use vestal_model::ToolCall;
use vestal_sandbox::job::{JobOutcome, JobStream};
use vestal_sandbox::{AttachJob, Delivery, Error, JobInfo, JobState};

use super::result::{CommandResult, CommandStatus};
use super::{CommandRequest, foreground};
use crate::call_jobs::Sent;
use crate::tool::{ToolContext, ToolOutput};
use crate::tools::output::OutputBuffer;

const NEVER: &str =
    "Vestal was ended before this was started: nothing was run. Do it again if it is still wanted.";

const UNKNOWN: &str = "Vestal was ended while this was under way, and what became of it cannot be told. Look at what it \
                       would have changed before doing it again.";

const FOUND: &str = "Vestal was ended while this ran; it has ended since, and this is its result. Do not run it again.";

/// Says what became of a call that was cut off: its result where there is one.
pub(crate) async fn settle(context: &ToolContext, call: &ToolCall, sent: Sent) -> ToolOutput {
    let is_job = matches!(call.name.as_str(), "terminal" | "execute_code");
    let job = match sent {
        Sent::Never if is_job => return failed(NEVER),
        Sent::As(job) => job,
        Sent::Never | Sent::Unrecorded => return failed(UNKNOWN),
    };
    let Some(sent) = job.sent() else { return failed(UNKNOWN) };
    let sandbox = match context.sandbox.attach(&context.events).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let id = &sent.job;
            return failed(&format!("{UNKNOWN} (its job {id} could not be asked for: {error})"));
        }
    };
    let info = match Box::pin(sandbox.outcome(&sent)).await {
        Ok(JobOutcome::Ran(info)) => info,
        Ok(JobOutcome::NeverStarted { .. }) => return failed(NEVER),
        Ok(JobOutcome::Unknown { job }) => {
            return failed(&format!("{UNKNOWN} ({})", Error::OutcomeUnknown { job }));
        }
        Err(error) => return failed(&format!("{UNKNOWN} ({error})")),
    };
    if !matches!(info.state, JobState::Ended(_)) || call.name != "terminal" {
        return session_hint(&info);
    }
    let arguments = serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
    let Ok(command) = CommandRequest::read(context, arguments) else { return session_hint(&info) };
    let mut printed = OutputBuffer::new(context, context.limits.output_bytes);
    let request = AttachJob {
        id: info.id.clone(),
        stdout_from: 0,
        stderr_from: 0,
        follow: true,
        delivery: Delivery::EveryByte,
    };
    let drained = match Box::pin(sandbox.attach(request)).await {
        Ok(job) => finish(job, &mut printed).await,
        Err(error) => Err(error),
    };
    let text = printed.finish().text;
    let text = context.redactor.redact(&text).into_owned();
    match drained {
        Ok(info) => {
            let result = foreground::ended(&command, &text, &info);
            let warning = foreground::warning(context, &sandbox, &info).await;
            CommandResult { hint: Some(FOUND.to_owned()), warning, ..result }.into_output()
        }
        Err(error) => {
            let error = CommandResult::from_error(context, &error);
            CommandResult { output: text, ..error }.into_output()
        }
    }
}

async fn finish(mut job: JobStream, printed: &mut OutputBuffer<'_>) -> Result<JobInfo, Error> {
    foreground::drain(&mut job, printed).await?;
    job.finish().await?.into_info()
}

fn failed(words: &str) -> ToolOutput {
    CommandResult::failed(CommandStatus::Error, words).into_output()
}

/// Says where a job is that is not to be waited for here.
fn session_hint(info: &JobInfo) -> ToolOutput {
    let hint = match info.state {
        JobState::Ended(_) => {
            "Vestal was ended while this ran; it has ended since. The process tool has what it \
             printed (log) by this session_id."
        }
        _ => {
            "Vestal was ended while this ran, and it still runs: do not start it again. Follow it \
             with the process tool (poll, log, wait, kill) by this session_id."
        }
    };
    let session_id = Some(info.id.to_string());
    let hint = Some(hint.to_owned());
    CommandResult { session_id, pid: info.pid, hint, ..CommandResult::default() }.into_output()
}
