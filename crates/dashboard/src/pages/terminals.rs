//! Terminals: shells of a sandbox over a WebSocket, which a page leaves and comes back to.
//!
//! A terminal is a job of the sandbox. The page counts the bytes it has, so a line that was lost, or
//! a page that was hidden, goes on at that byte. It says how much it has drawn, so a flood of output
//! is as fast as the page, and no faster.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use axum::extract::{Path, Query, State, WebSocketUpgrade};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use vestal_api::{JobView, TerminalsView};
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, AfterInput, JobEvent, JobFilter, JobStream};
use vestal_sandbox::{
    AttachJob, CommandInput, Error, JobId, JobInfo, JobState, OutputDelivery, WindowSize,
    interactive_shell, redraw_terminal,
};

use super::bad_request;
use super::jobs::{find, job_id};
use super::sandboxes::ProfileSandbox;
use crate::app::App;
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

/// How much of what was printed a page that comes anew is shown again.
const REPLAYED: u64 = 256 << 10;

/// Bytes that a page may be sent before it has drawn some of them.
const UNDRAWN: u64 = 512 << 10;

/// The largest frame of a page, and how many of them may wait for the shell to read.
const MAX_FRAME: usize = 64 << 10;
const MAX_WAITING: usize = 256;

/// How long a shell may take to read what was typed.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// How often a page is asked whether it is there, and its session whether it still counts.
const PING_EVERY: Duration = Duration::from_secs(15);

/// How long a page may be silent: it has answered no ping then.
const SILENT_FOR: Duration = Duration::from_mins(1);

/// How long one frame may take to be sent.
const SEND_WITHIN: Duration = Duration::from_secs(30);

/// Most rows and columns of a terminal.
const MAX_SIZE: u16 = 1000;

/// The shell session that a terminal starts from, as `vestal shell` does.
const SESSION: &str = "main";

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    const ALL: &str = "/api/sandboxes/{profile}/{task}/terminals";
    const ONE: &str = "/api/sandboxes/{profile}/{task}/terminals/{job}";
    vec![
        Route::get(ALL, list).needs(Right::Viewer),
        Route::post(ALL, open).needs(Right::Operator),
        Route::websocket(ONE, connect).needs(Right::Operator),
    ]
}

/// Returns the terminals that run. A shell that has ended leaves a job, and no terminal.
async fn list(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
) -> Result<Json<TerminalsView>, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let connection = match target.engine.observe(&target.task).await {
        Ok(connection) => connection,
        // One that does not run has none.
        Err(Error::Stopped { .. }) => return Ok(Json(TerminalsView { terminals: Vec::new() })),
        Err(error) => return Err(error.into()),
    };
    let jobs = job::jobs(&connection, JobFilter::Running, u32::MAX).await?.jobs;
    let is_terminal = |job: &&JobInfo| job.pty && !matches!(job.state, JobState::Ended(_));
    let task = target.task.as_str();
    let terminals = jobs.iter().filter(is_terminal).map(|job| JobView::new(task, job)).collect();
    Ok(Json(TerminalsView { terminals }))
}

/// The size of a terminal, as a page measures it.
#[derive(Debug, Clone, Copy, Deserialize)]
struct PageSize {
    rows: u16,
    cols: u16,
}

impl PageSize {
    fn window(self) -> WindowSize {
        WindowSize { rows: self.rows.clamp(1, MAX_SIZE), cols: self.cols.clamp(2, MAX_SIZE) }
    }
}

/// Starts a shell. A sandbox that was stopped is started for it; none is made.
async fn open(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
    body: Result<Json<PageSize>, JsonRejection>,
) -> Result<Json<JobView>, PageError> {
    let Json(size) = body.map_err(|error| bad_request(error.status(), error.body_text()))?;
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let sandbox = target.started().await?;
    // What is drawn here is a terminal of this kind, whatever the sandbox says of it.
    let command = interactive_shell(SESSION, size.window())
        .secret_env("TERM", "xterm-256color")
        .secret_env("COLORTERM", "truecolor");
    let job = sandbox.spawn(command).await?;
    Ok(Json(JobView::new(target.task.as_str(), &job)))
}

