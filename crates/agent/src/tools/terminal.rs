//! `terminal`: a command in the conversation's shell.

mod background;
mod foreground;
mod meaning;
mod reading;
mod result;

#[cfg(test)]
#[path = "terminal/terminal_tests.rs"]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use vestal_model::ToolSpec;
use vestal_sandbox::{Sandbox, WindowSize};

use super::arguments::{BadArgument, Deferred, NonEmptyString, SecondsArgument, parse, tool_spec};
use crate::approvals::WorkingDir;
use crate::tool::{Tool, ToolContext, ToolOutput};
use result::{CommandResult, CommandStatus};

pub(crate) use result::settle;

pub(crate) use foreground::kill_and_drain;

pub(super) use foreground::warning;
pub(super) use result::fault_of;

/// Longest time a command may be given in the foreground, unless the settings
/// give it more by default.
const LONGEST: Duration = Duration::from_mins(10);

/// How long a command may take that a person waits for and can interrupt.
const PERSON_TIMEOUT: Duration = Duration::from_hours(24);

/// The terminal of commands that want one.
const WINDOW: WindowSize = WindowSize { rows: 30, cols: 120 };

const DESCRIPTION: &str = "\
Runs a command with bash in the sandbox. Directory, variables, functions and aliases persist between calls.

In the foreground the call returns as soon as the command ends, so a generous timeout costs nothing. \
Standard output and standard error come together; of very long output you get the beginning and the end. \
With background=true the call returns at once with a session_id for the `process` tool: use it for servers \
and for anything that takes longer than the foreground allows. Set notify_on_complete for work that ends.

To read, search or change files prefer read_file, search_files, patch and write_file to cat, grep, sed and echo. \
You cannot type into a foreground command: pass flags such as -y, or run it in the background and write to it.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct TerminalTool;

#[derive(Deserialize, JsonSchema)]
struct TerminalArguments {
    /// The shell text to run.
    command: NonEmptyString,
    /// Returns at once and lets the command run on. Default false.
    #[serde(default)]
    background: bool,
    /// Seconds after which a foreground command is killed, at most 600. Default 180.
    #[serde(default)]
    timeout: Deferred<SecondsArgument>,
    /// Directory for this command only. Default: where the shell is.
    workdir: Option<String>,
    /// Gives the command a terminal, for programs that insist on one. Default false.
    #[serde(default)]
    pty: bool,
    /// With background: you are told when it ends. Default false.
    #[serde(default)]
    notify_on_complete: bool,
    /// With background: you are told when a line of its output contains one of these.
    #[serde(default)]
    watch_patterns: Deferred<Vec<String>>,
}

#[derive(Debug)]
struct CommandRequest {
    command: String,
    background: bool,
    timeout: Duration,
    workdir: Option<String>,
    pty: bool,
    notify_on_complete: bool,
    watch_patterns: Vec<String>,
}

impl CommandRequest {
    fn read(context: &ToolContext, arguments: Value) -> Result<Self, BadArgument> {
        let arguments: TerminalArguments = parse(arguments)?;
        let usual = context.limits.command_timeout;
        let (timeout, watch_patterns) = if arguments.background {
            (usual, arguments.watch_patterns.read("watch_patterns")?.unwrap_or_default())
        } else {
            let timeout = arguments.timeout.read("timeout")?;
            (timeout.map_or(usual, |SecondsArgument(timeout)| timeout), Vec::new())
        };
        let longest = LONGEST.max(usual);
        if timeout > longest {
            return Err(BadArgument::new(format!(
                "`timeout` is at most {} seconds in the foreground; for longer work set background=true and follow it with the process tool",
                longest.as_secs()
            )));
        }
        let request = Self {
            command: arguments.command.into_inner(),
            background: arguments.background,
            timeout,
            workdir: arguments.workdir.filter(|dir| !dir.trim().is_empty()),
            pty: arguments.pty,
            notify_on_complete: arguments.notify_on_complete,
            watch_patterns,
        };
        if request.command.contains('\0') {
            return Err(BadArgument::new("`command` contains a NUL character"));
        }
        if request.workdir.as_ref().is_some_and(|dir| dir.contains('\0')) {
            return Err(BadArgument::new("`workdir` contains a NUL character"));
        }
        Ok(request)
    }
}

/// Returns the sandbox, unless the turn is interrupted before it is there.
async fn attach(context: &ToolContext) -> Result<Sandbox, CommandResult> {
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(CommandResult::interrupted("")),
        sandbox = context.sandbox.attach(&context.events) => {
            sandbox.map_err(|error| CommandResult::from_error(context, &error))
        }
    }
}

/// Runs a command that a person typed: nobody else is asked, and it takes as
/// long as they let it.
pub(crate) async fn run_for_person(context: &ToolContext, command: &str) -> ToolOutput {
    if command.contains('\0') {
        let error = "the command contains a NUL character";
        return CommandResult::failed(CommandStatus::Error, error).into_output();
    }
    let sandbox = match attach(context).await {
        Ok(sandbox) => sandbox,
        Err(why_not) => return why_not.into_output(),
    };
    let request = CommandRequest {
        command: command.to_owned(),
        background: false,
        timeout: PERSON_TIMEOUT,
        workdir: None,
        pty: false,
        notify_on_complete: false,
        watch_patterns: Vec::new(),
    };
    foreground::run(context, &sandbox, request, None).await
}

#[async_trait]
impl Tool for TerminalTool {
    fn spec(&self) -> ToolSpec {
        tool_spec::<TerminalArguments>("terminal", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "terminal"
    }

    fn only_reads(&self, arguments: &Value) -> bool {
        // As the call itself reads them, so that both mean the same command.
        parse::<TerminalArguments>(arguments.clone())
            .is_ok_and(|call| !call.background && reading::only_reads(&call.command.into_inner()))
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let request = match CommandRequest::read(context, arguments) {
            Ok(request) => request,
            Err(bad) => {
                return CommandResult::failed(CommandStatus::Error, bad.to_string()).into_output();
            }
        };
        let sandbox = match attach(context).await {
            Ok(sandbox) => sandbox,
            Err(why_not) => return why_not.into_output(),
        };
        let dir = request.workdir.as_deref().map_or(WorkingDir::Session, WorkingDir::Given);
        let approval = match context.guard.command(context, &request.command, dir).await {
            Ok(clearance) => clearance.approved_by_person,
            Err(refusal) => return CommandResult::refused(&refusal).into_output(),
        };
        if request.background {
            background::run(context, &sandbox, request, approval).await
        } else {
            foreground::run(context, &sandbox, request, approval).await
        }
    }
}
