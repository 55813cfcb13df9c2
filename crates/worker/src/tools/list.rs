//! `kanban_list`: tasks of a board.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_board::Status;
use vestal_board::store::Query;

use super::verb::{Effect, Parameters, Verb, fields};
use super::{Trouble, view};
use crate::desk::Desk;

/// Tasks that are listed unless more are asked for.
const LIMIT: u32 = 50;
/// Tasks that are listed at most.
const MOST: u32 = 200;

pub(super) struct List;

#[async_trait]
impl Verb for List {
    const NAME: &'static str = "kanban_list";
    const ABOUT: &'static str = "\
Lists tasks of the board, without changing anything. `attention` says of a task why a person should look at it.";
    const EFFECT: Effect = Effect::Reads;

    fn parameters(_desk: &Desk) -> Parameters {
        let statuses: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        Parameters {
            properties: json!({
                "assignee": {"type": "string", "description": "Those of this profile; \"none\": those of nobody."},
                "status": {"type": "string", "enum": statuses},
                "tenant": {"type": "string"},
                "include_archived": {"type": "boolean"},
                "limit": {"type": "integer", "description": "At most so many; default 50, at most 200."}
            }),
            required: &[],
        }
    }

    async fn act(
        desk: &Desk,
        _context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let limit = arguments
            .count("limit", 1)?
            .map_or(LIMIT, |limit| u32::try_from(limit).unwrap_or(u32::MAX).min(MOST));
        let query = Query {
            statuses: statuses(arguments)?,
            with_archived: arguments.flag("include_archived")?,
            assignee: text(arguments, "assignee")?.map(|name| {
                let name = name.to_ascii_lowercase();
                Some(name).filter(|name| name != "none")
            }),
            tenant: text(arguments, "tenant")?,
            limit: Some(limit + 1),
            ..Query::default()
        };
        let board = desk.board_to_read(arguments).await?;
        let mut tasks = board.list(&query).await?;
        let truncated = tasks.len() > limit as usize;
        tasks.truncate(limit as usize);
        let next = (truncated && limit < MOST).then(|| (limit * 2).min(MOST));
        Ok(fields(json!({
            "tasks": tasks.iter().map(view::line).collect::<Vec<_>>(),
            "count": tasks.len(),
            "limit": limit,
            "truncated": truncated,
            "next_limit": next,
        })))
    }
}

fn text(arguments: &Arguments, name: &str) -> Result<Option<String>, BadArgument> {
    let text = arguments.optional_text(name)?.map(|text| text.trim().to_owned());
    Ok(text.filter(|text| !text.is_empty()))
}

fn statuses(arguments: &Arguments) -> Result<Vec<Status>, BadArgument> {
    let words = arguments.texts("status")?;
    let words = words.iter().map(|word| word.trim().to_ascii_lowercase());
    words
        .filter(|word| !word.is_empty())
        .map(|word| word.parse::<Status>().map_err(BadArgument::new))
        .collect()
}
