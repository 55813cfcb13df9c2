//! One client: frames in, frames out.
//!
//! Whatever waits for room does so in the request it belongs to, so that a client which does not read is
//! still heard when it cancels a request or leaves.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use tokio::sync::Mutex;
use vestal_agent::slash::nearest;
use vestal_sandbox::JobId;

use super::events::{OutputEvent, OutputName, SandboxEvent};
use super::failure::SandboxFailure;
use super::limits::{REQUESTS, UNREAD};
use super::methods::{METHODS, MethodPace};
use super::requests::{EnteredRequest, NotEntered, RequestsUnderWay};
use super::server::SandboxService;
use crate::connection::{BadFrame, ClientFrames, MAX_FRAME};
use crate::error::{self, RpcError};
use crate::outbox::ClientOutbox;
use crate::protocol::{self, MalformedRequest, RpcRequest};

/// The version of the protocol. It grows when something is added.
pub(super) const PROTOCOL: u32 = 1;

/// What a client sends.
#[derive(Debug)]
pub struct SandboxConnection {
    server: SandboxService,
    requests: RequestsUnderWay,
    sender: FrameSender,
}

/// What is sent to a client, in turns. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct FrameSender {
    outbox: ClientOutbox,
    /// Whose turn it is: nobody overtakes, and one frame at a time exceeds what may wait.
    turn: Arc<Mutex<()>>,
}

/// A request that is being carried out.
#[derive(Debug, Clone)]
pub(super) struct SandboxCall {
    pub(super) server: SandboxService,
    pub(super) requests: RequestsUnderWay,
    pub(super) request: Arc<EnteredRequest>,
    sender: FrameSender,
}

impl SandboxConnection {
    pub(super) fn new(server: SandboxService) -> (Self, ClientFrames) {
        let outbox = ClientOutbox::new();
        let ready = SandboxEvent::Ready {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            profile: server.engine().profile().to_owned(),
            max_frame_bytes: MAX_FRAME,
            max_requests: REQUESTS,
            isolated: server.is_isolated(),
        };
        outbox.push(ready.frame());
        let outgoing = ClientFrames(outbox.clone());
        let sender = FrameSender { outbox, turn: Arc::default() };
        (Self { server, requests: RequestsUnderWay::default(), sender }, outgoing)
    }

    /// Takes a frame, and returns when the next may be given.
    #[boxed]
    pub async fn receive(&self, frame: &str) {
        match protocol::read(frame) {
            Ok(request) => self.take(request).await,
            Err(MalformedRequest { id, error }) => self.answer(Some(id), Err(error)).await,
        }
    }

    /// Answers a frame that cannot be read as one.
    #[boxed]
    pub async fn refuse(&self, bad: BadFrame) {
        self.answer(Some(Value::Null), Err(bad.error())).await;
    }

    /// Sends the client its last frame, with the reason.
    pub fn close(&self, reason: &str) {
        self.sender.outbox.close(reason);
    }

