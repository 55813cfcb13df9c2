//! What dispatchers report: their events, and what was collected.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vestal_board::{Outcome, Time};
use vestal_dispatcher::{CollectedLeftovers, DispatchEvent, KeptTree};

/// Something that a dispatcher did or found: a line of `kanban dispatch --watch --json`. `at` is in whole seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DispatchEventView {
    /// The dispatcher began.
    Begun {
        /// When.
        at: i64,
        /// What it dispatches, in words.
        what: String,
    },
    /// A worker was started.
    Started {
        /// When.
        at: i64,
        /// The board.
        board: String,
        /// The task.
        task_id: String,
        /// The profile that works.
        assignee: String,
        /// The directory it works in.
        workspace: String,
    },
    /// A worker could not be started.
    NotStarted {
        /// When.
        at: i64,
        /// The board.
        board: String,
        /// The task.
        task_id: String,
        /// Why.
        error: String,
    },
    /// A worker exited after it had reported.
    Finished {
        /// When.
        at: i64,
        /// The board.
        board: String,
        /// The task.
        task_id: String,
        /// How its run ended.
        outcome: Outcome,
    },
    /// A run ended without a report of its worker.
    Ended {
        /// When.
        at: i64,
        /// The board.
        board: String,
        /// The task.
        task_id: String,
        /// How.
        outcome: Outcome,
        /// Why.
        reason: String,
    },
    /// A worker whose run had ended was stopped.
    Stopped {
        /// When.
        at: i64,
        /// The board.
        board: String,
        /// The task.
        task_id: String,
    },
    /// A worker survived SIGKILL.
    Survived {
        /// When.
        at: i64,
        /// The board.
        board: String,
        /// The task.
        task_id: String,
        /// Its remaining processes.
        pids: Vec<u32>,
    },
    /// Tasks are assigned to a profile that does not exist.
    UnknownProfile {
        /// When.
        at: i64,
        /// The name of the profile.
        name: String,
    },
    /// A clean-up removed something.
    Collected {
        /// When.
        at: i64,
        /// The board.
        board: String,
        /// What.
        what: CollectedView,
    },
    /// The working tree of a finished task was kept.
    KeptTree {
        /// When.
        at: i64,
        /// The tree.
        path: String,
        /// Why.
        reason: String,
    },
    /// Something failed and is tried again.
    Trouble {
        /// When.
        at: i64,
        /// The board, where it is about one.
        board: Option<String>,
        /// What.
        what: String,
    },
}

impl DispatchEventView {
    /// Returns the view of an event at a moment.
    pub fn new(event: &DispatchEvent, at: Time) -> Self {
        let at = at.seconds();
        match event.clone() {
            DispatchEvent::Started { board, task, profile, workspace } => {
                Self::Started { at, board, task_id: task.to_string(), assignee: profile, workspace }
            }
            DispatchEvent::NotStarted { board, task, error } => {
                Self::NotStarted { at, board, task_id: task.to_string(), error }
            }
            DispatchEvent::Finished { board, task, outcome } => {
                Self::Finished { at, board, task_id: task.to_string(), outcome }
            }
            DispatchEvent::Ended { board, task, outcome, reason } => {
                Self::Ended { at, board, task_id: task.to_string(), outcome, reason }
            }
            DispatchEvent::Stopped { board, task } => {
                Self::Stopped { at, board, task_id: task.to_string() }
            }
            DispatchEvent::Survived { board, task, pids } => {
                Self::Survived { at, board, task_id: task.to_string(), pids }
            }
            DispatchEvent::UnknownProfile { name } => Self::UnknownProfile { at, name },
            DispatchEvent::Collected { board, what } => {
                Self::Collected { at, board, what: (&what).into() }
            }
            DispatchEvent::KeptTree { path, reason } => {
                Self::KeptTree { at, path: path.to_string_lossy().into_owned(), reason }
            }
            DispatchEvent::Problem { board, what } => Self::Trouble { at, board, what },
        }
    }

