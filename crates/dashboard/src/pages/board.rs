//! The board: its columns, a task with all about it, and what a person decides about one.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use vestal_api::dashboard::{BoardColumnView, BoardPageView, TroubleView};
use vestal_api::{BoardView, MovedView, TaskDetailsView, TaskView};
use vestal_board::boards::Slug;
use vestal_board::store::TaskQuery;
use vestal_board::{Authority, Board, Status, TaskCompletion, TaskId};

use super::bad_request;
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

/// Tasks of a column that are shown; a filter finds the others.
const SHOWN: u32 = 100;

/// The columns, in the order of a task's life.
const COLUMNS: [Status; 8] = [
    Status::Triage,
    Status::Todo,
    Status::Scheduled,
    Status::Ready,
    Status::Running,
    Status::Blocked,
    Status::Review,
    Status::Done,
];

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/board", show).needs(Right::Viewer),
        Route::get("/api/board/{board}/tasks/{task}", show_task).needs(Right::Viewer),
        Route::post("/api/board/{board}/tasks/{task}/comment", comment).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/unblock", unblock).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/approve", approve).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/request-changes", request_changes)
            .needs(Right::Operator),
    ]
}

#[derive(Debug, Deserialize)]
pub(super) struct BoardQuery {
    /// The board; the one that is always there unless given.
    board: Option<String>,
    /// Only tasks of this profile.
    profile: Option<String>,
    /// Only tasks with this text in title or body.
    search: Option<String>,
}

fn slug(name: Option<&str>) -> Result<Slug, PageError> {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => Slug::new(name).map_err(|error| PageError::invalid(error.to_string())),
        None => Ok(Slug::default_board()),
    }
}

async fn show(
    State(app): State<App>,
    Query(query): Query<BoardQuery>,
) -> Result<Json<BoardPageView>, PageError> {
    let boards = app.data.boards()?;
    let slug = slug(query.board.as_deref())?;
    let mut troubles = Vec::new();
    let mut listed = Vec::new();
    for board in boards.list(false).await? {
        if let Some(trouble) = &board.trouble {
            troubles.push(TroubleView::new(format!("board {}", board.slug), &trouble));
        }
        let path = boards.dir(&board.slug).display().to_string();
        listed.push(BoardView::new(&board, path, board.slug == slug));
    }
    let base = TaskQuery {
        assignee: query.profile.filter(|name| !name.is_empty()).map(Some),
        text: query.search.filter(|text| !text.trim().is_empty()),
        limit: Some(SHOWN),
        ..TaskQuery::default()
    };
    let mut columns = Vec::new();
    if let Some(board) = app.data.board(&boards, &slug).await? {
        let mut read = board.read().await?;
        for status in COLUMNS {
            let of_column = TaskQuery { statuses: vec![status], ..base.clone() };
            let tasks = read.list(&of_column).await?;
            let total = read.count(&of_column).await?;
            columns.push(BoardColumnView {
                status: status.to_string(),
                tasks: tasks.iter().map(TaskView::from).collect(),
                total,
            });
        }
    }
    Ok(Json(BoardPageView { boards: listed, board: slug.to_string(), columns, troubles }))
}

/// A task that a path names.
async fn find(app: &AppState, board: &str, task: &str) -> Result<(Board, TaskId), PageError> {
    let boards = app.data.boards()?;
    let slug = slug(Some(board))?;
    let absent = || PageError::not_found(format!("there is no task {task} on the board {slug}"));
    let board = app.data.board(&boards, &slug).await?.ok_or_else(absent)?;
    let id = board.find(task).await?;
    Ok((board, id))
}

async fn show_task(
    State(app): State<App>,
    Path((board, task)): Path<(String, String)>,
) -> Result<Json<TaskDetailsView>, PageError> {
    let (board, id) = find(&app, &board, &task).await?;
    let sheet = board.show(&id).await?;
    Ok(Json(TaskDetailsView::new(&board, &sheet)))
}

/// What a person says.
#[derive(Debug, Deserialize)]
pub(super) struct SentText {
    #[serde(default)]
    text: String,
}

type WordsBody = Result<Json<SentText>, JsonRejection>;

fn words(body: WordsBody) -> Result<String, PageError> {
    let Json(words) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    Ok(words.text.trim().to_owned())
}

fn needed(text: &str, what: &str) -> Result<(), PageError> {
    if text.is_empty() {
        return Err(PageError::invalid(format!("{what} is missing")));
    }
    Ok(())
}

/// Returns in whose name something is done: a person, by the name they logged in with.
fn by(caller: &Caller) -> Authority {
    let name = match caller.principal.method {
        "proxy" => caller.principal.name.clone(),
        _ => "user".to_owned(),
    };
    Authority::Person(name)
}

async fn comment(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<TaskDetailsView>, PageError> {
    let text = words(body)?;
    needed(&text, "the comment")?;
    let (board, id) = find(&app, &board, &task).await?;
    board.comment(&by(&caller), &id, &text).await?;
    let sheet = board.show(&id).await?;
    Ok(Json(TaskDetailsView::new(&board, &sheet)))
}

/// Lets a task go on that waits for a person. What they say is a comment, which the next attempt
/// reads.
async fn unblock(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<MovedView>, PageError> {
    let text = words(body)?;
    let (board, id) = find(&app, &board, &task).await?;
    expect(&board, &id, &[Status::Blocked, Status::Triage, Status::Scheduled]).await?;
    if !text.is_empty() {
        board.comment(&by(&caller), &id, &text).await?;
    }
    let reason = (!text.is_empty()).then_some(text.as_str());
    let moved = board.unblock(&by(&caller), &id, reason).await?;
    Ok(Json(MovedView::new(&moved.task, None, &moved.promoted)))
}

/// Ends a task whose work was looked at.
async fn approve(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<MovedView>, PageError> {
    let text = words(body)?;
    let (board, id) = find(&app, &board, &task).await?;
    expect(&board, &id, &[Status::Review]).await?;
    let summary = (!text.is_empty()).then_some(text);
    let done = TaskCompletion { summary, ..TaskCompletion::default() };
    let moved = board.complete(&by(&caller), &id, done).await?;
    Ok(Json(MovedView::new(&moved.task, None, &moved.promoted)))
}

/// Sends work back that was looked at. What is wrong with it is read by the next attempt.
async fn request_changes(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<MovedView>, PageError> {
    let text = words(body)?;
    needed(&text, "what is to be changed")?;
    let (board, id) = find(&app, &board, &task).await?;
    expect(&board, &id, &[Status::Review]).await?;
    let moved = board.request_changes(&by(&caller), &id, &text).await?;
    Ok(Json(MovedView::new(&moved.task, None, &moved.promoted)))
}

/// Refuses a decision about a task that somebody works on: to end a worker is the command line's.
async fn expect(board: &Board, id: &TaskId, statuses: &[Status]) -> Result<(), PageError> {
    let task = board.get(id).await?;
    if statuses.contains(&task.status) && task.current_run.is_none() {
        return Ok(());
    }
    let detail = format!("the task is {} by now, so this was not done", task.status);
    Err(PageError::conflict(detail).advise("look at the task again"))
}
