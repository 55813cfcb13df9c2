//! `kanban_attachments`: the files of a task.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::Trouble;
use super::verb::{Effect, Parameters, Verb, fields};
use crate::desk::Desk;

pub(super) struct Attachments;

#[async_trait]
impl Verb for Attachments {
    const NAME: &'static str = "kanban_attachments";
    const ABOUT: &'static str = "\
Lists the files that are kept with a task. Those of your own task were copied into the sandbox when the work began.";
    const EFFECT: Effect = Effect::Reads;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; a worker's own if left out."}
            }),
            required: &[],
        }
    }

    async fn act(
        desk: &Desk,
        _context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board_to_read(arguments).await?;
        let task = desk.task(&board, arguments).await?;
        let attachments = board.show(&task).await?.attachments;
        let count = attachments.len();
        Ok(fields(json!({ "task_id": task, "attachments": attachments, "count": count })))
    }
}
