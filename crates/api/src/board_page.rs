//! The board as a page shows it: moves by hand, leases, and what a dispatcher would do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vestal_board::dispatch::DispatchResult;
use vestal_board::verbs::placement::{ColumnMove, ways};
use vestal_board::{Run, Status, Task};

use crate::task::{RelativeView, TaskDetailsView, TaskRunView, TaskView};

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
