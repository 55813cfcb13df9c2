//! Review of what a task changed: the differences, comments on lines of them, and what becomes of them.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use vestal_api::{MergePlanView, MergedView, MovedView, TaskDetailsView, TaskDiffView};
use vestal_board::review::Review;
use vestal_board::{Board, RunId, Status, TaskCompletion, TaskId};
use vestal_dispatcher::{
    DiffError, DiffRange, MergeError, MergeMethod, MergeRequest, TaskDiff, diff, merge, plan_merge,
};

use super::board::settled;
use super::task::{as_download, by, expect, find, read};
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

/// The largest patch that a page shows; a larger one is for download.
const MAX_SHOWN: usize = 4 << 20;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/board/{board}/tasks/{task}/diff", show).needs(Right::Viewer),
        Route::get("/api/board/{board}/tasks/{task}/patch", patch).needs(Right::Viewer),
        Route::get("/api/board/{board}/tasks/{task}/merge", plan).needs(Right::Viewer),
        Route::post("/api/board/{board}/tasks/{task}/merge", merge_task).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/review", review).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/review/comment", remark)
            .needs(Right::Operator),
    ]
}

type TaskPath = Path<(String, String)>;

#[derive(Debug, Deserialize)]
pub(super) struct AttemptQuery {
    /// Only what this attempt changed.
    attempt: Option<String>,
}

impl AttemptQuery {
    fn run(&self) -> Result<Option<i64>, PageError> {
        number(self.attempt.as_deref())
    }
}

fn number(attempt: Option<&str>) -> Result<Option<i64>, PageError> {
    let Some(text) = attempt.filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse();
    Ok(Some(number.map_err(|_| PageError::invalid("an attempt is named by its number"))?))
}

async fn look(
    app: &AppState,
    caller: &Caller,
    board: &Board,
    id: &TaskId,
    attempt: Option<i64>,
) -> Result<TaskDiff, PageError> {
    let range = attempt.map_or(DiffRange::Whole, |run| DiffRange::Attempt(RunId::new(run)));
    match diff(board, id, range, app.data.environment()).await {
        // Files of sandboxes are for operators, wherever they are shown.
        Err(DiffError::Scratch { task })
            if caller.principal.right == Right::Operator && attempt.is_none() =>
        {
            let found = app.host.scratch_diff(board, &task).await;
            found.map_err(|why| PageError::new(StatusCode::NOT_FOUND, "no_base", why))
        }
        found => found.map_err(|error| refused(&error)),
    }
}

fn refused(error: &DiffError) -> PageError {
    let detail = error.to_string();
    match error {
        DiffError::Scratch { .. } => PageError::new(StatusCode::NOT_FOUND, "no_base", detail)
            .advise("files of sandboxes are shown to operators, and of all attempts together"),
        DiffError::Directory { .. } => PageError::new(StatusCode::NOT_FOUND, "no_base", detail)
            .advise("for changes that can be reviewed, create tasks with the workspace worktree"),
        // Its work can be accepted, or sent back, all the same.
        DiffError::NoTree { .. } => PageError::new(StatusCode::NOT_FOUND, "no_base", detail),
        DiffError::NoAttempt { .. } => PageError::not_found(detail),
        DiffError::Workspace(_) => PageError::unavailable(detail),
    }
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): TaskPath,
    Query(query): Query<AttemptQuery>,
) -> Result<Json<TaskDiffView>, PageError> {
    let attempt = query.run()?;
    let (board, id) = find(&app, &board, &task).await?;
    let mut found = look(&app, &caller, &board, &id, attempt).await?;
    found.patch = found.patch.filter(|patch| patch.len() <= MAX_SHOWN);
    Ok(Json(TaskDiffView::new(id.as_str(), attempt, &found)))
}

/// Sends what a task changed, as `git apply` takes it.
async fn patch(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): TaskPath,
    Query(query): Query<AttemptQuery>,
) -> Result<Response, PageError> {
    let attempt = query.run()?;
    let (board, id) = find(&app, &board, &task).await?;
    let found = look(&app, &caller, &board, &id, attempt).await?;
    let Some(patch) = found.patch else {
        let detail = "the changes are too large for a patch";
        let tree = found.tree.display();
        return Err(PageError::conflict(detail).advise(match found.branch.as_str() {
            "" => format!("they are in {tree} of its sandbox"),
            branch => format!("they are on the branch {branch} in {tree}"),
        }));
    };
    let of = attempt.map_or_else(String::new, |run| format!("-attempt-{run}"));
    Ok(as_download(&format!("{id}{of}.patch"), Body::from(patch)))
}

