//! Jobs of a sandbox: followed as events, killed, and written to over a WebSocket.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket};
use axum::extract::{Path, Query, State, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use vestal_api::JobView;
use vestal_sandbox::job::{self, AfterInput, JobEvent, JobStream};
use vestal_sandbox::{AttachJob, CommandInput, JobId, JobInfo, JobState, OutputDelivery, Stream};

use super::bad_request;
use super::sandboxes::ProfileSandbox;
use crate::app::App;
use crate::error::PageError;
use crate::events::{self, KEEP_ALIVE};
use crate::gate::{Caller, DeclaredRoute, Right, Route};

/// How much of the end of a log a page begins with, unless it has a cursor.
const TAIL_BYTES: u64 = 256 << 10;

/// How often a log that goes on looks whether its session still counts.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The largest piece of input, and how long a job may take to read it.
const MAX_INPUT: usize = 64 << 10;
const READ_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/sandboxes/{profile}/{task}/jobs/{job}", show).needs(Right::Viewer),
        Route::get("/api/sandboxes/{profile}/{task}/jobs/{job}/log", log).needs(Right::Viewer),
        Route::post("/api/sandboxes/{profile}/{task}/jobs/{job}/kill", kill).needs(Right::Operator),
        Route::websocket("/api/sandboxes/{profile}/{task}/jobs/{job}/input", input)
            .needs(Right::Operator),
    ]
}

type JobPath = Path<(String, String, String)>;

pub(super) fn job_id(text: &str) -> Result<JobId, PageError> {
    text.parse()
        .map_err(|error: vestal_sandbox::InvalidJobId| PageError::invalid(error.to_string()))
}

pub(super) async fn find(target: &ProfileSandbox, id: &JobId) -> Result<JobInfo, PageError> {
    let connection = target.engine.observe(&target.task).await?;
    Ok(job::wait(&connection, id, Some(Duration::ZERO)).await?)
}

async fn show(
    State(app): State<App>,
    Path((profile, task, id)): JobPath,
) -> Result<Json<JobView>, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let info = find(&target, &job_id(&id)?).await?;
    Ok(Json(JobView::new(target.task.as_str(), &info)))
}

/// Kills every process of a job and answers when none is left.
async fn kill(
    State(app): State<App>,
    Path((profile, task, id)): JobPath,
) -> Result<Json<JobView>, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    // What does not run is not started to be killed.
    let connection = target.engine.observe(&target.task).await?;
    let info = job::kill(&connection, &job_id(&id)?).await?;
    Ok(Json(JobView::new(target.task.as_str(), &info)))
}

#[derive(Debug, Deserialize)]
pub(super) struct JobLogQuery {
    /// The id of the last event that the page has.
    #[serde(default)]
    cursor: String,
}

/// An offset in each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JobLogOffsets {
    stdout: u64,
    stderr: u64,
}

impl JobLogOffsets {
    fn parse(text: &str) -> Option<Self> {
        let (stdout, stderr) = text.trim().split_once('.')?;
        Some(Self { stdout: stdout.parse().ok()?, stderr: stderr.parse().ok()? })
    }

    /// Begins near the end: nobody waits for a hundred megabytes to see the last line.
    fn tail(info: &JobInfo) -> Self {
        let from = |bytes: u64| bytes.saturating_sub(TAIL_BYTES);
        Self { stdout: from(info.stdout_bytes), stderr: from(info.stderr_bytes) }
    }

    fn id(self) -> String {
        format!("{}.{}", self.stdout, self.stderr)
    }
}

/// Sends what a job writes until it ends. A reader that is too slow never slows the job down: it
/// is told of the gap.
async fn log(
    State(app): State<App>,
    caller: Caller,
    Path((profile, task, id)): JobPath,
    headers: HeaderMap,
    Query(query): Query<JobLogQuery>,
) -> Result<Response, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let info = find(&target, &job_id(&id)?).await?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let given = JobLogOffsets::parse(last.unwrap_or(&query.cursor));
    let offsets = given.unwrap_or_else(|| JobLogOffsets::tail(&info));
    let request = AttachJob {
        id: info.id.clone(),
        stdout_from: offsets.stdout,
        stderr_from: offsets.stderr,
        follow: true,
        delivery: match info.state {
            JobState::Ended(_) => OutputDelivery::EveryByte,
            JobState::Starting | JobState::Running => OutputDelivery::Lossy,
        },
    };
    let job = target.engine.observe_job(&target.task, request).await?;
    let begin = json!({ "stdout_from": offsets.stdout, "stderr_from": offsets.stderr });
    let mut pending = VecDeque::new();
    if given.is_none() {
        pending.push_back(Event::default().event("begin").data(begin.to_string()));
    }
    let task = target.task.to_string();
    let state = FollowedJob {
        app,
        caller,
        job: Some(job),
        task,
        offsets,
        pending,
        asked_at: Instant::now(),
    };
    Ok(events::response(stream::unfold(state, FollowedJob::next)))
}

