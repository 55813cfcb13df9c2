//! `kanban_link`: one task waits for another.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::Trouble;
use super::verb::{Effect, Parameters, Verb, fields};
use crate::desk::Desk;

pub(super) struct Link;

#[async_trait]
impl Verb for Link {
    const NAME: &'static str = "kanban_link";
    const ABOUT: &'static str = "\
Lets the task `child_id` wait until the task `parent_id` is done. A worker may link its own task and those it made.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "parent_id": {"type": "string", "description": "The task that has to be done first."},
                "child_id": {"type": "string", "description": "The task that waits for it; a worker's own if left out."}
            }),
            required: &["parent_id"],
        }
    }

    async fn act(
        desk: &Desk,
        _context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let parent = board.find(arguments.words("parent_id")?.trim()).await?;
        let child = match (arguments.optional_text("child_id")?, desk.fence()) {
            (Some(name), _) => board.find(name.trim()).await?,
            (None, Ok(fence)) => fence.task.clone(),
            (None, Err(_)) => board.find(arguments.words("child_id")?.trim()).await?,
        };
        let task = board.link(&desk.authority(), &parent, &child).await?;
        Ok(fields(json!({ "parent_id": parent, "child_id": child, "status": task.status })))
    }
}
