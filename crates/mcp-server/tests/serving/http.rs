//! The same over HTTP: both revisions, cancellation, and clients that leave.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vestal_mcp_server::{HttpEndpoint, SandboxScope, TaskChoice};
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::until;

use crate::support::{TestService, initialize};

struct Http {
    service: TestService,
    endpoint: HttpEndpoint,
}

/// What came back: the status, the session, and the last message.
struct HttpReply {
    status: StatusCode,
    session: Option<String>,
    message: Value,
}

impl Http {
    fn new() -> Self {
        let service = TestService::with(|options| {
            options.task = TaskChoice::PerClient { directory: None };
            options.scope = SandboxScope::All;
        });
        let endpoint = HttpEndpoint::new(service.service.clone(), CancellationToken::new());
        Self { service, endpoint }
    }

    fn request(session: Option<&str>, uri: &str, message: &Value) -> Request<Full<Bytes>> {
        let mut request = Request::post(uri)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(version) =
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()
        {
            request = request.header("mcp-protocol-version", version);
            request = request.header("mcp-method", message["method"].as_str().unwrap());
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        request.body(Full::new(message.to_string().into())).unwrap()
    }

    async fn post(&self, session: Option<&str>, uri: &str, message: &Value) -> HttpReply {
        let answer = self.endpoint.handle(Self::request(session, uri, message)).await;
        let status = answer.status();
        let session = answer.headers().get("mcp-session-id");
        let session = session.map(|id| id.to_str().unwrap().to_owned());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        let message = serde_json::from_str(last.unwrap_or(&text)).unwrap_or(json!(text));
        HttpReply { status, session, message }
    }

    async fn begin(&self, client: &str) -> String {
        let begun = self.post(None, "/mcp", &frame(0, "initialize", initialize(client))).await;
        assert_eq!(begun.message["result"]["serverInfo"]["name"], "vestal", "{}", begun.message);
        begun.session.unwrap()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn frame(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn run(id: u64, command: &str) -> Value {
    let arguments = json!({ "command": command, "session": "none" });
    frame(id, "tools/call", json!({ "name": "run", "arguments": arguments }))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_revisions_are_served_and_find_their_sandbox_by_name() {
    let http = Http::new();
    let session = http.begin("Claude Code").await;
    assert!(session.starts_with("claude-code."), "{session}");
    let old = http.post(Some(&session), "/mcp", &run(1, "echo old")).await;
    let result = &old.message["result"]["structuredContent"];
    let seen = (&result["stdout"], &result["sandbox"]["task"]);
    assert_eq!(seen, (&json!("old\n"), &json!("mcp-claude-code")), "{}", old.message);
    let mut new = run(2, "echo new");
    new["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "codex", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let new = http.post(None, "/mcp", &new).await;
    let result = &new.message["result"]["structuredContent"];
    let seen = (&result["stdout"], &result["sandbox"]["task"]);
    assert_eq!(seen, (&json!("new\n"), &json!("mcp-codex")), "{}", new.message);
    let named = http.post(Some(&session), "/mcp?task=web", &run(3, "true")).await;
    let task = &named.message["result"]["structuredContent"]["sandbox"]["task"];
    assert_eq!(task, "web", "{}", named.message);
    http.service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_reaches_the_call_of_its_own_session_and_no_other() {
    let http = Http::new();
    let (ada, bob) = (http.begin("ada").await, http.begin("bob").await);
    let (hers, his) = (marker(), marker());
    let (first, second) = (run(7, &format!("sleep {hers}")), run(7, &format!("sleep {his}")));
    let cancel = async {
        until("both run", || !processes_with(&hers).is_empty() && !processes_with(&his).is_empty())
            .await;
        let params = json!({ "requestId": 7 });
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        let taken = http.post(Some(&ada), "/mcp", &cancelled).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED);
    };
    {
        let other = http.post(Some(&bob), "/mcp", &second);
        let both = async { tokio::join!(http.post(Some(&ada), "/mcp", &first), cancel) };
        tokio::select! {
            _ = other => panic!("the call of another session was cancelled, too"),
            (answer, ()) = both => assert!(!answer.message["error"].is_null(), "{}", answer.message),
        }
    }
    until("neither runs", || processes_with(&hers).is_empty() && processes_with(&his).is_empty())
        .await;
    http.service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_takes_the_command_that_it_waits_for_along() {
    let http = Http::new();
    let session = http.begin("leaver").await;
    for with_progress in [false, true] {
        let mark = marker();
        let mut call = run(1, &format!("sleep {mark}"));
        if with_progress {
            // The answer is a stream then, and its head has come.
            call["params"]["_meta"] = json!({ "progressToken": 1 });
        }
        tokio::select! {
            _ = http.post(Some(&session), "/mcp", &call) => panic!("it ended"),
            () = until("the command runs", || !processes_with(&mark).is_empty()) => {}
        }
        until("the command is gone", || processes_with(&mark).is_empty()).await;
    }
    http.service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_or_no_message_is_refused_in_the_form_of_the_protocol() {
    let http = Http::new();
    let long = json!({ "a": "x".repeat(9 << 20) });
    let refused = http.post(None, "/mcp", &frame(1, "tools/call", long)).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(refused.message["error"]["code"], -32600);
    let garbage = http.post(None, "/mcp", &json!("hello")).await;
    assert!(garbage.status.is_client_error(), "{}", garbage.status);
    let get = Request::get("/mcp").body(Full::new(Bytes::new())).unwrap();
    let refused = http.endpoint.handle(get).await;
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers()["allow"], "POST");
    let session = http.begin("after").await;
    let after = http.post(Some(&session), "/mcp", &run(2, "echo here")).await;
    assert_eq!(after.message["result"]["structuredContent"]["stdout"], "here\n");
    http.service.end().await;
}
