//! An engine in a home of its own, a service over it, and clients.

use rmcp::ServiceExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, Implementation,
    InitializeRequestParams,
};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, split,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_mcp_server::{
    ClientEnd, McpService, SandboxScope, ServiceOptions, TaskChoice, Toolset, serve_stdio,
};
use vestal_sandbox::{Engine, FilesOnRemoval, Overrides};

/// A service over sandboxes that are processes of this machine.
pub(crate) struct TestService {
    pub(crate) home: tempfile::TempDir,
    pub(crate) engine: Engine,
    pub(crate) service: McpService,
}

pub(crate) type Client = RunningService<RoleClient, InitializeRequestParams>;

impl TestService {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServiceOptions)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(settings(home.path())).unwrap();
        let mut options = ServiceOptions {
            task: TaskChoice::PerClient { directory: Some(home.path().to_owned()) },
            overrides: Overrides::default(),
            scope: SandboxScope::Own,
            toolsets: vec![Toolset::Sandbox, Toolset::Board],
            unconfined: true,
        };
        change(&mut options);
        let boards = vestal_board::settings::boards(engine.settings()).unwrap();
        let service = McpService::new(engine.clone(), options, Some((boards, None)));
        Self { home, engine, service }
    }

    /// Begins to serve a client that sends what it likes.
    pub(crate) fn serve(&self) -> (DuplexStream, JoinHandle<ClientEnd>) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = split(theirs);
        let service = self.service.clone();
        let serving = tokio::spawn(async move {
            serve_stdio(&service, input, output, CancellationToken::new()).await
        });
        (ours, serving)
    }

    /// Connects the client of the SDK.
    pub(crate) async fn client(&self, name: &str) -> Client {
        let (ours, _) = self.serve();
        client_info(name).serve(ours).await.unwrap()
    }

    /// Connects a client that sends lines.
    pub(crate) async fn raw(&self) -> (RawClient, JoinHandle<ClientEnd>) {
        let (ours, serving) = self.serve();
        let mut client = RawClient::new(ours);
        client.request(0, "initialize", &initialize("raw")).await;
        assert_eq!(client.answer().await["result"]["serverInfo"]["name"], "vestal");
        (client, serving)
    }

    /// Ends the sandboxes.
    pub(crate) async fn end(self) {
        for summary in self.engine.list().await.unwrap() {
            let task = summary.task.parse().unwrap();
            self.engine.remove(&task, FilesOnRemoval::Remove).await.unwrap();
        }
        self.engine.close(vestal_testkit::TEST_TIMEOUT).await;
    }
}

fn settings(home: &std::path::Path) -> Settings {
    let schema = vestal_api::schema();
    let set = ["terminal.backend=local"];
    let set = set.iter().map(|text| Override::parse(&schema, text).unwrap()).collect();
    let environment = Environment::from_pairs([
        ("HOME", home.as_os_str().to_owned()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
    ]);
    Settings::load(&schema, Home::at(home.join("vestal")), environment, set)
}

pub(crate) fn client_info(name: &str) -> InitializeRequestParams {
    InitializeRequestParams::new(ClientCapabilities::default(), Implementation::new(name, "1"))
}

pub(crate) fn initialize(name: &str) -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": name, "version": "1" },
    })
}

/// Returns a request for a tool.
pub(crate) fn tool(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    CallToolRequestParams::new(name).with_arguments(arguments)
}

/// Calls a tool.
pub(crate) async fn call(client: &Client, name: &'static str, arguments: Value) -> CallToolResult {
    client.call_tool(tool(name, arguments)).await.unwrap()
}

/// Calls a tool that succeeds, and returns its structured result.
pub(crate) async fn done(client: &Client, name: &'static str, arguments: Value) -> Value {
    let result = call(client, name, arguments).await;
    assert_eq!(result.is_error, Some(false), "{name}: {}", words(&result));
    result.structured_content.unwrap()
}

/// Returns the text of a result.
pub(crate) fn words(result: &CallToolResult) -> String {
    result
        .content
        .iter()
        .filter_map(|block| block.as_text())
        .map(|text| text.text.clone())
        .collect()
}

/// A client that sends lines.
pub(crate) struct RawClient {
    pub(crate) lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) output: WriteHalf<DuplexStream>,
}

impl RawClient {
    pub(crate) fn new(ours: DuplexStream) -> Self {
        let (input, output) = split(ours);
        Self { lines: BufReader::new(input).lines(), output }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn request(&mut self, id: u64, method: &str, params: &Value) {
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(format!("{frame}\n").as_bytes()).await;
    }

    pub(crate) async fn run(&mut self, id: u64, command: &str) {
        let params =
            json!({ "name": "run", "arguments": { "command": command, "session": "none" } });
        self.request(id, "tools/call", &params).await;
    }

    /// Calls a tool.
    pub(crate) async fn call(&mut self, id: u64, name: &str, arguments: &Value) -> Value {
        self.request(id, "tools/call", &json!({ "name": name, "arguments": arguments })).await;
        self.answer_to(id).await
    }

    /// Cancels a request.
    pub(crate) async fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id });
        let frame =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        self.send(format!("{frame}\n").as_bytes()).await;
    }

    /// Returns the next message.
    pub(crate) async fn message(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Returns the next message that is an answer.
    pub(crate) async fn answer(&mut self) -> Value {
        loop {
            let message = self.message().await;
            if message["method"].is_null() {
                return message;
            }
        }
    }

    /// Returns the answer to a request, whatever comes before it.
    pub(crate) async fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let answer = self.answer().await;
            if answer["id"] == id {
                return answer;
            }
        }
    }
}
