//! `kanban_unblock`: a task that waited may go on.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::complete::result;
use super::verb::{Effect, Parameters, Verb};
use super::{Trouble, words};
use crate::desk::Desk;

pub(super) struct Unblock;

#[async_trait]
impl Verb for Unblock {
    const NAME: &'static str = "kanban_unblock";
    const ABOUT: &'static str = "\
Lets a blocked or scheduled task go on, in the name of the person you talk to: do it when they have answered what it waits for. \
`reason` is kept with the task, so put the answer there.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string"},
                "reason": {"type": "string", "description": "The answer, or why it can go on."}
            }),
            required: &["task_id"],
        }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let task = desk.task(&board, arguments).await?;
        let reason = words::optional(context, arguments, "reason")?;
        let moved = board.unblock(&desk.authority(), &task, reason.as_deref()).await?;
        Ok(result(desk, &moved))
    }
}
