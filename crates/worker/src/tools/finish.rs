//! Tools that decide about a task: `kanban_complete`, `kanban_submit`, `kanban_request_changes`,
//! `kanban_block`, `kanban_unblock`.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_board::verbs::{Block as Blocked, Completion, Moved};
use vestal_board::{Authority, BlockKind, Board, Status, TaskId};

use super::tool::{self, Effect, Parameters, Verb, fields};
use super::{ToolError, files};
use crate::context::{BoardContext, Reported};

pub(super) struct Complete;

#[async_trait]
impl Verb for Complete {
    const NAME: &'static str = "kanban_complete";
    const DESCRIPTION: &'static str = "\
Reports that the task is done, and ends the work on it: do this last. Where the task asks for a review, it goes there. \
`summary` is what whoever goes on with it will read: what was done, what was decided, what is left, how it was checked. \
`artifacts` are copied out of the sandbox and kept with the task; if one is missing or too large, nothing is reported.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters { properties: properties(), required: &["summary"] }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let task = kanban.task(&board, arguments).await?;
        let by = kanban.authority();
        let handed = Handed::read(context, &board, arguments).await?;
        let moved = hand_in(context, &board, &by, &task, handed, Hand::Complete).await?;
        kanban.report(&task, Reported::Finished);
        Ok(moved_fields(kanban, &moved))
    }
}

/// Returns the arguments of a completion, which is a submission, too.
pub(super) fn properties() -> Value {
    json!({
        "task_id": {"type": "string", "description": "The task; a worker's own if left out."},
        "summary": {"type": "string", "description": "What was done, for whoever goes on with it."},
        "result": {"type": "string", "description": "What came of it, where that is a text of its own."},
        "metadata": {"type": "object", "description": "Facts for machines: changed files, test results, decisions."},
        "created_cards": {"type": "array", "items": {"type": "string"}, "description": "Tasks that you made with kanban_create, by id. Naming any other is an error."},
        "artifacts": {"type": "array", "items": {"type": "string"}, "description": "Files in the sandbox to be kept with the task, each at most 25 MiB."}
    })
}

/// What is handed in with a task.
pub(super) struct Handed {
    summary: String,
    result: Option<String>,
    metadata: Option<Value>,
    created_cards: Vec<TaskId>,
    artifacts: Vec<String>,
}

/// Which way a task goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hand {
    Complete,
    Submit,
}

impl Handed {
    pub(super) async fn read(
        context: &ToolContext,
        board: &Board,
        arguments: &Arguments,
    ) -> Result<Self, ToolError> {
        let summary = tool::optional_redacted(context, arguments, "summary")?;
        let result = tool::optional_redacted(context, arguments, "result")?;
        let Some(summary) = summary.or_else(|| result.clone()) else {
            let missing = "`summary` is required: say what was done, for whoever goes on with it";
            return Err(BadArgument::new(missing).into());
        };
        let mut created_cards = Vec::new();
        for name in arguments.texts("created_cards")? {
            // A whole name is taken as it is: whether the task was made here is
            // for the board to say.
            created_cards.push(match name.trim().parse() {
                Ok(id) => id,
                Err(_) => board.find(name.trim()).await?,
            });
        }
        Ok(Self {
            summary,
            result,
            metadata: tool::redacted_object(context, arguments, "metadata")?,
            created_cards,
            artifacts: arguments.texts("artifacts")?,
        })
    }
}

/// Hands a task in with its artifacts. Where that fails, they are off the board
/// again and the task is as it was.
pub(super) async fn hand_in(
    context: &ToolContext,
    board: &Board,
    by: &Authority,
    task: &TaskId,
    handed: Handed,
    hand: Hand,
) -> Result<Moved, ToolError> {
    let Handed { summary, result, metadata, created_cards, artifacts } = handed;
    let copied = files::copy_out(context, board, by, task, &artifacts).await?;
    let done = Completion {
        summary: Some(summary),
        result,
        metadata,
        created_cards,
        artifacts: copied.iter().map(|attachment| attachment.filename.clone()).collect(),
    };
    let moved = match hand {
        Hand::Complete => board.complete(by, task, done).await,
        Hand::Submit => board.submit(by, task, done).await,
    };
    match moved {
        Ok(moved) => Ok(moved),
        Err(error) => {
            files::take_back(board, by, &copied).await;
            Err(error.into())
        }
    }
}

