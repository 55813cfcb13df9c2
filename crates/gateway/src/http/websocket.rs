//! `GET /api/ws`: the conversation as JSON-RPC over WebSocket, the frames of `vestal serve`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use axum::extract::{Query, State, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::stream::SplitSink;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vestal_config::ConfigError;
use vestal_sandbox::{Overrides, TaskName};
use vestal_serve::{
    Admission, BadFrame, ClientConnection, ClientFrames, ClientLocation, MAX_FRAME, Server,
    TurnPermit,
};

use super::ApiState;
use super::error::ApiError;
use super::routes::{check_key, check_origin};
use crate::questions::QuestionChanges;
use crate::settings::ApiServer;
use crate::turns::Turns;

/// How long a ticket counts.
const TICKET_LIFE: Duration = Duration::from_secs(30);

/// Tickets that may wait to be used.
const MAX_TICKETS: usize = 1000;

/// Connections at once.
const MAX_CONNECTIONS: usize = 256;

/// How often a client is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long a client may be silent: it has answered no ping then.
const SILENT_FOR: Duration = Duration::from_secs(90);

/// How long one frame may take to be sent.
const SEND_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of the reason that a close frame can carry.
const MAX_REASON: usize = 120;

/// What connections over WebSocket share. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct WebSockets {
    server: Server,
    tickets: Arc<Mutex<HashMap<String, Instant>>>,
    connections: Arc<Semaphore>,
}

/// Counts turns of sessions as turns of the gateway.
#[derive(Debug)]
struct GatewayAdmission(Turns);

impl Admission for GatewayAdmission {
    fn admit(&self) -> Result<TurnPermit, String> {
        let turn = self.0.admit().map_err(|refused| refused.to_string())?;
        Ok(TurnPermit { interrupt: turn.interrupt.clone(), running: Box::new(turn) })
    }
}

impl WebSockets {
    /// Begins to serve sessions. They end with the gateway: a drain waits for their turns, or
    /// interrupts them, and then closes them.
    pub(super) fn new(
        api: &ApiServer,
        turns: &Turns,
        questions: QuestionChanges,
    ) -> Result<Self, ConfigError> {
        let engine = turns.runtime().agent().engine();
        let task = TaskName::default_task();
        let cwd = engine.host_start_dir(&task, &Overrides::default()).unwrap_or_default();
        let server = Server::builder(turns.runtime().clone(), api.serve.clone())
            .cwd(cwd)
            .admission(Arc::new(GatewayAdmission(turns.clone())))
            .source("gateway")
            .clients(ClientLocation::Remote)
            .on_question(move || questions.announce())
            .build()?;
        let draining = server.clone();
        turns.when_draining(move || async move { draining.drain("the gateway is stopping").await });
        Ok(Self {
            server,
            tickets: Arc::default(),
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        })
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    fn issue(&self, now: Instant) -> Result<String, getrandom::Error> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random)?;
        let mut ticket = String::with_capacity(64);
        for byte in random {
            // Writing to a string cannot fail.
            write!(ticket, "{byte:02x}").ok();
        }
        let mut tickets = self.lock();
        tickets.retain(|_, issued| now.duration_since(*issued) < TICKET_LIFE);
        if tickets.len() >= MAX_TICKETS
            && let Some(oldest) = tickets.iter().min_by_key(|(_, issued)| **issued)
        {
            let oldest = oldest.0.clone();
            tickets.remove(&oldest);
        }
        tickets.insert(ticket.clone(), now);
        Ok(ticket)
    }

    /// Takes a ticket, which counts once. Returns whether it was good.
    fn redeem(&self, ticket: &str, now: Instant) -> bool {
        let issued = self.lock().remove(ticket);
        issued.is_some_and(|issued| now.duration_since(issued) < TICKET_LIFE)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `POST /api/ws-ticket`: lets a page of a browser connect, which cannot send the key.
pub(super) async fn ticket(State(app): State<ApiState>) -> Result<Json<Value>, ApiError> {
    let ticket = app.sockets.issue(Instant::now());
    let ticket = ticket.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Json(json!({ "ticket": ticket, "expires_in": TICKET_LIFE.as_secs() })))
}

/// What an address may carry.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ConnectQuery {
    /// A ticket of `POST /api/ws-ticket`, instead of the key.
    ticket: Option<String>,
}

