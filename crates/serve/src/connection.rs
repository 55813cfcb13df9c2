//! One client: frames in, frames out.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::Semaphore;
use vestal_agent::slash::nearest;
use vestal_api::{MessageLine, MessageLines};

use crate::error::{self, RpcError};
use crate::events::EventBody;
use crate::methods::{AnswerPace, METHODS, Method, MethodCall};
use crate::outbox::ClientOutbox;
use crate::protocol::{self, MalformedRequest, RpcRequest};
use crate::server::Server;

/// Bytes that a frame of a client may have.
pub const MAX_FRAME: usize = 8 << 20;

/// The version of the protocol. It grows when something is added.
pub(crate) const PROTOCOL: u32 = 2;

/// Requests of one client that may be under way at once.
const MAX_REQUESTS: usize = 64;

/// What a client sends. Its sessions live on when it is dropped, as long as their settings say.
#[derive(Debug)]
pub struct ClientConnection {
    call: MethodCall,
    requests: Arc<Semaphore>,
}

/// What a client is sent.
#[derive(Debug)]
pub struct ClientFrames(pub(crate) ClientOutbox);

/// A frame that cannot be read as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFrame {
    /// It has more than [`MAX_FRAME`] bytes.
    TooLong,
    /// It is not UTF-8.
    NotText,
}

impl BadFrame {
    pub(crate) fn error(self) -> RpcError {
        match self {
            Self::TooLong => {
                let message = format!("the frame has more than {MAX_FRAME} bytes");
                RpcError::new(error::INVALID_REQUEST, message)
            }
            Self::NotText => RpcError::new(error::PARSE, "the frame is not UTF-8"),
        }
    }
}

impl ClientFrames {
    /// Waits for the next frame; nothing once the connection has ended and all is sent. To be
    /// awaited by one task.
    #[boxed]
    pub async fn next(&self) -> Option<String> {
        self.0.next().await
    }

    /// Returns why the server ended the connection, if it did.
    pub fn end(&self) -> Option<String> {
        self.0.end()
    }
}

impl ClientConnection {
    pub(crate) fn new(server: Server, id: u64, outbox: ClientOutbox) -> (Self, ClientFrames) {
        let ready = EventBody::GatewayReady {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            profile: server.runtime().settings().home().profile().to_string(),
            max_frame_bytes: MAX_FRAME,
            max_live_sessions: server.settings().max_live_sessions,
        };
        outbox.push(protocol::event(None, &ready));
        let outgoing = ClientFrames(outbox.clone());
        let call = MethodCall { server, connection: id, outbox };
        (Self { call, requests: Arc::new(Semaphore::new(MAX_REQUESTS)) }, outgoing)
    }

    /// Takes a frame. It returns when the next may be given: a client that does not read what it
    /// is sent is not heard either, so that its answers need no room. What takes long is done
    /// beside.
    #[boxed]
    pub async fn receive(&self, frame: &str) {
        self.call.outbox.room().await;
        match protocol::read(frame) {
            Ok(request) => self.take(request).await,
            Err(MalformedRequest { id, error }) => self.answer(&id, Err(error)),
        }
    }

    /// Answers a frame that cannot be read as one.
    #[boxed]
    pub async fn refuse(&self, bad: BadFrame) {
        self.call.outbox.room().await;
        self.answer(&Value::Null, Err(bad.error()));
    }

    async fn take(&self, request: RpcRequest) {
        let RpcRequest { id, method, params } = request;
        let Some(found) = METHODS.iter().find(|known| known.name == method) else {
            return self.answer_if_asked(id, Err(unknown(&method)));
        };
        match found.pace {
            AnswerPace::Inline => {
                let result = (found.call)(self.call.clone(), params).await;
                self.answer_if_asked(id, result);
            }
            AnswerPace::Beside => {
                // Waiting for room would keep the answers to questions from being read.
                let Ok(permit) = Arc::clone(&self.requests).try_acquire_owned() else {
                    let message = format!("{MAX_REQUESTS} requests are under way");
                    let error = RpcError::new(error::REFUSED, message)
                        .advise("wait for the answer to one of them");
                    return self.answer_if_asked(id, Err(error));
                };
                let call = self.call.clone();
                let task = (found.call)(call.clone(), params);
                self.call.server.tasks().spawn(async move {
                    let result = task.await;
                    if let Some(id) = id {
                        call.outbox.push(protocol::answer(&id, result));
                    }
                    drop(permit);
                });
            }
        }
    }

    fn answer_if_asked(&self, id: Option<Value>, result: Result<Value, RpcError>) {
        if let Some(id) = id {
            self.answer(&id, result);
        }
    }

    fn answer(&self, id: &Value, result: Result<Value, RpcError>) {
        self.call.outbox.push(protocol::answer(id, result));
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.call.server.disconnect(self.call.connection);
    }
}

fn unknown(method: &str) -> RpcError {
    let shown = protocol::shown(method);
    let error = RpcError::new(error::UNKNOWN_METHOD, format!("there is no method {shown:?}"));
    match nearest(&shown, METHODS.iter().map(|Method { name, .. }| *name)) {
        Some(meant) => error.advise(format!("did you mean {meant}?")),
        None => error,
    }
}

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameLine {
    /// Its text, without the end of the line.
    Text(String),
    /// It cannot be a frame.
    Bad(BadFrame),
}

/// Reads frames as lines, one object each, from any byte stream. Of a line that is too long nothing is
/// kept, and the line after it is read as any other.
#[derive(Debug)]
pub struct FrameReader<R>(MessageLines<R>);

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Returns a reader of a byte stream.
    pub fn new(input: R) -> Self {
        Self(MessageLines::new(input, MAX_FRAME))
    }

    /// Waits for the next line that is not blank; nothing at the end of the stream. A last line
    /// without an end is a line.
    pub async fn next(&mut self) -> std::io::Result<Option<FrameLine>> {
        let line = self.0.next().await?.or_else(|| self.0.take_unfinished());
        Ok(line.map(|line| match line {
            MessageLine::TooLong(_) => FrameLine::Bad(BadFrame::TooLong),
            MessageLine::Whole(line) => match String::from_utf8(line) {
                Ok(text) => FrameLine::Text(text),
                Err(_) => FrameLine::Bad(BadFrame::NotText),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_line_is_reported_and_the_rest_is_read() {
        let mut input = b"one\r\n\n  \n\xff\xfe\n".to_vec();
        input.extend(std::iter::repeat_n(b'x', MAX_FRAME + 1));
        input.extend(b"\ntwo\nhalf");
        let mut lines = FrameReader::new(&input[..]);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(line);
        }
        let text = |text: &str| FrameLine::Text(text.to_owned());
        assert_eq!(
            seen,
            [
                text("one\r"),
                FrameLine::Bad(BadFrame::NotText),
                FrameLine::Bad(BadFrame::TooLong),
                text("two"),
                text("half"),
            ]
        );
    }
}
