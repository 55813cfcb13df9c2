//! `vestal kanban comment`.

use clap::Args;
use vestal_api::CommentedView;

use super::desk::Desk;
use super::values::{joined, text_or_stdin};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Whoever works on the task next is told the last comments.

Examples:
  vestal kanban comment t_4x7k the figures are in the annex
  git log -1 | vestal kanban comment t_4x7k -";

/// Says something about a task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CommentArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// What is said; `-` reads it from standard input.
    #[arg(value_name = "TEXT", required = true, allow_hyphen_values = true)]
    text: Vec<String>,

    /// In whose name.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: CommentArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let text = text_or_stdin(joined(&args.text).unwrap_or_default()).await?;
    let by = desk.in_name_of(args.author.as_deref());
    let number = board.comment(&by, &id, text.trim()).await?;
    if args.json {
        desk.print(&CommentedView { task_id: id.to_string(), comment_id: number })?;
    } else {
        desk.console().print(&format!("commented on {id}"))?;
    }
    Ok(Exit::Success)
}
