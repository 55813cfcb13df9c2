//! Acting on jobs.

use crate::approvals::WorkingDir;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use vestal_sandbox::Input;
use vestal_sandbox::job::AfterInput;
use vestal_wire::{JobId, JobInfo, JobState};

use super::log::tail;
use super::{Call, Failure, exit_code};

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
