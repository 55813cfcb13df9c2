//! The board: tasks that people and agents share.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use vestal_api::{BoardTaskView, CommentedView, TaskDetailsView, TaskView};
use vestal_board::boards::{Boards, Slug};
use vestal_board::store::{Order, TaskQuery};
use vestal_board::verbs::TaskCompletion;
use vestal_board::{Authority, Board, Initial, NewTask, Status, TaskId};
use vestal_config::ProfileName;

use super::connection::SandboxCall;
use super::failure::{FailureKind, SandboxFailure};
use super::limits::{LISTED, MAX_LISTED};
use super::methods::{AsPrinted, given};

/// Events, runs and comments that the details of a task have, the newest.
const DETAILS: usize = 200;

/// In whose name changes are made unless a request says otherwise.
const AUTHOR: &str = "serve";

/// The boards, and those that were opened. Clones share them.
#[derive(Clone)]
pub(super) struct ServedBoards(Arc<BoardsState>);

struct BoardsState {
    boards: Boards,
    /// The board that the environment names.
    choice: Option<String>,
    opened: Mutex<BTreeMap<Slug, Board>>,
}

impl ServedBoards {
    pub(super) fn new(boards: Boards, choice: Option<String>) -> Self {
        Self(Arc::new(BoardsState { boards, choice, opened: Mutex::default() }))
    }

    async fn slug(&self, named: Option<String>) -> Result<Slug, SandboxFailure> {
        match given(named) {
            Some(name) => Slug::new(&name).map_err(|error| SandboxFailure::param("board", error)),
            None => Ok(self.0.boards.current(self.0.choice.as_deref()).await?.slug),
        }
    }

    /// Returns a board to read; nothing where there is none yet.
    async fn to_read(&self, named: Option<String>) -> Result<Option<Board>, SandboxFailure> {
        let slug = self.slug(named).await?;
        let mut opened = self.0.opened.lock().await;
        if let Some(board) = opened.get(&slug) {
            return Ok(Some(board.clone()));
        }
        let board = self.0.boards.open_to_read(&slug).await?;
        opened.extend(board.clone().map(|board| (slug, board)));
        Ok(board)
    }

    /// Returns a board to write to, made if there is none.
    async fn to_write(&self, named: Option<String>) -> Result<Board, SandboxFailure> {
        let slug = self.slug(named).await?;
        let mut opened = self.0.opened.lock().await;
        if let Some(board) = opened.get(&slug) {
            return Ok(board.clone());
        }
        let board = self.0.boards.open_to_write(&slug).await?;
        opened.insert(slug, board.clone());
        Ok(board)
    }
}

fn author(named: Option<String>) -> Authority {
    Authority::Person(given(named).unwrap_or_else(|| AUTHOR.to_owned()))
}

async fn task_id(board: &Board, text: &str) -> Result<TaskId, SandboxFailure> {
    Ok(board.find(text.trim()).await?)
}

