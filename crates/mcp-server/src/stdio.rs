//! One client over standard input and output.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::serve_server;
use rmcp::transport::{Transport, TransportAdapterIdentity};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use vestal_api::{MessageLine, MessageLines};

use crate::limits;
use crate::service::McpService;

/// Why serving a client ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEnd {
    /// It is gone: it closed its end, or does not take answers any more.
    Gone,
    /// It said something else than it has to begin with.
    NoHandshake(String),
}

/// Serves one client until it is gone, or until `stop`. What its calls run in the foreground is killed
/// then; what runs in the background goes on.
pub async fn serve_stdio<R, W>(
    service: &McpService,
    input: R,
    output: W,
    stop: CancellationToken,
) -> ClientEnd
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let gone = stop.child_token();
    let transport = StdioTransport::new(input, output, gone.clone());
    let handler = service.server(gone.clone());
    let served = serve_server::<_, _, _, TransportAdapterIdentity>(handler, transport).await;
    let running = match served {
        Ok(running) => running,
        Err(_) if gone.is_cancelled() => return ClientEnd::Gone,
        Err(error) => {
            gone.cancel();
            return ClientEnd::NoHandshake(error.to_string());
        }
    };
    let token = running.cancellation_token();
    let ended = running.waiting();
    tokio::pin!(ended);
    tokio::select! {
        _ = &mut ended => {}
        () = gone.cancelled() => {
            token.cancel();
            // The calls have let go of what they wait for once this ends. It does not end as long as
            // an answer is being written to a client that does not read.
            if tokio::time::timeout(ENDED_WITHIN, ended).await.is_err() {
                tracing::info!("some answers were not taken by the client");
            }
        }
    }
    gone.cancel();
    ClientEnd::Gone
}

/// How long calls may take to end whose client is gone.
const ENDED_WITHIN: Duration = Duration::from_millis(500);

/// Lines in both directions, within bounds: a request that is one too many is answered here and never
/// reaches the handlers.
struct StdioTransport<R> {
    lines: MessageLines<R>,
    outgoing: mpsc::Sender<OutgoingLine>,
    unanswered: Arc<Mutex<Unanswered>>,
    /// An answer to a line that was refused. Kept here while there is no room for it, since a read
    /// that is given up must not lose it.
    refusal: Option<ServerJsonRpcMessage>,
    /// Whether there was a request.
    begun: bool,
    gone: CancellationToken,
}

/// A line to be written, and who waits until it is.
struct OutgoingLine {
    bytes: Bytes,
    written: Option<oneshot::Sender<()>>,
}

/// Requests that have no answer yet, with their lengths.
#[derive(Debug, Default)]
struct Unanswered {
    requests: HashMap<RequestId, usize>,
    bytes: usize,
}

impl Unanswered {
    /// Notes a request, or returns why it is refused.
    fn begin(&mut self, id: &RequestId, length: usize) -> Result<(), Refusal> {
        if self.requests.contains_key(id) {
            return Err(Refusal::IdInUse);
        }
        if self.requests.len() >= limits::REQUESTS || self.bytes + length > limits::REQUEST_BYTES {
            return Err(Refusal::TooMany);
        }
        self.requests.insert(id.clone(), length);
        self.bytes += length;
        Ok(())
    }

