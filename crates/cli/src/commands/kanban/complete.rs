//! `vestal kanban complete`.

use clap::Args;
use serde_json::Value;
use vestal_board::verbs::Completion;

use super::bulk;
use super::desk::Desk;
use super::steps::Step;
use super::values::{parse_object, text_or_stdin};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Tasks that wait for it become ready when it was the last they waited for. A task in review is
approved by this.

Examples:
  vestal kanban complete t_4x7k --summary 'sent to the printer'
  vestal kanban complete t_4x7k t_9qwe";

/// Says of tasks that they are done.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CompleteArgs {
    /// The tasks.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    #[command(flatten)]
    done: DoneArgs,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

/// What came of the work.
#[derive(Debug, Args)]
pub(super) struct DoneArgs {
    /// What came of it; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,

    /// What was done, for whoever comes next; for one task only.
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,

    /// The same for machines, an object; for one task only.
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    metadata: Option<Value>,
}

impl DoneArgs {
    /// Returns the words of an end that a person makes.
    pub(super) async fn completion(self) -> Result<Completion, Failure> {
        let result = match self.result {
            Some(text) => Some(text_or_stdin(text).await?),
            None => None,
        };
        let Self { summary, metadata, .. } = self;
        Ok(Completion { summary, result, metadata, ..Completion::default() })
    }
}

pub(super) async fn run(desk: &Desk<'_>, args: CompleteArgs) -> Result<Exit, Failure> {
    if args.ids.len() > 1 && (args.done.summary.is_some() || args.done.metadata.is_some()) {
        return Err(Failure::usage("--summary and --metadata belong to one task")
            .advise("complete the tasks one by one"));
    }
    let by = desk.by();
    let done = args.done.completion().await?;
    bulk::each(desk, &args.ids, args.json, |board, id| {
        let (by, done) = (&by, done.clone());
        async move { Ok(Step::new(board.complete(by, &id, done).await?, "completed")) }
    })
    .await
}