#[derive(Debug, Deserialize)]
struct TerminalQuery {
    /// The first byte that the page does not have; a page that comes anew has none.
    from: Option<u64>,
    rows: u16,
    cols: u16,
}

async fn connect(
    State(app): State<App>,
    caller: Caller,
    Path((profile, task, id)): Path<(String, String, String)>,
    query: Result<Query<TerminalQuery>, QueryRejection>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let id = job_id(&id)?;
    let Query(query) = query.map_err(|error| bad_request(error.status(), error.body_text()))?;
    let size = PageSize { rows: query.rows, cols: query.cols }.window();
    let upgrade =
        upgrade.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let upgrade = upgrade.max_message_size(MAX_FRAME).max_frame_size(MAX_FRAME);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let (mut sink, stream) = socket.split();
        match TerminalPage::attach(app, caller, target, id, query.from, size).await {
            Ok(terminal) => terminal.serve(sink, stream).await,
            Err(error) => {
                // The page cannot read why an upgrade was refused; it can read this.
                say(&mut sink, &json!({ "type": "failed", "detail": error.detail() })).await;
                farewell(&mut sink, "failed").await;
            }
        }
    }))
}

/// One page at a terminal.
struct TerminalPage {
    app: App,
    caller: Caller,
    target: ProfileSandbox,
    job: JobStream,
    /// The offset of the next byte that is sent.
    position: u64,
    /// The offset up to which the page has drawn.
    drawn: u64,
    begin: Value,
}

/// What a page wants besides typing.
#[derive(Debug, Deserialize)]
struct PageUpdate {
    /// It has drawn everything before this offset.
    drawn: Option<u64>,
    /// Its size is another.
    size: Option<PageSize>,
}

/// What goes to the shell, in the order in which it came.
enum Typed {
    Bytes(Bytes),
    Size(WindowSize),
}

impl TerminalPage {
    async fn attach(
        app: App,
        caller: Caller,
        target: ProfileSandbox,
        id: JobId,
        from: Option<u64>,
        size: WindowSize,
    ) -> Result<Self, PageError> {
        let info = find(&target, &id).await?;
        if !info.pty {
            return Err(PageError::invalid(format!("job {id} does not run on a terminal")));
        }
        let written = info.stdout_bytes;
        // An offset that cannot be is one of another terminal.
        let known = from.filter(|from| *from <= written);
        let position = known.unwrap_or_else(|| written.saturating_sub(REPLAYED));
        let request = AttachJob {
            id: id.clone(),
            stdout_from: position,
            stderr_from: info.stderr_bytes,
            follow: true,
            delivery: OutputDelivery::EveryByte,
        };
        let job = target.engine.observe_job(&target.task, request).await?;
        if !matches!(info.state, JobState::Ended(_)) {
            let connection = target.engine.observe(&target.task).await?;
            if known.is_none() && written > 0 {
                redraw_terminal(&connection, &id, size).await;
            } else if let Err(error) = job::resize(&connection, &id, size).await {
                tracing::debug!(%error, "the size of a page was not passed on");
            }
        }
        // Up to `replay` the page has been here before: what it answers to that was answered.
        let begin = json!({ "type": "begin", "from": position, "replay": written });
        Ok(Self { app, caller, target, job, position, drawn: position, begin })
    }

