//! The board: its columns, moves between them, new tasks, and what a dispatcher would do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use serde::Deserialize;
use vestal_api::dashboard::{BoardColumnView, BoardPageView, TroubleView};
use vestal_api::{
    BoardMoveView, BoardTileView, BoardView, DispatchPlanView, MovedView, RelativeView, TaskView,
    WorkerEnd,
};
use vestal_board::boards::{Make, Slug};
use vestal_board::store::{Read, TaskQuery};
use vestal_board::verbs::placement::Placement;
use vestal_board::verbs::{Initial, Moved, NewTask};
use vestal_board::{Board, RunId, Status, Task, TaskWorkspace, Time};
use vestal_config::ProfileName;

use super::bad_request;
use super::task::{by, find};
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

/// Tasks of a column that are shown; a filter finds the others.
const SHOWN: u32 = 100;

/// Unfinished tasks that are named on one that waits for them.
const WAITS_SHOWN: usize = 3;

/// The word for tasks of nobody.
const NOBODY: &str = "-";

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
        Route::get("/api/board/{board}/plan", plan).needs(Right::Viewer),
        Route::post("/api/board/{board}/tasks", create).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/move", place).needs(Right::Operator),
    ]
}

#[derive(Debug, Deserialize)]
pub(super) struct BoardQuery {
    /// The board; the one that is always there unless given.
    board: Option<String>,
    /// Only tasks of this profile.
    profile: Option<String>,
    /// Only tasks that are assigned to this; `-`: to nobody.
    assignee: Option<String>,
    /// Only tasks of this tenant.
    tenant: Option<String>,
    /// Only tasks with this text in title or body.
    search: Option<String>,
    /// Only tasks that need a person: `1`.
    attention: Option<String>,
}

impl BoardQuery {
    fn of_tasks(self) -> TaskQuery {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let assignee = given(self.assignee).or_else(|| given(self.profile));
        TaskQuery {
            assignee: assignee.map(|name| Some(name).filter(|name| name != NOBODY)),
            tenant: given(self.tenant),
            text: given(self.search),
            needs_attention: given(self.attention).is_some(),
            limit: Some(SHOWN),
            ..TaskQuery::default()
        }
    }
}

pub(super) fn slug(name: Option<&str>) -> Result<Slug, PageError> {
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
    for board in app.data.list_boards(&boards).await? {
        if let Some(trouble) = &board.trouble {
            troubles.push(TroubleView::new(format!("board {}", board.slug), &trouble));
        }
        let path = boards.dir(&board.slug).display().to_string();
        listed.push(BoardView::new(&board, path, board.slug == slug));
    }
    let base = query.of_tasks();
    let mut columns = Vec::new();
    let mut assignees = Vec::new();
    if let Some(board) = app.data.board(&boards, &slug).await? {
        let mut read = board.read().await?;
        for status in COLUMNS {
            columns.push(column(&mut *read, status, &base).await?);
        }
        assignees = read.counts().await?.into_iter().filter_map(|(_, name, _)| name).collect();
        assignees.sort_unstable();
        assignees.dedup();
    }
    Ok(Json(BoardPageView {
        boards: listed,
        board: slug.to_string(),
        columns,
        assignees,
        troubles,
    }))
}

async fn column(
    read: &mut dyn Read,
    status: Status,
    base: &TaskQuery,
) -> Result<BoardColumnView, PageError> {
    let of_column = TaskQuery { statuses: vec![status], ..base.clone() };
    let tasks = read.list(&of_column).await?;
    let total = read.count(&of_column).await?;
    let mut tiles = Vec::with_capacity(tasks.len());
    for task in &tasks {
        let run = match task.current_run {
            Some(run) => read.run(run).await?,
            None => None,
        };
        let waits_for =
            if task.pending_parents > 0 { unfinished(read, task).await? } else { Vec::new() };
        tiles.push(BoardTileView::new(task, run.as_ref(), waits_for));
    }
    let moves = BoardMoveView::all(status);
    Ok(BoardColumnView { status: status.to_string(), tasks: tiles, total, moves })
}

async fn unfinished(read: &mut dyn Read, task: &Task) -> Result<Vec<RelativeView>, PageError> {
    let parents = read.parents(&task.id).await?;
    let waited_for = parents.iter().filter(|one| !one.status.satisfies_children());
    Ok(waited_for.take(WAITS_SHOWN).map(Into::into).collect())
}

