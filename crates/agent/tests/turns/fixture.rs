//! What the tests stand on: a home, a scripted model and an agent between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use vestal_agent::redact::Redactor;
use vestal_agent::{
    Agent, AgentParts, Conversation, ConversationOptions, EventSink, NoHuman, PromptParts,
    Selection, Start, TurnEvent, TurnResult, settings, tools,
};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_conversations::{ConversationId, ConversationStore};
use vestal_model::{Endpoint, Models, Part, ProviderApi, UserMessage};
use vestal_sandbox::{Engine, FilesOnRemoval, Isolation, Overrides, TaskName};
use vestal_scripted_model::{Script, ScriptedModel};
pub(crate) use vestal_testkit::{TEST_TIMEOUT, marker, processes_with, until};
use vestal_testkit::{TestHome, clean_up};

/// A home, a scripted model and an agent. The sandbox is removed when it is dropped.
pub(crate) struct TurnFixture {
    pub(crate) home: TestHome,
    pub(crate) model: ScriptedModel,
    pub(crate) api: ProviderApi,
    set: Vec<String>,
    pub(crate) heard: Arc<Mutex<Vec<TurnEvent>>>,
}

impl TurnFixture {
    pub(crate) fn new(script: Script) -> Self {
        Self::speaking(ProviderApi::ChatCompletions, script)
    }

    pub(crate) fn speaking(api: ProviderApi, script: Script) -> Self {
        let home = TestHome::create();
        let model = ScriptedModel::start(script.strict());
        let set = vec![
            "terminal.backend=local".to_owned(),
            format!("terminal.cwd={}", home.user().display()),
            "approvals.unattended=allow".to_owned(),
            "agent.api_max_retries=1".to_owned(),
        ];
        Self { home, model, api, set, heard: Arc::default() }
    }

    /// Sets a key.
    pub(crate) fn with(mut self, assignment: &str) -> Self {
        self.set.push(assignment.to_owned());
        self
    }

    pub(crate) fn settings(&self) -> Settings {
        let schema = vestal_agent::schema();
        let overrides = self.set.iter().map(|text| Override::parse(&schema, text).unwrap());
        let environment = Environment::from_pairs(self.home.variables());
        Settings::load(&schema, Home::at(self.home.vestal()), environment, overrides.collect())
    }

    pub(crate) fn store_file(&self) -> std::path::PathBuf {
        self.home.vestal().join("state.db")
    }

    /// Makes an agent, as each process does.
    pub(crate) async fn agent(&self) -> Agent {
        self.agent_knowing(&[]).await
    }

    /// Makes an agent that knows these secrets.
    pub(crate) async fn agent_knowing(&self, secrets: &[&str]) -> Agent {
        Agent::new(self.parts(secrets).await)
    }

    /// Returns what an agent is made of that knows these secrets.
    pub(crate) async fn parts(&self, secrets: &[&str]) -> AgentParts {
        let settings = self.settings();
        let options = settings::options(&settings).unwrap();
        let model_options = settings::model_options(&settings).unwrap();
        let model_options = vestal_model::ModelOptions {
            backoff_base: Duration::from_millis(1),
            backoff_cap: Duration::from_millis(5),
            ..model_options
        };
        let engine = Engine::open(settings).unwrap();
        AgentParts {
            engine,
            store: ConversationStore::open(self.store_file()).await.unwrap(),
            models: Models::new(model_options).unwrap(),
            tools: tools::standard(),
            sources: Vec::new(),
            memory: None,
            redactor: Arc::new(Redactor::new(secrets.iter().map(|secret| (*secret).to_owned()))),
            options,
            remember: Arc::new(|_| Ok(())),
        }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            name: "scripted".to_owned(),
            api: self.api,
            base_url: self.model.base_url(),
            key: None,
            model: "m".to_owned(),
            context_length: None,
            prices: None,
            reasoning: vestal_model::ReasoningOptions::AUTO,
        }
    }

    pub(crate) fn opening(&self, start: Start) -> ConversationOptions {
        ConversationOptions {
            start,
            chain: vec![self.endpoint()],
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

    /// Begins a conversation.
    pub(crate) async fn begin(&self) -> Conversation {
        self.agent().await.open(self.opening(new())).await.unwrap()
    }

    /// Goes on with one, as a process that knows nothing else of it.
    pub(crate) async fn resume(&self, id: &ConversationId) -> Conversation {
        let start = Start::Resume(id.clone());
        self.agent().await.open(self.opening(start)).await.unwrap()
    }

    /// Begins a conversation, says one thing, and returns its outcome.
    pub(crate) async fn turn(&self, words: &str) -> TurnResult {
        self.begin().await.run(user_prompt(words), &self.ears()).await
    }

    /// Returns ears for events.
    pub(crate) fn ears(&self) -> EventSink {
        let heard = Arc::clone(&self.heard);
        EventSink::new(move |event| heard.lock().unwrap().push(event))
    }

    pub(crate) fn events(&self) -> Vec<TurnEvent> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits until an event is heard.
    pub(crate) async fn hear(&self, is_it: impl Fn(&TurnEvent) -> bool) {
        until("an event is heard", || self.heard.lock().unwrap().iter().any(&is_it)).await;
    }

    /// Changes the file of the conversations behind the program's back.
    pub(crate) fn tamper(&self, sql: &str) {
        let changed = std::process::Command::new("python3")
            .args([
                "-c",
                "import sqlite3,sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])",
            ])
            .arg(self.store_file())
            .arg(sql)
            .status();
        assert!(changed.unwrap().success());
    }

    /// Returns a path that commands start in.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.home.user().join(name)
    }
}

impl Drop for TurnFixture {
    fn drop(&mut self) {
        let settings = self.settings();
        clean_up(move || async move {
            let engine = Engine::open(settings).unwrap();
            for sandbox in Box::pin(engine.list()).await.unwrap() {
                let task: TaskName = sandbox.task.parse().unwrap();
                Box::pin(engine.remove(&task, FilesOnRemoval::Remove)).await.unwrap();
            }
        });
    }
}

pub(crate) fn new() -> Start {
    Start::New { source: "test".to_owned(), title: None, state: Vec::new() }
}

pub(crate) fn user_prompt(words: &str) -> UserMessage {
    UserMessage { parts: vec![Part::Text { text: words.to_owned() }] }
}
