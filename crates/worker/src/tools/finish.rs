//! Tools that decide about a task: `kanban_complete`, `kanban_submit`, `kanban_request_changes`,
//! `kanban_block`, `kanban_unblock`.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::arguments::{BadArgument, NonEmptyString, blank_as_absent};
use vestal_board::verbs::{Block, Moved, TaskCompletion};
use vestal_board::{BlockKind, Board, Status, TaskId};

use super::tool::{self, BoardVerb, Effect, fields, not_blank};
use super::{BoardArgument, TaskArgument, ToolError, files};
use crate::context::{AgentBoard, ReportedState};

/// The arguments of a completion and of a submission.
#[derive(Deserialize, JsonSchema)]
struct WorkReport {
    #[serde(default)]
    board: BoardArgument,
    #[serde(default)]
    task_id: TaskArgument,
    /// What was done, for the next worker or reviewer.
    // The result stands in for a summary that a model leaves out.
    #[schemars(required)]
    summary: Option<String>,
    /// The result, if it is a text.
    result: Option<String>,
    /// Structured facts: changed files, test results, decisions.
    metadata: Option<Map<String, Value>>,
    /// Tasks that you made with `kanban_create`, by id. Naming any other is an error.
    #[serde(default)]
    created_cards: Vec<String>,
    /// Files in the sandbox to attach to the task, each at most 25 MiB.
    #[serde(default)]
    artifacts: Vec<String>,
}

/// Which verb of the board finished work goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FinishVerb {
    Complete,
    Submit,
}

impl WorkReport {
    /// Hands the task in with its artifacts. Where that fails, they are off the board
    /// again and the task is as it was.
    async fn hand_in(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
        verb: FinishVerb,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = kanban.task(&board, &self.task_id).await?;
        let by = kanban.authority();
        let mut done = self.completion(context, &board).await?;
        let copied = files::copy_out(context, &board, &by, &task, &self.artifacts).await?;
        done.artifacts = copied.iter().map(|attachment| attachment.filename.clone()).collect();
        let moved = match verb {
            FinishVerb::Complete => board.complete(&by, &task, done).await,
            FinishVerb::Submit => board.submit(&by, &task, done).await,
        };
        match moved {
            Ok(moved) => {
                kanban.report(&task, ReportedState::Finished);
                Ok(moved_fields(kanban, &moved))
            }
            Err(error) => {
                files::take_back(&board, &by, &copied).await;
                Err(error.into())
            }
        }
    }

    /// Returns the report for the board, without artifacts.
    async fn completion(
        &self,
        context: &ToolContext,
        board: &Board,
    ) -> Result<TaskCompletion, ToolError> {
        let masked = |text: Option<&str>| {
            let text = text.filter(|text| !text.trim().is_empty());
            text.map(|text| tool::redacted(context, text))
        };
        let result = masked(self.result.as_deref());
        let Some(summary) = masked(self.summary.as_deref()).or_else(|| result.clone()) else {
            let missing = "`summary` is required: say what was done, for those who continue";
            return Err(BadArgument::new(missing).into());
        };
        let mut created_cards = Vec::<TaskId>::new();
        for name in &self.created_cards {
            // A whole name is taken as it is: whether the task was made here is
            // for the board to say.
            created_cards.push(match name.trim().parse() {
                Ok(id) => id,
                Err(_) => board.find(name.trim()).await?,
            });
        }
        let metadata = self.metadata.clone();
        let metadata = metadata
            .map(|fields| tool::redacted_object(context, "metadata", fields))
            .transpose()?;
        Ok(TaskCompletion {
            summary: Some(summary),
            result,
            metadata,
            created_cards,
            artifacts: Vec::new(),
        })
    }
}