struct FollowedJob {
    app: App,
    caller: Caller,
    /// Nothing once it has ended.
    job: Option<JobStream>,
    task: String,
    offsets: JobLogOffsets,
    pending: VecDeque<Event>,
    /// When it was last asked whether the session still counts.
    asked_at: Instant,
}

impl FollowedJob {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some((Ok(event), self));
            }
            let job = self.job.as_mut()?;
            let read = tokio::select! {
                () = self.app.stop.cancelled() => return None,
                read = tokio::time::timeout(KEEP_ALIVE, job.next()) => read,
            };
            // A session that has ended sees nothing more, also of a job that writes without a pause.
            if read.is_err() || self.asked_at.elapsed() >= ASK_EVERY {
                if !self.app.gate.is_still_in(&self.caller).await {
                    return None;
                }
                self.asked_at = Instant::now();
            }
            match read {
                Ok(read) => self.take(read),
                Err(_) => self.pending.push_back(Event::default().comment("")),
            }
        }
    }

    fn take(&mut self, read: Result<Option<JobEvent>, vestal_sandbox::Error>) {
        let event = match read {
            Ok(Some(JobEvent::Started { .. })) => return,
            Ok(Some(JobEvent::Stdout(bytes))) => {
                self.offsets.stdout += bytes.len() as u64;
                self.output("stdout", &bytes)
            }
            Ok(Some(JobEvent::Stderr(bytes))) => {
                self.offsets.stderr += bytes.len() as u64;
                self.output("stderr", &bytes)
            }
            Ok(Some(JobEvent::Gap { stream, bytes })) => {
                match stream {
                    Stream::Stdout => self.offsets.stdout += bytes,
                    Stream::Stderr => self.offsets.stderr += bytes,
                    _ => return,
                }
                let data = json!({ "bytes": bytes });
                Event::default().event("gap").id(self.offsets.id()).data(data.to_string())
            }
            Ok(Some(JobEvent::Ended(info))) => {
                let view = JobView::new(&self.task, &info);
                let data = serde_json::to_string(&view).unwrap_or_default();
                Event::default().event("ended").id(self.offsets.id()).data(data)
            }
            Ok(None) => {
                self.job = None;
                return;
            }
            Err(error) => {
                self.job = None;
                let data = json!({ "detail": error.to_string() });
                Event::default().event("failed").data(data.to_string())
            }
        };
        self.pending.push_back(event);
    }

    /// Bytes that are not text are shown as replacement characters; the page makes nothing of them
    /// but text.
    fn output(&self, stream: &str, bytes: &[u8]) -> Event {
        let data = json!({ "stream": stream, "text": String::from_utf8_lossy(bytes) });
        Event::default().event("output").id(self.offsets.id()).data(data.to_string())
    }
}

/// Passes what a person types on to the standard input of a job.
async fn input(
    State(app): State<App>,
    caller: Caller,
    Path((profile, task, id)): JobPath,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let id = job_id(&id)?;
    let upgrade =
        upgrade.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let upgrade = upgrade.max_message_size(MAX_INPUT).max_frame_size(MAX_INPUT);
    Ok(upgrade.on_upgrade(move |socket| write(app, caller, target, id, socket)))
}

async fn write(app: App, caller: Caller, target: ProfileSandbox, id: JobId, mut socket: WebSocket) {
    loop {
        let message = tokio::select! {
            () = app.stop.cancelled() => return,
            message = socket.recv() => message,
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None => return,
        };
        if !app.gate.is_still_in(&caller).await {
            return;
        }
        let written = async {
            let connection = target.engine.observe(&target.task).await?;
            let input = CommandInput::Bytes(text.as_bytes().to_vec());
            job::write(&connection, &id, input, AfterInput::KeepOpen).await?;
            Ok::<_, PageError>(())
        };
        let answer = match tokio::time::timeout(READ_WITHIN, written).await {
            Ok(Ok(())) => json!({ "written": text.len() }),
            Ok(Err(error)) => json!({ "error": error.detail() }),
            Err(_) => json!({ "error": "the job does not read" }),
        };
        if socket.send(Message::Text(answer.to_string().into())).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_a_log_is_an_offset_in_each_stream() {
        let offsets = JobLogOffsets { stdout: 7, stderr: 9 };
        assert_eq!(JobLogOffsets::parse(&offsets.id()), Some(offsets));
        for bad in ["", "7", "7.x", "-1.2", "1.2.3"] {
            assert_eq!(JobLogOffsets::parse(bad), None, "{bad}");
        }
    }
}
