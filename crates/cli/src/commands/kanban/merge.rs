//! `vestal kanban merge` and `export`: what a task changed goes into a branch, or into a file.

use std::path::PathBuf;

use clap::Args;
use vestal_api::{ExportedPatchView, MergePlanView, MergedView};
use vestal_board::verbs::TaskCompletion;
use vestal_board::{RunId, Status};
use vestal_dispatcher::{
    DiffRange, ExportError, MergeError, MergeMethod, MergeObstacle, MergePlan, MergeRequest,
    OnExisting, export, merge, plan_merge,
};

use super::board_context::BoardContext;
use super::review::explain;
use crate::console::{GREEN, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

const MERGE_HELP: &str = "\
Everything in the way is reported before anything is changed: conflicts, files with changes of your
own that would be overwritten, a missing name for the commit. Either all of it is merged or nothing.
The task's working tree stays as it is, and what it has not committed is merged too: as part of the one
commit of a squash, or as a commit of its own.

Exit codes: 0 merged, 1 something stands in the way.

Examples:
  vestal kanban merge t_4x7k --dry-run
  vestal kanban merge t_4x7k --approve
  vestal kanban merge t_4x7k --into release --method merge
  vestal kanban merge t_4x7k --attempt 7 -m 'Use the earlier attempt'";

/// Merge what a task changed into a branch of its repository.
#[derive(Debug, Args)]
#[command(after_help = MERGE_HELP)]
pub(super) struct MergeArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Branch to merge into [default: the one that is checked out in the repository].
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,

    /// How: squash, merge or fast-forward.
    #[arg(long, value_name = "HOW", default_value = "squash", value_parser = parse_method)]
    method: MergeMethod,

    /// Merge what there was when this attempt ended, as a squash.
    #[arg(long, value_name = "RUN")]
    attempt: Option<i64>,

    /// Message of the commit [default: the title of the task].
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// Approve the task when it is merged. It must be in review.
    #[arg(long, conflicts_with = "dry_run")]
    approve: bool,

    /// Show what would be merged, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

fn parse_method(word: &str) -> Result<MergeMethod, String> {
    word.parse()
}

pub(super) async fn run(ctx: &BoardContext<'_>, args: &MergeArgs) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let request = MergeRequest {
        into: args.into.clone(),
        method: args.method,
        attempt: args.attempt.map(RunId::new),
        message: args.message.clone(),
    };
    let environment = ctx.settings().environment();
    if args.dry_run {
        let plan = plan_merge(&board, &id, &request, environment).await;
        let plan = plan.map_err(failure)?;
        if args.json {
            ctx.print(&MergePlanView::new(id.as_str(), &plan))?;
        } else {
            print_plan(ctx, &plan)?;
        }
        return Ok(if plan.obstacles.is_empty() { Exit::Success } else { Exit::No });
    }
    let status = board.get(&id).await?.status;
    if args.approve && status != Status::Review {
        let failure =
            CommandFailure::new(format!("{id} is {status}, not in review, so it is not approved"));
        return Err(failure.with_exit(Exit::No).advise("merge it without --approve"));
    }
    let merged = merge(&board, &ctx.by(), &id, &request, environment).await.map_err(failure)?;
    if args.approve
        && let Err(error) = board.complete(&ctx.by(), &id, TaskCompletion::default()).await
    {
        let into = &merged.plan.into;
        let failure =
            CommandFailure::new(format!("{id} was merged into {into}, but not approved: {error}"));
        return Err(failure.with_exit(Exit::No));
    }
    if args.json {
        ctx.print(&MergedView::new(id.as_str(), &merged, args.approve))?;
        return Ok(Exit::Success);
    }
    let console = ctx.console();
    let short = merged.commit.get(..12).unwrap_or(&merged.commit);
    let what = format!("merged {id} into {}", text::printable(&merged.plan.into));
    let files = files(merged.plan.files.len());
    console.print(&format!(
        "{} as {short} ({}), {files}",
        console.paint(GREEN, &what),
        merged.plan.method
    ))?;
    if args.approve {
        console.note("the task is done");
    }
    Ok(Exit::Success)
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn print_plan(ctx: &BoardContext<'_>, plan: &MergePlan) -> Result<(), CommandFailure> {
    let console = ctx.console();
    let into = text::printable(&plan.into);
    if plan.obstacles.is_empty() {
        let files = files(plan.files.len());
        console.print(&format!("can be merged into {into} ({}): {files}", plan.method))?;
        for path in &plan.files {
            console.print(&format!("  {}", text::printable(&path.display().to_string())))?;
        }
        return Ok(());
    }
    console.print(
        &console.paint(YELLOW, &format!("cannot be merged into {into} ({})", plan.method)),
    )?;
    for obstacle in &plan.obstacles {
        console.print(&format!("  {}", text::printable(&obstacle.to_string())))?;
    }
    Ok(())
}

fn failure(error: MergeError) -> CommandFailure {
    match error {
        MergeError::Diff(error) => explain(&error),
        MergeError::Board(error) => error.into(),
        error @ MergeError::Branch { .. } => {
            CommandFailure::new(error.to_string()).with_exit(Exit::No).advise("--into BRANCH")
        }
        MergeError::Refused { ref plan, .. } => {
            let conflicts =
                plan.obstacles.iter().any(|one| matches!(one, MergeObstacle::Conflicts(_)));
            let failure = CommandFailure::new(error.to_string()).with_exit(Exit::No);
            if conflicts {
                failure.advise("vestal kanban export writes it as a patch instead")
            } else {
                failure
            }
        }
    }
}

const EXPORT_HELP: &str = "\
The patch has everything that differs from the commit that the working tree began with, committed or
not; `git apply` takes it.

Examples:
  vestal kanban export t_4x7k
  vestal kanban export t_4x7k --attempt 7 --output fire.patch";

/// Write what a task changed into a file, as a patch.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(super) struct ExportArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Write only what this attempt changed; `vestal kanban runs ID` lists attempts.
    #[arg(long, value_name = "RUN")]
    attempt: Option<i64>,

    /// File to write [default: ID.patch].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file if it exists.
    #[arg(short, long)]
    force: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn export_patch(
    ctx: &BoardContext<'_>,
    args: &ExportArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let range = args.attempt.map_or(DiffRange::Whole, |run| DiffRange::Attempt(RunId::new(run)));
    let path = args.output.clone().unwrap_or_else(|| format!("{id}.patch").into());
    let existing = if args.force { OnExisting::Replace } else { OnExisting::Refuse };
    let environment = ctx.settings().environment();
    let written = export(&board, &id, range, &path, existing, environment).await;
    let written = written.map_err(|error| match error {
        ExportError::Diff(error) => explain(&error),
        error @ ExportError::Exists(_) => {
            CommandFailure::new(error.to_string()).with_exit(Exit::No).advise("--force replaces it")
        }
        error @ (ExportError::Nothing { .. } | ExportError::TooLarge { .. }) => {
            CommandFailure::new(error.to_string()).with_exit(Exit::No)
        }
        error @ ExportError::Write { .. } => CommandFailure::new(error.to_string()),
    })?;
    let view = ExportedPatchView::new(id.as_str(), args.attempt, &written);
    if args.json {
        ctx.print(&view)?;
        return Ok(Exit::Success);
    }
    for path in &view.left_out {
        ctx.console().warn(&format!("not in the patch, since it is large or no file: {path}"));
    }
    let count = files(written.files.try_into().unwrap_or(usize::MAX));
    ctx.console().print(&format!("{}  {count}", text::printable(&view.path)))?;
    Ok(Exit::Success)
}
