//! A home whose model is scripted.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};

use crate::support::{ProgramFixture, ProgramOutcome};

/// A fixture and the model that is asked in it.
pub(crate) struct ChatFixture {
    pub(crate) fixture: ProgramFixture,
    pub(crate) model: ScriptedModel,
}

impl ChatFixture {
    /// Returns a fixture whose sandboxes are processes and whose model says this.
    pub(crate) fn new(script: Script) -> Self {
        Self { fixture: ProgramFixture::new(), model: ScriptedModel::start(script) }
    }

    pub(crate) fn replies(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::new(Script::replies(replies).strict())
    }

    /// Returns the variables that make the model the one asked. Failed calls
    /// are not repeated, so that no test waits for it.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("VESTAL_MODEL", "scripted".to_owned()),
            ("VESTAL_BASE_URL", self.model.base_url()),
            ("VESTAL_API_MAX_RETRIES", "0".to_owned()),
            ("TERMINAL_ENV", "local".to_owned()),
        ]
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.fixture.command(args);
        command.envs(self.variables());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn vestal<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> ProgramOutcome {
        crate::support::finish(self.command(args).spawn().unwrap())
    }

    pub(crate) fn ask(&self, prompt: &str) -> ProgramOutcome {
        self.vestal(["chat", "-q", prompt])
    }

    /// Waits for something that happens to the model.
    pub(crate) fn until<'a, F: Future>(&'a self, event: impl FnOnce(&'a ScriptedModel) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let event = event(&self.model);
        runtime.block_on(async {
            tokio::time::timeout(crate::support::TEST_TIMEOUT, event).await.unwrap();
        });
    }
}

/// Returns a call of the tool `terminal`.
pub(crate) fn terminal(command: &str) -> ScriptedReply {
    ScriptedReply::tool_call("terminal", json!({"command": command}))
}
