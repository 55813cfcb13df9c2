//! Interactive shells: jobs on a terminal that any process can follow and leave again.

use async_recursion::async_recursion as boxed;
use vestal_wire::{JobId, WindowSize};

use crate::client::Connection;
use crate::{Command, CommandInput, job};

/// Runs the best shell there is, in the place of the one that reads this.
const SHELL_TEXT: &str = "\
if command -v bash >/dev/null 2>&1; then exec bash -i; else exec \"${SHELL:-sh}\" -i; fi";

/// Returns the command of an interactive shell that starts from a session's saved state, on a
/// terminal of this size. It continues when nobody follows it, and ends by itself.
#[must_use]
pub fn interactive_shell(session: &str, size: WindowSize) -> Command {
    // A background job has no say in its session: commands that run beside the shell are not
    // told that it has the last word.
    Command::shell(SHELL_TEXT).background().session(session).stdin(CommandInput::Piped).pty(size)
}

/// Makes programs that fill the screen draw it again: they do so when the size of their terminal
/// changes, and so it is changed there and back.
#[boxed]
pub async fn redraw_terminal(connection: &Connection, id: &JobId, size: WindowSize) {
    let other = WindowSize { rows: size.rows.saturating_sub(1).max(1), ..size };
    for size in [other, size] {
        if let Err(error) = job::resize(connection, id, size).await {
            tracing::debug!(%error, "the size was not passed on");
        }
    }
}