fn task_of(board: &Board, task: &vestal_board::Task) -> BoardTaskView {
    BoardTaskView { board: board.slug().to_owned(), task: task.into() }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BoardCreateParams {
    /// What it is about, in one line.
    title: String,
    /// What to do, and how to tell that it is done.
    #[serde(default)]
    body: String,
    /// The profile that works on it. Without one, nobody begins.
    assignee: Option<String>,
    /// Ids of tasks that must be done first.
    #[serde(default)]
    parents: Vec<String>,
    /// Higher goes first.
    #[serde(default)]
    priority: i64,
    /// It is an idea for a person to look at first.
    #[serde(default)]
    triage: bool,
    /// The work has to be reviewed before it counts as done.
    #[serde(default)]
    needs_review: bool,
    /// With the same key, the same task is returned and none is made.
    idempotency_key: Option<String>,
    /// In whose name; `serve` unless given.
    author: Option<String>,
    /// Another board than the current one.
    board: Option<String>,
}

/// A task that was made, or was there.
#[derive(Debug, Serialize)]
pub(super) struct BoardCreateResult {
    #[serde(flatten)]
    task: BoardTaskView,
    /// Whether it was there before.
    existed: bool,
}

pub(super) async fn create(
    call: SandboxCall,
    params: BoardCreateParams,
) -> Result<AsPrinted<BoardCreateResult>, SandboxFailure> {
    let board = call.server.board().to_write(params.board).await?;
    let mut parents = Vec::new();
    for parent in &params.parents {
        parents.push(task_id(&board, parent).await?);
    }
    let profile = |name: String| {
        ProfileName::new(name.trim()).map_err(|error| SandboxFailure::param("assignee", error))
    };
    let new = NewTask {
        title: params.title,
        body: params.body,
        assignee: given(params.assignee).map(profile).transpose()?,
        parents,
        priority: params.priority,
        initial: if params.triage { Initial::Triage } else { Initial::Queue },
        idempotency_key: given(params.idempotency_key),
        needs_review: params.needs_review,
        ..NewTask::default()
    };
    let created = board.create(&author(params.author), new).await?;
    let task = task_of(&board, &created.task);
    Ok(AsPrinted(BoardCreateResult { task, existed: created.existed }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BoardListParams {
    /// Only tasks of this status; all but archived ones unless given.
    status: Option<String>,
    /// Only tasks of this profile.
    assignee: Option<String>,
    /// Only tasks with this text in title or body.
    text: Option<String>,
    /// Tasks to pass over.
    #[serde(default)]
    skip: u32,
    /// At most so many: 200 unless given, 1000 at most.
    limit: Option<u32>,
    /// Another board than the current one.
    board: Option<String>,
}

/// Tasks of a board, by status and then by urgency.
#[derive(Debug, Serialize)]
pub(super) struct BoardListResult {
    tasks: Vec<TaskView>,
    /// Whether there are more.
    more: bool,
}

pub(super) async fn list(
    call: SandboxCall,
    params: BoardListParams,
) -> Result<AsPrinted<BoardListResult>, SandboxFailure> {
    let status = given(params.status).map(|status| {
        status.parse::<Status>().map_err(|error| SandboxFailure::param("status", error))
    });
    let limit = params.limit.unwrap_or(LISTED).clamp(1, MAX_LISTED);
    let query = TaskQuery {
        statuses: status.transpose()?.into_iter().collect(),
        assignee: given(params.assignee).map(Some),
        text: given(params.text),
        order: Order::Board,
        // One more tells whether there are more.
        limit: Some(limit + 1),
        offset: params.skip,
        ..TaskQuery::default()
    };
    let mut tasks = match call.server.board().to_read(params.board).await? {
        Some(board) => board.list(&query).await?,
        None => Vec::new(),
    };
    let more = tasks.len() > limit as usize;
    tasks.truncate(limit as usize);
    Ok(AsPrinted(BoardListResult { tasks: tasks.iter().map(TaskView::from).collect(), more }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BoardShowParams {
    /// The id of the task, or a beginning that only one has.
    id: String,
    /// Another board than the current one.
    board: Option<String>,
}

pub(super) async fn show(
    call: SandboxCall,
    params: BoardShowParams,
) -> Result<AsPrinted<TaskDetailsView>, SandboxFailure> {
    let board = call.server.board().to_read(params.board).await?;
    let none = || SandboxFailure::new(FailureKind::NoTask, "there is no task on that board yet");
    let board = board.ok_or_else(none)?;
    let id = task_id(&board, &params.id).await?;
    let mut details = TaskDetailsView::new(&board, &board.show(&id).await?);
    keep_newest(&mut details.events);
    keep_newest(&mut details.runs);
    keep_newest(&mut details.comments);
    Ok(AsPrinted(details))
}

fn keep_newest<T>(all: &mut Vec<T>) {
    all.drain(..all.len().saturating_sub(DETAILS));
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BoardCommentParams {
    /// The id of the task.
    id: String,
    /// What to say.
    text: String,
    /// In whose name; `serve` unless given.
    author: Option<String>,
    /// Another board than the current one.
    board: Option<String>,
}

pub(super) async fn comment(
    call: SandboxCall,
    params: BoardCommentParams,
) -> Result<AsPrinted<CommentedView>, SandboxFailure> {
    let board = call.server.board().to_write(params.board).await?;
    let id = task_id(&board, &params.id).await?;
    let comment_id = board.comment(&author(params.author), &id, &params.text).await?;
    Ok(AsPrinted(CommentedView { task_id: id.to_string(), comment_id }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BoardCompleteParams {
    /// The id of the task.
    id: String,
    /// What was done, for people and for the tasks that wait for this one.
    summary: String,
    /// The result, if it is a text.
    result: Option<String>,
    /// In whose name; `serve` unless given.
    author: Option<String>,
    /// Another board than the current one.
    board: Option<String>,
}

/// A task that is done, or goes to its review.
#[derive(Debug, Serialize)]
pub(super) struct BoardCompleteResult {
    #[serde(flatten)]
    task: BoardTaskView,
    /// Tasks that waited for this one and are ready now.
    promoted: Vec<String>,
    /// The run of a worker that ended by this, if one was at work.
    ended_run_id: Option<i64>,
}

pub(super) async fn complete(
    call: SandboxCall,
    params: BoardCompleteParams,
) -> Result<AsPrinted<BoardCompleteResult>, SandboxFailure> {
    let board = call.server.board().to_write(params.board).await?;
    let id = task_id(&board, &params.id).await?;
    let done = TaskCompletion {
        summary: Some(params.summary),
        result: params.result,
        ..TaskCompletion::default()
    };
    let moved = board.complete(&author(params.author), &id, done).await?;
    Ok(AsPrinted(BoardCompleteResult {
        task: task_of(&board, &moved.task),
        promoted: moved.promoted.iter().map(ToString::to_string).collect(),
        ended_run_id: moved.ended.map(|run| run.id.get()),
    }))
}