/// Sends work back with comments on its lines: they are instructions for the next attempt.
async fn review(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): TaskPath,
    body: Result<Json<Review>, JsonRejection>,
) -> Result<Json<MovedView>, PageError> {
    let Json(review) = read(body)?;
    let instructions = review.instructions()?;
    let (board, id) = find(&app, &board, &task).await?;
    expect(&board, &id, &[Status::Review]).await?;
    let moved = board.request_changes(&by(&caller), &id, &instructions).await?;
    Ok(Json(settled(&app, &board, moved).await))
}

/// Keeps comments on lines as a comment on the task, where it is not in review.
async fn remark(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): TaskPath,
    body: Result<Json<Review>, JsonRejection>,
) -> Result<Json<TaskDetailsView>, PageError> {
    let Json(review) = read(body)?;
    let text = review.instructions()?;
    let (board, id) = find(&app, &board, &task).await?;
    board.comment(&by(&caller), &id, &text).await?;
    let sheet = board.show(&id).await?;
    Ok(Json(TaskDetailsView::new(&board, &sheet)))
}

#[derive(Debug, Deserialize)]
pub(super) struct MergeQuery {
    /// The branch; the one that is checked out unless given.
    into: Option<String>,
    method: Option<String>,
    attempt: Option<String>,
}

/// A merge that somebody asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeBody {
    into: Option<String>,
    method: Option<String>,
    attempt: Option<i64>,
    message: Option<String>,
    /// Whether the task is done with it.
    #[serde(default)]
    approve: bool,
}

fn request(
    into: Option<String>,
    method: Option<&str>,
    attempt: Option<i64>,
    message: Option<String>,
) -> Result<MergeRequest, PageError> {
    let method = match method.filter(|word| !word.is_empty()) {
        Some(word) => word.parse::<MergeMethod>().map_err(PageError::invalid)?,
        None => MergeMethod::default(),
    };
    let attempt = attempt.map(RunId::new);
    let message = message.filter(|text| !text.trim().is_empty());
    Ok(MergeRequest { into, method, attempt, message })
}

async fn plan(
    State(app): State<App>,
    Path((board, task)): TaskPath,
    Query(query): Query<MergeQuery>,
) -> Result<Json<MergePlanView>, PageError> {
    let attempt = number(query.attempt.as_deref())?;
    let request = request(query.into, query.method.as_deref(), attempt, None)?;
    let (board, id) = find(&app, &board, &task).await?;
    let plan = plan_merge(&board, &id, &request, app.data.environment()).await;
    Ok(Json(MergePlanView::new(id.as_str(), &plan.map_err(not_merged)?)))
}

async fn merge_task(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): TaskPath,
    body: Result<Json<MergeBody>, JsonRejection>,
) -> Result<Json<MergedView>, PageError> {
    let Json(MergeBody { into, method, attempt, message, approve }) = read(body)?;
    let request = request(into, method.as_deref(), attempt, message)?;
    let (board, id) = find(&app, &board, &task).await?;
    if approve {
        expect(&board, &id, &[Status::Review]).await?;
    }
    let merged = merge(&board, &by(&caller), &id, &request, app.data.environment()).await;
    let merged = merged.map_err(not_merged)?;
    if approve {
        let moved = board.complete(&by(&caller), &id, TaskCompletion::default()).await;
        let moved = moved.map_err(|error| {
            // Half of what was asked for is done, which must be said.
            let into = &merged.plan.into;
            PageError::conflict(format!("it was merged into {into}, but not approved: {error}"))
        })?;
        settled(&app, &board, moved).await;
    }
    Ok(Json(MergedView::new(id.as_str(), &merged, approve)))
}

fn not_merged(error: MergeError) -> PageError {
    match error {
        MergeError::Diff(error) => refused(&error),
        MergeError::Board(error) => error.into(),
        error @ MergeError::Branch { .. } => PageError::invalid(error.to_string()),
        error @ MergeError::Refused { .. } => {
            PageError::conflict(error.to_string()).advise("nothing was changed")
        }
    }
}
