//! `/api/sandboxes`: durable sandboxes for agents that bring their own loop. The verbs are those
//! of the command line, the members those of its `--json`.

mod files;
mod jobs;
mod run;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{get, post};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{
    ForkedView, GuestFacts, RemovedView, RestoredView, SandboxDetailsView, SandboxView,
    SnapshotView, StoppedView,
};
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Engine, Error, FilesOnRemoval, SnapshotName, TaskName, WhileBusy};

use super::ApiState;
use super::error::ApiError;
use super::openapi::{DescribedRoutes, Listed, RouteOperation};

/// The newest jobs that the details of a sandbox show.
const JOBS_SHOWN: u32 = 20;

/// How long a guest may take over a question about itself.
const SHORT_CALL: std::time::Duration = std::time::Duration::from_secs(10);

/// Where the routes are.
const PREFIX: &str = "/api/sandboxes";

/// Lets a drain wait for requests about sandboxes as it waits for turns, and interrupt them: a
/// client that waits for a command gets an error, and the command is ended. A stream of events is not
/// waited for, since its reader continues where it was.
pub(super) async fn until_drained(
    State(app): State<ApiState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if !request.uri().path().starts_with(PREFIX) {
        return Ok(next.run(request).await);
    }
    let enlisted = app.turns.enlist_request()?;
    tokio::select! {
        biased;
        response = next.run(request) => Ok(response),
        () = enlisted.interrupted() => Err(ApiError::unavailable(
            "interrupted",
            "the gateway is stopping and interrupted the request; what it waited for was ended with it",
        )),
    }
}

/// Adds the routes.
pub(super) fn routes(routes: DescribedRoutes) -> DescribedRoutes {
    let tag = "sandboxes";
    let routes = routes
        .get("/api/sandboxes", get(list), RouteOperation::new(tag, "Lists the sandboxes of the profile")
            .answers::<Listed<SandboxView>>())
        .get("/api/sandboxes/{task}", get(show), RouteOperation::new(tag, "Shows a sandbox with its guest, newest jobs and snapshots")
            .answers::<SandboxDetailsView>())
        .delete("/api/sandboxes/{task}", axum::routing::delete(remove), RouteOperation::new(tag, "Removes a sandbox, with its files if asked; the answer says what went and what was kept")
            .query::<RemoveQuery>().answers::<RemovedSandboxView>())
        .post("/api/sandboxes/{task}/stop", post(stop), RouteOperation::new(tag, "Stops a sandbox; its files stay, its jobs end")
            .answers::<StoppedView>())
        .get("/api/sandboxes/{task}/snapshots", get(snapshots), RouteOperation::new(tag, "Lists the snapshots of a sandbox")
            .answers::<Listed<SnapshotView>>())
        .post("/api/sandboxes/{task}/snapshots", post(snapshot), RouteOperation::new(tag, "Keeps a copy of a sandbox under a name")
            .takes::<SnapshotRequest>().answers::<SnapshotView>())
        .delete("/api/sandboxes/{task}/snapshots/{name}", axum::routing::delete(remove_snapshot), RouteOperation::new(tag, "Removes a snapshot; the answer is what it was")
            .answers::<SnapshotView>())
        .post("/api/sandboxes/{task}/restore", post(restore), RouteOperation::new(tag, "Makes a sandbox what it was in a snapshot; what it is now is lost")
            .takes::<RestoreRequest>().answers::<RestoredView>())
        .post("/api/sandboxes/{task}/fork", post(fork), RouteOperation::new(tag, "Makes a new sandbox as a copy of one, or of a snapshot of it")
            .takes::<ForkSandboxRequest>().answers::<ForkedView>());
    files::routes(jobs::routes(run::routes(routes, tag), tag), tag)
}

/// The engine and the task that a path names.
pub(super) struct SandboxTarget {
    engine: Engine,
    task: TaskName,
}

impl FromRequestParts<ApiState> for SandboxTarget {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &ApiState) -> Result<Self, ApiError> {
        let Path(path): Path<std::collections::HashMap<String, String>> =
            Path::from_request_parts(parts, app)
                .await
                .map_err(|error| ApiError::invalid("task", error.body_text()))?;
        let name = path.get("task").map_or("", String::as_str);
        let task = name.parse().map_err(|error: vestal_sandbox::InvalidTask| {
            ApiError::invalid("task", error.to_string())
        })?;
        Ok(Self { engine: app.turns.runtime().agent().engine().clone(), task })
    }
}

/// Whether the files go too.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RemoveQuery {
    /// Whether workspace, home and snapshots are deleted; kept unless given.
    #[serde(default)]
    files: bool,
}

/// A sandbox that was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RemovedSandboxView {
    #[serde(flatten)]
    removed: RemovedView,
    /// Whether its files were deleted.
    files_removed: bool,
    /// Snapshots that were deleted with them.
    snapshots_removed: Vec<String>,
}

/// A snapshot to be kept.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct SnapshotRequest {
    /// Its name; the time, to the second in UTC, unless given.
    #[serde(default)]
    name: Option<String>,
    /// A line to remember it by.
    #[serde(default)]
    note: Option<String>,
    /// Whether running jobs are ended; else they are in the way.
    #[serde(default)]
    stop: bool,
}

/// A snapshot to go back to.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RestoreRequest {
    /// Its name.
    snapshot: String,
    /// Whether running jobs are ended; else they are in the way.
    #[serde(default)]
    stop: bool,
}

