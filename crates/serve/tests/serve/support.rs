//! A server in a home of its own, and clients.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_runtime::{Runtime, VerbOutput, Verbs};
use vestal_sandbox::Engine;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_serve::{ClientConnection, ClientFrames, ClientLocation, ServeSettings, Server};

/// Longer than anything takes on a slow and busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Verbs that print their words. One with the word `hold` waits, and one with `nope` fails.
#[derive(Debug, Default)]
pub(crate) struct TestVerbs {
    /// What was run.
    pub(crate) run: Mutex<Vec<String>>,
    begun: Notify,
    gate: Notify,
}

impl TestVerbs {
    /// Waits until a verb waits.
    pub(crate) async fn held(&self) {
        tokio::time::timeout(TEST_TIMEOUT, self.begun.notified()).await.unwrap();
    }

    /// Lets the verb that waits go on.
    pub(crate) fn release(&self) {
        self.gate.notify_one();
    }
}

#[async_trait]
impl Verbs for TestVerbs {
    async fn run(&self, words: Vec<String>) -> Result<VerbOutput, String> {
        if words.iter().any(|word| word == "hold") {
            self.begun.notify_one();
            self.gate.notified().await;
        }
        self.run.lock().unwrap().push(words.join(" "));
        let is_success = words.iter().all(|word| word != "nope");
        Ok(VerbOutput { text: format!("{}\n", words.join(" ")), is_success })
    }

    async fn complete(&self, words: &[String]) -> Vec<String> {
        vec![format!("{}-completed", words.join("-"))]
    }
}

pub(crate) struct TestServer {
    pub(crate) verbs: Arc<TestVerbs>,
    pub(crate) home: TempDir,
    pub(crate) model: ScriptedModel,
    pub(crate) server: Server,
    pub(crate) engine: Engine,
}

pub(crate) fn echo() -> Script {
    Script::rules([ReplyRule::always()
        .reply_with(|request| ScriptedReply::text(request.last_user_text().unwrap_or_default()))])
}

pub(crate) async fn server_at(
    home: &Path,
    model: &ScriptedModel,
    more: &[&str],
) -> (Server, Engine) {
    server_with(home, model, more, ClientLocation::Local, Arc::default()).await
}

async fn server_with(
    home: &Path,
    model: &ScriptedModel,
    more: &[&str],
    clients: ClientLocation,
    verbs: Arc<TestVerbs>,
) -> (Server, Engine) {
    let schema = vestal_api::schema();
    let mut set = vec![
        "terminal.backend=local".to_owned(),
        "agent.api_max_retries=0".to_owned(),
        format!("model.base_url={}", model.base_url()),
        "model.default=m".to_owned(),
    ];
    set.extend(more.iter().map(|&set| set.to_owned()));
    let set = set.iter().map(|set| Override::parse(&schema, set).unwrap()).collect();
    let settings = Settings::load(&schema, Home::at(home), Environment::default(), set);
    let wanted = ServeSettings::new(&settings).unwrap();
    let engine = Engine::open(settings).unwrap();
    let runtime = Runtime::builder(engine.clone()).remember_approvals().verbs(verbs);
    let runtime = runtime.build().await.unwrap();
    let server = Server::builder(runtime, wanted).clients(clients).build().unwrap();
    (server, engine)
}

impl TestServer {
    pub(crate) async fn start(script: Script) -> Self {
        Self::start_with(script, &[]).await
    }

    pub(crate) async fn start_with(script: Script, more: &[&str]) -> Self {
        Self::start_for(ClientLocation::Local, script, more).await
    }

    /// Starts one for clients that are somewhere.
    pub(crate) async fn start_for(clients: ClientLocation, script: Script, more: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let model = ScriptedModel::start(script);
        let verbs = Arc::<TestVerbs>::default();
        let (server, engine) =
            server_with(home.path(), &model, more, clients, Arc::clone(&verbs)).await;
        Self { verbs, home, model, server, engine }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.server).await
    }

    /// Ends it, and returns what is left for another one.
    pub(crate) async fn end(self) -> (TempDir, ScriptedModel) {
        tokio::time::timeout(TEST_TIMEOUT, self.server.shutdown("the end")).await.unwrap();
        // The guest of a local sandbox outlives its process; the test's must not.
        for summary in self.engine.list().await.unwrap() {
            let task = summary.task.parse().unwrap();
            self.engine.stop(&task).await.ok();
        }
        self.engine.close(TEST_TIMEOUT).await;
        (self.home, self.model)
    }
}

pub(crate) struct Client {
    pub(crate) connection: ClientConnection,
    outgoing: ClientFrames,
    next: u64,
    /// Frames that nobody has asked for yet.
    seen: VecDeque<Value>,
}

impl Client {
    pub(crate) async fn connect(server: &Server) -> Self {
        let (connection, outgoing) = server.connect();
        let mut client = Self { connection, outgoing, next: 1, seen: VecDeque::new() };
        let ready = client.read().await.unwrap();
        assert_eq!(ready["params"]["type"], "gateway.ready", "{ready}");
        client
    }

    /// Waits for the next frame; nothing at the end.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        let frame = tokio::time::timeout(TEST_TIMEOUT, self.outgoing.next()).await.unwrap();
        frame.map(|frame| serde_json::from_str(&frame).unwrap())
    }

    /// Sends a request, and returns the id of its answer.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.connection.receive(&frame.to_string()).await;
        id
    }

    /// Waits for an answer.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        self.find(|frame| frame["id"] == id).await
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub(crate) fn call(
        &mut self,
        method: &str,
        params: Value,
    ) -> impl Future<Output = Value> + use<'_> {
        let at = std::panic::Location::caller();
        let method = method.to_owned();
        async move {
            let id = self.send(&method, params).await;
            let mut answer = self.answer(id).await;
            assert!(answer["error"].is_null(), "{at}: {method}: {answer}");
            answer["result"].take()
        }
    }

    /// Sends a request that fails, and returns the code of its error.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> i64 {
        self.error(method, params).await["code"].as_i64().unwrap()
    }

    pub(crate) async fn error(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let mut answer = self.answer(id).await;
        assert!(!answer["error"].is_null(), "{method}: {answer}");
        answer["error"].take()
    }

    /// Waits for the next event of a kind, and returns its params.
    pub(crate) async fn event(&mut self, kind: &str) -> Value {
        self.find(|frame| frame["params"]["type"] == kind).await["params"].take()
    }

    /// Waits for the end of a turn, and returns its payload.
    pub(crate) async fn complete(&mut self) -> Value {
        self.event("message.complete").await["payload"].take()
    }

    /// Returns the events of a kind that have come and were not asked for.
    pub(crate) fn come(&self, kind: &str) -> Vec<&Value> {
        self.seen.iter().map(|frame| &frame["params"]).filter(|p| p["type"] == kind).collect()
    }

    async fn find(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&is_meant) {
            return self.seen.remove(at).unwrap();
        }
        loop {
            let frame = self.read().await.unwrap();
            if is_meant(&frame) {
                return frame;
            }
            self.seen.push_back(frame);
        }
    }

    /// Makes a session, and returns its id.
    pub(crate) async fn create(&mut self) -> String {
        let made = self.call("session.create", json!({})).await;
        made["session_id"].as_str().unwrap().to_owned()
    }

    /// Says something and waits for the end of its turn.
    pub(crate) async fn say(&mut self, session: &str, text: &str) -> Value {
        let params = json!({ "session_id": session, "text": text });
        let submitted = self.call("prompt.submit", params).await;
        assert_eq!(submitted["status"], "streaming");
        self.complete().await
    }
}