/// `GET /api/ws`. The key or a ticket is needed, and a page of a browser must be of a configured
/// origin: any page can open a connection to this machine.
pub(super) async fn connect(
    State(app): State<ApiState>,
    Query(query): Query<ConnectQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    check_origin(&app, &headers)?;
    match &query.ticket {
        Some(ticket) if app.sockets.redeem(ticket, Instant::now()) => {}
        Some(_) => return Err(ApiError::unauthorized("the ticket was used or is too old")),
        None => check_key(&app, &headers)?,
    }
    // Only who may connect hears what is wrong with the request.
    let upgrade = upgrade.map_err(|rejection| ApiError::of_upgrade(&rejection))?;
    let permit = Arc::clone(&app.sockets.connections).try_acquire_owned();
    let permit = permit.map_err(|_| ApiError::overloaded("too many connections are open"))?;
    let server = app.sockets.server.clone();
    Ok(upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .on_upgrade(move |socket| serve(server, socket, permit)))
}

/// Serves one connection until either side ends it.
async fn serve(server: Server, socket: WebSocket, permit: OwnedSemaphorePermit) {
    let (connection, outgoing) = server.connect();
    let (sink, mut stream) = socket.split();
    // Apart from the reader: a client that is being answered can still be sent its events.
    let mut writer = tokio::spawn(write(sink, outgoing));
    let reader = async {
        loop {
            match tokio::time::timeout(SILENT_FOR, stream.next()).await {
                Ok(Some(Ok(message))) => {
                    if !take(&connection, message).await {
                        return;
                    }
                }
                Ok(Some(Err(error))) => {
                    return tracing::debug!(%error, "a connection of a client failed");
                }
                Ok(None) => return,
                Err(_) => return tracing::debug!("a client was silent for too long"),
            }
        }
    };
    tokio::select! {
        () = reader => writer.abort(),
        _ = &mut writer => {}
    }
    drop(connection);
    drop(permit);
}

/// Takes a message of a client. Returns whether more may come.
async fn take(connection: &ClientConnection, message: Message) -> bool {
    match message {
        Message::Text(text) => connection.receive(&text).await,
        Message::Binary(_) => connection.refuse(BadFrame::NotText).await,
        // Pings are answered below; a pong says that the client is there.
        Message::Ping(_) | Message::Pong(_) => {}
        Message::Close(_) => return false,
    }
    true
}

async fn write(mut sink: SplitSink<WebSocket, Message>, outgoing: ClientFrames) {
    let frames =
        stream::unfold(&outgoing, async |outgoing| Some((outgoing.next().await?, outgoing)));
    if pass_on(std::pin::pin!(frames), &mut sink).await == Passed::Broken {
        return;
    }
    let mut reason = outgoing.end().unwrap_or_default();
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    let close = CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::from(reason) };
    // One that is gone needs no farewell.
    tokio::time::timeout(SEND_WITHIN, sink.send(Message::Close(Some(close)))).await.ok();
}

/// How the frames of a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// All were sent.
    All,
    /// The client is gone, or does not read.
    Broken,
}

/// Sends frames as they come, and asks the client in between whether it is there.
async fn pass_on<S: Sink<Message, Error: std::fmt::Display> + Unpin>(
    mut frames: impl Stream<Item = String> + Unpin,
    sink: &mut S,
) -> Passed {
    let mut pings = tokio::time::interval(PING_EVERY);
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            biased;
            // First: a client that is sent frames without a pause is asked, too.
            _ = pings.tick() => Message::Ping(Bytes::new()),
            frame = frames.next() => match frame {
                Some(frame) => Message::Text(frame.into()),
                None => return Passed::All,
            },
        };
        match tokio::time::timeout(SEND_WITHIN, sink.send(message)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => tracing::debug!(%error, "a client is gone"),
            Err(_) => tracing::info!("a client does not read; its connection is ended"),
        }
        return Passed::Broken;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_sent_frames_without_a_pause_is_asked_whether_it_is_there() {
        let frames = stream::iter((0..100).map(|number| number.to_string()));
        let mut sent = Vec::new();
        let taking = futures_util::sink::unfold(&mut sent, async |sent, message| {
            // As long as a slow client takes for a frame.
            tokio::time::sleep(Duration::from_secs(1)).await;
            sent.push(message);
            Ok::<_, Infallible>(sent)
        });
        assert_eq!(pass_on(frames, &mut std::pin::pin!(taking)).await, Passed::All);
        let pings = sent.iter().enumerate().filter(|(_, one)| matches!(one, Message::Ping(_)));
        let pings: Vec<usize> = pings.map(|(place, _)| place).collect();
        assert_eq!(pings, [0, 30, 60, 90]);
        let texts =
            sent.iter().filter_map(|one| one.to_text().ok().filter(|text| !text.is_empty()));
        assert!(texts.eq((0..100).map(|number| number.to_string())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let never = futures_util::sink::unfold((), async |(), _: Message| {
            std::future::pending::<Result<(), Infallible>>().await
        });
        let frames = stream::iter(["one".to_owned()]);
        assert_eq!(pass_on(frames, &mut std::pin::pin!(never)).await, Passed::Broken);
    }
}
