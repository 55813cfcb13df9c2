//! A browser's requests, without a browser.

use std::fmt::Write as _;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use vestal_bench::Result;

/// Who asks, and whom.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) host: String,
    pub(crate) cookie: String,
}

/// A connection that is kept.
pub(crate) struct Client {
    login: Login,
    stream: BufReader<TcpStream>,
}

pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) cookie: Option<String>,
}

impl Client {
    pub(crate) async fn connect(login: &Login) -> Result<Self> {
        let stream = TcpStream::connect(&login.host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { login: login.clone(), stream: BufReader::new(stream) })
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<()> {
        let Login { host, cookie } = &self.login;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n");
        if method == "POST" {
            write!(head, "origin: http://{host}\r\ncontent-type: application/json\r\n")?;
        }
        write!(head, "accept-encoding: gzip\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
        Ok(self.stream.write_all(head.as_bytes()).await?)
    }

    /// Reads the head of an answer: how long its body is, and the cookie that it sets.
    async fn head(&mut self, path: &str) -> Result<(usize, Option<String>)> {
        let (mut length, mut cookie, mut status) = (0, None, String::new());
        self.stream.read_line(&mut status).await?;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await?;
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse()?;
            } else if let Some(value) = line.strip_prefix("set-cookie: ") {
                cookie = value.split(';').next().map(str::to_owned);
            } else if line.is_empty() {
                break;
            }
        }
        if status.contains(" 200 ") {
            return Ok((length, cookie));
        }
        let mut why = vec![0; length];
        self.stream.read_exact(&mut why).await?;
        let why = String::from_utf8_lossy(&why);
        Err(format!("{path} was answered with {}: {why}", status.trim()).into())
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        self.send(method, path, body).await?;
        let (length, cookie) = self.head(path).await?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(Answer { body, cookie })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        self.ask("GET", path, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Answer> {
        self.ask("POST", path, body).await
    }

    /// Begins to hear of changes.
    pub(crate) async fn listen(mut self, topics: &str) -> Result<Self> {
        let path = format!("/api/events?topics={topics}");
        self.send("GET", &path, "").await?;
        self.head(&path).await?;
        self.heard("hello").await?;
        Ok(self)
    }

    /// Waits for the next event of a kind.
    pub(crate) async fn heard(&mut self, event: &str) -> Result<()> {
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err("the stream of changes has ended".into());
            }
            if line.trim_end().strip_prefix("event: ") == Some(event) {
                return Ok(());
            }
        }
    }
}

/// Opens a WebSocket as a page does, with a ticket.
pub(crate) async fn socket(login: &Login, path: &str) -> Result<WebSocketStream<TcpStream>> {
    let ticket = Client::connect(login).await?.post("/api/auth/ws-ticket", "{}").await?.body;
    let ticket: serde_json::Value = serde_json::from_slice(&ticket)?;
    let ticket = ticket["ticket"].as_str().ok_or("there is no ticket")?;
    let Login { host, cookie } = login;
    let mut request = format!("ws://{host}{path}&ticket={ticket}").into_client_request()?;
    for (name, value) in [("origin", format!("http://{host}")), ("cookie", cookie.clone())] {
        request.headers_mut().insert(name, HeaderValue::from_str(&value)?);
    }
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    Ok(tokio_tungstenite::client_async(request, stream).await?.0)
}

/// Types into a terminal.
pub(crate) async fn type_in(socket: &mut WebSocketStream<TcpStream>, keys: &str) -> Result<()> {
    Ok(socket.send(Message::binary(keys.as_bytes().to_vec())).await?)
}

/// Waits until a terminal has shown something.
pub(crate) async fn shown(socket: &mut WebSocketStream<TcpStream>, wanted: &str) -> Result<()> {
    let mut all = String::new();
    while let Some(message) = socket.next().await {
        if let Message::Binary(bytes) = message? {
            all.push_str(&String::from_utf8_lossy(&bytes));
            if all.contains(wanted) {
                return Ok(());
            }
        }
    }
    Err("the terminal has ended".into())
}
