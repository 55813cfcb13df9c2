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
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::lines::{BadLine, MessageLines, ReadLine};
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
            lines: MessageLines::new(input),
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
                line = self.lines.next() => line,
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
            // Who asked may have given up waiting.
            written.send(()).ok();
        }
    }
}