/// A copy to be made.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ForkSandboxRequest {
    /// The task of the new sandbox; it must have none.
    task: String,
    /// The snapshot to copy; the sandbox as it is unless given.
    #[serde(default)]
    snapshot: Option<String>,
    /// Whether running jobs are ended; else they are in the way.
    #[serde(default)]
    stop: bool,
}

async fn list(State(app): State<ApiState>) -> Result<Json<Listed<SandboxView>>, ApiError> {
    let found = app.turns.runtime().agent().engine().list().await?;
    Ok(Json(Listed::new(found.iter().map(SandboxView::from).collect(), false)))
}

async fn show(target: SandboxTarget) -> Result<Json<SandboxDetailsView>, ApiError> {
    let SandboxTarget { engine, task } = &target;
    let found = engine.inspect(task).await?;
    let summary = found.iter().find(|summary| !summary.owned).or_else(|| found.first());
    let absent = || ApiError::from(Error::NoSandbox { task: task.to_string() });
    let summary = summary.ok_or_else(absent)?;
    let guest = match engine.observe(task).await {
        Ok(connection) => facts(&connection).await.ok(),
        Err(_) => None,
    };
    let snapshots = engine.snapshots(Some(task)).await?;
    Ok(Json(SandboxDetailsView::new(summary, guest.as_ref(), &snapshots)))
}

async fn facts(connection: &Connection) -> Result<GuestFacts, ApiError> {
    Ok(GuestFacts {
        welcome: connection.welcome().clone(),
        status: connection.status(SHORT_CALL).await?,
        stats: connection.stats(SHORT_CALL).await?,
        jobs: job::jobs(connection, JobFilter::All, JOBS_SHOWN).await?.jobs,
    })
}

async fn remove(
    target: SandboxTarget,
    query: Result<Query<RemoveQuery>, QueryRejection>,
) -> Result<Json<RemovedSandboxView>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::of_query(&error))?;
    let files = if query.files { FilesOnRemoval::Remove } else { FilesOnRemoval::Keep };
    let removal = target.engine.remove(&target.task, files).await?;
    Ok(Json(RemovedSandboxView {
        removed: RemovedView::new(&target.task, &removal),
        files_removed: query.files,
        snapshots_removed: removal.snapshots.iter().map(ToString::to_string).collect(),
    }))
}

async fn stop(target: SandboxTarget) -> Result<Json<StoppedView>, ApiError> {
    let SandboxTarget { engine, task } = &target;
    let found = engine.inspect(task).await?;
    let files_lost = found.iter().any(vestal_sandbox::SandboxSummary::has_files_in_memory);
    let was_running = engine.stop(task).await?;
    let files_lost = files_lost && was_running;
    Ok(Json(StoppedView { task: task.to_string(), was_running, files_lost }))
}

async fn snapshots(target: SandboxTarget) -> Result<Json<Listed<SnapshotView>>, ApiError> {
    let found = target.engine.snapshots(Some(&target.task)).await?;
    Ok(Json(Listed::new(found.iter().map(SnapshotView::from).collect(), false)))
}

async fn snapshot(
    target: SandboxTarget,
    body: Result<Json<SnapshotRequest>, JsonRejection>,
) -> Result<Json<SnapshotView>, ApiError> {
    let Json(request) = body?;
    let name =
        request.name.unwrap_or_else(|| Timestamp::now().strftime("%Y-%m-%d-%H%M%S").to_string());
    let name = snapshot_name(&name)?;
    let note = request.note.as_deref();
    let kept = target.engine.snapshot(&target.task, &name, note, busy(request.stop)).await?;
    Ok(Json((&kept).into()))
}

async fn remove_snapshot(
    target: SandboxTarget,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<SnapshotView>, ApiError> {
    let removed = target.engine.remove_snapshot(&target.task, &snapshot_name(&name)?).await?;
    Ok(Json((&removed).into()))
}

async fn restore(
    target: SandboxTarget,
    body: Result<Json<RestoreRequest>, JsonRejection>,
) -> Result<Json<RestoredView>, ApiError> {
    let Json(request) = body?;
    let name = snapshot_name(&request.snapshot)?;
    let restored = target.engine.restore(&target.task, &name, busy(request.stop)).await?;
    Ok(Json(RestoredView::new(&target.task, &restored)))
}

async fn fork(
    target: SandboxTarget,
    body: Result<Json<ForkSandboxRequest>, JsonRejection>,
) -> Result<Json<ForkedView>, ApiError> {
    let Json(request) = body?;
    let to: TaskName = request.task.parse().map_err(|error: vestal_sandbox::InvalidTask| {
        ApiError::invalid("task", error.to_string())
    })?;
    let name = request.snapshot.as_deref().map(snapshot_name).transpose()?;
    let forked = target.engine.fork(&target.task, name.as_ref(), &to, busy(request.stop)).await?;
    Ok(Json(ForkedView::new(&target.task, name.as_ref(), &forked)))
}

fn snapshot_name(text: &str) -> Result<SnapshotName, ApiError> {
    text.parse().map_err(|error: vestal_sandbox::InvalidSnapshotName| {
        ApiError::invalid("snapshot", error.to_string())
    })
}

const fn busy(stop: bool) -> WhileBusy {
    if stop { WhileBusy::Stop } else { WhileBusy::Refuse }
}
