//! A client that shows what is on the wire, and hides nothing.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection, kept alive between requests.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    chunked: bool,
}

/// A response, as far as it came.
#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended as HTTP says it must.
    pub(crate) complete: bool,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self { stream: BufReader::new(stream), chunked: false }
    }

    /// Sends a request and reads nothing.
    pub(crate) async fn send(&mut self, head: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("{head}\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.stream.write_all(body).await.unwrap();
    }

    /// Posts a body to an endpoint and reads nothing.
    pub(crate) async fn start(&mut self, path: &str, body: &Value) {
        let head = format!("POST {path} HTTP/1.1\r\ncontent-type: application/json");
        self.send(&head, body.to_string().as_bytes()).await;
    }

    /// Posts a body to an endpoint and reads the whole response.
    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Response {
        self.start(path, body).await;
        self.response().await
    }

    /// Reads a status line and headers.
    pub(crate) async fn head(&mut self) -> Response {
        let status_line = self.line().await;
        let status = status_line.split(' ').nth(1).expect("a status line").parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").expect("a header");
            headers.push((name.to_owned(), value.to_owned()));
        }
        let response = Response { status, headers, body: Vec::new(), complete: false };
        self.chunked = response.header("transfer-encoding") == Some("chunked");
        response
    }

    /// Reads the next chunk of a body; `None` is the end that HTTP wants, an
    /// error a connection that closed before it.
    pub(crate) async fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let size = usize::from_str_radix(line.trim_end(), 16)
            .map_err(|_| std::io::ErrorKind::UnexpectedEof)?;
        let mut data = vec![0; size + 2];
        self.stream.read_exact(&mut data).await?;
        data.truncate(size);
        Ok((size > 0).then_some(data))
    }

    /// Reads a whole response, as far as it comes.
    pub(crate) async fn response(&mut self) -> Response {
        let mut response = self.head().await;
        if self.chunked {
            loop {
                match self.chunk().await {
                    Ok(Some(data)) => response.body.extend(data),
                    Ok(None) => break response.complete = true,
                    Err(_) => break,
                }
            }
        } else {
            let length = response.header("content-length").expect("a length").parse().unwrap();
            response.body = vec![0; length];
            response.complete = self.stream.read_exact(&mut response.body).await.is_ok();
        }
        response
    }

    /// Reads until the text that came holds `wanted`.
    pub(crate) async fn until(&mut self, wanted: &str) -> String {
        let mut text = String::new();
        while !text.contains(wanted) {
            let data = self.chunk().await.unwrap().expect("more of the body");
            text.push_str(&String::from_utf8(data).unwrap());
        }
        text
    }

    /// Returns whether there are bytes that came and were not read.
    pub(crate) fn nothing_more(&self) -> bool {
        let mut byte = [0];
        self.stream.buffer().is_empty()
            && self
                .stream
                .get_ref()
                .try_read(&mut byte)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns the server-sent events of the body: name and data.
    pub(crate) fn events(&self) -> Vec<(Option<String>, String)> {
        let text = self.text().replace("\r\n", "\n");
        let events =
            text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
        events
            .map(|event| {
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
                };
                (field("event: "), field("data: ").expect("data"))
            })
            .collect()
    }

    /// Returns the data of all events that are JSON.
    pub(crate) fn data(&self) -> Vec<Value> {
        self.events().iter().filter_map(|(_, data)| serde_json::from_str(data).ok()).collect()
    }
}

/// Returns a streamed request that says `text` as the user.
pub(crate) fn asking(text: &str) -> Value {
    json!({
        "model": "m",
        "max_tokens": 100,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": text}],
    })
}
