//! The board: tasks that people and agents share.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use vestal_api::{BoardTaskView, CommentedView, TaskDetailsView, TaskView};
use vestal_board::boards::{Boards, Slug};
use vestal_board::store::{Order, TaskQuery};
use vestal_board::verbs::TaskCompletion;
use vestal_board::{Authority, Board, Initial, NewTask, Status, Task, TaskId};
use vestal_config::ProfileName;

use super::{Answer, SandboxTool, ToolEffect, ToolTable, counted};
use crate::call::Call;
use crate::failure::ToolFailure;

/// Tasks that are listed unless the call says otherwise, and at most.
const LISTED: u32 = 50;
const MAX_LISTED: u32 = 200;

/// Characters of a text that an answer in words has.
const SHOWN: usize = 4000;

/// Events and runs that the details of a task have, the newest.
const EVENTS: usize = 50;
const RUNS: usize = 10;

pub(super) fn add_to(table: &mut ToolTable) {
    table.add_plain::<BoardCreate>();
    table.add_plain::<BoardList>();
    table.add_plain::<BoardShow>();
    table.add_plain::<BoardComment>();
    table.add_plain::<BoardComplete>();
}

/// The boards, and those that were opened.
pub(crate) struct BoardAccess {
    boards: Boards,
    /// The board that the environment names.
    choice: Option<String>,
    opened: Mutex<BTreeMap<Slug, Board>>,
}

impl BoardAccess {
    pub(crate) fn new(boards: Boards, choice: Option<String>) -> Self {
        Self { boards, choice, opened: Mutex::default() }
    }

    /// Returns the board of this name, or the current one. One that is not there is made only to be
    /// written to.
    async fn open(&self, named: Option<&str>, write: bool) -> Result<Option<Board>, ToolFailure> {
        let slug = match named.filter(|name| !name.is_empty()) {
            Some(name) => Slug::new(name).map_err(|error| ToolFailure::argument("board", error))?,
            None => self.boards.current(self.choice.as_deref()).await?.slug,
        };
        let mut opened = self.opened.lock().await;
        if let Some(board) = opened.get(&slug) {
            return Ok(Some(board.clone()));
        }
        let board = if write {
            Some(self.boards.open_to_write(&slug).await?)
        } else {
            self.boards.open_to_read(&slug).await?
        };
        if let Some(board) = &board {
            opened.insert(slug, board.clone());
        }
        Ok(board)
    }
}

/// The board of a call, and in whose name it writes.
struct OpenedBoard {
    board: Board,
    by: Authority,
}

async fn to_write(call: &Call, named: Option<&str>) -> Result<OpenedBoard, ToolFailure> {
    let board = access(call)?.open(named, true).await?;
    let board = board.ok_or_else(|| ToolFailure::new("there is no such board"))?;
    Ok(OpenedBoard { board, by: Authority::Person(format!("mcp:{}", call.client_name())) })
}

fn access(call: &Call) -> Result<&BoardAccess, ToolFailure> {
    call.service.board.as_ref().ok_or_else(|| ToolFailure::new("the board is not offered here"))
}

async fn task_id(board: &Board, text: &str) -> Result<TaskId, ToolFailure> {
    board.find(text.trim()).await.map_err(|error| {
        ToolFailure::from(error).advise("board_list lists the tasks with their ids")
    })
}

fn task_of(board: &Board, task: &Task) -> BoardTaskView {
    BoardTaskView { board: board.slug().to_owned(), task: task.into() }
}

fn profile(argument: &str, name: &str) -> Result<ProfileName, ToolFailure> {
    ProfileName::new(name.trim()).map_err(|error| ToolFailure::argument(argument, error))
}

