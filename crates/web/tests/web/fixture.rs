//! A web server, and what a call of a tool stands in.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use vestal_agent::{
    Approval, ApprovalRequest, ConversationSandbox, Human, Question, Tool, ToolContext, ToolOutput,
};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Engine, FilesOnRemoval, Overrides, TaskName};

/// A server at an address of this machine, until it is dropped.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Site {
    pub(crate) async fn start(routes: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.unwrap();
        });
        Self { address, serving }
    }

    /// Returns the address of a page.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Somebody who answers every question the same way.
pub(crate) struct Person {
    answer: Approval,
    pub(crate) asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Human for Person {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        self.asked.lock().unwrap().push(request.action.clone());
        self.answer.clone()
    }

    async fn clarify(&self, _: &Question) -> Option<String> {
        None
    }
}

/// A home with settings, and the tools that they ask for.
pub(crate) struct WebFixture {
    dir: TempDir,
    settings: Vec<String>,
    person: Option<Arc<Person>>,
}

impl WebFixture {
    pub(crate) fn new(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("user")).unwrap();
        let settings = settings.iter().map(|text| (*text).to_owned()).collect();
        Self { dir, settings, person: None }
    }

    /// Returns one that may reach this machine by its address.
    pub(crate) fn reaching_loopback() -> Self {
        Self::new(&[r#"web.allowed_networks=["127.0.0.1"]"#])
    }

    pub(crate) fn with(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    pub(crate) fn with_person(mut self, answer: Approval) -> Self {
        self.person = Some(Arc::new(Person { answer, asked: Mutex::default() }));
        self
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.person.as_ref().map(|person| person.asked.lock().unwrap().clone()).unwrap_or_default()
    }

    fn loaded(&self) -> Settings {
        loaded(self.dir.path(), &self.settings)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tools = vestal_web::from_settings(&self.loaded()).unwrap();
        tools.into_iter().find(|tool| tool.spec().name == name)
    }

    pub(crate) fn context(&self) -> ToolContext {
        let engine = Engine::open(self.loaded()).unwrap();
        let task = TaskName::default_task();
        let sandbox = ConversationSandbox::new(engine, task, Overrides::default(), "session");
        let context = ToolContext::new("20261115-103001-k3f9ab".parse().unwrap(), sandbox);
        match &self.person {
            Some(person) => ToolContext { human: person.clone(), ..context },
            None => context,
        }
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolOutput {
        self.tool(name).unwrap().call(&self.context(), arguments).await
    }

    /// Calls a tool and returns what the model reads.
    pub(crate) async fn read(&self, name: &str, arguments: Value) -> Value {
        serde_json::from_str(&self.call(name, arguments).await.content).unwrap()
    }
}

impl Drop for WebFixture {
    fn drop(&mut self) {
        let (root, settings) = (self.dir.path().to_owned(), self.settings.clone());
        vestal_testkit::clean_up(move || async move {
            let engine = Engine::open(loaded(&root, &settings)).unwrap();
            let task = TaskName::default_task();
            match Box::pin(engine.remove(&task, FilesOnRemoval::Remove)).await {
                Ok(_) | Err(vestal_sandbox::Error::NoSandbox { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        });
    }
}

fn loaded(root: &Path, settings: &[String]) -> Settings {
    let user = root.join("user");
    let captured = Environment::capture();
    let path = captured.get("PATH").unwrap_or_default();
    let environment = Environment::from_pairs([("PATH", path), ("HOME", user.as_os_str())]);
    let schema = vestal_agent::schema().with([&vestal_web::keys::GROUP]);
    let own = ["terminal.backend=local".to_owned(), format!("terminal.cwd={}", user.display())];
    let set = own.iter().chain(settings).map(|text| Override::parse(&schema, text).unwrap());
    let set = set.collect();
    Settings::load(&schema, Home::at(root.join("vestal")), environment, set)
}
