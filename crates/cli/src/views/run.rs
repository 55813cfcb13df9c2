//! The result of `run --json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use vestal_sandbox::{Captured, Notice, Output, Sandbox, StateBefore};
use vestal_wire::JobInfo;

use super::job::session_word;
use crate::error::Failure;
use crate::exit::Exit;

/// One command and what became of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RunView {
    sandbox: Option<Place>,
    job: Option<String>,
    exit_code: Option<u8>,
    stdout: String,
    stderr: String,
    stdout_omitted: u64,
    stderr_omitted: u64,
    cwd: Option<String>,
    session_state: &'static str,
    /// Why the session's state could not be saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_error: Option<String>,
    duration_ms: Option<u64>,
    error: Option<String>,
    /// What to do about the error.
    advice: Vec<String>,
    /// The exact bytes kept, where they are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
}

/// The sandbox it ran in.
#[derive(Debug, Serialize)]
struct Place {
    profile: String,
    task: String,
    backend: &'static str,
    id: String,
    state_before: &'static str,
    /// Whether the instance was there before.
    attached: bool,
}

impl RunView {
    /// Returns the view of a run of which nothing is known yet.
    pub(crate) fn new() -> Self {
        Self { session_state: "none", ..Self::default() }
    }

    pub(crate) async fn set_sandbox(&mut self, sandbox: &Sandbox) {
        let before = sandbox.state_before();
        let remade =
            sandbox.notices().iter().any(|notice| matches!(notice, Notice::Recreated { .. }));
        self.sandbox = Some(Place {
            profile: sandbox.key().profile().to_owned(),
            task: sandbox.task().to_string(),
            backend: sandbox.backend(),
            id: sandbox.instance().await,
            state_before: match before {
                StateBefore::Absent => "absent",
                StateBefore::Stopped => "stopped",
                StateBefore::Running => "running",
            },
            attached: before != StateBefore::Absent && !remade,
        });
    }

    pub(crate) fn set_started(&mut self, info: &JobInfo) {
        self.job = Some(info.id.to_string());
        self.cwd = Some(String::from_utf8_lossy(&info.cwd).into_owned());
    }

    pub(crate) fn set_output(&mut self, output: &Output) {
        self.job = Some(output.job.to_string());
        self.stdout = output.stdout.text();
        self.stderr = output.stderr.text();
        self.stdout_omitted = output.stdout.omitted;
        self.stderr_omitted = output.stderr.omitted;
        self.stdout_base64 = binary(&output.stdout);
        self.stderr_base64 = binary(&output.stderr);
        self.cwd = Some(String::from_utf8_lossy(&output.cwd).into_owned());
        self.session_state = session_word(output.session_state);
        self.session_error.clone_from(&output.session_error);
        self.duration_ms =
            output.duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }

    pub(crate) fn set_exit(&mut self, exit: Exit) {
        self.exit_code = Some(exit.code());
    }

    pub(crate) fn set_error(&mut self, message: impl Into<String>) {
        self.error = Some(message.into());
    }

    pub(crate) fn set_failure(&mut self, failure: &Failure) {
        self.set_error(failure.message().unwrap_or("no reason given"));
        self.advice = failure.advice().to_vec();
    }
}

/// Returns the bytes in a form JSON can carry, unless they are text.
fn binary(captured: &Captured) -> Option<String> {
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    (!is_text(&captured.head) || !is_text(&captured.tail))
        .then(|| STANDARD.encode(captured.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_text_is_given_as_bytes_too() {
        let text = Captured { head: "ä\n".as_bytes().to_vec(), ..Captured::default() };
        assert_eq!(binary(&text), None);
        let bytes = Captured { head: vec![0xff, 0], ..Captured::default() };
        assert_eq!(binary(&bytes), Some("/wA=".to_owned()));
    }

    #[test]
    fn the_object_has_the_promised_keys() {
        let json = serde_json::to_value(RunView::new()).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        for key in [
            "sandbox",
            "job",
            "exit_code",
            "stdout",
            "stderr",
            "stdout_omitted",
            "stderr_omitted",
            "cwd",
            "session_state",
            "duration_ms",
            "error",
        ] {
            assert!(keys.contains(&key), "{key} is missing");
        }
    }
}
