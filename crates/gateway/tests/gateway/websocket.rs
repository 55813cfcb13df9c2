//! The conversation over WebSocket: who gets in, what is left when a connection drops, and the
//! end of the gateway.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use vestal_gateway::{ShutdownCause, read_state};
use vestal_scripted_model::{Script, ScriptedReply};
use vestal_testkit::processes::{marker, processes_with};

use crate::support::{KEY, TestGateway, answer};

pub(crate) struct Socket(WebSocketStream<TcpStream>);

/// Connects with these headers; the status if that is refused.
async fn connect(
    gateway: &TestGateway,
    path: &str,
    headers: &[(&'static str, String)],
) -> Result<Socket, u16> {
    let address = gateway.url("").replace("http://", "");
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
    }
    let stream = TcpStream::connect(&address).await.unwrap();
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(Socket(socket)),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

pub(crate) async fn with_key(gateway: &TestGateway) -> Socket {
    let bearer = ("authorization", format!("Bearer {KEY}"));
    connect(gateway, "/api/ws", &[bearer]).await.ok().unwrap()
}

impl Socket {
    async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let frame = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        self.0.send(Message::text(frame.to_string())).await.unwrap();
        loop {
            let mut frame = self.next().await.unwrap();
            if frame["id"] == method {
                assert!(frame["error"].is_null(), "{frame}");
                return frame["result"].take();
            }
        }
    }

    pub(crate) async fn event(&mut self, kind: &str) -> Value {
        loop {
            let mut frame = self.next().await.unwrap();
            if frame["params"]["type"] == kind {
                return frame["params"]["payload"].take();
            }
        }
    }
}

#[tokio::test]
async fn the_key_or_a_ticket_lets_in_and_a_ticket_counts_once() {
    let more = &["api_server.cors_origins=https://a.example"];
    let gateway = TestGateway::start_with(Script::replies([]), more).await;
    assert_eq!(connect(&gateway, "/api/ws", &[]).await.err(), Some(401));
    let wrong = ("authorization", "Bearer 0000000000000000".to_owned());
    assert_eq!(connect(&gateway, "/api/ws", &[wrong]).await.err(), Some(401));
    assert_eq!(connect(&gateway, "/api/ws?ticket=nope", &[]).await.err(), Some(401));
    let issued = answer(gateway.post("/api/ws-ticket", &json!({}))).await;
    assert_eq!(issued.status, 200, "{}", issued.body);
    let path = format!("/api/ws?ticket={}", issued.body["ticket"].as_str().unwrap());
    // A page of another origin is refused before its ticket is looked at.
    let origin = |origin: &str| ("origin", origin.to_owned());
    assert_eq!(connect(&gateway, &path, &[origin("https://b.example")]).await.err(), Some(403));
    let mut page = connect(&gateway, &path, &[origin("https://a.example")]).await.ok().unwrap();
    assert_eq!(page.next().await.unwrap()["params"]["type"], "gateway.ready");
    assert_eq!(connect(&gateway, &path, &[]).await.err(), Some(401));
    page.0.send(Message::binary(vec![0xff])).await.unwrap();
    assert_eq!(page.next().await.unwrap()["error"]["code"], -32700);
    page.call("commands.catalog", json!({})).await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_turn_outlives_its_connection_and_another_one_hears_the_rest() {
    let reply = ScriptedReply::text("before, after").chunked(7).hold_after(1);
    let gateway = TestGateway::start(Script::replies([reply])).await;
    let mut first = with_key(&gateway).await;
    let session = first.call("session.create", json!({})).await["session_id"].clone();
    first.call("prompt.submit", json!({ "session_id": session, "text": "tell" })).await;
    first.event("message.delta").await;
    drop(first);
    let mut second = with_key(&gateway).await;
    let joined = second.call("session.activate", json!({ "session_id": session })).await;
    assert_eq!(
        (&joined["running"], &joined["inflight"]["text"]),
        (&json!(true), &json!("before,"))
    );
    gateway.model.release();
    assert_eq!(second.event("message.complete").await["text"], "before, after");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn turns_of_sessions_count_and_a_drain_interrupts_them_with_their_commands() {
    let mark = marker();
    let call = ScriptedReply::tool_call("terminal", json!({ "command": format!("sleep {mark}") }));
    let gateway =
        TestGateway::start_with(Script::replies([call]), &["api_server.max_concurrent_runs=1"])
            .await;
    let mut socket = with_key(&gateway).await;
    let session = socket.call("session.create", json!({})).await["session_id"].clone();
    socket.call("prompt.submit", json!({ "session_id": session, "text": "wait" })).await;
    socket.event("tool.start").await;
    vestal_testkit::until("the command runs", || !processes_with(&mark).is_empty()).await;
    // It holds the only slot.
    assert_eq!(gateway.ask("me too", None).await.status, 429);
    let home = gateway.home.path().to_owned();
    vestal_testkit::until("the state counts it", || {
        read_state(&home).unwrap().is_some_and(|state| state.active_agents == 1)
    })
    .await;
    let ending = gateway.end(ShutdownCause::Planned);
    let watching = async {
        assert_eq!(socket.event("message.complete").await["status"], "interrupted");
        assert_eq!(socket.event("connection.closed").await["reason"], "the gateway is stopping");
        assert_eq!(socket.next().await, None);
    };
    let ((_, end), ()) = tokio::join!(ending, watching);
    assert_eq!(end.stuck, 0);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}
