//! A gateway in a home of its own, and a client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use vestal_agent::Tool;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_gateway::{
    Gateway, GatewayEnd, GatewayError, GatewaySettings, RequestTimeouts, ShutdownCause, read_state,
};
use vestal_runtime::Runtime;
use vestal_sandbox::Engine;
use vestal_scripted_model::{Script, ScriptedModel};

pub(crate) const KEY: &str = "9f86d081884c7d659a2feaa0c55ad015";

/// Longer than anything takes on a slow and busy machine.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct TestGateway {
    pub(crate) home: TempDir,
    pub(crate) model: ScriptedModel,
    pub(crate) shutdown: mpsc::Sender<ShutdownCause>,
    address: String,
    client: reqwest::Client,
    serving: JoinHandle<Result<GatewayEnd, GatewayError>>,
    /// What it runs on, where it is to be killed.
    own: Option<tokio::runtime::Runtime>,
}

/// What a gateway of a test has that settings do not say.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) timeouts: Option<RequestTimeouts>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn text(&self) -> &str {
        self.body["choices"][0]["message"]["content"].as_str().unwrap_or_default()
    }
}

pub(crate) fn settings(home: &Path, set: &[String]) -> Settings {
    let schema = vestal_api::schema();
    let set = set.iter().map(|set| Override::parse(&schema, set).unwrap()).collect();
    Settings::load(&schema, Home::at(home), Environment::default(), set)
}

/// The settings of a gateway with an API server on a free port.
pub(crate) fn usual(model: &ScriptedModel) -> Vec<String> {
    vec![
        "terminal.backend=local".to_owned(),
        "api_server.backends=native".to_owned(),
        "kanban.dispatch_in_gateway=false".to_owned(),
        "agent.api_max_retries=0".to_owned(),
        format!("model.base_url={}", model.base_url()),
        "model.default=m".to_owned(),
        "api_server.enabled=true".to_owned(),
        "api_server.port=0".to_owned(),
        format!("api_server.key={KEY}"),
    ]
}

impl TestGateway {
    pub(crate) async fn start(script: Script) -> Self {
        Self::start_with(script, &[]).await
    }

    pub(crate) async fn start_with(script: Script, more: &[&str]) -> Self {
        Self::start_changed(script, more, Changes::default()).await
    }