    fn end(&mut self, id: &RequestId) {
        if let Some(length) = self.requests.remove(id) {
            self.bytes -= length;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    IdInUse,
    TooMany,
}

/// What a line of the client is.
enum Admission {
    /// A message for the handlers.
    Message(Box<ClientJsonRpcMessage>),
    /// One that was answered here, or that means nothing.
    NotForHandlers,
    /// The end of the input.
    End,
}

impl<R: AsyncRead + Send + Unpin> StdioTransport<R> {
    fn new<W>(input: R, output: W, gone: CancellationToken) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (outgoing, queue) = mpsc::channel(16);
        tokio::spawn(write_lines(output, queue, gone.clone()));
        Self {
            lines: MessageLines::new(input, limits::MESSAGE_BYTES),
            outgoing,
            unanswered: Arc::default(),
            refusal: None,
            begun: false,
            gone,
        }
    }

    /// Decides what a line is; what is wrong with it is to be answered.
    fn admit(&mut self, line: ReadLine) -> Admission {
        let refuse = |error, id| Some(ServerJsonRpcMessage::error(error, id));
        let (message, length) = match line {
            ReadLine::End => return Admission::End,
            ReadLine::Message(message, length) => (*message, length),
            ReadLine::Bad(bad) => {
                let limit = limits::MESSAGE_BYTES >> 20;
                self.refusal = match bad {
                    BadLine::NotJson => {
                        refuse(ErrorData::parse_error("a line is not JSON", None), None)
                    }
                    BadLine::NotMessage(id) => refuse(
                        ErrorData::invalid_request("a line is not a JSON-RPC message", None),
                        id,
                    ),
                    BadLine::TooLong(id) => refuse(
                        ErrorData::invalid_request(
                            format!(
                                "the message is longer than {limit} MiB; send large content in parts"
                            ),
                            None,
                        ),
                        id,
                    ),
                };
                return Admission::NotForHandlers;
            }
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                let begun = lock(&self.unanswered).begin(&request.id, length);
                if let Err(refusal) = begun {
                    self.refusal = match refusal {
                        Refusal::TooMany => refuse(
                            ErrorData::invalid_request(
                                "too many requests at once; wait for answers to earlier ones",
                                None,
                            ),
                            Some(request.id.clone()),
                        ),
                        // With the id, it would be taken for the answer to the first request.
                        Refusal::IdInUse => refuse(
                            ErrorData::invalid_request(
                                "the id of a request is that of an earlier one without an answer",
                                None,
                            ),
                            None,
                        ),
                    };
                    return Admission::NotForHandlers;
                }
                self.begun = true;
            }
            JsonRpcMessage::Notification(notification) => {
                // What is cancelled gets no answer.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.unanswered).end(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        // Before the first request, nothing else means anything.
        if self.begun { Admission::Message(Box::new(message)) } else { Admission::NotForHandlers }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for StdioTransport<R> {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let (outgoing, unanswered) = (self.outgoing.clone(), Arc::clone(&self.unanswered));
        let bytes = line_of(&message);
        async move {
            let (written, done) = oneshot::channel();
            let line = OutgoingLine { bytes: bytes?, written: Some(written) };
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            outgoing.send(line).await.map_err(|_| closed())?;
            done.await.map_err(|_| closed())?;
            // Only now does it take no room any more: who does not read gets no more to read.
            if let Some(id) = answered {
                lock(&unanswered).end(&id);
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.refusal.is_some() {
                let room = self.outgoing.reserve().await.ok()?;
                if let Some(bytes) = self.refusal.take().and_then(|refusal| line_of(&refusal).ok())
                {
                    room.send(OutgoingLine { bytes, written: None });
                }
            }
            let line = tokio::select! {
                biased;
                () = self.gone.cancelled() => ReadLine::End,
                line = self.lines.next() => ReadLine::of(line),
            };
            match self.admit(line) {
                Admission::Message(message) => return Some(*message),
                // Said before the handlers are waited for, which this makes end.
                Admission::End => {
                    self.gone.cancel();
                    return None;
                }
                Admission::NotForHandlers => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.gone.cancel();
        Ok(())
    }
}

fn line_of(message: &ServerJsonRpcMessage) -> io::Result<Bytes> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line.into())
}

fn lock(unanswered: &Mutex<Unanswered>) -> MutexGuard<'_, Unanswered> {
    unanswered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes line after line: a writer that gives up would leave half of one.
async fn write_lines<W: AsyncWrite + Unpin>(
    mut output: W,
    mut queue: mpsc::Receiver<OutgoingLine>,
    gone: CancellationToken,
) {
    while let Some(line) = queue.recv().await {
        let written = async {
            output.write_all(&line.bytes).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::info!(%error, "nobody reads the answers any more");
            gone.cancel();
            return;
        }
        if let Some(written) = line.written {
            // The caller may have given up waiting.
            written.send(()).ok();
        }
    }
}

/// What a line was.
#[derive(Debug)]
pub(crate) enum ReadLine {
    /// A message, and how long it was.
    Message(Box<ClientJsonRpcMessage>, usize),
    /// A line that is no message.
    Bad(BadLine),
    /// The client is gone.
    End,
}

/// A line that is no message, with its id where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// It is longer than messages may be.
    TooLong(Option<RequestId>),
    /// It is not JSON.
    NotJson,
    /// It is JSON, and not a message.
    NotMessage(Option<RequestId>),
}

impl ReadLine {
    /// Returns what was read. What is unfinished at the end is no line.
    fn of(read: io::Result<Option<MessageLine>>) -> Self {
        let line = match read {
            Ok(None) | Err(_) => return Self::End,
            Ok(Some(MessageLine::TooLong(id))) => {
                return Self::Bad(BadLine::TooLong(request_id(id.as_ref())));
            }
            Ok(Some(MessageLine::Whole(line))) => line,
        };
        let line = line.trim_ascii();
        match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => Self::Message(Box::new(message), line.len()),
            Err(_) => Self::Bad(match serde_json::from_slice::<Value>(line) {
                Ok(value) => BadLine::NotMessage(request_id(value.get("id"))),
                Err(_) => BadLine::NotJson,
            }),
        }
    }
}

fn request_id(value: Option<&Value>) -> Option<RequestId> {
    match value? {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: Vec<u8>) -> Vec<String> {
        let mut lines = MessageLines::new(bytes.as_slice(), limits::MESSAGE_BYTES);
        let mut seen = Vec::new();
        loop {
            seen.push(match ReadLine::of(lines.next().await) {
                ReadLine::Message(message, _) => match *message {
                    ClientJsonRpcMessage::Request(request) => format!("request {}", request.id),
                    other => format!("{other:?}").chars().take(12).collect(),
                },
                ReadLine::Bad(bad) => format!("{bad:?}"),
                ReadLine::End => return seen,
            });
        }
    }

    #[tokio::test]
    async fn what_is_no_message_is_named_and_the_next_line_is_read() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let mut bytes = format!("\n \nhello\n{{\"id\":5}}\n[1]\n{ping}\r\n").into_bytes();
        bytes.extend_from_slice(b"{\"id\":6,\"params\":\"");
        bytes.resize(bytes.len() + limits::MESSAGE_BYTES, b'x');
        bytes.extend_from_slice(b"\"}\n\xff\n");
        bytes.extend_from_slice(format!("{ping}\n{ping}").as_bytes());
        let seen = read(bytes).await;
        assert_eq!(
            seen,
            [
                "NotJson",
                "NotMessage(Some(Number(5)))",
                "NotMessage(None)",
                "request 1",
                "TooLong(Some(Number(6)))",
                "NotJson",
                "request 1",
            ],
            "the last line has no end, and is none"
        );
    }
}
