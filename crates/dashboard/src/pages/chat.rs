//! The chat: the JSON-RPC of crate `serve` over a WebSocket of the dashboard.
//!
//! Only the methods that the page needs are passed on. The others read files of the host, run commands or
//! change settings, which is more than a page that talks to an agent has to be able to do.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use axum::extract::{Path, State, WebSocketUpgrade};
use axum::response::Response;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use vestal_config::ProfileName;
use vestal_runtime::{AnswerError, RemoteAnswer, Runtime};
use vestal_serve::{
    BadFrame, ClientFrames, ClientLocation, MAX_FRAME, ServeSettings, Server, WaitingQuestion,
};

use super::bad_request;
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

/// How often a page is asked whether it is there, and its session whether it still counts.
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long a page may be silent: it has answered no ping then.
const SILENT_FOR: Duration = Duration::from_secs(90);

/// How long one frame may take to be sent.
const SEND_WITHIN: Duration = Duration::from_secs(30);

/// How long sessions may take to end when the dashboard stops.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Bytes of the reason that a close frame can carry.
const MAX_REASON: usize = 120;

/// Answers to refused methods that may wait to be sent.
const MAX_REFUSALS: usize = 64;

/// Why a chat ends when the dashboard does.
const STOPPING: &str = "the dashboard is stopping";

/// The methods that the page uses.
const METHODS: &[&str] = &[
    "approval.respond",
    "clarify.respond",
    "config.set",
    "model.options",
    "prompt.submit",
    "session.activate",
    "session.branch",
    "session.create",
    "session.history",
    "session.interrupt",
    "session.resume",
    "session.steer",
    "session.title",
    "session.undo",
];

/// What `config.set` may set: both are of one session. Other keys are settings of the profile.
const SESSION_KEYS: &[&str] = &["model", "busy"];

/// Members of `session.create` that the page uses. The others name directories of the host.
const CREATE_MEMBERS: &[&str] = &["model", "provider", "title"];

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![Route::websocket("/api/chat/{profile}", connect).needs(Right::Operator)]
}

/// The servers of conversations, one for each profile that somebody has talked to.
#[derive(Debug, Default)]
pub(crate) struct Chats(Mutex<HashMap<ProfileName, ProfileChat>>);

#[derive(Debug)]
struct ProfileChat {
    server: Server,
    runtime: Runtime,
}

impl Chats {
    /// Returns the server of a profile, which is made when it is first asked for.
    async fn server(&self, app: &AppState, profile: &ProfileName) -> Result<Server, PageError> {
        let mut chats = self.0.lock().await;
        if app.stop.is_cancelled() {
            return Err(PageError::unavailable(STOPPING));
        }
        if let Some(chat) = chats.get(profile) {
            return Ok(chat.server.clone());
        }
        let unusable = |error: String| {
            PageError::unavailable(error).advise(format!("vestal -p {profile} doctor says more"))
        };
        let engine = app.data.engine(profile).await?;
        let settings = app.data.settings(profile);
        let wanted = ServeSettings::new(&settings).map_err(|error| unusable(error.to_string()))?;
        let redactor =
            vestal_runtime::redactor(&settings).map_err(|error| unusable(error.to_string()))?;
        let runtime = Runtime::builder(engine).redactor(redactor).remember_approvals().build();
        let runtime = runtime.await.map_err(|error| unusable(error.to_string()))?;
        // What a page may ask is listed above; a user who is logged in as operator is at the machine.
        let server = Server::builder(runtime.clone(), wanted)
            .source("dashboard")
            .clients(ClientLocation::Local)
            .build();
        let server = server.map_err(|error| unusable(error.to_string()))?;
        chats.insert(profile.clone(), ProfileChat { server: server.clone(), runtime });
        Ok(server)
    }

    /// Returns what waits for an answer, with the profile it is of.
    pub(crate) async fn questions(&self) -> Vec<(ProfileName, WaitingQuestion)> {
        let chats = self.0.lock().await;
        let of_one = |(profile, chat): (&ProfileName, &ProfileChat)| {
            let (profile, open) = (profile.clone(), chat.server.waiting_questions());
            open.into_iter().map(move |question| (profile.clone(), question))
        };
        chats.iter().flat_map(of_one).collect()
    }

    /// Answers a question.
    pub(crate) async fn answer(
        &self,
        profile: &ProfileName,
        session: &str,
        question: &str,
        answer: RemoteAnswer,
    ) -> Result<(), AnswerError> {
        let server = self.0.lock().await.get(profile).map(|chat| chat.server.clone());
        server.ok_or(AnswerError::NotOpen)?.answer_question(session, question, answer)
    }

    /// Interrupts what runs, closes every session, and tells every page.
    pub(crate) async fn close(&self) {
        let chats: Vec<ProfileChat> = self.0.lock().await.drain().map(|(_, chat)| chat).collect();
        let closing = chats.into_iter().map(async |chat: ProfileChat| {
            chat.server.shutdown(STOPPING).await;
            chat.runtime.close().await;
        });
        let closing = futures_util::future::join_all(closing);
        if tokio::time::timeout(END_WITHIN, closing).await.is_err() {
            tracing::warn!("the end of conversations was not waited for");
        }
    }
}

