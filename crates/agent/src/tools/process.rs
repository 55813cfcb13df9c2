//! `process`: managing background jobs, also those of other conversations.

mod log;
mod watch;

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use vestal_model::ToolSpec;
use vestal_sandbox::job::AfterInput;
use vestal_sandbox::{CommandInput, Error, FaultCode, JobId, JobInfo, JobState, Sandbox};

use super::arguments::{BadArgument, CountArgument, Deferred, SecondsArgument, parse, tool_spec};
use super::terminal::fault_of;
use crate::approvals::WorkingDir;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
use log::tail;

pub use watch::JobWatch;

pub(crate) use watch::job_updates;

const DESCRIPTION: &str = "\
Manages background processes that `terminal` started with background=true, including those of earlier conversations in \
this sandbox.

list: all of them. poll: the state of one and its latest output. log: its output by lines (the last `limit`, or from \
line `offset`). wait: waits until it ends, or for `timeout` seconds. kill: ends it with everything it started. \
write: sends `data` to its standard input unchanged; submit: the same, followed by Enter. close: closes its standard input.";

#[derive(Debug, Deserialize, JsonSchema)]
struct ProcessArguments {
    action: ProcessAction,
    /// The process, as terminal or list named it. Needed for all but list.
    #[serde(default)]
    session_id: Deferred<String>,
    /// What to send, for write and submit.
    #[serde(default)]
    data: Deferred<String>,
    /// Seconds to wait at most, for wait.
    #[serde(default)]
    timeout: Deferred<SecondsArgument>,
    /// First line, counted from 0, for log. Default: the last `limit` lines.
    #[serde(default)]
    offset: Deferred<CountArgument<0>>,
    /// Lines, for log. Default 200.
    #[serde(default)]
    limit: Deferred<CountArgument<1>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ProcessAction {
    List,
    Poll,
    Log,
    Wait,
    Kill,
    Write,
    Submit,
    Close,
}

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTool;

/// Why there is no result.
#[derive(Debug)]
enum ProcessFailure {
    /// The arguments cannot be used.
    Bad(BadArgument),
    /// The sandbox failed.
    Sandbox(Error),
    /// It may not be done.
    Refused(crate::approvals::ApprovalRefusal),
    /// The turn was interrupted.
    Interrupted,
}

impl From<BadArgument> for ProcessFailure {
    fn from(bad: BadArgument) -> Self {
        Self::Bad(bad)
    }
}

impl From<Error> for ProcessFailure {
    fn from(error: Error) -> Self {
        Self::Sandbox(error)
    }
}

/// A call under way.
struct ProcessCall<'a> {
    context: &'a ToolContext,
    sandbox: &'a Sandbox,
    arguments: &'a ProcessArguments,
}

impl ProcessCall<'_> {
    async fn act(&self) -> Result<Value, ProcessFailure> {
        let action = self.arguments.action;
        if action == ProcessAction::List {
            return self.list().await;
        }
        let named = self.arguments.session_id.read("session_id")?;
        let named = named.filter(|name| !name.trim().is_empty());
        let named = named.ok_or_else(|| BadArgument::missing("session_id"))?;
        // What cannot be an id is not a job's.
        let Ok(id) = named.trim().parse::<JobId>() else { return Ok(not_found(&named)) };
        let done = match action {
            ProcessAction::List => self.list().await,
            ProcessAction::Poll => self.poll(&id).await,
            ProcessAction::Log => self.log(&id).await,
            ProcessAction::Wait => self.wait(&id).await,
            ProcessAction::Kill => self.kill(&id).await,
            ProcessAction::Write | ProcessAction::Submit => {
                self.write(&id, action == ProcessAction::Submit).await
            }
            ProcessAction::Close => self.close(&id).await,
        };
        match done {
            Err(ProcessFailure::Sandbox(error)) if has_code(&error, FaultCode::NoSuchJob) => {
                Ok(not_found(&named))
            }
            done => done,
        }
    }

    /// Returns what is known of a job now.
    async fn look_up(&self, id: &JobId) -> Result<JobInfo, Error> {
        self.sandbox.wait(id, Some(std::time::Duration::ZERO)).await
    }

    fn redacted(&self, text: &str) -> String {
        self.context.redactor.redact(text).into_owned()
    }
}

fn has_code(error: &Error, code: FaultCode) -> bool {
    fault_of(error).is_some_and(|fault| fault.code == code)
}

fn not_found(named: &str) -> Value {
    json!({
        "session_id": named,
        "status": "not_found",
        "error": format!("no process with ID {named}; process list shows those there are"),
    })
}

/// Returns how a job is doing, in a word.
fn status(info: &JobInfo) -> &'static str {
    match info.state {
        JobState::Starting | JobState::Running => "running",
        JobState::Ended(_) => "exited",
    }
}

/// Returns a job's exit code, if it has ended and the code is known.
fn exit_code(info: &JobInfo) -> Option<u8> {
    match info.state {
        JobState::Ended(exit) => exit.code,
        JobState::Starting | JobState::Running => None,
    }
}