fn line(task: &TaskView) -> String {
    let assignee = task.assignee.as_deref().unwrap_or("nobody");
    format!("{} [{}] {} (assigned to {assignee})", task.id, task.status, task.title)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BoardCreate {
    /// What it is about, in one line.
    title: String,
    /// What to do, where things are, and how to tell that it is done: its worker knows nothing else.
    body: Option<String>,
    /// The profile that works on it. Without one, nobody begins.
    assignee: Option<String>,
    /// Ids of tasks that must be done first.
    parents: Option<Vec<String>>,
    /// Higher goes first; 0 unless given.
    priority: Option<i64>,
    /// It is a rough idea for a person to look at first.
    triage: Option<bool>,
    /// The work has to be reviewed before it counts as done.
    needs_review: Option<bool>,
    /// A key of your choice: with the same key, the same task is returned and none is made.
    idempotency_key: Option<String>,
    /// Another board than the current one.
    board: Option<String>,
}

/// A task that was made, or was there.
#[derive(Debug, Serialize)]
struct CreatedOutput {
    #[serde(flatten)]
    task: BoardTaskView,
    /// Whether it was there before.
    existed: bool,
}

impl SandboxTool for BoardCreate {
    const NAME: &'static str = "board_create";
    const TITLE: &'static str = "Create a task";
    const DESCRIPTION: &'static str = "\
Creates a task on the user's board. A task with an assignee is begun by an agent of that profile as soon as there is room.";
    const EFFECT: ToolEffect = ToolEffect::Adds;
    const LONG_TEXTS: bool = true;
    type Output = CreatedOutput;

    async fn call(self, call: &Call) -> Result<Answer<CreatedOutput>, ToolFailure> {
        let OpenedBoard { board, by } = to_write(call, self.board.as_deref()).await?;
        let mut parents = Vec::new();
        for parent in self.parents.unwrap_or_default() {
            parents.push(task_id(&board, &parent).await?);
        }
        let assignee = self.assignee.as_deref().filter(|name| !name.trim().is_empty());
        let new = NewTask {
            title: self.title,
            body: self.body.unwrap_or_default(),
            assignee: assignee.map(|name| profile("assignee", name)).transpose()?,
            parents,
            priority: self.priority.unwrap_or(0),
            initial: if self.triage.unwrap_or(false) { Initial::Triage } else { Initial::Queue },
            idempotency_key: self.idempotency_key.filter(|key| !key.is_empty()),
            needs_review: self.needs_review.unwrap_or(false),
            ..NewTask::default()
        };
        let created = board.create(&by, new).await?;
        let task = task_of(&board, &created.task);
        let verb = if created.existed { "It was there" } else { "Created" };
        let text = format!("{verb}: {}", line(&task.task));
        Ok(Answer::new(CreatedOutput { task, existed: created.existed }, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BoardList {
    /// Only tasks of this status: triage, scheduled, todo, ready, running, blocked, review, done or
    /// archived. Unless given, all but archived ones.
    status: Option<String>,
    /// Only tasks of this profile.
    assignee: Option<String>,
    /// Only tasks with this text in title or body.
    text: Option<String>,
    /// Tasks to pass over.
    skip: Option<u32>,
    /// At most so many: 50 unless given, 200 at most.
    limit: Option<u32>,
    /// Another board than the current one.
    board: Option<String>,
}

/// Tasks of a board.
#[derive(Debug, Serialize)]
struct TasksOutput {
    tasks: Vec<TaskView>,
    /// Whether there are more.
    more: bool,
}

impl SandboxTool for BoardList {
    const NAME: &'static str = "board_list";
    const TITLE: &'static str = "List tasks";
    const DESCRIPTION: &'static str =
        "Lists tasks of the user's board, by status and then by urgency.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const LONG_TEXTS: bool = true;
    type Output = TasksOutput;

    async fn call(self, call: &Call) -> Result<Answer<TasksOutput>, ToolFailure> {
        let statuses = self.status.as_deref().filter(|status| !status.is_empty()).map(|status| {
            status.parse::<Status>().map_err(|error| ToolFailure::argument("status", error))
        });
        let (skip, limit) =
            (self.skip.unwrap_or(0), self.limit.unwrap_or(LISTED).clamp(1, MAX_LISTED));
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let query = TaskQuery {
            statuses: statuses.transpose()?.into_iter().collect(),
            assignee: given(self.assignee).map(Some),
            text: given(self.text),
            order: Order::Board,
            // One more tells whether there are more.
            limit: Some(limit + 1),
            offset: skip,
            ..TaskQuery::default()
        };
        let mut tasks = match access(call)?.open(self.board.as_deref(), false).await? {
            Some(board) => board.list(&query).await?,
            None => Vec::new(),
        };
        let more = tasks.len() > limit as usize;
        tasks.truncate(limit as usize);
        let mut tasks: Vec<TaskView> = tasks.iter().map(TaskView::from).collect();
        for task in &mut tasks {
            cut(&mut task.body);
        }
        let mut text = tasks.iter().map(line).collect::<Vec<_>>().join("\n");
        if tasks.is_empty() {
            text.push_str("There are no such tasks.");
        }
        if more {
            let next = u64::from(skip) + tasks.len() as u64;
            text.extend([format!("\n[there are more; skip {next} lists them]")]);
        }
        Ok(Answer::new(TasksOutput { tasks, more }, text))
    }
}

/// Shortens a text, and says so.
fn cut(text: &mut String) {
    const SHORT: usize = 500;
    if let Some((at, _)) = text.char_indices().nth(SHORT) {
        text.truncate(at);
        text.push_str(" [… cut; board_show has all of it]");
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BoardShow {
    /// The id of the task, or a beginning that only one has.
    id: String,
    /// Another board than the current one.
    board: Option<String>,
}

impl SandboxTool for BoardShow {
    const NAME: &'static str = "board_show";
    const TITLE: &'static str = "Show a task";
    const DESCRIPTION: &'static str = "\
Shows a task of the user's board with its comments, its newest events and runs, and its results.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const LONG_TEXTS: bool = true;
    type Output = TaskDetailsView;

    async fn call(self, call: &Call) -> Result<Answer<TaskDetailsView>, ToolFailure> {
        let board = access(call)?.open(self.board.as_deref(), false).await?;
        let board = board.ok_or_else(|| ToolFailure::new("there is no task on that board yet"))?;
        let id = task_id(&board, &self.id).await?;
        let mut details = TaskDetailsView::new(&board, &board.show(&id).await?);
        keep_newest(&mut details.events, EVENTS);
        keep_newest(&mut details.runs, RUNS);
        keep_newest(&mut details.comments, EVENTS);
        let text = details_in_words(&details);
        Ok(Answer::new(details, text))
    }
}

fn keep_newest<T>(all: &mut Vec<T>, count: usize) {
    let rest = all.len().saturating_sub(count);
    all.drain(..rest);
}

fn details_in_words(details: &TaskDetailsView) -> String {
    let task = &details.task;
    let mut text = format!("{}\n", line(task));
    let mut add = |title: &str, words: &str| {
        if !words.trim().is_empty() {
            let shown: String = words.chars().take(SHOWN).collect();
            // Writing to a string cannot fail.
            writeln!(text, "\n{title}:\n{shown}").ok();
            if shown.len() < words.len() {
                writeln!(text, "[… the rest is in the structured result]").ok();
            }
        }
    };
    add("What to do", &task.body);
    add("Why it is blocked", task.block_reason.as_deref().unwrap_or_default());
    add("Result", task.result.as_deref().unwrap_or_default());
    add("Summary", details.latest_summary.as_deref().unwrap_or_default());
    for comment in &details.comments {
        add(&format!("Comment by {}", comment.author), &comment.body);
    }
    text
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BoardComment {
    /// The id of the task.
    id: String,
    /// What to say. Its worker reads it.
    text: String,
    /// Another board than the current one.
    board: Option<String>,
}

impl SandboxTool for BoardComment {
    const NAME: &'static str = "board_comment";
    const TITLE: &'static str = "Comment on a task";
    const DESCRIPTION: &'static str = "Adds a comment to a task of the user's board.";
    const EFFECT: ToolEffect = ToolEffect::Adds;
    type Output = CommentedView;

    async fn call(self, call: &Call) -> Result<Answer<CommentedView>, ToolFailure> {
        let OpenedBoard { board, by } = to_write(call, self.board.as_deref()).await?;
        let id = task_id(&board, &self.id).await?;
        let comment_id = board.comment(&by, &id, &self.text).await?;
        let text = format!("Commented on {id}.");
        Ok(Answer::new(CommentedView { task_id: id.to_string(), comment_id }, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BoardComplete {
    /// The id of the task.
    id: String,
    /// What was done, for people and for the tasks that wait for this one.
    summary: String,
    /// The result, if it is a text.
    result: Option<String>,
    /// Another board than the current one.
    board: Option<String>,
}

/// A task that is done, or goes to its review.
#[derive(Debug, Serialize)]
struct CompletedOutput {
    #[serde(flatten)]
    task: BoardTaskView,
    /// Tasks that waited for this one and are ready now.
    promoted: Vec<String>,
    /// The run of a worker that ended by this, if one was at work.
    ended_run_id: Option<i64>,
}

impl SandboxTool for BoardComplete {
    const NAME: &'static str = "board_complete";
    const TITLE: &'static str = "Complete a task";
    const DESCRIPTION: &'static str = "\
Marks a task of the user's board as done; one that needs a review goes to it. A worker that is at work on it is stopped. Complete a task only if the user asked for that or you did the work.";
    const EFFECT: ToolEffect = ToolEffect::Destroys;
    const LONG_TEXTS: bool = true;
    type Output = CompletedOutput;

    async fn call(self, call: &Call) -> Result<Answer<CompletedOutput>, ToolFailure> {
        let OpenedBoard { board, by } = to_write(call, self.board.as_deref()).await?;
        let id = task_id(&board, &self.id).await?;
        let done = TaskCompletion {
            summary: Some(self.summary),
            result: self.result,
            ..TaskCompletion::default()
        };
        let moved = board.complete(&by, &id, done).await?;
        let promoted: Vec<String> = moved.promoted.iter().map(ToString::to_string).collect();
        let task = task_of(&board, &moved.task);
        let mut text = line(&task.task);
        if !promoted.is_empty() {
            let ready = counted(promoted.len() as u64, "task");
            text.extend([format!("\n{ready} that waited can begin: {}", promoted.join(", "))]);
        }
        let ended_run_id = moved.ended.map(|run| run.id.get());
        Ok(Answer::new(CompletedOutput { task, promoted, ended_run_id }, text))
    }
}
