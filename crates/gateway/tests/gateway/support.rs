//! A gateway in a home of its own, and a client.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_gateway::{Gateway, GatewayEnd, GatewayError, GatewaySettings, Shutdown, read_state};
use vestal_runtime::Runtime;
use vestal_sandbox::Engine;
use vestal_scripted_model::{Script, ScriptedModel};

pub(crate) const KEY: &str = "9f86d081884c7d659a2feaa0c55ad015";

/// Longer than anything takes on a slow and busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct TestGateway {
    pub(crate) home: TempDir,
    pub(crate) model: ScriptedModel,
    pub(crate) shutdown: mpsc::Sender<Shutdown>,
    address: String,
    client: reqwest::Client,
    serving: JoinHandle<Result<GatewayEnd, GatewayError>>,
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
        let home = tempfile::tempdir().unwrap();
        let model = ScriptedModel::start(script);
        let mut set = usual(&model);
        set.extend(more.iter().map(|&set| set.to_owned()));
        let settings = settings(home.path(), &set);
        let gateway = Gateway::claim(home.path(), "default").unwrap();
        let wanted = GatewaySettings::new(&settings).unwrap().unwrap();
        let runtime = Runtime::builder(Engine::open(settings).unwrap()).build().await.unwrap();
        let (shutdown, receiver) = mpsc::channel(4);
        let sender = shutdown.clone();
        let (ready, is_ready) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let engine = runtime.agent().engine().clone();
            let end = gateway
                .serve(runtime, wanted, None, (sender, receiver), || ready.send(()).unwrap())
                .await;
            engine.close(PATIENCE).await;
            end
        });
        is_ready.await.unwrap();
        let state = read_state(home.path()).unwrap().unwrap();
        let address = state.platforms["api_server"].address.clone().unwrap();
        let client = reqwest::Client::new();
        Self { home, model, shutdown, address: format!("http://{address}"), client, serving }
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
    pub(crate) async fn end(self, shutdown: Shutdown) -> (TempDir, GatewayEnd) {
        self.shutdown.send(shutdown).await.unwrap();
        self.ended().await
    }

    /// Waits until the gateway has ended.
    pub(crate) async fn ended(self) -> (TempDir, GatewayEnd) {
        let end = tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap().unwrap();
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