    /// Serves the page until either side ends it, or the shell.
    async fn serve(
        mut self,
        mut sink: SplitSink<WebSocket, Message>,
        mut stream: SplitStream<WebSocket>,
    ) {
        if !say(&mut sink, &self.begin).await {
            return;
        }
        let (typed, waiting) = mpsc::channel(MAX_WAITING);
        let (report, mut reports) = mpsc::channel(8);
        let (engine, task) = (self.target.engine.clone(), self.target.task.clone());
        let connect = move || {
            let (engine, task) = (engine.clone(), task.clone());
            async move { engine.observe(&task).await }
        };
        // Apart: a shell that does not read keeps nobody from seeing what it prints.
        let typing = tokio::spawn(pass_on(connect, self.job.id().clone(), waiting, report));
        let mut pings = tokio::time::interval(PING_EVERY);
        pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut heard = tokio::time::Instant::now();
        loop {
            let has_room = self.position.saturating_sub(self.drawn) < UNDRAWN;
            let message = tokio::select! {
                biased;
                () = self.app.stop.cancelled() => break,
                _ = pings.tick() => {
                    if heard.elapsed() > SILENT_FOR || !self.app.gate.is_still_in(&self.caller).await {
                        break;
                    }
                    Message::Ping(Bytes::new())
                }
                message = stream.next() => {
                    heard = tokio::time::Instant::now();
                    let Some(Ok(message)) = message else { break };
                    if !self.take(message, &typed).await {
                        break;
                    }
                    continue;
                }
                Some(trouble) = reports.recv() => text(&json!({ "type": "trouble", "detail": trouble })),
                event = self.job.next(), if has_room => match self.shown(event) {
                    ShownTrouble::Nothing => continue,
                    ShownTrouble::More(message) => message,
                    ShownTrouble::Last(message) => {
                        send(&mut sink, message).await;
                        break;
                    }
                },
            };
            if !send(&mut sink, message).await {
                break;
            }
        }
        // What was typed before the page went still arrives.
        drop((typed, typing));
        farewell(&mut sink, "over").await;
    }

    /// Takes what a page says. Returns whether it may go on.
    async fn take(&mut self, message: Message, typed: &mpsc::Sender<Typed>) -> bool {
        let wish = match message {
            Message::Binary(bytes) => {
                self.app.memory.used();
                // A session that has ended types nothing more.
                if !self.app.gate.is_still_in(&self.caller).await {
                    return false;
                }
                // The shell has not read for long: the writer reports that to the page.
                typed.try_send(Typed::Bytes(bytes)).ok();
                return true;
            }
            Message::Text(text) => serde_json::from_str::<PageUpdate>(&text),
            Message::Ping(_) | Message::Pong(_) => return true,
            Message::Close(_) => return false,
        };
        let Ok(PageUpdate { drawn, size }) = wish else { return false };
        if let Some(drawn) = drawn {
            // What was not sent cannot have been drawn.
            self.drawn = drawn.clamp(self.drawn, self.position);
        }
        if let Some(size) = size {
            typed.try_send(Typed::Size(size.window())).ok();
        }
        true
    }

    /// Returns what a page is shown of an event.
    fn shown(&mut self, event: Result<Option<JobEvent>, Error>) -> ShownTrouble {
        match event {
            Ok(Some(JobEvent::Stdout(bytes))) => {
                self.position += bytes.len() as u64;
                ShownTrouble::More(Message::Binary(bytes))
            }
            Ok(Some(JobEvent::Gap { bytes, .. })) => {
                self.position += bytes;
                ShownTrouble::More(text(&json!({ "type": "gap", "bytes": bytes })))
            }
            Ok(Some(JobEvent::Ended(info))) => {
                let job = JobView::new(self.target.task.as_str(), &info);
                ShownTrouble::Last(text(&json!({ "type": "ended", "job": job })))
            }
            Ok(Some(JobEvent::Started { .. } | JobEvent::Stderr(_))) => ShownTrouble::Nothing,
            // Its sandbox went away under it.
            Ok(None) => {
                let detail = "the terminal has ended with its sandbox";
                ShownTrouble::Last(text(&json!({ "type": "failed", "detail": detail })))
            }
            Err(error) => {
                ShownTrouble::Last(text(&json!({ "type": "failed", "detail": error.to_string() })))
            }
        }
    }
}

