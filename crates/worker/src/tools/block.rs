//! `kanban_block`: the task cannot go on.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_board::verbs::Block as Blocked;
use vestal_board::{BlockKind, Status};

use super::complete::result;
use super::verb::{Effect, Parameters, Verb};
use super::{Trouble, words};
use crate::desk::{Desk, Said};

/// The kinds that somebody can give; the others the board gives by itself.
const KINDS: &[&str] = &["needs_input", "capability", "transient", "dependency"];

pub(super) struct Block;

#[async_trait]
impl Verb for Block {
    const NAME: &'static str = "kanban_block";
    const ABOUT: &'static str = "\
Reports that the task cannot go on now, and ends the work on it. `kind`: needs_input (a person has to answer or decide), \
capability (a right, a tool or a login is missing), transient (something passing; it is tried again by itself), \
dependency (it waits for another task: link that one with kanban_link first). \
`reason` is what the person reads: say what was found, what exactly is needed, and what you would do with each answer.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; a worker's own if left out."},
                "reason": {"type": "string", "description": "What is in the way, and what is needed."},
                "kind": {"type": "string", "enum": KINDS}
            }),
            required: &["reason"],
        }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let task = desk.task(&board, arguments).await?;
        let reason = words::required(context, arguments, "reason")?;
        let kind = kind(arguments)?;
        let block = Blocked { reason, kind };
        let moved = board.block(&desk.authority(), &task, block).await?;
        // A reason may be one that hands the work over for review.
        let said = if moved.task.status == Status::Review { Said::Finished } else { Said::Waits };
        desk.reported(&task, said);
        let mut result = result(desk, &moved);
        result.insert("block_kind".to_owned(), json!(moved.task.block_kind));
        Ok(result)
    }
}

fn kind(arguments: &Arguments) -> Result<Option<BlockKind>, BadArgument> {
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