/// Returns what the model reads of a task that was moved.
fn moved_fields(kanban: &AgentBoard, moved: &Moved) -> Map<String, Value> {
    let run = kanban.fence().ok().map(|fence| fence.run);
    fields(json!({ "task_id": moved.task.id, "run_id": run, "status": moved.task.status }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct CompleteTask(WorkReport);

#[async_trait]
impl BoardVerb for CompleteTask {
    const NAME: &'static str = "kanban_complete";
    const DESCRIPTION: &'static str = "\
Reports that the task is done and ends your work on it: call this last. A task that requires a review goes to review. \
`summary` is for the next worker or reviewer: what was done, what was decided, what is left, how it was checked. \
`artifacts` are copied out of the sandbox and attached to the task; if one is missing or too large, the call fails and nothing is reported.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        self.0.hand_in(kanban, context, FinishVerb::Complete).await
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct SubmitTask(WorkReport);

#[async_trait]
impl BoardVerb for SubmitTask {
    const NAME: &'static str = "kanban_submit";
    const DESCRIPTION: &'static str = "\
Reports that the work is done and submits it for review, even if the task requires none; this ends your work on the task. \
Use it instead of kanban_complete for changes that should be reviewed before they count. It takes the same arguments.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        self.0.hand_in(kanban, context, FinishVerb::Submit).await
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RequestChanges {
    #[serde(default)]
    board: BoardArgument,
    /// The task; the reviewer's own if left out.
    #[serde(default)]
    task_id: TaskArgument,
    /// What has to change, and why.
    reason: NonEmptyString,
}

#[async_trait]
impl BoardVerb for RequestChanges {
    const NAME: &'static str = "kanban_request_changes";
    const DESCRIPTION: &'static str = "\
Sends reviewed work back to its author and ends the review. \
`reason` is all that the author gets: say what is wrong, where, and how to fix it.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = kanban.task(&board, &self.task_id).await?;
        let reason = tool::redacted(context, &self.reason);
        let moved = board.request_changes(&kanban.authority(), &task, &reason).await?;
        kanban.report(&task, ReportedState::Finished);
        Ok(moved_fields(kanban, &moved))
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct BlockTask {
    #[serde(default)]
    board: BoardArgument,
    #[serde(default)]
    task_id: TaskArgument,
    /// What blocks the task, and what is needed.
    reason: NonEmptyString,
    #[serde(default, deserialize_with = "blank_as_absent")]
    kind: Option<GivenBlockKind>,
}

/// The kinds that somebody can give; the others the board gives by itself.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GivenBlockKind {
    NeedsInput,
    Capability,
    Transient,
    Dependency,
}

impl From<GivenBlockKind> for BlockKind {
    fn from(given: GivenBlockKind) -> Self {
        match given {
            GivenBlockKind::NeedsInput => Self::NeedsInput,
            GivenBlockKind::Capability => Self::Capability,
            GivenBlockKind::Transient => Self::Transient,
            GivenBlockKind::Dependency => Self::Dependency,
        }
    }
}

#[async_trait]
impl BoardVerb for BlockTask {
    const NAME: &'static str = "kanban_block";
    const DESCRIPTION: &'static str = "\
Reports that the task is blocked and ends your work on it. `kind`: needs_input (a person must answer or decide), \
capability (a permission, tool or login is missing), transient (a temporary problem; the task is retried automatically), \
dependency (it waits for another task: link that one with kanban_link first). \
`reason` is what the person reads: say what you found, what exactly is needed, and what you would do with each answer.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = kanban.task(&board, &self.task_id).await?;
        let reason = tool::redacted(context, &self.reason);
        let block = Block { reason, kind: self.kind.map(BlockKind::from) };
        let moved = board.block(&kanban.authority(), &task, block).await?;
        // A reason may be one that hands the work over for review.
        let reported = if moved.task.status == Status::Review {
            ReportedState::Finished
        } else {
            ReportedState::Waits
        };
        kanban.report(&task, reported);
        let mut result = moved_fields(kanban, &moved);
        result.insert("block_kind".to_owned(), json!(moved.task.block_kind));
        Ok(result)
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UnblockTask {
    #[serde(default)]
    board: BoardArgument,
    task_id: NonEmptyString,
    /// The answer, or why it can go on.
    reason: Option<String>,
}

#[async_trait]
impl BoardVerb for UnblockTask {
    const NAME: &'static str = "kanban_unblock";
    const DESCRIPTION: &'static str = "\
Unblocks a blocked or scheduled task in the name of the user: call it when they have answered what the task waits for. \
`reason` is kept with the task, so put the answer there.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = board.find(self.task_id.trim()).await?;
        let reason = not_blank(self.reason.as_deref()).map(|text| tool::redacted(context, text));
        let moved = board.unblock(&kanban.authority(), &task, reason.as_deref()).await?;
        Ok(moved_fields(kanban, &moved))
    }
}
