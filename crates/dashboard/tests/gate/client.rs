//! A client of the dashboard: requests, events and sockets.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::support::DashboardFixture;

/// A request that is put together.
pub(crate) struct Asked<'w> {
    address: SocketAddr,
    fixture: &'w DashboardFixture,
    method: String,
    path: String,
    host: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl<'w> Asked<'w> {
    pub(crate) fn new(fixture: &'w DashboardFixture, method: &str, path: &str) -> Self {
        Self {
            address: fixture.address,
            fixture,
            method: method.to_owned(),
            path: path.to_owned(),
            host: fixture.authority(),
            headers: Vec::new(),
            body: None,
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn cookie(self, cookie: &str) -> Self {
        self.header("cookie", cookie)
    }

    pub(crate) fn own_origin(self) -> Self {
        let origin = format!("http://{}", self.fixture.authority());
        self.header("origin", &origin)
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = Some(body.to_string());
        self.header("content-type", "application/json")
    }

    /// Asks for a WebSocket.
    pub(crate) fn upgrade(self) -> Self {
        self.header("upgrade", "websocket")
            .header("connection", "upgrade")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    /// Returns what is sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: {}\r\n", self.method, self.path, self.host);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        let body = self.body.as_deref().unwrap_or_default();
        write!(head, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        head.into_bytes()
    }

    async fn begin(self) -> BufReader<TcpStream> {
        let request = self.bytes();
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&request).await.unwrap();
        BufReader::new(stream)
    }

    /// Sends it with a body that is no text, said to be of a length.
    pub(crate) async fn send_bytes(self, body: &[u8], length: usize) -> Answer {
        let head = String::from_utf8(self.bytes()).unwrap();
        let head = head.replace("content-length: 0\r\n", &format!("content-length: {length}\r\n"));
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        Self::answered(BufReader::new(stream)).await
    }

    pub(crate) async fn send(self) -> Answer {
        Self::answered(self.begin().await).await
    }

    async fn answered(mut reader: BufReader<TcpStream>) -> Answer {
        let (status, headers) = head(&mut reader).await;
        let length = headers.get("content-length").and_then(|length| length[0].parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).await.unwrap();
        Answer { status, headers, body: String::from_utf8(body).unwrap() }
    }

    /// Returns the body of an answer that is not text.
    pub(crate) async fn raw(self) -> Vec<u8> {
        let mut reader = self.begin().await;
        let (status, headers) = head(&mut reader).await;
        assert_eq!(status, 200);
        let length = headers["content-length"][0].parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).await.unwrap();
        body
    }

    /// Begins a stream of events.
    pub(crate) async fn stream(self) -> Events {
        let mut reader = self.begin().await;
        let (status, _) = head(&mut reader).await;
        assert_eq!(status, 200);
        Events { reader }
    }
}

async fn head(reader: &mut BufReader<TcpStream>) -> (u16, BTreeMap<String, Vec<String>>) {
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.entry(name.to_ascii_lowercase()).or_default().push(value.to_owned());
    }
    (status, headers)
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: BTreeMap<String, Vec<String>>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let values = self.headers.get(name)?;
        assert_eq!(values.len(), 1, "{name} more than once");
        Some(&values[0])
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

pub(crate) struct Events {
    reader: BufReader<TcpStream>,
}

impl Events {
    /// Returns the next event; nothing at the end of the stream.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        let (mut name, mut id, mut data) = (String::new(), String::new(), None);
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line);
            let read = tokio::time::timeout(Duration::from_mins(1), read).await.unwrap();
            if read.unwrap_or(0) == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut name);
            } else if let Some(value) = line.strip_prefix("id: ") {
                value.clone_into(&mut id);
            } else if let Some(value) = line.strip_prefix("data: ") {
                data = Some(serde_json::from_str(value).unwrap());
            } else if line.is_empty() && data.is_some() {
                return data.map(|data| Event { name, id, data });
            } else if line == "0" {
                // The last piece of an answer in pieces.
                return None;
            }
        }
    }
}

/// A WebSocket that speaks JSON-RPC.
pub(crate) struct Socket {
    pub(crate) socket: WebSocketStream<TcpStream>,
    pub(crate) next: u64,
}

impl Socket {
    /// Returns the next message that is not a ping; nothing at the end.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        loop {
            let next = tokio::time::timeout(Duration::from_mins(1), self.socket.next());
            match next.await.unwrap()?.ok()? {
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Close(_) => return None,
                message => return Some(message),
            }
        }
    }

    /// Sends a message as it is.
    pub(crate) async fn say(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// Returns the next frame; nothing at the end.
    pub(crate) async fn frame(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(Duration::from_mins(1), self.socket.next());
            match next.await.unwrap()?.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Sends a request and returns its answer: the result or the error.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let frame =
            serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
        loop {
            let mut frame = self.frame().await.unwrap();
            if frame["id"] == id {
                let kind = if frame["error"].is_null() { "result" } else { "error" };
                return frame[kind].take();
            }
        }
    }

    /// Sends a request whose answer is not waited for.
    pub(crate) async fn send_unanswered(&mut self, method: &str) {
        let frame = serde_json::json!({ "jsonrpc": "2.0", "id": 0, "method": method });
        // The other side may have ended already.
        self.socket.send(Message::text(frame.to_string())).await.ok();
    }

    /// Returns the payload of the next event of this type.
    pub(crate) async fn event(&mut self, kind: &str) -> Value {
        loop {
            let mut frame = self.frame().await.unwrap();
            if frame["params"]["type"] == kind {
                return frame["params"]["payload"].take();
            }
        }
    }
}
