//! What the tests of tools stand on: a home, a store and a context to call them in.

use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use vestal_agent::redact::Redactor;
use vestal_agent::{ConversationSandbox, Tool, ToolContext};
use vestal_config::{Environment, Home, Settings};
use vestal_conversations::ConversationStore;
use vestal_sandbox::{Engine, Overrides, TaskName};

/// A secret that everybody here knows to be one.
pub(crate) const KEY: &str = "hunter2-and-a-long-tail-0123456789";

/// The conversation that tools are called in.
pub(crate) const CURRENT: &str = "20261115-103001-k3f9ab";

/// A home with a store, and a context in which tools are called. No sandbox is
/// ever made.
pub(crate) struct MemoryFixture {
    pub(crate) dir: TempDir,
    pub(crate) store: ConversationStore,
    context: ToolContext,
}

impl MemoryFixture {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ConversationStore::open(dir.path().join("home/state.db")).await.unwrap();
        let environment = Environment::from_pairs([("HOME", dir.path().as_os_str())]);
        let settings = Settings::load(
            &vestal_agent::schema().with([&crate::keys::GROUP]),
            Home::at(dir.path().join("home")),
            environment,
            Vec::new(),
        );
        let engine = Engine::open(settings).unwrap();
        let sandbox = ConversationSandbox::new(
            engine,
            TaskName::default_task(),
            Overrides::default(),
            "under-test",
        );
        let context = ToolContext::new(CURRENT.parse().unwrap(), sandbox);
        let context = ToolContext { redactor: redactor(), ..context };
        Self { dir, store, context }
    }

    /// Calls a tool and returns what the model reads, and whether it failed.
    pub(crate) async fn call(&self, tool: &dyn Tool, arguments: Value) -> (Value, bool) {
        let output = tool.call(&self.context, arguments).await;
        (serde_json::from_str(&output.content).unwrap(), output.is_error)
    }
}

pub(crate) fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new([KEY.to_owned()]))
}
