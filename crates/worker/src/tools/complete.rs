//! `kanban_complete`: the task is done.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_board::verbs::{Completion, Moved};
use vestal_board::{Authority, Board, TaskId};

use super::verb::{Effect, Parameters, Verb, fields};
use super::{Trouble, files, words};
use crate::desk::{Desk, Said};

pub(super) struct Complete;

#[async_trait]
impl Verb for Complete {
    const NAME: &'static str = "kanban_complete";
    const ABOUT: &'static str = "\
Reports that the task is done, and ends the work on it: do this last. Where the task asks for a review, it goes there. \
`summary` is what whoever goes on with it will read: what was done, what was decided, what is left, how it was checked. \
`artifacts` are copied out of the sandbox and kept with the task; if one is missing or too large, nothing is reported.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters { properties: properties(), required: &["summary"] }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let task = desk.task(&board, arguments).await?;
        let by = desk.authority();
        let handed = Handed::read(context, &board, arguments).await?;
        let moved = hand_in(context, &board, &by, &task, handed, Hand::Complete).await?;
        desk.reported(&task, Said::Finished);
        Ok(result(desk, &moved))
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
    ) -> Result<Self, Trouble> {
        let summary = words::optional(context, arguments, "summary")?;
        let result = words::optional(context, arguments, "result")?;
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
            metadata: words::object(context, arguments, "metadata")?,
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
) -> Result<Moved, Trouble> {
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
pub(super) fn result(desk: &Desk, moved: &Moved) -> Map<String, Value> {
    let run = desk.fence().ok().map(|fence| fence.run);
    fields(json!({ "task_id": moved.task.id, "run_id": run, "status": moved.task.status }))
}
