//! A home, a scripted model, and agents between them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use vestal_agent::redact::Redactor;
use vestal_agent::{
    Agent, AgentParts, ConversationOptions, NoHuman, PromptParts, Selection, Start, settings, tools,
};
use vestal_bench::Result;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_conversations::ConversationStore;
use vestal_model::{Endpoint, Models, Part, ProviderApi, UserMessage};
use vestal_sandbox::{Engine, FilesOnRemoval, Isolation, Overrides, TaskName};
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::TestHome;

/// What the model is told to have it call `terminal` once.
pub(crate) const WORK: &str = "do some work";

/// What the model is told to have it keep silent.
pub(crate) const WAIT: &str = "wait for ever";

pub(crate) struct TurnFixture {
    home: TestHome,
    pub(crate) model: ScriptedModel,
}

impl TurnFixture {
    pub(crate) fn new() -> Self {
        let home = TestHome::create();
        let script = Script::rules([
            ReplyRule::when_user_contains(WORK)
                .reply(ScriptedReply::tool_call("terminal", json!({"command": "true"}))),
            ReplyRule::when_user_contains(WORK)
                .after_tool_results(1)
                .reply(ScriptedReply::text("done")),
            ReplyRule::when_user_contains(WAIT).reply(ScriptedReply::stall()),
        ]);
        let model = ScriptedModel::start(script.or_echo().forget_bodies());
        let fixture = Self { home, model };
        fixture.home.write_config(&format!(
            "model:\n  default: m\n  base_url: {}\nterminal:\n  backend: local\n",
            fixture.model.base_url()
        ));
        fixture
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.vestal()
    }

    fn user(&self) -> PathBuf {
        self.home.user()
    }

    fn settings(&self) -> Result<Settings> {
        let captured = Environment::capture();
        let user = self.user();
        let environment = Environment::from_pairs([
            ("PATH", captured.get("PATH").unwrap_or_default()),
            ("HOME", user.as_os_str()),
        ]);
        let start =
            Override::parse(&vestal_agent::schema(), &format!("terminal.cwd={}", user.display()))?;
        Ok(Settings::load(&vestal_agent::schema(), Home::at(self.home()), environment, vec![start]))
    }

    /// Returns the program with nothing in its environment but what it needs.
    pub(crate) fn command(&self, program: &Path, words: &str) -> Command {
        let mut command = self.home.command(program);
        command.args(["chat", "-q", words, "--quiet"]);
        command
    }

    pub(crate) async fn agent(&self) -> Result<Agent> {
        let settings = self.settings()?;
        Ok(Agent::new(AgentParts {
            options: settings::options(&settings)?,
            models: Models::new(settings::model_options(&settings)?)?,
            store: ConversationStore::open(self.home().join("state.db")).await?,
            engine: Engine::open(settings)?,
            tools: tools::standard(),
            sources: Vec::new(),
            memory: None,
            redactor: Arc::new(Redactor::new(Vec::new())),
            remember: Arc::new(|_| Ok(())),
        }))
    }

    pub(crate) fn opening(&self) -> ConversationOptions {
        ConversationOptions {
            start: Start::New { source: "bench".to_owned(), title: None, state: Vec::new() },
            chain: vec![Endpoint {
                name: "scripted".to_owned(),
                api: ProviderApi::ChatCompletions,
                base_url: self.model.base_url(),
                key: None,
                model: "m".to_owned(),
                context_length: None,
                prices: None,
                reasoning: vestal_model::ReasoningOptions::AUTO,
            }],
            task: TaskName::default_task(),
            isolation: Isolation::Shared,
            overrides: Overrides::default(),
            human: Arc::new(NoHuman),
            selection: Selection::default(),
            prompt: PromptParts { profile: "default".to_owned(), ..PromptParts::default() },
            cwd: None,
            max_turns: None,
        }
    }

    /// Removes the sandbox.
    pub(crate) fn close(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let engine = Engine::open(self.settings()?)?;
        let task = TaskName::default_task();
        runtime.block_on(Box::pin(engine.remove(&task, FilesOnRemoval::Remove)))?;
        Ok(())
    }
}

pub(crate) fn user_prompt(words: &str) -> UserMessage {
    UserMessage { parts: vec![Part::Text { text: words.to_owned() }] }
}