    /// Starts one that differs from what the settings can say.
    pub(crate) async fn start_changed(script: Script, more: &[&str], changes: Changes) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::start_in(home, ScriptedModel::start(script), more, changes, None).await
    }

    /// Starts one that can be killed: every task of it ends where it is.
    pub(crate) async fn start_killable(script: Script) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::restart(home, ScriptedModel::start(script)).await
    }

    /// Starts one in the home of another that is gone; it can be killed, too.
    pub(crate) async fn restart(home: TempDir, model: ScriptedModel) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let own = builder.worker_threads(2).enable_all().build().unwrap();
        Self::start_in(home, model, &[], Changes::default(), Some(own)).await
    }

    async fn start_in(
        home: TempDir,
        model: ScriptedModel,
        more: &[&str],
        changes: Changes,
        own: Option<tokio::runtime::Runtime>,
    ) -> Self {
        let mut set = usual(&model);
        set.extend(more.iter().map(|&set| set.to_owned()));
        let settings = settings(home.path(), &set);
        // Tasks of one that was killed let go of its lock in a moment.
        let gateway =
            found("the profile is free", async || Gateway::claim(home.path(), "default").ok())
                .await;
        let mut wanted = GatewaySettings::new(&settings).unwrap().unwrap();
        if let (Some(timeouts), Some(server)) = (changes.timeouts, &mut wanted.api_server) {
            server.timeouts = timeouts;
        }
        let tools = changes.tools;
        let (shutdown, receiver) = mpsc::channel(4);
        let sender = shutdown.clone();
        let (ready, is_ready) = oneshot::channel();
        let serve = async move {
            let builder = Runtime::builder(Engine::open(settings).unwrap());
            let builder = builder.tools(|registry| {
                for tool in tools {
                    registry.add(tool);
                }
            });
            let runtime = builder.build().await.unwrap();
            let engine = runtime.agent().engine().clone();
            let end = gateway
                .serve(runtime, wanted, None, (sender, receiver), || ready.send(()).unwrap())
                .await;
            engine.close(TEST_TIMEOUT).await;
            end
        };
        let serving = match &own {
            Some(own) => own.spawn(serve),
            None => tokio::spawn(serve),
        };
        is_ready.await.unwrap();
        let state = read_state(home.path()).unwrap().unwrap();
        let address = state.platforms["api_server"].address.clone().unwrap();
        let client = reqwest::Client::new();
        let address = format!("http://{address}");
        Self { home, model, shutdown, address, client, serving, own }
    }

    /// Kills it: nothing of it runs any further. Returns its home, and the model it asked.
    pub(crate) fn kill(self) -> (TempDir, ScriptedModel) {
        self.own.expect("one that can be killed").shutdown_background();
        (self.home, self.model)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        let request = self.client.post(self.url(path)).bearer_auth(KEY);
        request.header("content-type", "application/json").body(body.to_string())
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        let request = self.client.patch(self.url(path)).bearer_auth(KEY);
        request.header("content-type", "application/json").body(body.to_string())
    }

    pub(crate) async fn say(&self, path: &str, body: Value) -> Answer {
        answer(self.post(path, &body)).await
    }

    /// Sends a request with a method, a body and a header of its own.
    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, self.url(path)).bearer_auth(KEY)
    }

    /// Follows a stream of events.
    pub(crate) async fn follow(&self, path: &str, after: Option<&str>) -> EventStream {
        let mut request = self.request("GET", path);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        EventStream::open(request).await
    }

    /// Begins a run and returns its id.
    pub(crate) async fn run(&self, input: &str) -> String {
        let begun = self.say("/v1/runs", json!({ "input": input })).await;
        assert_eq!(begun.status, 202, "{}", begun.body);
        begun.body["run_id"].as_str().unwrap().to_owned()
    }

    /// Removes the sandbox that the agent used.
    pub(crate) async fn remove_sandbox(&self) {
        let removed = self.delete("/api/sandboxes/default?files=true").await;
        assert_eq!(removed.status, 200, "{}", removed.body);
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.client.get(self.url(path)).bearer_auth(KEY)).await
    }

    pub(crate) async fn get_without_key(&self, path: &str) -> Answer {
        answer(self.client.get(self.url(path))).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        answer(self.client.delete(self.url(path)).bearer_auth(KEY)).await
    }

    /// Asks a question, in a session or in a new one.
    pub(crate) async fn ask(&self, question: &str, session: Option<&str>) -> Answer {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": question }] });
        let mut request = self.post("/v1/chat/completions", &body);
        if let Some(session) = session {
            request = request.header("x-vestal-session-id", session);
        }
        answer(request).await
    }

    /// Asks the gateway to end, and returns how it did.
    pub(crate) async fn end(self, shutdown: ShutdownCause) -> (TempDir, GatewayEnd) {
        self.shutdown.send(shutdown).await.unwrap();
        self.ended().await
    }

    /// Waits until the gateway has ended.
    pub(crate) async fn ended(self) -> (TempDir, GatewayEnd) {
        let end = tokio::time::timeout(TEST_TIMEOUT, self.serving).await.unwrap().unwrap().unwrap();
        if let Some(own) = self.own {
            own.shutdown_background();
        }
        (self.home, end)
    }
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status, headers, body }
}

/// The data of each event of a stream, in order.
pub(crate) fn events(stream: &str) -> Vec<String> {
    stream.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// Looks until something is found, and returns it.
pub(crate) async fn found<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: Value,
}

/// A stream of events that is read as it comes.
pub(crate) struct EventStream {
    response: reqwest::Response,
    buffer: String,
}

impl EventStream {
    pub(crate) async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{:?}", response.text().await);
        Self { response, buffer: String::new() }
    }

    /// Waits for the next event; nothing after the last.
    pub(crate) async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let (event, used) = (parse(event), self.buffer.len() - rest.len());
                self.buffer.drain(..used);
                // Comments keep the connection alive and say nothing.
                let Some(event) = event else { continue };
                return Some(event);
            }
            let more = tokio::time::timeout(TEST_TIMEOUT, self.response.chunk()).await.unwrap();
            self.buffer.push_str(std::str::from_utf8(&more.unwrap()?).unwrap());
        }
    }

    /// Waits for an event of a name.
    pub(crate) async fn until(&mut self, name: &str) -> StreamEvent {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("no event {name} came"));
            if event.name.as_deref() == Some(name) {
                return event;
            }
        }
    }

    /// Reads to the end.
    pub(crate) async fn rest(mut self) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn parse(text: &str) -> Option<StreamEvent> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim_start().to_owned())
    };
    let data = field("data")?;
    let data = serde_json::from_str(&data).unwrap_or(Value::String(data));
    Some(StreamEvent { id: field("id"), name: field("event"), data })
}
