//! What the tests stand on: a home whose settings name servers, and a call's surroundings.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use vestal_agent::{
    Approval, ApprovalRequest, ConversationSandbox, EventSink, Human, Question, Tool, ToolContext,
    ToolOutput, ToolSource as _, TurnEvent,
};
use vestal_config::{Environment, Home, Settings};
use vestal_conversations::ConversationId;
use vestal_mcp::Servers;
use vestal_sandbox::{Engine, Overrides, TaskName};
pub(crate) use vestal_testkit::{kill, marker, processes_with};

pub(crate) struct ServersFixture {
    pub(crate) dir: TempDir,
    pub(crate) heard: Arc<Mutex<Vec<TurnEvent>>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) person: Arc<Person>,
}

/// Somebody who answers every question the same way.
pub(crate) struct Person {
    pub(crate) answer: Mutex<Approval>,
    pub(crate) asked: Mutex<Vec<ApprovalRequest>>,
}

#[async_trait]
impl Human for Person {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        self.asked.lock().unwrap().push(request.clone());
        self.answer.lock().unwrap().clone()
    }

    async fn clarify(&self, _: &Question) -> Option<String> {
        None
    }
}

impl ServersFixture {
    /// Makes a home whose `config.yaml` is this.
    pub(crate) fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), config).unwrap();
        Self {
            dir,
            heard: Arc::default(),
            cancel: CancellationToken::new(),
            person: Arc::new(Person {
                answer: Mutex::new(Approval::Deny(None)),
                asked: Mutex::default(),
            }),
        }
    }

    /// Makes a home with one server of the tests, `it`, in a mode.
    pub(crate) fn with(mode: &str, more: &str) -> Self {
        Self::new(&format!("mcp_servers:\n  it: {}\n", server(mode, more)))
    }

    /// Makes a home with one server of the tests, `it`, that takes notes.
    pub(crate) fn that_takes_notes() -> Self {
        let fixture = Self::new("");
        let mode = format!("stdio --notes {}", fixture.file("notes").display());
        let config = format!("mcp_servers:\n  it: {}\n", server(&mode, ""));
        std::fs::write(fixture.file("config.yaml"), config).unwrap();
        fixture
    }

    pub(crate) fn settings(&self) -> Settings {
        let captured = Environment::capture();
        let mut variables = vec![
            ("PATH", captured.get("PATH").unwrap_or_default()),
            ("HOME", self.dir.path().as_os_str()),
            ("OPENAI_API_KEY", "sk-hunter2".as_ref()),
            ("WORD", "of-the-environment".as_ref()),
        ];
        let config = std::fs::read_to_string(self.file("config.yaml")).unwrap();
        if !config.contains("mcp_discovery_timeout") {
            // On a busy machine, too, the servers are there when a test begins.
            variables.push(("VESTAL_MCP_DISCOVERY_TIMEOUT", "60".as_ref()));
        }
        let environment = Environment::from_pairs(variables);
        Settings::load(
            &vestal_agent::schema().with([&vestal_mcp::keys::GROUP]),
            Home::at(self.dir.path()),
            environment,
            Vec::new(),
        )
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the servers and waits until each was tried.
    pub(crate) async fn servers(&self) -> Arc<Servers> {
        let servers = Servers::from_settings(&self.settings());
        servers.settle().await;
        servers
    }

    pub(crate) fn context(&self) -> ToolContext {
        let engine = Engine::open(self.settings()).unwrap();
        let sandbox = ConversationSandbox::new(
            engine,
            TaskName::default_task(),
            Overrides::default(),
            "test-session",
        );
        let heard = Arc::clone(&self.heard);
        ToolContext {
            call: "call".to_owned(),
            cancel: self.cancel.clone(),
            events: EventSink::new(move |event| heard.lock().unwrap().push(event)),
            human: Arc::clone(&self.person) as Arc<dyn Human>,
            ..ToolContext::new(ConversationId::generate().unwrap(), sandbox)
        }
    }

    /// Calls a tool of `it`.
    pub(crate) async fn call(&self, servers: &Servers, tool: &str) -> ToolOutput {
        self.call_with(servers, tool, serde_json::json!({})).await
    }

    pub(crate) async fn call_with(
        &self,
        servers: &Servers,
        tool: &str,
        arguments: Value,
    ) -> ToolOutput {
        let tool = find(servers, &format!("mcp_it_{tool}"));
        tool.call(&self.context(), arguments).await
    }

    /// Returns the server's process id, as it tells it.
    pub(crate) async fn process(&self, servers: &Servers) -> u32 {
        self.call(servers, "process").await.content.parse().unwrap()
    }

    /// Waits until the notes of the server have a word.
    pub(crate) async fn noted(&self, word: &str) {
        until(|| {
            let notes = std::fs::read_to_string(self.file("notes")).unwrap_or_default();
            notes.lines().any(|line| line == word)
        })
        .await;
    }
}

/// Returns the settings of a server of the tests, on one line.
pub(crate) fn server(mode: &str, more: &str) -> String {
    let program = env!("CARGO_BIN_EXE_mcp-test-server");
    let args: Vec<String> = mode.split(' ').map(|word| format!("{word:?}")).collect();
    format!("{{command: {program:?}, args: [{}]{more}}}", args.join(", "))
}

pub(crate) fn names(servers: &Servers) -> Vec<String> {
    let mut names: Vec<String> = servers.tools().iter().map(|tool| tool.spec().name).collect();
    names.sort();
    names
}

pub(crate) fn find(servers: &Servers, name: &str) -> Arc<dyn Tool> {
    let tools = servers.tools();
    let found = tools.iter().find(|tool| tool.spec().name == name).cloned();
    found.unwrap_or_else(|| panic!("{name} among {:?}", names(servers)))
}

/// Waits until something is so.
pub(crate) async fn until(is_so: impl FnMut() -> bool) {
    vestal_testkit::until("something that must come", is_so).await;
}