async fn connect(
    State(app): State<App>,
    caller: Caller,
    Path(profile): Path<String>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, PageError> {
    let home = app.data.profile(&profile)?;
    let upgrade =
        upgrade.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let server = app.chats.server(&app, home.profile()).await?;
    Ok(upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .on_upgrade(move |socket| serve(app, caller, server, socket)))
}

/// Serves one page until either side ends it.
async fn serve(app: App, caller: Caller, server: Server, socket: WebSocket) {
    let (connection, outgoing) = server.connect();
    let (sink, mut stream) = socket.split();
    let (refuse, refusals) = mpsc::channel(MAX_REFUSALS);
    // Apart from the reader: a page that is being answered can still be sent its events.
    let writing = write(app.clone(), caller.clone(), sink, outgoing, refusals);
    let mut writer = tokio::spawn(writing);
    let reader = async {
        loop {
            let message = match tokio::time::timeout(SILENT_FOR, stream.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => {
                    return tracing::debug!(%error, "the connection of a page failed");
                }
                Ok(None) => return,
                Err(_) => return tracing::debug!("a page was silent for too long"),
            };
            match message {
                Message::Text(text) => {
                    app.memory.used();
                    // A session that has ended says nothing more.
                    if !app.gate.is_still_in(&caller).await {
                        return;
                    }
                    match allowed(&text) {
                        Ok(frame) => connection.receive(&frame).await,
                        Err(refusal) => {
                            if refuse.send(refusal).await.is_err() {
                                return;
                            }
                        }
                    }
                }
                Message::Binary(_) => connection.refuse(BadFrame::NotText).await,
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Close(_) => return,
            }
        }
    };
    tokio::select! {
        () = reader => writer.abort(),
        _ = &mut writer => {}
    }
    // A running turn continues; a page that reconnects finds it.
    drop(connection);
}

/// Returns the frame that is passed on, or the answer to one that is not. What is passed on is written
/// anew, so that both sides read the same in it, also of a member that was given twice.
fn allowed(text: &str) -> Result<String, String> {
    // What is not JSON or no request is answered behind this.
    let Ok(mut frame) = serde_json::from_str::<Value>(text) else { return Ok(text.to_owned()) };
    let method = frame["method"].as_str().unwrap_or_default();
    if !METHODS.contains(&method) {
        return Err(refusal(&frame, -32601, "the dashboard has no such method"));
    }
    if method == "config.set" {
        let key = frame["params"]["key"].as_str().unwrap_or_default();
        if !SESSION_KEYS.contains(&key) {
            return Err(refusal(&frame, 4002, "only model and busy of a session are set here"));
        }
    }
    let is_create = method == "session.create";
    if let Some(params) = frame.get_mut("params").and_then(Value::as_object_mut) {
        if is_create {
            params.retain(|name, _| CREATE_MEMBERS.contains(&name.as_str()));
        }
        // Pictures come as bytes; a path would be of the host.
        if let Some(images) = params.get_mut("images").and_then(Value::as_array_mut) {
            images.retain(|image| image.get("path").is_none());
        }
    }
    Ok(frame.to_string())
}

fn refusal(frame: &Value, code: i32, message: &str) -> String {
    let error = json!({ "code": code, "message": message });
    json!({ "jsonrpc": "2.0", "id": frame["id"], "error": error }).to_string()
}

async fn write(
    app: App,
    caller: Caller,
    mut sink: SplitSink<WebSocket, Message>,
    outgoing: ClientFrames,
    mut refusals: mpsc::Receiver<String>,
) {
    let mut pings = tokio::time::interval(PING_EVERY);
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            biased;
            // First: a page that is sent frames without a pause is asked, too.
            _ = pings.tick() => {
                if !app.gate.is_still_in(&caller).await {
                    break;
                }
                Message::Ping(Bytes::new())
            }
            Some(refusal) = refusals.recv() => Message::Text(refusal.into()),
            frame = outgoing.next() => match frame {
                Some(frame) => Message::Text(frame.into()),
                None => break,
            },
        };
        match tokio::time::timeout(SEND_WITHIN, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return tracing::debug!(%error, "a page is gone"),
            Err(_) => return tracing::info!("a page does not read; its connection is ended"),
        }
    }
    let mut reason = outgoing.end().unwrap_or_default();
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    let close = CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::from(reason) };
    // One that is gone needs no farewell.
    tokio::time::timeout(SEND_WITHIN, sink.send(Message::Close(Some(close)))).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(frame: &str) -> Option<i64> {
        let refused = allowed(frame).err()?;
        serde_json::from_str::<Value>(&refused).unwrap()["error"]["code"].as_i64()
    }

    #[test]
    fn a_page_can_talk_and_neither_run_commands_nor_change_settings() {
        for method in ["cli.exec", "shell.exec", "config.show", "slash.exec", "", "session.delete"]
        {
            let frame = json!({ "id": 1, "method": method, "params": {} }).to_string();
            assert_eq!(code(&frame), Some(-32601), "{method}");
        }
        assert_eq!(code(r#"{"method":"config.set","params":{"key":"yolo"}}"#), Some(4002));
        assert_eq!(code(r#"{"method":"config.set","params":{"key":"model"}}"#), None);
        // The last of two members counts, here and behind this.
        let twice = r#"{"id":1,"method":"cli.exec","method":"session.undo"}"#;
        assert!(!allowed(twice).unwrap().contains("cli.exec"));
        let twice = r#"{"id":1,"method":"session.undo","method":"cli.exec"}"#;
        assert_eq!(code(twice), Some(-32601));
    }

    #[test]
    fn a_page_names_no_file_of_the_host() {
        let frame = r#"{"method":"session.create","params":{"cwd":"/etc","model":"m"}}"#;
        let passed: Value = serde_json::from_str(&allowed(frame).unwrap()).unwrap();
        assert_eq!(passed["params"], json!({ "model": "m" }));
    }
}