#[async_trait]
impl Tool for ProcessTool {
    fn spec(&self) -> ToolSpec {
        tool_spec::<ProcessArguments>("process", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "terminal"
    }

    fn footprint(&self, arguments: &Value) -> Footprint {
        match parse(arguments.clone()) {
            Ok(ProcessArguments {
                action:
                    ProcessAction::List | ProcessAction::Poll | ProcessAction::Log | ProcessAction::Wait,
                ..
            }) => Footprint::Reads,
            _ => Footprint::Exclusive,
        }
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let arguments: ProcessArguments = match parse(arguments) {
            Ok(arguments) => arguments,
            Err(bad) => return bad.into(),
        };
        let acting = async {
            let sandbox = context.sandbox.attach(&context.events).await?;
            ProcessCall { context, sandbox: &sandbox, arguments: &arguments }.act().await
        };
        let done = tokio::select! {
            biased;
            // Waiting comes back by itself, with what the job has printed.
            () = context.cancel.cancelled(), if arguments.action != ProcessAction::Wait => Err(ProcessFailure::Interrupted),
            done = Box::pin(acting) => done,
        };
        match done {
            Ok(value) => {
                let mut output = ToolOutput::json(&value);
                output.is_error = value.get("error").is_some_and(|error| !error.is_null());
                output
            }
            Err(ProcessFailure::Bad(bad)) => bad.into(),
            Err(ProcessFailure::Refused(refusal)) => {
                let mut output = ToolOutput::json(
                    &json!({ "status": refusal.status.as_str(), "error": refusal.message }),
                );
                output.is_error = true;
                output
            }
            Err(ProcessFailure::Sandbox(error)) => {
                let error = context.redactor.redact(&error.to_string()).into_owned();
                let mut output = ToolOutput::json(&json!({ "status": "error", "error": error }));
                output.is_error = true;
                output
            }
            Err(ProcessFailure::Interrupted) => ToolOutput::json(&json!({
                "status": "interrupted",
                "note": "the turn was interrupted; the process itself was not touched",
            })),
        }
    }
}

/// How long a job may take to read what is sent to it.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// Characters of output that `kill` shows.
const OUTPUT_TAIL: usize = 2000;

impl ProcessCall<'_> {
    async fn kill(&self, id: &JobId) -> Result<Value, ProcessFailure> {
        let before = self.look_up(id).await?;
        if matches!(before.state, JobState::Ended(_)) && before.processes == 0 {
            return Ok(json!({
                "session_id": id.as_str(),
                "status": "already_exited",
                "exit_code": exit_code(&before),
            }));
        }
        let info = self.sandbox.kill(id).await?;
        let output = tail(self.sandbox, &info, OUTPUT_TAIL).await?;
        let mut result = json!({
            "session_id": id.as_str(),
            "status": "killed",
            "exit_code": exit_code(&info),
            "output": self.redacted(&output),
        });
        if info.processes > 0 {
            result["status"] = "error".into();
            result["error"] =
                format!("{} of its processes could not be killed", info.processes).into();
        }
        Ok(result)
    }

    /// Writes to a job's standard input. What is written to a shell is a
    /// command, so it is decided about as one.
    async fn write(&self, id: &JobId, submit: bool) -> Result<Value, ProcessFailure> {
        let data = self.arguments.data.read("data")?;
        let data = data.ok_or_else(|| BadArgument::missing("data"))?;
        let guard = &self.context.guard;
        guard
            .command(self.context, &data, WorkingDir::Unknown)
            .await
            .map_err(ProcessFailure::Refused)?;
        let info = self.look_up(id).await?;
        if let Some(refusal) = cannot_read(&info) {
            return Ok(refusal);
        }
        let mut bytes = data.into_bytes();
        if submit {
            // The Enter key of a terminal is a carriage return.
            bytes.push(if info.pty { b'\r' } else { b'\n' });
        }
        let length = bytes.len();
        let writing = self.sandbox.write(id, CommandInput::Bytes(bytes), AfterInput::KeepOpen);
        Ok(match timeout(TAKEN_WITHIN, Box::pin(writing)).await {
            Ok(written) => {
                written?;
                json!({ "session_id": id.as_str(), "status": "ok", "bytes_written": length })
            }
            Err(_) => json!({
                "session_id": id.as_str(),
                "status": "error",
                "error": format!("the process did not read within {} s; a part may have been written", TAKEN_WITHIN.as_secs()),
            }),
        })
    }

    async fn close(&self, id: &JobId) -> Result<Value, ProcessFailure> {
        let info = self.look_up(id).await?;
        if let Some(refusal) = cannot_read(&info) {
            return Ok(refusal);
        }
        self.sandbox.write(id, CommandInput::Null, AfterInput::Close).await?;
        Ok(json!({ "session_id": id.as_str(), "status": "ok", "message": "standard input closed" }))
    }
}

/// Says why a job takes no input, if it does not.
fn cannot_read(info: &JobInfo) -> Option<Value> {
    let error = match info.state {
        JobState::Ended(_) => "the process has ended",
        _ if !info.stdin_open => "its standard input is closed",
        _ => return None,
    };
    let status = if matches!(info.state, JobState::Ended(_)) { "already_exited" } else { "error" };
    Some(json!({ "session_id": info.id.as_str(), "status": status, "error": error }))
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
