//! `kanban_request_changes`: whoever looked at the work wants it changed.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::complete::result;
use super::verb::{Effect, Parameters, Verb};
use super::{Trouble, words};
use crate::desk::{Desk, Said};

pub(super) struct RequestChanges;

#[async_trait]
impl Verb for RequestChanges {
    const NAME: &'static str = "kanban_request_changes";
    const ABOUT: &'static str = "\
Sends work that was handed over for review back to whoever did it, and ends the review. \
`reason` is all they will be told: say what is wrong, where, and what would make it right.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; the reviewer's own if left out."},
                "reason": {"type": "string", "description": "What has to change, and why."}
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
        let moved = board.request_changes(&desk.authority(), &task, &reason).await?;
        desk.reported(&task, Said::Finished);
        Ok(result(desk, &moved))
    }
}
