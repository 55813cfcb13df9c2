//! Goes another way.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vestal_conversations::{ConversationId, Error, Title};
use vestal_sandbox::Command;

use super::Conversation;

/// What the store knows the place by that a branch works in.
pub(crate) const WORKS_IN: &str = "works_in";

/// How long the shell may take to say where it is.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a branch works: where the conversation worked that it comes from,
/// wherever conversations of its own kind would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorksIn {
    /// The task whose sandbox it is.
    pub(crate) task: String,
    /// Where its shell begins, if that is known.
    #[serde(default)]
    pub(crate) dir: Option<PathBuf>,
}

impl Conversation {
    /// Makes another conversation of all that the model sees here, with the same
    /// model, tools and notes, in the same sandbox, and returns its name. It has
    /// a shell of its own, which begins in the directory where this one is, and
    /// nothing is approved in it beforehand. Without a title it gets this one's
    /// with a number.
    pub async fn branch(&mut self, title: Option<&str>) -> Result<ConversationId, Error> {
        self.keep_notes().await?;
        let place = WorksIn { task: self.workshop.task().to_string(), dir: self.shell_dir().await };
        let place = serde_json::json!(place);
        let title = title.map(|title| Title::Given(title.to_owned()));
        let store = &self.agent.parts.store;
        // At once: a branch without its place would go on somewhere else.
        let branch = store.branch_with_state(&self.id, title, &[(WORKS_IN, &place)]).await?.id;
        Ok(branch)
    }

    /// Returns where the shell is, if it has been used and says so.
    async fn shell_dir(&self) -> Option<PathBuf> {
        let sandbox = self.workshop.attached()?;
        let command = self.workshop.in_session(Command::shell("pwd")).timeout(PATIENCE);
        let output = tokio::time::timeout(2 * PATIENCE, sandbox.run(command)).await.ok()?.ok()?;
        let dir = PathBuf::from(std::ffi::OsStr::from_bytes(&output.cwd));
        dir.is_absolute().then_some(dir)
    }
}
