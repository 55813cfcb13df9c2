//! `vestal kanban edit`.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use vestal_board::verbs::Edit;

use super::desk::Desk;
use super::steps::{self, Step};
use super::values::{parse_assignee, parse_object, text_or_stdin};
use crate::error::Failure;
use crate::exit::Exit;
use crate::values::parse_duration;

const AFTER_HELP: &str = "\
Only what is named is changed. An empty text, or `none`, takes a tenant, a model or a reviewer away.

Examples:
  vestal kanban edit t_4x7k --priority 10
  vestal kanban edit t_4x7k --body - < better.md
  vestal kanban edit t_4x7k --result 'it was the cable' --summary 'replaced the cable'";

/// Changes a task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct EditArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// What it is about, in a line.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// What is to be done; `-` reads it from standard input.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    body: Option<String>,

    /// Higher goes first.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i64>,

    /// Namespace with its own share of the slots.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Skills that the worker is to use, in place of those it had; repeatable.
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,

    /// Time that a worker may take: `30s`, `5m`, `2h`, `1d`, or `none`.
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    max_runtime: Option<Limit>,

    /// Failures at which it is given up.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max_retries: Option<u32>,

    /// Model to ask in place of the profile's.
    #[arg(short, long, value_name = "NAME")]
    model: Option<String>,

    /// Whether the work has to be looked at before it counts as done: true or false.
    #[arg(long, value_name = "BOOL")]
    review: Option<bool>,

    /// Profile that looks at it.
    #[arg(long, value_name = "PROFILE")]
    reviewer: Option<String>,

    /// What came of it; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,

    /// What was done, in the last run.
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,

    /// The same for machines, an object.
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    metadata: Option<Value>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

/// A time limit, or none.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<Duration>);

fn parse_limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        Ok(Limit(None))
    } else {
        parse_duration(text).map(|time| Limit(Some(time)))
    }
}

impl EditArgs {
    async fn edit(self) -> Result<Edit, Failure> {
        let body = match self.body {
            Some(text) => Some(text_or_stdin(text).await?),
            None => None,
        };
        let result = match self.result {
            Some(text) => Some(text_or_stdin(text).await?),
            None => None,
        };
        let reviewer = self.reviewer.as_deref().map(parse_assignee).transpose()?;
        Ok(Edit {
            title: self.title,
            body,
            priority: self.priority,
            tenant: self.tenant.map(given),
            skills: (!self.skills.is_empty())
                .then(|| self.skills.into_iter().filter_map(given).collect()),
            max_runtime: self.max_runtime.map(|Limit(limit)| limit),
            max_retries: self.max_retries.map(Some),
            model: self.model.map(given),
            needs_review: self.review,
            reviewer,
            result,
            summary: self.summary,
            metadata: self.metadata,
        })
    }
}

/// Returns a text, or nothing where it says that there is none.
fn given(text: String) -> Option<String> {
    (text != "none" && !text.trim().is_empty()).then_some(text)
}

pub(super) async fn run(desk: &Desk<'_>, args: EditArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let json = args.json;
    let edit = args.edit().await?;
    if edit == Edit::default() {
        return Err(Failure::usage("nothing is to be changed")
            .advise("say what: vestal kanban edit ID --priority 5; --help lists the rest"));
    }
    if let Some(Some(reviewer)) = &edit.reviewer {
        desk.warn_of_unknown(reviewer)?;
    }
    let task = board.edit(&desk.by(), &id, edit).await?;
    steps::finish(desk, &board, Step::alone(task, "changed"), json).await
}