/// Returns what the model reads of a task that was moved.
pub(super) fn moved_fields(kanban: &BoardContext, moved: &Moved) -> Map<String, Value> {
    let run = kanban.fence().ok().map(|fence| fence.run);
    fields(json!({ "task_id": moved.task.id, "run_id": run, "status": moved.task.status }))
}

pub(super) struct Submit;

#[async_trait]
impl Verb for Submit {
    const NAME: &'static str = "kanban_submit";
    const DESCRIPTION: &'static str = "\
Reports that the work is done and hands it over for review, whether or not the task asks for one; it ends the work on the task. \
Use it instead of kanban_complete for changes that somebody should look at before they count. Takes the same as kanban_complete.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters { properties: properties(), required: &["summary"] }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let task = kanban.task(&board, arguments).await?;
        let by = kanban.authority();
        let handed = Handed::read(context, &board, arguments).await?;
        let moved = hand_in(context, &board, &by, &task, handed, Hand::Submit).await?;
        kanban.report(&task, Reported::Finished);
        Ok(moved_fields(kanban, &moved))
    }
}

pub(super) struct RequestChanges;

#[async_trait]
impl Verb for RequestChanges {
    const NAME: &'static str = "kanban_request_changes";
    const DESCRIPTION: &'static str = "\
Sends work that was handed over for review back to whoever did it, and ends the review. \
`reason` is all they will be told: say what is wrong, where, and what would make it right.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; the reviewer's own if left out."},
                "reason": {"type": "string", "description": "What has to change, and why."}
            }),
            required: &["reason"],
        }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let task = kanban.task(&board, arguments).await?;
        let reason = tool::redacted(context, arguments, "reason")?;
        let moved = board.request_changes(&kanban.authority(), &task, &reason).await?;
        kanban.report(&task, Reported::Finished);
        Ok(moved_fields(kanban, &moved))
    }
}

/// The kinds that somebody can give; the others the board gives by itself.
const KINDS: &[&str] = &["needs_input", "capability", "transient", "dependency"];

pub(super) struct Block;

#[async_trait]
impl Verb for Block {
    const NAME: &'static str = "kanban_block";
    const DESCRIPTION: &'static str = "\
Reports that the task cannot go on now, and ends the work on it. `kind`: needs_input (a person has to answer or decide), \
capability (a right, a tool or a login is missing), transient (something passing; it is tried again by itself), \
dependency (it waits for another task: link that one with kanban_link first). \
`reason` is what the person reads: say what was found, what exactly is needed, and what you would do with each answer.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; a worker's own if left out."},
                "reason": {"type": "string", "description": "What is in the way, and what is needed."},
                "kind": {"type": "string", "enum": KINDS}
            }),
            required: &["reason"],
        }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let task = kanban.task(&board, arguments).await?;
        let reason = tool::redacted(context, arguments, "reason")?;
        let kind = block_kind(arguments)?;
        let block = Blocked { reason, kind };
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

fn block_kind(arguments: &Arguments) -> Result<Option<BlockKind>, BadArgument> {
    let Some(given) = arguments.optional_text("kind")? else { return Ok(None) };
    let word = given.trim().to_ascii_lowercase().replace(['-', ' '], "_");
    match word.parse() {
        _ if word.is_empty() => Ok(None),
        Ok(kind) if KINDS.contains(&word.as_str()) => Ok(Some(kind)),
        _ => Err(BadArgument::new(format!(
            "`kind` must be one of {}, got {given:?}",
            KINDS.join(", ")
        ))),
    }
}

pub(super) struct Unblock;

#[async_trait]
impl Verb for Unblock {
    const NAME: &'static str = "kanban_unblock";
    const DESCRIPTION: &'static str = "\
Lets a blocked or scheduled task go on, in the name of the person you talk to: do it when they have answered what it waits for. \
`reason` is kept with the task, so put the answer there.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string"},
                "reason": {"type": "string", "description": "The answer, or why it can go on."}
            }),
            required: &["task_id"],
        }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let task = kanban.task(&board, arguments).await?;
        let reason = tool::optional_redacted(context, arguments, "reason")?;
        let moved = board.unblock(&kanban.authority(), &task, reason.as_deref()).await?;
        Ok(moved_fields(kanban, &moved))
    }
}
