//! Tools that decide about a task: `kanban_complete`, `kanban_submit`, `kanban_request_changes`,
//! `kanban_block`, `kanban_unblock`.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::arguments::{BadArgument, NonEmptyString, blank_as_absent};
use vestal_board::verbs::{Block, Completion, Moved};
use vestal_board::{BlockKind, Board, Status, TaskId};

use super::tool::{self, Effect, Verb, fields, not_blank};
use super::{BoardArgument, TaskArgument, ToolError, files};
use crate::context::{BoardContext, Reported};

/// The arguments of a completion and of a submission.
#[derive(Deserialize, JsonSchema)]
struct FinishedWork {
    #[serde(default)]
    board: BoardArgument,
    #[serde(default)]
    task_id: TaskArgument,
    /// What was done, for whoever goes on with it.
    // The result stands in for a summary that a model leaves out.
    #[schemars(required)]
    summary: Option<String>,
    /// What came of it, where that is a text of its own.
    result: Option<String>,
    /// Facts for machines: changed files, test results, decisions.
    metadata: Option<Map<String, Value>>,
    /// Tasks that you made with `kanban_create`, by id. Naming any other is an error.
    #[serde(default)]
    created_cards: Vec<String>,
    /// Files in the sandbox to be kept with the task, each at most 25 MiB.
    #[serde(default)]
    artifacts: Vec<String>,
}

/// Which verb of the board finished work goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FinishVerb {
    Complete,
    Submit,
}

impl FinishedWork {
    /// Hands the task in with its artifacts. Where that fails, they are off the board
    /// again and the task is as it was.
    async fn hand_in(
        self,
        kanban: &BoardContext,
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
                kanban.report(&task, Reported::Finished);
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
    ) -> Result<Completion, ToolError> {
        let masked = |text: Option<&str>| {
            let text = text.filter(|text| !text.trim().is_empty());
            text.map(|text| tool::redacted(context, text))
        };
        let result = masked(self.result.as_deref());
        let Some(summary) = masked(self.summary.as_deref()).or_else(|| result.clone()) else {
            let missing = "`summary` is required: say what was done, for whoever goes on with it";
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
        Ok(Completion {
            summary: Some(summary),
            result,
            metadata,
            created_cards,
            artifacts: Vec::new(),
        })
    }
}

/// Returns what the model reads of a task that was moved.
fn moved_fields(kanban: &BoardContext, moved: &Moved) -> Map<String, Value> {
    let run = kanban.fence().ok().map(|fence| fence.run);
    fields(json!({ "task_id": moved.task.id, "run_id": run, "status": moved.task.status }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct CompleteTask(FinishedWork);

#[async_trait]
impl Verb for CompleteTask {
    const NAME: &'static str = "kanban_complete";
    const DESCRIPTION: &'static str = "\
Reports that the task is done, and ends the work on it: do this last. Where the task asks for a review, it goes there. \
`summary` is what whoever goes on with it will read: what was done, what was decided, what is left, how it was checked. \
`artifacts` are copied out of the sandbox and kept with the task; if one is missing or too large, nothing is reported.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &BoardContext,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        self.0.hand_in(kanban, context, FinishVerb::Complete).await
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct SubmitTask(FinishedWork);

#[async_trait]
impl Verb for SubmitTask {
    const NAME: &'static str = "kanban_submit";
    const DESCRIPTION: &'static str = "\
Reports that the work is done and hands it over for review, whether or not the task asks for one; it ends the work on the task. \
Use it instead of kanban_complete for changes that somebody should look at before they count. Takes the same as kanban_complete.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &BoardContext,
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
impl Verb for RequestChanges {
    const NAME: &'static str = "kanban_request_changes";
    const DESCRIPTION: &'static str = "\
Sends work that was handed over for review back to whoever did it, and ends the review. \
`reason` is all they will be told: say what is wrong, where, and what would make it right.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &BoardContext,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = kanban.task(&board, &self.task_id).await?;
        let reason = tool::redacted(context, &self.reason);
        let moved = board.request_changes(&kanban.authority(), &task, &reason).await?;
        kanban.report(&task, Reported::Finished);
        Ok(moved_fields(kanban, &moved))
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct BlockTask {
    #[serde(default)]
    board: BoardArgument,
    #[serde(default)]
    task_id: TaskArgument,
    /// What is in the way, and what is needed.
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
impl Verb for BlockTask {
    const NAME: &'static str = "kanban_block";
    const DESCRIPTION: &'static str = "\
Reports that the task cannot go on now, and ends the work on it. `kind`: needs_input (a person has to answer or decide), \
capability (a right, a tool or a login is missing), transient (something passing; it is tried again by itself), \
dependency (it waits for another task: link that one with kanban_link first). \
`reason` is what the person reads: say what was found, what exactly is needed, and what you would do with each answer.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &BoardContext,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = kanban.task(&board, &self.task_id).await?;
        let reason = tool::redacted(context, &self.reason);
        let block = Block { reason, kind: self.kind.map(BlockKind::from) };
        let moved = board.block(&kanban.authority(), &task, block).await?;
        // A reason may be one that hands the work over for review.
        let reported =
            if moved.task.status == Status::Review { Reported::Finished } else { Reported::Waits };
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
impl Verb for UnblockTask {
    const NAME: &'static str = "kanban_unblock";
    const DESCRIPTION: &'static str = "\
Lets a blocked or scheduled task go on, in the name of the person you talk to: do it when they have answered what it waits for. \
`reason` is kept with the task, so put the answer there.";
    const EFFECT: Effect = Effect::Decides;

    async fn call(
        self,
        kanban: &BoardContext,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = board.find(self.task_id.trim()).await?;
        let reason = not_blank(self.reason.as_deref()).map(|text| tool::redacted(context, text));
        let moved = board.unblock(&kanban.authority(), &task, reason.as_deref()).await?;
        Ok(moved_fields(kanban, &moved))
    }
}