    async fn take(&self, request: RpcRequest) {
        let RpcRequest { id, method, params } = request;
        let Some(found) = METHODS.iter().find(|known| known.name == method) else {
            return self.answer(id, Err(unknown(&method))).await;
        };
        let entered = match found.pace {
            // Also when no place is free: that may be what frees one.
            MethodPace::AtOnce => Ok(self.requests.pass(id.clone())),
            MethodPace::Brief => self.requests.enter(id.clone(), self.server.over()),
            MethodPace::Long | MethodPace::Minded => {
                self.requests.enter(id.clone(), self.server.gone())
            }
        };
        let entered = match entered {
            Ok(entered) => entered,
            Err(reason) => return self.answer(id, Err(not_entered(reason))).await,
        };
        let call = SandboxCall {
            server: self.server.clone(),
            requests: self.requests.clone(),
            request: Arc::new(entered),
            sender: self.sender.clone(),
        };
        if found.pace == MethodPace::AtOnce {
            let result = (found.call)(call, params).await;
            return self.answer(id, result).await;
        }
        let (sender, until_cancelled) = (self.sender.clone(), found.pace != MethodPace::Minded);
        let (tasks, over) = (self.server.tasks().clone(), self.server.over().clone());
        tasks.clone().spawn(async move {
            let request = Arc::clone(&call.request);
            // In a task of its own, so that a bug in it is answered, too.
            let work = tasks.spawn((found.call)(call, params));
            let abort = work.abort_handle();
            let worked = async {
                work.await.unwrap_or_else(|error| {
                    Err(RpcError::new(error::INTERNAL, format!("a bug in {method}: {error}")))
                })
            };
            let result = tokio::select! {
                biased;
                result = worked => result,
                () = request.cancelled(), if until_cancelled => {
                    abort.abort();
                    Err(SandboxFailure::cancelled(None).into())
                }
            };
            request.release_id();
            if let Some(id) = id {
                // A client that reads nothing is not waited for at the end.
                tokio::select! {
                    biased;
                    () = sender.send(protocol::answer(&id, result)) => {}
                    () = over.cancelled() => {}
                }
            }
            drop(request);
        });
    }

    /// Answers a request that is not carried out, or was at once. While very much waits to be read,
    /// the client is not heard either.
    async fn answer(&self, id: Option<Value>, result: Result<Value, RpcError>) {
        let Some(id) = id else { return };
        if self.sender.outbox.waiting_bytes() > UNREAD {
            self.sender.outbox.room().await;
        }
        self.sender.outbox.push(protocol::answer(&id, result));
    }
}

impl FrameSender {
    /// Sends a frame once the client has read enough.
    async fn send(&self, frame: String) {
        let _turn = self.turn.lock().await;
        self.outbox.room().await;
        self.outbox.push(frame);
    }
}

impl SandboxCall {
    /// Does something unless the request is cancelled meanwhile.
    pub(super) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, SandboxFailure>>,
    ) -> Result<T, SandboxFailure> {
        tokio::select! {
            biased;
            () = self.request.cancelled() => Err(SandboxFailure::cancelled(None)),
            done = work => done,
        }
    }

    /// Tells the client that its command runs.
    pub(super) async fn report_started(&self, job: &JobId) {
        let request = self.request.id.clone();
        self.sender.send(SandboxEvent::Started { request, job: job.to_string() }.frame()).await;
    }

    /// Sends output, as much at a time as the client has granted; all of it where it grants nothing.
    pub(super) async fn send_output(
        &self,
        stream: OutputName,
        mut from: u64,
        mut bytes: &[u8],
        is_limited: bool,
    ) {
        while !bytes.is_empty() {
            let part =
                if is_limited { self.request.take_credit(bytes.len()).await } else { bytes.len() };
            let (now, later) = bytes.split_at(part.min(bytes.len()));
            let event = OutputEvent::bytes(&self.request.id, stream, from, now);
            self.sender.send(SandboxEvent::Output(event).frame()).await;
            from += now.len() as u64;
            bytes = later;
        }
    }

    pub(super) async fn send_gap(&self, stream: OutputName, from: u64, omitted: u64) {
        let event = OutputEvent::gap(&self.request.id, stream, from, omitted);
        self.sender.send(SandboxEvent::Output(event).frame()).await;
    }
}

fn not_entered(reason: NotEntered) -> RpcError {
    match reason {
        NotEntered::TooMany => {
            RpcError::new(error::REFUSED, format!("{REQUESTS} requests are under way"))
                .advise("wait for the answer to one of them")
        }
        NotEntered::IdInUse => {
            RpcError::new(error::INVALID_REQUEST, "a request with this id is under way")
                .advise("give each request an id of its own")
        }
    }
}

fn unknown(method: &str) -> RpcError {
    let shown = protocol::shown(method);
    let error = RpcError::new(error::UNKNOWN_METHOD, format!("there is no method {shown:?}"));
    match nearest(&shown, METHODS.iter().map(|method| method.name)) {
        Some(meant) => error.advise(format!("did you mean {meant}?")),
        None => error,
    }
}
