//! `process`: looking after background jobs, whoever started them.

mod log;
mod watch;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::timeout;
use vestal_model::ToolSpec;
use vestal_sandbox::job::AfterInput;
use vestal_sandbox::{Error, Input, Sandbox};
use vestal_wire::{FaultCode, JobId, JobInfo, JobState};

use super::arguments::{Arguments, BadArgument};
use super::terminal::fault_of;
use crate::approvals::WorkingDir;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
use log::tail;

pub use watch::JobWatch;

pub(crate) use watch::job_news;

const DESCRIPTION: &str = "\
Looks after background processes that `terminal` started with background=true, also those of earlier conversations in \
this sandbox.

list: all of them. poll: how one is doing and its latest output. log: its output by lines (the last `limit`, or from \
line `offset`). wait: until it ends, or `timeout` seconds. kill: ends it with all it has started. write: sends `data` \
to its standard input as it is; submit: the same with Enter. close: ends its standard input.";

const ACTIONS: [&str; 8] = ["list", "poll", "log", "wait", "kill", "write", "submit", "close"];

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

/// Why there is no result.
#[derive(Debug)]
enum Failure {
    /// The arguments cannot be used.
    Bad(BadArgument),
    /// The sandbox failed.
    Sandbox(Error),
    /// It may not be done.
    Refused(crate::approvals::Refusal),
    /// The turn was interrupted.
    Interrupted,
}

impl From<BadArgument> for Failure {
    fn from(bad: BadArgument) -> Self {
        Self::Bad(bad)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Sandbox(error)
    }
}

/// A call under way.
struct Call<'a> {
    context: &'a ToolContext,
    sandbox: &'a Sandbox,
    arguments: &'a Arguments,
}

impl Call<'_> {
    async fn act(&self, action: &str) -> Result<Value, Failure> {
        match action {
            "list" => return self.list().await,
            "write" | "submit" | "close" | "poll" | "log" | "wait" | "kill" => {}
            other => {
                let actions = ACTIONS.join(", ");
                return Err(BadArgument::new(format!(
                    "`action` must be one of {actions}, got {other:?}"
                ))
                .into());
            }
        }
        let named = self.arguments.words("session_id")?;
        // What cannot be an id is no job's.
        let Ok(id) = named.trim().parse::<JobId>() else { return Ok(not_found(&named)) };
        let done = match action {
            "poll" => self.poll(&id).await,
            "log" => self.log(&id).await,
            "wait" => self.wait(&id).await,
            "kill" => self.kill(&id).await,
            "write" | "submit" => self.write(&id, action == "submit").await,
            _ => self.close(&id).await,
        };
        match done {
            Err(Failure::Sandbox(error)) if is(&error, FaultCode::NoSuchJob) => {
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

fn is(error: &Error, code: FaultCode) -> bool {
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
impl Tool for Process {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "process".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ACTIONS},
                    "session_id": {"type": "string", "description": "The process, as terminal or list named it. Needed for all but list."},
                    "data": {"type": "string", "description": "What to send, for write and submit."},
                    "timeout": {"type": "integer", "minimum": 1, "description": "Seconds to wait at most, for wait."},
                    "offset": {"type": "integer", "minimum": 0, "description": "First line, counted from 0, for log. Default: the last `limit` lines."},
                    "limit": {"type": "integer", "minimum": 1, "description": "Lines, for log. Default 200."}
                },
                "required": ["action"]
            }),
        }
    }

    fn toolset(&self) -> &'static str {
        "terminal"
    }

    fn footprint(&self, arguments: &Value) -> Footprint {
        match arguments.get("action").and_then(Value::as_str) {
            Some("list" | "poll" | "log" | "wait") => Footprint::Reads,
            _ => Footprint::Exclusive,
        }
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let arguments = match Arguments::new(arguments) {
            Ok(arguments) => arguments,
            Err(bad) => return bad.into(),
        };
        let action = match arguments.words("action") {
            Ok(action) => action.trim().to_owned(),
            Err(bad) => return bad.into(),
        };
        let acting = async {
            let sandbox = context.workshop.sandbox(&context.events).await?;
            Call { context, sandbox: &sandbox, arguments: &arguments }.act(&action).await
        };
        let done = tokio::select! {
            biased;
            // Waiting comes back by itself, with what the job has printed.
            () = context.cancel.cancelled(), if action != "wait" => Err(Failure::Interrupted),
            done = Box::pin(acting) => done,
        };
        match done {
            Ok(value) => {
                let mut output = ToolOutput::json(&value);
                output.is_error = value.get("error").is_some_and(|error| !error.is_null());
                output
            }
            Err(Failure::Bad(bad)) => bad.into(),
            Err(Failure::Refused(refusal)) => {
                let mut output = ToolOutput::json(
                    &json!({ "status": refusal.status.as_str(), "error": refusal.message }),
                );
                output.is_error = true;
                output
            }
            Err(Failure::Sandbox(error)) => {
                let error = context.redactor.redact(&error.to_string()).into_owned();
                let mut output = ToolOutput::json(&json!({ "status": "error", "error": error }));
                output.is_error = true;
                output
            }
            Err(Failure::Interrupted) => ToolOutput::json(&json!({
                "status": "interrupted",
                "note": "the turn was interrupted; the process itself was not touched",
            })),
        }
    }
}

/// How long a job may take to read what is sent to it.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// Characters of output that `kill` shows.
const LAST_WORDS: usize = 2000;

impl Call<'_> {
    pub(super) async fn kill(&self, id: &JobId) -> Result<Value, Failure> {
        let before = self.look_up(id).await?;
        if matches!(before.state, JobState::Ended(_)) && before.processes == 0 {
            return Ok(json!({
                "session_id": id.as_str(),
                "status": "already_exited",
                "exit_code": exit_code(&before),
            }));
        }
        let info = self.sandbox.kill(id).await?;
        let output = tail(self.sandbox, &info, LAST_WORDS).await?;
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
    pub(super) async fn write(&self, id: &JobId, submit: bool) -> Result<Value, Failure> {
        let data = self.arguments.text("data")?;
        let guard = &self.context.guard;
        guard.command(self.context, &data, WorkingDir::Unknown).await.map_err(Failure::Refused)?;
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
        let writing = self.sandbox.write(id, Input::Bytes(bytes), AfterInput::KeepOpen);
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

    pub(super) async fn close(&self, id: &JobId) -> Result<Value, Failure> {
        let info = self.look_up(id).await?;
        if let Some(refusal) = cannot_read(&info) {
            return Ok(refusal);
        }
        self.sandbox.write(id, Input::Null, AfterInput::Close).await?;
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
