//! `kanban_heartbeat`: the work goes on.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::verb::{Effect, Parameters, Verb, fields};
use super::{Trouble, words};
use crate::desk::Desk;

pub(super) struct Beat;

#[async_trait]
impl Verb for Beat {
    const NAME: &'static str = "kanban_heartbeat";
    const ABOUT: &'static str = "\
Says how far the work has come, for people who watch the board. The hold on the task is renewed by itself; \
use this during long work, with a `note` of one line.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({"note": {"type": "string", "description": "How far the work has come, in a line."}}),
            required: &[],
        }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let note = words::optional(context, arguments, "note")?;
        let until = desk.beat(&board, note).await?;
        Ok(fields(json!({ "task_id": desk.fence()?.task, "expires_at": until })))
    }
}
