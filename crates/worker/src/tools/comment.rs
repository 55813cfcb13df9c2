//! `kanban_comment`: something to say about a task.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::verb::{Effect, Parameters, Verb, fields};
use super::{Trouble, words};
use crate::desk::Desk;

pub(super) struct Comment;

#[async_trait]
impl Verb for Comment {
    const NAME: &'static str = "kanban_comment";
    const ABOUT: &'static str = "\
Says something about a task, your own or another, for whoever works on it later. It stays there under your profile's name; nobody answers it now.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; a worker's own if left out."},
                "body": {"type": "string", "description": "What there is to say."}
            }),
            required: &["body"],
        }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let task = desk.task(&board, arguments).await?;
        let body = words::required(context, arguments, "body")?;
        let number = board.comment(&desk.authority(), &task, &body).await?;
        Ok(fields(json!({ "task_id": task, "comment_id": number })))
    }
}