enum ShownTrouble {
    Nothing,
    More(Message),
    Last(Message),
}

/// Passes on to the shell what is typed, as fast as it reads, until the page is gone.
async fn pass_on<F: Future<Output = Result<Connection, Error>>>(
    connect: impl Fn() -> F,
    id: JobId,
    mut waiting: mpsc::Receiver<Typed>,
    report: mpsc::Sender<String>,
) {
    let mut connection: Option<Connection> = None;
    let mut many = Vec::new();
    while waiting.recv_many(&mut many, MAX_WAITING).await > 0 {
        for typed in joined(many.drain(..)) {
            let open = connection.take().filter(|open| !open.is_closed());
            let passing = async {
                let open = match open {
                    Some(open) => open,
                    None => connect().await?,
                };
                match typed {
                    Typed::Bytes(bytes) => {
                        let input = CommandInput::Bytes(bytes.to_vec());
                        job::write(&open, &id, input, AfterInput::KeepOpen).await?;
                    }
                    Typed::Size(size) => job::resize(&open, &id, size).await?,
                }
                Ok::<_, Error>(open)
            };
            let trouble = match tokio::time::timeout(READ_WITHIN, passing).await {
                Ok(Ok(open)) => {
                    connection = Some(open);
                    continue;
                }
                Ok(Err(error)) => format!("what was typed did not arrive: {error}"),
                Err(_) => "the terminal does not read; what was typed may be lost".to_owned(),
            };
            // A page that is gone needs no word.
            report.try_send(trouble).ok();
        }
    }
}

/// Joins what was typed between two sizes, so that what is pasted is few writes.
fn joined(typed: impl Iterator<Item = Typed>) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    for next in typed {
        match (all.last_mut(), next) {
            (Some(Typed::Bytes(before)), Typed::Bytes(bytes)) => {
                *before = [before.as_ref(), bytes.as_ref()].concat().into();
            }
            // Only the last of several sizes counts.
            (Some(Typed::Size(before)), Typed::Size(size)) => *before = size,
            (_, next) => all.push(next),
        }
    }
    all
}

fn text(value: &Value) -> Message {
    Message::Text(value.to_string().into())
}

async fn say(sink: &mut SplitSink<WebSocket, Message>, value: &Value) -> bool {
    send(sink, text(value)).await
}

/// Sends a frame. Returns whether it went out.
async fn send(sink: &mut SplitSink<WebSocket, Message>, message: Message) -> bool {
    matches!(tokio::time::timeout(SEND_WITHIN, sink.send(message)).await, Ok(Ok(())))
}

async fn farewell(sink: &mut SplitSink<WebSocket, Message>, reason: &'static str) {
    let close = CloseFrame { code: close_code::NORMAL, reason: reason.into() };
    send(sink, Message::Close(Some(close))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_arrives_in_its_order_and_in_few_writes() {
        let bytes = |text: &'static str| Typed::Bytes(Bytes::from_static(text.as_bytes()));
        let size = |rows| Typed::Size(WindowSize { rows, cols: 80 });
        let typed = [bytes("l"), bytes("s"), size(1), size(2), bytes("\r")];
        let joined = joined(typed.into_iter());
        let shown: Vec<String> = joined
            .iter()
            .map(|typed| match typed {
                Typed::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Typed::Size(size) => size.rows.to_string(),
            })
            .collect();
        assert_eq!(shown, ["ls", "2", "\r"]);
    }

    #[test]
    fn a_size_is_one_that_a_terminal_can_have() {
        let window = |rows, cols| PageSize { rows, cols }.window();
        assert_eq!(window(0, 0), WindowSize { rows: 1, cols: 2 });
        assert_eq!(window(60_000, 80), WindowSize { rows: MAX_SIZE, cols: 80 });
    }
}
