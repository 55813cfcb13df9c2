//! Jobs of a sandbox, also those of other clients: list, follow, wait for, write to and kill them.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vestal_api::{JobView, LogsView, OutputView};
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, AfterInput, JobEvent, JobFilter, JobStream, OutputWindow};
use vestal_sandbox::{CommandInput, JobId, JobInfo, Stream};

use super::SandboxTarget;
use crate::http::error::ApiError;
use crate::http::openapi::{DescribedRoutes, Listed, RouteOperation};
use crate::http::sse;

/// Most jobs that are listed.
const LISTED: u32 = 1000;

/// How much of each stream one answer has, unless the request says otherwise, and at most.
const LOG_BYTES: u64 = 1 << 20;
const MAX_LOG_BYTES: u64 = 16 << 20;

/// The longest wait of one request; a client that wants more asks again.
const MAX_WAIT: u64 = 3600;

pub(super) fn routes(routes: DescribedRoutes, tag: &'static str) -> DescribedRoutes {
    let operation = |summary: &'static str| RouteOperation::new(tag, summary);
    routes
        .get("/api/sandboxes/{task}/jobs", get(list), operation("Lists the jobs of a sandbox, oldest first")
            .query::<JobsQuery>().answers::<Listed<JobView>>())
        .get("/api/sandboxes/{task}/jobs/{job}", get(show), operation("Shows a job")
            .answers::<JobView>())
        .get("/api/sandboxes/{task}/jobs/{job}/logs", get(logs), operation("Returns what a job wrote from given offsets on; with follow, as events until it ends")
            .query::<JobOutputQuery>().answers::<LogsView>())
        .post("/api/sandboxes/{task}/jobs/{job}/wait", post(wait), operation("Waits until a job has ended or the time is up")
            .takes::<WaitRequest>().answers::<JobView>())
        .post("/api/sandboxes/{task}/jobs/{job}/kill", post(kill), operation("Kills every process of a job and returns when none is left, or sends its foreground processes a signal")
            .takes::<KillRequest>().answers::<JobView>())
        .post("/api/sandboxes/{task}/jobs/{job}/stdin", post(write), operation("Writes to the standard input of a job, as fast as it reads")
            .takes::<WriteRequest>().answers::<InputWrittenView>())
}

/// Which jobs.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct JobsQuery {
    /// Whether jobs that have ended are listed too.
    #[serde(default)]
    all: bool,
}

/// Which part of the output.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct JobOutputQuery {
    /// The first byte of standard output.
    #[serde(default)]
    stdout_from: u64,
    /// The first byte of standard error.
    #[serde(default)]
    stderr_from: u64,
    /// At most so many bytes of each: 1 MiB unless given, 16 MiB at most.
    #[serde(default)]
    limit: Option<u64>,
    /// Whether events are sent until the job ends.
    #[serde(default)]
    follow: bool,
}

/// How long to wait.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct WaitRequest {
    /// Seconds: an hour at most, and unless given.
    #[serde(default)]
    timeout_seconds: Option<u64>,
}

/// How to end it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct KillRequest {
    /// The number of a signal to send instead of killing all of it.
    #[serde(default)]
    signal: Option<i32>,
}

/// What to write.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct WriteRequest {
    /// Text.
    #[serde(default)]
    text: Option<String>,
    /// Bytes in base64.
    #[serde(default)]
    base64: Option<String>,
    /// Whether the standard input is closed afterwards.
    #[serde(default)]
    close: bool,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct InputWrittenView {
    /// The job.
    id: String,
    /// How many bytes.
    written: usize,
    /// Whether the standard input was closed afterwards.
    closed: bool,
}

type TaskJobPath = Path<(String, String)>;

async fn list(
    target: SandboxTarget,
    query: Result<Query<JobsQuery>, QueryRejection>,
) -> Result<Json<Listed<JobView>>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::of_query(&error))?;
    let filter = if query.all { JobFilter::All } else { JobFilter::Running };
    let connection = target.engine.existing_connection(&target.task).await?;
    let found = job::jobs(&connection, filter, LISTED).await?;
    let jobs = found.jobs.iter().map(|info| JobView::new(target.task.as_str(), info));
    Ok(Json(Listed::new(jobs.collect(), found.more)))
}

async fn show(
    target: SandboxTarget,
    Path((_, id)): TaskJobPath,
) -> Result<Json<JobView>, ApiError> {
    let (_, info) = find(&target, &id).await?;
    Ok(Json(JobView::new(target.task.as_str(), &info)))
}

async fn wait(
    target: SandboxTarget,
    Path((_, id)): TaskJobPath,
    body: Result<Json<WaitRequest>, JsonRejection>,
) -> Result<Json<JobView>, ApiError> {
    let Json(request) = body?;
    let limit = request.timeout_seconds.unwrap_or(MAX_WAIT).min(MAX_WAIT);
    let (connection, info) = find(&target, &id).await?;
    let info = job::wait(&connection, &info.id, Some(Duration::from_secs(limit))).await?;
    Ok(Json(JobView::new(target.task.as_str(), &info)))
}

async fn kill(
    target: SandboxTarget,
    Path((_, id)): TaskJobPath,
    body: Result<Json<KillRequest>, JsonRejection>,
) -> Result<Json<JobView>, ApiError> {
    let Json(request) = body?;
    let id = job_id(&id)?;
    // What does not run is not started to be killed.
    let connection = target.engine.observe(&target.task).await?;
    let info = match request.signal {
        Some(signal @ 1..=64) => {
            job::signal(&connection, &id, signal).await?;
            job::wait(&connection, &id, Some(Duration::ZERO)).await?
        }
        Some(_) => return Err(ApiError::invalid("signal", "must be 1 to 64")),
        None => job::kill(&connection, &id).await?,
    };
    Ok(Json(JobView::new(target.task.as_str(), &info)))
}