/// A task that somebody moves to another column.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveBody {
    /// The column that it was seen in.
    from: Status,
    /// The column that it goes to.
    to: Status,
    /// The reason, the answer or the summary.
    #[serde(default)]
    text: String,
    /// When it goes on by itself, if it is put off.
    at: Option<Timestamp>,
    /// Whether it need not wait for the tasks it is linked to.
    #[serde(default)]
    force: bool,
}

async fn place(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: Result<Json<MoveBody>, JsonRejection>,
) -> Result<Json<MovedView>, PageError> {
    let Json(body) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let at = body.at.map(|at| Time::from_millis(at.as_millisecond()));
    let MoveBody { from, to, text: words, force, .. } = body;
    let (board, id) = find(&app, &board, &task).await?;
    let moved = board.place(&by(&caller), &id, Placement { from, to, words, at, force }).await?;
    Ok(Json(settled(&app, &board, moved).await))
}

/// Sees to the worker that lost its task by a change, as the command line does.
pub(super) async fn settled(app: &AppState, board: &Board, moved: Moved) -> MovedView {
    let ended: Option<(RunId, WorkerEnd)> = match &moved.ended {
        Some(run) => Some((run.id, app.host.stop_worker(board, run).await)),
        None => None,
    };
    MovedView::new(&moved.task, ended, &moved.promoted)
}

/// A task to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateBody {
    title: String,
    #[serde(default)]
    body: String,
    /// The profile that works on it.
    #[serde(default)]
    assignee: String,
    #[serde(default)]
    priority: i64,
    /// Ids of tasks that have to be done before.
    #[serde(default)]
    parents: Vec<String>,
    /// A repository of the host that it gets a working tree of.
    #[serde(default)]
    repository: String,
    /// Whether its work is looked at before it is done.
    #[serde(default)]
    needs_review: bool,
    /// Whether it is a rough idea.
    #[serde(default)]
    triage: bool,
}

async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(board): Path<String>,
    body: Result<Json<CreateBody>, JsonRejection>,
) -> Result<Json<TaskView>, PageError> {
    let Json(body) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let slug = slug(Some(&board))?;
    let boards = app.data.boards()?;
    let board = match app.data.board(&boards, &slug).await? {
        Some(board) => board,
        // The one that is always there is made by its first task.
        None => {
            boards.open(&slug, Make::IfMissing).await?.close().await?;
            let missing = || PageError::not_found(format!("there is no board {slug}"));
            app.data.board(&boards, &slug).await?.ok_or_else(missing)?
        }
    };
    let assignee = match body.assignee.trim() {
        "" => None,
        name => {
            Some(ProfileName::new(name).map_err(|error| PageError::invalid(error.to_string()))?)
        }
    };
    let mut parents = Vec::with_capacity(body.parents.len());
    for parent in &body.parents {
        parents.push(board.find(parent).await?);
    }
    let workspace = match body.repository.trim() {
        "" => TaskWorkspace::Scratch,
        path => TaskWorkspace::Worktree { path: PathBuf::from(path), branch: None },
    };
    let new = NewTask {
        title: body.title,
        body: body.body,
        assignee,
        parents,
        workspace,
        priority: body.priority,
        initial: if body.triage { Initial::Triage } else { Initial::Queue },
        needs_review: body.needs_review,
        ..NewTask::default()
    };
    let created = board.create(&by(&caller), new).await?;
    Ok(Json(TaskView::from(&created.task)))
}

/// Says what a dispatcher would do now, and why it leaves the rest. Nothing is changed.
async fn plan(
    State(app): State<App>,
    Path(board): Path<String>,
) -> Result<Json<DispatchPlanView>, PageError> {
    let slug = slug(Some(&board))?;
    let mut plan = app.host.dispatch_plan(&slug).await.map_err(PageError::unavailable)?;
    let boards = app.data.boards()?;
    if let Some(board) = app.data.board(&boards, &slug).await? {
        let mut read = board.read().await?;
        let mut titles = BTreeMap::new();
        for id in DispatchPlanView::named(&plan.would) {
            if let Ok(id) = id.parse()
                && let Some(task) = read.task(&id).await?
            {
                titles.insert(id.to_string(), task.title);
            }
        }
        plan.titles = titles;
    }
    Ok(Json(plan))
}