    /// Returns the event as it is printed: with its members in alphabetical order, so that lines stay the same to the byte.
    pub fn sorted(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// What `kanban gc` removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedView {
    /// Events.
    pub events: u64,
    /// Runs.
    pub runs: u64,
    /// Logs of workers.
    pub logs: u64,
    /// Files that belonged to no task.
    pub attachments: u64,
    /// Working trees of finished tasks.
    pub worktrees: u64,
    /// Finished tasks that had left something in sandboxes.
    pub places: u64,
    /// Working trees that were left alone.
    pub kept: Vec<KeptTreeView>,
}

impl From<&CollectedLeftovers> for CollectedView {
    fn from(collected: &CollectedLeftovers) -> Self {
        let CollectedLeftovers { events, runs, logs, attachments, worktrees, places, kept } =
            collected;
        Self {
            events: *events,
            runs: *runs,
            logs: *logs,
            attachments: *attachments,
            worktrees: *worktrees,
            places: *places,
            kept: kept.iter().map(KeptTreeView::from).collect(),
        }
    }
}

/// A working tree that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTreeView {
    /// The task.
    pub task_id: String,
    /// The tree.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl From<&KeptTree> for KeptTreeView {
    fn from(tree: &KeptTree) -> Self {
        Self {
            task_id: tree.task_id.to_string(),
            path: tree.path.to_string_lossy().into_owned(),
            reason: tree.reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every event of a dispatcher with the line that is printed for it.
    fn lines() -> Vec<(DispatchEvent, &'static str)> {
        let board = || "web".to_owned();
        let task = || "t_000000000001".parse().unwrap();
        let kept = KeptTree { task_id: task(), path: "/tree".into(), reason: "dirty".to_owned() };
        vec![
            (
                DispatchEvent::Started {
                    board: board(),
                    task: task(),
                    profile: "ada".to_owned(),
                    workspace: "/w".to_owned(),
                },
                r#"{"assignee":"ada","at":7,"board":"web","kind":"started","task_id":"t_000000000001","workspace":"/w"}"#,
            ),
            (
                DispatchEvent::NotStarted { board: board(), task: task(), error: "no".to_owned() },
                r#"{"at":7,"board":"web","error":"no","kind":"not_started","task_id":"t_000000000001"}"#,
            ),
            (
                DispatchEvent::Finished {
                    board: board(),
                    task: task(),
                    outcome: Outcome::Completed,
                },
                r#"{"at":7,"board":"web","kind":"finished","outcome":"completed","task_id":"t_000000000001"}"#,
            ),
            (
                DispatchEvent::Ended {
                    board: board(),
                    task: task(),
                    outcome: Outcome::TimedOut,
                    reason: "late".to_owned(),
                },
                r#"{"at":7,"board":"web","kind":"ended","outcome":"timed_out","reason":"late","task_id":"t_000000000001"}"#,
            ),
            (
                DispatchEvent::Stopped { board: board(), task: task() },
                r#"{"at":7,"board":"web","kind":"stopped","task_id":"t_000000000001"}"#,
            ),
            (
                DispatchEvent::Survived { board: board(), task: task(), pids: vec![3, 4] },
                r#"{"at":7,"board":"web","kind":"survived","pids":[3,4],"task_id":"t_000000000001"}"#,
            ),
            (
                DispatchEvent::UnknownProfile { name: "bob".to_owned() },
                r#"{"at":7,"kind":"unknown_profile","name":"bob"}"#,
            ),
            (
                DispatchEvent::Collected {
                    board: board(),
                    what: CollectedLeftovers {
                        events: 2,
                        kept: vec![kept],
                        ..CollectedLeftovers::default()
                    },
                },
                r#"{"at":7,"board":"web","kind":"collected","what":{"attachments":0,"events":2,"kept":[{"path":"/tree","reason":"dirty","task_id":"t_000000000001"}],"logs":0,"places":0,"runs":0,"worktrees":0}}"#,
            ),
            (
                DispatchEvent::KeptTree { path: "/tree".into(), reason: "dirty".to_owned() },
                r#"{"at":7,"kind":"kept_tree","path":"/tree","reason":"dirty"}"#,
            ),
            (
                DispatchEvent::Problem { board: None, what: "full".to_owned() },
                r#"{"at":7,"board":null,"kind":"trouble","what":"full"}"#,
            ),
        ]
    }

    #[test]
    fn an_event_of_a_dispatcher_is_a_line_that_stays_the_same_to_the_byte() {
        for (event, line) in lines() {
            let view = DispatchEventView::new(&event, Time::from_millis(7999));
            assert_eq!(view.sorted().unwrap().to_string(), line);
            assert_eq!(serde_json::from_str::<DispatchEventView>(line).unwrap(), view);
        }
        let begun = DispatchEventView::Begun { at: 7, what: "all boards".to_owned() };
        let line = r#"{"at":7,"kind":"begun","what":"all boards"}"#;
        assert_eq!(begun.sorted().unwrap().to_string(), line);
    }

    #[test]
    fn what_was_collected_is_printed_in_the_order_of_the_type() {
        let printed = serde_json::to_string(&CollectedView::default()).unwrap();
        let expected =
            r#"{"events":0,"runs":0,"logs":0,"attachments":0,"worktrees":0,"places":0,"kept":[]}"#;
        assert_eq!(printed, expected);
    }
}