async fn write(
    target: SandboxTarget,
    Path((_, id)): TaskJobPath,
    body: Result<Json<WriteRequest>, JsonRejection>,
) -> Result<Json<InputWrittenView>, ApiError> {
    let Json(request) = body?;
    let bytes = match (request.text, request.base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(encoded)) => STANDARD
            .decode(encoded)
            .map_err(|error| ApiError::invalid("base64", error.to_string()))?,
        (None, None) if request.close => Vec::new(),
        _ => {
            let message = "send either text or base64; close alone closes the standard input";
            return Err(ApiError::invalid("text", message));
        }
    };
    let id = job_id(&id)?;
    let connection = target.engine.observe(&target.task).await?;
    let after = if request.close { AfterInput::Close } else { AfterInput::KeepOpen };
    let written = bytes.len();
    job::write(&connection, &id, CommandInput::Bytes(bytes), after).await?;
    Ok(Json(InputWrittenView { id: id.to_string(), written, closed: request.close }))
}

async fn logs(
    target: SandboxTarget,
    Path((_, id)): TaskJobPath,
    headers: HeaderMap,
    query: Result<Query<JobOutputQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::of_query(&error))?;
    let mut offsets = StreamOffsets { stdout: query.stdout_from, stderr: query.stderr_from };
    if let Some(last) = headers.get("last-event-id") {
        let last = last.to_str().ok().and_then(StreamOffsets::parse);
        offsets = last.ok_or_else(|| {
            ApiError::invalid("last-event-id", "must be the id of an event: two offsets")
        })?;
    }
    let (_, info) = find(&target, &id).await?;
    let limit = query.limit.unwrap_or(LOG_BYTES).min(MAX_LOG_BYTES);
    let window = OutputWindow { stdout_from: offsets.stdout, stderr_from: offsets.stderr, limit };
    if query.follow {
        let job = target.engine.observe_job(&target.task, window.attach(&info, true)).await?;
        let state = Following { job, task: target.task.to_string(), offsets };
        return Ok(sse::response(stream::unfold(Some(state), next)));
    }
    let output = target.engine.job_output(&target.task, &info, window).await?;
    Ok(Json(LogsView::new(target.task.as_str(), window, &output)).into_response())
}

/// An offset in each stream.
#[derive(Debug, Clone, Copy)]
struct StreamOffsets {
    stdout: u64,
    stderr: u64,
}

impl StreamOffsets {
    /// Reads the id of an event.
    fn parse(text: &str) -> Option<Self> {
        let (stdout, stderr) = text.trim().split_once('.')?;
        Some(Self { stdout: stdout.parse().ok()?, stderr: stderr.parse().ok()? })
    }

    fn of(&mut self, stream: Stream) -> Option<&mut u64> {
        match stream {
            Stream::Stdout => Some(&mut self.stdout),
            Stream::Stderr => Some(&mut self.stderr),
            _ => None,
        }
    }

    fn id(self) -> String {
        format!("{}.{}", self.stdout, self.stderr)
    }
}

struct Following {
    job: JobStream,
    task: String,
    offsets: StreamOffsets,
}

async fn next(
    state: Option<Following>,
) -> Option<(Result<SseEvent, Infallible>, Option<Following>)> {
    let mut state = state?;
    loop {
        let (name, data) = match state.job.next().await {
            Ok(Some(JobEvent::Started { .. })) => continue,
            Ok(Some(JobEvent::Stdout(bytes))) => state.output(Stream::Stdout, &bytes),
            Ok(Some(JobEvent::Stderr(bytes))) => state.output(Stream::Stderr, &bytes),
            Ok(Some(JobEvent::Gap { stream, bytes })) => {
                let Some(offset) = state.offsets.of(stream) else { continue };
                let data = json!({ "stream": name_of(stream), "from": *offset, "omitted": bytes });
                *offset += bytes;
                ("gap", data)
            }
            Ok(Some(JobEvent::Ended(info))) => {
                let view = JobView::new(&state.task, &info);
                let event = sse::named("ended", &json!(view)).id(state.offsets.id());
                return Some((Ok(event), None));
            }
            Ok(None) => return None,
            Err(error) => {
                let error = ApiError::from(error);
                return Some((Ok(sse::named("error", &error.body())), None));
            }
        };
        let event = sse::named(name, &data).id(state.offsets.id());
        return Some((Ok(event), Some(state)));
    }
}

impl Following {
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> (&'static str, Value) {
        let from = self.offsets.of(stream).map_or(0, |offset| {
            let from = *offset;
            *offset += bytes.len() as u64;
            from
        });
        let mut data = json!(OutputView::new(from, bytes, 0));
        data["stream"] = json!(name_of(stream));
        ("output", data)
    }
}

const fn name_of(stream: Stream) -> &'static str {
    match stream {
        Stream::Stderr => "stderr",
        _ => "stdout",
    }
}

async fn find(target: &SandboxTarget, id: &str) -> Result<(Connection, JobInfo), ApiError> {
    let id = job_id(id)?;
    let connection = target.engine.existing_connection(&target.task).await?;
    let info = job::wait(&connection, &id, Some(Duration::ZERO)).await?;
    Ok((connection, info))
}

fn job_id(text: &str) -> Result<JobId, ApiError> {
    text.parse()
        .map_err(|error: vestal_sandbox::InvalidJobId| ApiError::invalid("job", error.to_string()))
}
