//! A server in a home of its own, and a client.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
    split,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vestal_acp::{AcpOptions, AcpServer, EditorEnd, Workspace};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_runtime::Runtime;
use vestal_sandbox::{Engine, Overrides, TaskName};
use vestal_scripted_model::{Script, ScriptedModel};
use vestal_testkit::TEST_TIMEOUT;

pub(crate) struct TestServer {
    pub(crate) home: TempDir,
    pub(crate) model: ScriptedModel,
    pub(crate) engine: Engine,
    server: AcpServer,
}

impl TestServer {
    pub(crate) async fn start(script: Script) -> Self {
        let home = tempfile::tempdir().unwrap();
        let model = ScriptedModel::start(script);
        std::fs::create_dir(home.path().join("project")).unwrap();
        let (server, engine) = open(home.path(), &model).await;
        Self { home, model, engine, server }
    }

    /// Returns another process's server of the same home, as it were.
    pub(crate) async fn other(&self) -> AcpServer {
        open(self.home.path(), &self.model).await.0
    }

    /// Returns the directory that is open in the editor.
    pub(crate) fn project(&self) -> PathBuf {
        self.home.path().join("project")
    }

    /// Connects a client that has introduced itself.
    pub(crate) async fn client(&self) -> Client {
        Client::begin(&self.server).await
    }

    /// Connects one that has said nothing yet.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.server)
    }

    /// Ends it.
    pub(crate) async fn end(self) {
        // The guest of a local sandbox outlives its process; the test's must not.
        for summary in self.engine.list().await.unwrap() {
            let task = summary.task.parse().unwrap();
            self.engine.stop(&task).await.ok();
        }
        self.engine.close(TEST_TIMEOUT).await;
    }
}

async fn open(home: &Path, model: &ScriptedModel) -> (AcpServer, Engine) {
    let schema = vestal_api::schema();
    let set = [
        "terminal.backend=local".to_owned(),
        "agent.api_max_retries=0".to_owned(),
        format!("model.base_url={}", model.base_url()),
        "model.default=m".to_owned(),
    ];
    let set = set.iter().map(|set| Override::parse(&schema, set).unwrap()).collect();
    let home = Home::at(home.join("vestal"));
    let engine = Engine::open(Settings::load(&schema, home, Environment::default(), set)).unwrap();
    let runtime = Runtime::builder(engine.clone()).remember_approvals().build().await.unwrap();
    let options = AcpOptions {
        task: TaskName::default_task(),
        overrides: Overrides::default(),
        workspace: Workspace::Mounted,
    };
    (AcpServer::new(runtime, options), engine)
}

pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
    pub(crate) serving: JoinHandle<EditorEnd>,
    next: i64,
    /// Messages that nobody has asked for yet.
    seen: VecDeque<Value>,
}

impl Client {
    pub(crate) fn connect(server: &AcpServer) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = split(theirs);
        let server = server.clone();
        let serving =
            tokio::spawn(
                async move { server.serve(input, output, CancellationToken::new()).await },
            );
        let (input, output) = split(ours);
        let lines = BufReader::new(input).lines();
        Self { lines, output, serving, next: 0, seen: VecDeque::new() }
    }

    pub(crate) async fn begin(server: &AcpServer) -> Self {
        let mut client = Self::connect(server);
        let begun = client.call("initialize", json!({ "protocolVersion": 1 })).await;
        assert_eq!(begun["protocolVersion"], 1, "{begun}");
        client
    }

    /// Closes the connection, and returns how the server saw it end.
    pub(crate) async fn leave(self) -> EditorEnd {
        drop((self.lines, self.output));
        tokio::time::timeout(TEST_TIMEOUT, self.serving).await.unwrap().unwrap()
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send_message(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes()).await;
    }

    /// Sends a request, and returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let id = self.next;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_message(&message).await;
        id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send_message(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(TEST_TIMEOUT, self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().expect("the server is gone")).unwrap()
    }

    /// Returns the first message that is meant, seen or to come.
    pub(crate) async fn find(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&is_meant) {
            return self.seen.remove(at).unwrap();
        }
        loop {
            let message = self.read().await;
            if is_meant(&message) {
                return message;
            }
            self.seen.push_back(message);
        }
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        self.find(|message| message["method"].is_null() && message["id"] == id).await
    }

    /// Sends a request that succeeds, and returns its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let mut answer = self.answer(id).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Sends a request that fails, and returns its error.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let mut answer = self.answer(id).await;
        assert!(answer["result"].is_null(), "{method}: {answer}");
        answer["error"].take()
    }

    /// Opens a new session.
    pub(crate) async fn session(&mut self, server: &TestServer) -> String {
        let params = json!({ "cwd": server.project(), "mcpServers": [] });
        let opened = self.call("session/new", params).await;
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Says something, without waiting for the end of its turn.
    pub(crate) async fn say(&mut self, session: &str, text: &str) -> i64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    /// Says something, and returns why its turn ended.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> String {
        let id = self.say(session, text).await;
        self.stopped(id).await
    }

    /// Waits for the end of a turn, and returns why it ended.
    pub(crate) async fn stopped(&mut self, id: i64) -> String {
        let answer = self.answer(id).await;
        let reason = answer["result"]["stopReason"].as_str();
        reason.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Waits for an update of this kind.
    pub(crate) async fn update(&mut self, kind: &str) -> Value {
        let mut message =
            self.find(|message| message["params"]["update"]["sessionUpdate"] == kind).await;
        message["params"]["update"].take()
    }

    /// Waits for the update of a call that says this of its state.
    pub(crate) async fn call_update(&mut self, id: &Value, status: &str) -> Value {
        let is_meant = |message: &Value| {
            let update = &message["params"]["update"];
            update["sessionUpdate"] == "tool_call_update"
                && update["toolCallId"] == *id
                && update["status"] == status
        };
        let mut message = self.find(is_meant).await;
        message["params"]["update"].take()
    }

    /// Returns the words of the updates of this kind that have come, in order.
    pub(crate) fn words(&mut self, kind: &str) -> String {
        let (meant, rest): (Vec<Value>, Vec<Value>) = self
            .seen
            .drain(..)
            .partition(|message| message["params"]["update"]["sessionUpdate"] == kind);
        self.seen.extend(rest);
        let text = |message: &Value| {
            message["params"]["update"]["content"]["text"].as_str().unwrap_or_default().to_owned()
        };
        meant.iter().map(text).collect()
    }
}
