//! Commands of a person beside the turns of a conversation.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use vestal_sandbox::{Cause, Command, Error, new_job_id};

use super::Conversation;
use crate::approvals::{ApprovalRefusal, WorkingDir};
use crate::event::EventSink;
use crate::tool::ToolContext;
use crate::tools::kill_and_drain;

/// Bytes of each stream that are kept from its beginning, and from its end.
const KEPT: u32 = 128 << 10;

/// What the questions about its commands carry as the call's id.
const CALL: &str = "shell";

/// Runs commands in the shell of a conversation for a person who is not at its terminal, also
/// while a turn runs. What is dangerous is asked about as when the model wants it: the
/// sender of the command is not known to be the person who may approve it.
#[derive(Clone)]
pub struct SideShell {
    context: ToolContext,
}

/// What a command printed, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideShellOutput {
    /// Standard output, secrets masked; a line says what was left out.
    pub stdout: String,
    /// Standard error, in the same form.
    pub stderr: String,
    /// The exit code, if it is known: 124 after a timeout.
    pub code: Option<u8>,
    /// Whether its time was up.
    pub is_timed_out: bool,
}

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub enum SideShellError {
    /// It may not be run, or nobody approved of it.
    #[error(transparent)]
    Refused(#[from] ApprovalRefusal),
    /// It was interrupted; nothing of it runs any more.
    #[error("the command was interrupted")]
    Interrupted,
    /// The text cannot be a command.
    #[error("the command contains a NUL character")]
    Nul,
    /// The sandbox has a reason.
    #[error(transparent)]
    Sandbox(#[from] Error),
}

impl Conversation {
    /// Returns what runs commands beside the turns of this conversation, in its shell.
    pub fn side_shell(&self) -> SideShell {
        let (cancel, events) = (CancellationToken::new(), EventSink::discard());
        SideShell { context: self.tool_context(CALL, &cancel, &events) }
    }
}

impl SideShell {
    /// Runs a command for at most `limit`, unless `cancel` is cancelled before. It is killed with
    /// all it started when the future is dropped.
    #[boxed]
    pub async fn run(
        &self,
        command: &str,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<SideShellOutput, SideShellError> {
        if command.contains('\0') {
            return Err(SideShellError::Nul);
        }
        let context = ToolContext { cancel: cancel.clone(), ..self.context.clone() };
        let prepared = async {
            let sandbox = context.sandbox.attach(&context.events).await?;
            context.guard.command(&context, command, WorkingDir::Session).await?;
            Ok::<_, SideShellError>(sandbox)
        };
        let sandbox = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(SideShellError::Interrupted),
            prepared = prepared => prepared?,
        };
        let id = new_job_id();
        let command = context.sandbox.in_session(Command::shell(command)).timeout(limit);
        let command = command.capture(KEPT, KEPT).job_id(id.clone()).kill_on_drop();
        let output = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                // When "interrupted" is reported, it must not run any more.
                kill_and_drain(&sandbox, &id, std::future::ready(())).await;
                return Err(SideShellError::Interrupted);
            }
            output = Box::pin(sandbox.run(command)) => output?,
        };
        let masked = |text: String| context.redactor.redact_result(&text).into_owned();
        Ok(SideShellOutput {
            stdout: masked(output.stdout.text()),
            stderr: masked(output.stderr.text()),
            code: output.exit.code,
            is_timed_out: output.exit.cause == Cause::TimedOut,
        })
    }
}

impl std::fmt::Debug for SideShell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SideShell").field("sandbox", &self.context.sandbox).finish_non_exhaustive()
    }
}
