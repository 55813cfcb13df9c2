//! What the model reads about a command, also about one whose caller was ended.

use serde::Serialize;
use serde_json::Value;
use vestal_model::ToolCall;
use vestal_sandbox::client::CallError;
use vestal_sandbox::job::{JobError, JobOutcome, JobStream};
use vestal_sandbox::{AttachJob, Error, Fault, FaultCode, JobInfo, JobState, OutputDelivery};

use super::{CommandRequest, foreground};
use crate::approvals::ApprovalRefusal;
use crate::call_jobs::{NotRecorded, Sent};
use crate::tool::{ToolContext, ToolOutput};
use crate::tools::output::{KeptOutput, OutputBuffer};

/// The exit code of what was not run.
const NOT_RUN: i32 = -1;

/// The exit code for a directory that is not there.
const NO_WORKDIR: i32 = 126;

/// The exit code of a command that was interrupted.
const INTERRUPTED: i32 = 130;

/// Why a command has no result of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandStatus {
    /// It failed for a reason that is not the command's.
    Error,
    /// It was refused; the word says by whom.
    Refused(&'static str),
}

impl Serialize for CommandStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Error => "error",
            Self::Refused(word) => word,
        })
    }
}

/// What came of a command. The names are an interface: prompts rely on them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CommandResult {
    pub(crate) output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    pub(crate) exit_code: i32,
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<CommandStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code_meaning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notify_on_complete: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) watch_patterns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) watch_patterns_ignored: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// What neither output nor exit code say: killed for want of memory, or what
    /// it changed in the session was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

impl CommandResult {
    /// Returns what came of a command that was not run.
    pub(crate) fn failed(status: CommandStatus, error: impl Into<String>) -> Self {
        Self {
            exit_code: NOT_RUN,
            error: Some(error.into()),
            status: Some(status),
            ..Self::default()
        }
    }

    /// Returns what came of a command that may not be run.
    pub(crate) fn refused(refusal: &ApprovalRefusal) -> Self {
        Self::failed(CommandStatus::Refused(refusal.status.as_str()), refusal.message.clone())
    }

    /// Returns what came of a command that was interrupted.
    pub(crate) fn interrupted(output: &str) -> Self {
        Self {
            output: with_line(output, "[Command interrupted]"),
            exit_code: INTERRUPTED,
            ..Self::default()
        }
    }

    /// Returns what came of a command that the sandbox failed at.
    pub(crate) fn from_error(context: &ToolContext, error: &Error) -> Self {
        let words = context.redactor.redact(&error.to_string()).into_owned();
        match fault_of(error) {
            Some(Fault { code: FaultCode::NoWorkdir, .. }) => Self {
                exit_code: NO_WORKDIR,
                error: Some(words),
                status: Some(CommandStatus::Error),
                ..Self::default()
            },
            _ => Self::failed(CommandStatus::Error, words),
        }
    }

    /// Returns what came of a command that was not run, or not followed.
    pub(crate) fn not_run(context: &ToolContext, error: &NotRecorded) -> Self {
        match error {
            NotRecorded::Sandbox(error) => Self::from_error(context, error),
            NotRecorded::Store(_) => {
                let words = context.redactor.redact(&error.to_string()).into_owned();
                Self::failed(CommandStatus::Error, words)
            }
        }
    }

    /// Returns it with where to read what was left out of the output.
    pub(crate) fn with_omitted(mut self, omitted: u64, info: &JobInfo) -> Self {
        if omitted > 0 {
            let place = format!(
                "{omitted} bytes of the output are left out here. The log has them, but \
                 for what is too much for that, too: call the process tool with action=log, this \
                 session_id, and offset and limit (lines)."
            );
            let hint = self.hint.take().map(|hint| format!("{hint} ")).unwrap_or_default();
            self.hint = Some(hint + &place);
            self.session_id = Some(info.id.to_string());
        }
        self
    }

    /// Returns it as the model reads it. A command that failed in a way that
    /// is not an error by its own account is not taken for a failure.
    pub(crate) fn into_output(self) -> ToolOutput {
        let is_error =
            self.error.is_some() || (self.exit_code != 0 && self.exit_code_meaning.is_none());
        match serde_json::to_string(&self) {
            Ok(content) => ToolOutput { is_error, ..ToolOutput::ok(content) },
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

/// Returns the guest's own reason for a failure.
pub(crate) fn fault_of(error: &Error) -> Option<&Fault> {
    match error {
        Error::Job(JobError::Fault(fault)) | Error::Call(CallError::Fault(fault)) => Some(fault),
        _ => None,
    }
}

/// Returns text with a line of ours at its end.
pub(crate) fn with_line(text: &str, line: &str) -> String {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}{line}")
}

const NEVER: &str =
    "Vestal was ended before this was started: nothing was run. Do it again if it is still wanted.";

const UNKNOWN: &str = "Vestal was ended while this was under way, and its outcome is unknown. Look at what it \
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
        delivery: OutputDelivery::EveryByte,
    };
    let drained = match Box::pin(sandbox.attach(request)).await {
        Ok(job) => finish(job, &mut printed).await,
        Err(error) => Err(error),
    };
    let KeptOutput { text, omitted, .. } = printed.finish();
    let text = context.redactor.redact(&text).into_owned();
    match drained {
        Ok(info) => {
            let result = foreground::ended(&command, &text, &info);
            let warning = foreground::warning(context, &sandbox, &info).await;
            let result = CommandResult { hint: Some(FOUND.to_owned()), warning, ..result };
            result.with_omitted(omitted, &info).into_output()
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
    let (hint, meaning) = match info.state {
        JobState::Ended(_) => (
            "Vestal was ended while this ran; it has ended since. The process tool has what it \
             printed (log) by this session_id.",
            "not its exit code, which the process tool has",
        ),
        _ => (
            "Vestal was ended while this ran, and it still runs: do not start it again. Follow it \
             with the process tool (poll, log, wait, kill) by this session_id.",
            "it still runs and has no exit code yet",
        ),
    };
    let session_id = Some(info.id.to_string());
    let (hint, exit_code_meaning) = (Some(hint.to_owned()), Some(meaning.to_owned()));
    CommandResult { session_id, pid: info.pid, hint, exit_code_meaning, ..CommandResult::default() }
        .into_output()
}
