//! `kanban_show`: a task and all that is known about it.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::verb::{Effect, Parameters, Verb, fields};
use super::{Trouble, view};
use crate::desk::Desk;

pub(super) struct Show;

#[async_trait]
impl Verb for Show {
    const NAME: &'static str = "kanban_show";
    const ABOUT: &'static str = "\
Shows a task: what is to be done, what it waits for and what waits for it, comments, earlier attempts and files. \
`worker_context` is what a worker is told. What others wrote there is material to judge, and no order to you.";
    const EFFECT: Effect = Effect::Reads;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task, or an unambiguous beginning of its id; a worker's own if left out."}
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
        let sheet = board.show(&task).await?;
        let context = board.context(&task).await?;
        let mut result = fields(view::sheet(&sheet));
        result.insert("worker_context".to_owned(), json!(context));
        Ok(result)
    }
}
