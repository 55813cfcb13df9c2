//! Servers with an address that mean harm, or do not know better.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use vestal_mcp::ServerState;

use crate::bad::probe;
use crate::fixture::{ServersFixture, until};

/// Bytes that are sent at once, and how often at most: more than is ever taken.
const PIECE: usize = 1 << 20;
const PIECES: usize = 64;

/// What a server does with requests that are not calls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    /// It answers them.
    Plain,
    /// It has a stream of news that ends as soon as it is opened.
    Restless,
    /// It points elsewhere.
    Moved,
    /// It requires authorization, and does not say how.
    Closed,
    /// It is another kind of server.
    Elsewhere,
}

/// A server of one test. It ends with it.
struct Hostile {
    address: String,
    seen: Arc<Mutex<Seen>>,
    serving: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When the stream of news was opened.
    opened: Vec<Instant>,
    /// Sessions that were ended.
    ended: usize,
    /// Pieces that were sent.
    pieces: usize,
}

impl Hostile {
    async fn start(manner: Manner) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        let answer = move |request: Request| {
            let seen = Arc::clone(&shared);
            async move { answer(manner, &seen, request).await }
        };
        let router = axum::Router::new().fallback(answer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { address, seen, serving }
    }

    fn fixture(&self) -> ServersFixture {
        ServersFixture::new(&format!(
            "mcp_servers:\n  it: {{url: \"http://{}/a/../mcp?token=hunter2-in-url\"}}\n",
            self.address
        ))
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(manner: Manner, seen: &Arc<Mutex<Seen>>, request: Request) -> Response<Body> {
    let plain = |status: u16| Response::builder().status(status).body(Body::empty()).unwrap();
    match (manner, request.method()) {
        (Manner::Closed, _) => return plain(403),
        (Manner::Elsewhere, _) => return plain(404),
        (Manner::Moved, _) => {
            let moved =
                Response::builder().status(308).header("location", "/new?key=hunter2-there");
            return moved.body(Body::from("see there")).unwrap();
        }
        (Manner::Restless, &Method::GET) => {
            seen.lock().unwrap().opened.push(Instant::now());
            return typed("text/event-stream", Body::from("retry: 0\ndata:\n\n"));
        }
        (_, &Method::GET) => return plain(405),
        (_, &Method::DELETE) => {
            seen.lock().unwrap().ended += 1;
            return plain(200);
        }
        _ => {}
    }
    let body = axum::body::to_bytes(request.into_body(), PIECE).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }),
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            json!({"tools": [tool("answer"), tool("event"), tool("fine")]})
        }
        "tools/call" => match message["params"]["name"].as_str().unwrap() {
            "answer" => return typed("application/json", endless("{\"jsonrpc\": \"", seen)),
            "event" => return typed("text/event-stream", endless("id: 1\ndata: ", seen)),
            _ => json!({"content": [{"type": "text", "text": "fine"}]}),
        },
        _ => return plain(202),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    typed("application/json", Body::from(answer))
}

fn typed(kind: &str, body: Body) -> Response<Body> {
    let response = Response::builder().header("content-type", kind);
    response.header("mcp-session-id", "one").body(body).unwrap()
}

/// Returns a body that goes on and on.
fn endless(beginning: &'static str, seen: &Arc<Mutex<Seen>>) -> Body {
    let seen = Arc::clone(seen);
    let pieces = stream::iter(0..=PIECES).map(move |at| {
        seen.lock().unwrap().pieces += 1;
        Ok::<String, Infallible>(if at == 0 { beginning.to_owned() } else { "x".repeat(PIECE) })
    });
    Body::from_stream(pieces)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_end_is_not_read_to_its_end_and_the_next_call_works() {
    let hostile = Hostile::start(Manner::Plain).await;
    let fixture = hostile.fixture();
    let servers = fixture.servers().await;
    for tool in ["answer", "event"] {
        hostile.seen.lock().unwrap().pieces = 0;
        let output = fixture.call(&servers, tool).await;
        assert!(output.is_error && output.content.contains("more than 16 MiB"), "{output:?}");
        // Some are on their way in buffers when the rest is no longer wanted.
        let pieces = hostile.seen.lock().unwrap().pieces;
        assert!(pieces < PIECES / 2, "{tool}: {pieces}");
        assert_eq!(fixture.call(&servers, "fine").await.content, "fine");
    }
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_ended_when_nobody_needs_it_any_more() {
    let hostile = Hostile::start(Manner::Plain).await;
    let fixture = hostile.fixture();
    let servers = fixture.servers().await;
    assert_eq!(servers.statuses()[0].state, ServerState::Connected);
    servers.close().await;
    assert_eq!(hostile.seen.lock().unwrap().ended, 1);
    assert_eq!(probe(&fixture).await.unwrap().tools.len(), 3);
    assert_eq!(hostile.seen.lock().unwrap().ended, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_news_that_ends_at_once_is_opened_less_and_less_often() {
    let hostile = Hostile::start(Manner::Restless).await;
    let fixture = hostile.fixture();
    let servers = fixture.servers().await;
    until(|| hostile.seen.lock().unwrap().opened.len() >= 5).await;
    let opened = hostile.seen.lock().unwrap().opened.clone();
    assert!(opened[4] - opened[0] >= Duration::from_millis(1400), "{opened:?}");
    assert_eq!(fixture.call(&servers, "fine").await.content, "fine");
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_server_has_moved_to_is_reported_and_not_followed() {
    let hostile = Hostile::start(Manner::Moved).await;
    let trouble = probe(&hostile.fixture()).await.unwrap_err().to_string();
    let moved = format!("it has moved to http://{}/new; if that is right", hostile.address);
    assert!(trouble.contains(&moved) && !trouble.contains("hunter2"), "{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_key_without_saying_how_is_reported_as_such() {
    let hostile = Hostile::start(Manner::Closed).await;
    let trouble = probe(&hostile.fixture()).await.unwrap_err().to_string();
    assert!(
        trouble.contains("mcp_servers.it.headers") && !trouble.contains("hunter2"),
        "{trouble}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_an_address_is_in_no_error_however_the_address_is_written() {
    // Nobody listens on this port, and every other spelling of the address is the same one.
    let fixture = ServersFixture::new(
        "mcp_servers:\n  it: {url: \"HTTP://127.0.0.1:9/a/../mcp?token=hunter2 in url\"}\n",
    );
    let trouble = probe(&fixture).await.unwrap_err().to_string();
    assert!(!trouble.contains("hunter2") && !trouble.contains("rmcp"), "{trouble}");
    assert!(trouble.contains("refused"), "{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_is_reported_with_what_to_try() {
    let hostile = Hostile::start(Manner::Elsewhere).await;
    let trouble = probe(&hostile.fixture()).await.unwrap_err().to_string();
    assert!(
        trouble.ends_with("HTTP 404 Not Found; is the address right? Most end in /mcp"),
        "{trouble}"
    );
}
