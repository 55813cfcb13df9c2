//! Boards, and the profiles that their tasks go to. Times are whole seconds since 1970.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vestal_board::boards::{BoardInfo, ListedBoard};
use vestal_board::dispatch::DispatchResult;
use vestal_board::verbs::placement::{ColumnMove, ways};
use vestal_board::{Run, Status, Task, Time};

use crate::task::{RelativeView, TaskDetailsView, TaskRunView, TaskView};

/// A profile that tasks go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssigneeView {
    /// The profile.
    pub name: String,
    /// Whether there is such a profile.
    pub exists: bool,
    /// How many tasks it has of each status that has any.
    pub counts: BTreeMap<Status, u64>,
}

/// Where a board is, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardPlaceView {
    /// The board.
    pub board: String,
    /// Its directory.
    pub path: String,
    /// Whether it is there.
    pub exists: bool,
    /// Profiles that tasks can go to.
    pub profiles: Vec<String>,
}

/// A board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardView {
    /// Its name for programs.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// A sign that stands for it.
    pub icon: String,
    /// Its colour.
    pub color: String,
    /// The directory for its tasks that name none and need one.
    pub default_workdir: Option<String>,
    /// The host that has that directory.
    pub default_workdir_host: Option<String>,
    /// When it was made.
    pub created_at: Option<i64>,
    /// Whether it was removed, and is kept.
    pub archived: bool,
    /// How many tasks it has of each status; left out where that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<BTreeMap<Status, u64>>,
    /// How many of them need a person; left out where that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_attention: Option<u64>,
    /// Why no more is known; left out where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Its directory.
    pub path: String,
    /// Whether it is the current board.
    pub current: bool,
}

impl BoardView {
    /// Returns the view of a board in a directory.
    pub fn new(board: &ListedBoard, path: String, current: bool) -> Self {
        let ListedBoard { slug, info, tasks, needs_attention, trouble } = board.clone();
        let BoardInfo {
            name,
            description,
            icon,
            color,
            default_workdir,
            default_workdir_host,
            created_at,
            archived,
        } = info;
        Self {
            slug: slug.to_string(),
            name,
            description,
            icon,
            color,
            default_workdir: default_workdir.map(|path| path.to_string_lossy().into_owned()),
            default_workdir_host: default_workdir_host.map(|host| host.to_string()),
            created_at: created_at.map(Time::seconds),
            archived,
            tasks,
            needs_attention,
            trouble,
            path,
            current,
        }
    }
}

/// A board that was archived or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedBoardView {
    /// The board.
    pub slug: String,
    /// Whether it is gone for good.
    pub deleted: bool,
}

/// A board that was brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredBoardView {
    /// The board.
    pub slug: String,
    /// Whether it is archived.
    pub archived: bool,
}

/// The board that is the current one from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentBoardView {
    /// The board.
    pub current: String,
}

/// The most bytes of a task's text in a list; its page has all of it.
const LISTED_BODY: usize = 240;

/// A task in a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardTileView {
    /// The task; of its text only the beginning.
    #[serde(flatten)]
    pub task: TaskView,
    /// The run that holds it, with its lease.
    pub run: Option<TaskRunView>,
    /// The first unfinished tasks that it waits for.
    pub waits_for: Vec<RelativeView>,
}

impl BoardTileView {
    /// Returns the view of a task, of the run that holds it, and of what it waits for.
    pub fn new(task: &Task, run: Option<&Run>, waits_for: Vec<RelativeView>) -> Self {
        let mut task = TaskView::from(task);
        if task.body.len() > LISTED_BODY {
            task.body.truncate(task.body.floor_char_boundary(LISTED_BODY));
            task.body.push('…');
        }
        Self { task, run: run.map(Into::into), waits_for }
    }
}

/// A move to another column that a person can make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardMoveView {
    /// The column; a task that waits for others becomes `todo` in place of `ready`.
    pub to: Status,
    /// What is done: `promote`, `unblock`, `block`, `schedule`, `submit`, `complete`, `approve`,
    /// `request_changes`, `reclaim`, `reopen` or `archive`.
    pub verb: String,
    /// Whether it asks for words: `none`, `optional` or `needed`.
    pub words: String,
}

impl BoardMoveView {
    /// Returns the moves out of a column.
    pub fn all(from: Status) -> Vec<Self> {
        let view = |way: &ColumnMove| Self {
            to: way.to,
            verb: way.verb.to_string(),
            words: way.words.to_string(),
        };
        ways(from).iter().map(view).collect()
    }
}

/// A task as its page shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskPageView {
    /// All about it.
    #[serde(flatten)]
    pub details: TaskDetailsView,
    /// Where a person can move it.
    pub moves: Vec<BoardMoveView>,
    /// The log of its workers on this host; null: there is none.
    pub log_bytes: Option<u64>,
}

/// What a dispatcher would do with a board now.
#[derive(Debug, Clone, Serialize)]
pub struct DispatchPlanView {
    /// What it goes by, in words: its host and caps.
    pub policy: String,
    /// What is wrong with the settings.
    pub warnings: Vec<String>,
    /// Whether a dispatcher of this host watches the board.
    pub watched: bool,
    /// What would be started, and what is left for later and why.
    pub would: DispatchResult,
    /// Titles of the tasks that are named.
    pub titles: BTreeMap<String, String>,
}

impl DispatchPlanView {
    /// Returns the tasks that a plan names.
    pub fn named(would: &DispatchResult) -> Vec<String> {
        let buckets = [
            &would.skipped_unassigned,
            &would.auto_assigned_default,
            &would.skipped_nonspawnable,
            &would.skipped_workspace_busy,
            &would.skipped_other_host,
            &would.crashed,
            &would.no_report,
            &would.auto_blocked,
            &would.timed_out,
            &would.stale,
            &would.rate_limited,
        ];
        let plain = buckets.into_iter().flat_map(|bucket| bucket.entries.iter());
        let spawned = would.spawned.entries.iter().map(|one| &one.task_id);
        let capped = would.skipped_capped.entries.iter().map(|one| &one.task_id);
        let of_profile = would.skipped_per_profile_capped.entries.iter().map(|(id, ..)| id);
        let guarded = would.respawn_guarded.entries.iter().map(|one| &one.task_id);
        let all = plain.chain(spawned).chain(capped).chain(of_profile).chain(guarded);
        all.map(ToString::to_string).collect()
    }
}
