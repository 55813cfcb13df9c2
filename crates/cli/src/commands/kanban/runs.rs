//! `vestal kanban runs`.

use clap::Args;
use vestal_api::TaskRunView;
use vestal_board::Run;

use super::desk::Desk;
use super::look;
use crate::console::{Cell, DIM, GREEN, Table, YELLOW, text};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  vestal kanban runs t_4x7k
  vestal kanban runs t_4x7k --json | jq '.[-1].summary'";

/// Lists the attempts at a task, the oldest first.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RunsArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// At most so many, the last ones.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    limit: u32,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &RunsArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let runs = board.read().await?.runs(&id, args.limit).await?;
    if args.json {
        desk.print(&runs.iter().map(TaskRunView::from).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        desk.console().note(&format!("nobody has worked on {id} yet"));
        return Ok(Exit::Success);
    }
    desk.console().print_table(&table(&runs))?;
    Ok(Exit::Success)
}

/// Returns runs for people.
pub(super) fn table(runs: &[Run]) -> Table {
    let mut table = Table::new(&["RUN", "OUTCOME", "WHO", "STARTED", "TOOK", "WHAT"]);
    for run in runs {
        let outcome = match run.outcome {
            Some(outcome) if run.error.is_none() => Cell::styled(outcome.as_str(), GREEN),
            Some(outcome) => Cell::styled(outcome.as_str(), YELLOW),
            None => Cell::styled("running", GREEN),
        };
        let took = run
            .ended_at
            .map_or_else(|| "-".to_owned(), |ended| text::took(run.started_at.until(ended)));
        let who = run.profile.as_ref().map_or(run.owner.as_str(), |profile| profile.as_str());
        let what = run.error.as_deref().or(run.summary.as_deref()).or(run.note.as_deref());
        table.row(vec![
            run.id.to_string().into(),
            outcome,
            who.into(),
            look::ago(run.started_at).into(),
            took.into(),
            Cell::styled(first_line(what.unwrap_or_default()), DIM),
        ]);
    }
    table
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
