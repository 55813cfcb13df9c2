//! The verbs that move a task to another status: `complete`, `submit`, `changes`, `block`, `schedule`,
//! `unblock`, `promote`, `reopen` and `archive`.

use clap::Args;
use serde_json::Value;
use vestal_api::DeletedTaskView;
use vestal_board::BlockKind;
use vestal_board::verbs::{Block, Promotion, TaskCompletion};

use super::board_context::BoardContext;
use super::display::{self, ShownChange};
use super::values::{TimeArgs, joined, parse_object, text_or_stdin};
use crate::error::CommandFailure;
use crate::exit::Exit;

const COMPLETE_HELP: &str = "\
Tasks that waited for it become ready if they wait for nothing else. Completing a task in review
approves it.

Examples:
  vestal kanban complete t_4x7k --summary 'sent to the printer'
  vestal kanban complete t_4x7k t_9qwe";

/// Mark tasks as done.
#[derive(Debug, Args)]
#[command(after_help = COMPLETE_HELP)]
pub(super) struct CompleteArgs {
    /// Task ids, or unique prefixes of them.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    #[command(flatten)]
    done: DoneArgs,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

/// What came of the work.
#[derive(Debug, Args)]
struct DoneArgs {
    /// Result of the work; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,

    /// Summary of the work, for those who continue it; one task only.
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,

    /// Metadata of the work, a JSON object; one task only.
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    metadata: Option<Value>,
}

impl DoneArgs {
    /// Returns the words of an end that a person makes.
    pub(super) async fn completion(self) -> Result<TaskCompletion, CommandFailure> {
        let result = match self.result {
            Some(text) => Some(text_or_stdin(text).await?),
            None => None,
        };
        let Self { summary, metadata, .. } = self;
        Ok(TaskCompletion { summary, result, metadata, ..TaskCompletion::default() })
    }
}

pub(super) async fn complete(
    ctx: &BoardContext<'_>,
    args: CompleteArgs,
) -> Result<Exit, CommandFailure> {
    if args.ids.len() > 1 && (args.done.summary.is_some() || args.done.metadata.is_some()) {
        return Err(CommandFailure::usage("--summary and --metadata belong to one task")
            .advise("complete the tasks one by one"));
    }
    let by = ctx.by();
    let done = args.done.completion().await?;
    display::for_each_task(ctx, &args.ids, args.json, |board, id| {
        let (by, done) = (&by, done.clone());
        async move { Ok(ShownChange::new(board.complete(by, &id, done).await?, "completed")) }
    })
    .await
}

const SUBMIT_HELP: &str = "\
The task stays in review until its reviewer, or a person, completes it or requests changes.

Example:
  vestal kanban submit t_4x7k --summary 'branch wt/t_4x7k is ready to be looked at'";

/// Submit the work on a task for review.
#[derive(Debug, Args)]
#[command(after_help = SUBMIT_HELP)]
pub(super) struct SubmitArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    done: DoneArgs,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn submit(
    ctx: &BoardContext<'_>,
    args: SubmitArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let moved = board.submit(&ctx.by(), &id, args.done.completion().await?).await?;
    display::finish(ctx, &board, ShownChange::new(moved, "submitted"), args.json).await
}

const CHANGES_HELP: &str = "\
What is wanted is kept as a comment, and the task becomes ready again. To approve the work:
vestal kanban complete ID.

Example:
  vestal kanban changes t_4x7k please add a test";

/// Request changes to submitted work.
#[derive(Debug, Args)]
#[command(after_help = CHANGES_HELP)]
pub(super) struct ChangesArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Changes to make.
    #[arg(value_name = "REASON", required = true)]
    reason: Vec<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn changes(
    ctx: &BoardContext<'_>,
    args: &ChangesArgs,
) -> Result<Exit, CommandFailure> {
    let Some(reason) = joined(&args.reason) else {
        return Err(CommandFailure::usage("the reason is empty"));
    };
    let (board, id) = ctx.task(&args.id).await?;
    let moved = board.request_changes(&ctx.by(), &id, &reason).await?;
    let step = ShownChange::new(moved, "asked for changes to").because(Some(reason));
    display::finish(ctx, &board, step, args.json).await
}

const BLOCK_HELP: &str = "\
A blocked task waits for a person: `vestal kanban unblock`. Kinds: needs_input: a question has to be
answered; capability: something is missing; transient: it is retried automatically; dependency: it
waits for linked tasks. A task that is blocked repeatedly for the same kind of reason goes to
triage. A reason that begins with `review-required:` submits the work.

Examples:
  vestal kanban block t_4x7k which database is meant? --kind needs_input
  vestal kanban block t_4x7k 'the site is down' --kind transient --ids t_9qwe t_2m9q";

/// Block tasks until a person unblocks them.
#[derive(Debug, Args)]
#[command(after_help = BLOCK_HELP)]
pub(super) struct BlockArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Reason, kept in the history of the task.
    #[arg(value_name = "REASON", required = true)]
    reason: Vec<String>,

    /// Kind of reason: `needs_input`, `capability`, `transient` or `dependency`.
    #[arg(long, value_name = "KIND")]
    kind: Option<BlockKind>,

    /// More task ids.
    #[arg(long, value_name = "ID", num_args = 1..)]
    ids: Vec<String>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn block(
    ctx: &BoardContext<'_>,
    args: &BlockArgs,
) -> Result<Exit, CommandFailure> {
    let by = ctx.by();
    let Some(reason) = joined(&args.reason) else {
        return Err(CommandFailure::usage("the reason is empty"));
    };
    let ids: Vec<String> = std::iter::once(&args.id).chain(&args.ids).cloned().collect();
    display::for_each_task(ctx, &ids, args.json, |board, id| {
        let (by, reason) = (&by, reason.clone());
        async move {
            let block = Block { reason: reason.clone(), kind: args.kind };
            Ok(ShownChange::new(board.block(by, &id, block).await?, "blocked")
                .because(Some(reason)))
        }
    })
    .await
}

const SCHEDULE_HELP: &str = "\
With --at or --in a dispatcher makes the task ready at that time; otherwise it waits for `vestal
kanban unblock`.

Examples:
  vestal kanban schedule t_4x7k when the offices open --at 09:30
  vestal kanban schedule t_4x7k --in 2d
  vestal kanban schedule t_4x7k not this quarter";

/// Postpone tasks.
#[derive(Debug, Args)]
#[command(after_help = SCHEDULE_HELP)]
pub(super) struct ScheduleArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Reason, kept in the history of the task.
    #[arg(value_name = "REASON")]
    reason: Vec<String>,

    #[command(flatten)]
    when: TimeArgs,

    /// More task ids.
    #[arg(long, value_name = "ID", num_args = 1..)]
    ids: Vec<String>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn schedule(
    ctx: &BoardContext<'_>,
    args: &ScheduleArgs,
) -> Result<Exit, CommandFailure> {
    let by = ctx.by();
    let at = args.when.moment();
    let reason = joined(&args.reason);
    let ids: Vec<String> = std::iter::once(&args.id).chain(&args.ids).cloned().collect();
    display::for_each_task(ctx, &ids, args.json, |board, id| {
        let (by, why) = (&by, reason.clone());
        async move {
            let moved = board.schedule(by, &id, why.as_deref().unwrap_or_default(), at).await?;
            Ok(ShownChange::new(moved, "scheduled").because(why))
        }
    })
    .await
}

const UNBLOCK_HELP: &str = "\
The task becomes ready, or todo if it waits for other tasks. Its failure count is reset. The reason,
your answer to the worker, is kept as a comment.

Examples:
  vestal kanban unblock t_4x7k --reason 'use the staging database'
  vestal kanban unblock t_4x7k t_9qwe";

/// Unblock blocked and scheduled tasks.
#[derive(Debug, Args)]
#[command(after_help = UNBLOCK_HELP)]
pub(super) struct UnblockArgs {
    /// Task ids, or unique prefixes of them.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Reason, or the answer to the question that blocks the task.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn unblock(
    ctx: &BoardContext<'_>,
    args: &UnblockArgs,
) -> Result<Exit, CommandFailure> {
    let by = ctx.by();
    display::for_each_task(ctx, &args.ids, args.json, |board, id| {
        let (by, reason) = (&by, args.reason.clone());
        async move {
            let moved = board.unblock(by, &id, reason.as_deref()).await?;
            Ok(ShownChange::new(moved, "unblocked").because(reason))
        }
    })
    .await
}

const PROMOTE_HELP: &str = "\
With --dry-run nothing is changed: the exit code tells whether it is possible.

Examples:
  vestal kanban promote t_4x7k the contract came by mail
  vestal kanban promote t_4x7k --force 'start without the review'";

/// Make todo, blocked, triage or scheduled tasks ready.
#[derive(Debug, Args)]
#[command(after_help = PROMOTE_HELP)]
pub(super) struct PromoteArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Reason, kept in the history of the task.
    #[arg(value_name = "REASON")]
    reason: Vec<String>,

    /// More task ids.
    #[arg(long, value_name = "ID", num_args = 1..)]
    ids: Vec<String>,

    /// Promote it even if tasks that it waits for are not done.
    #[arg(long)]
    force: bool,

    /// Check whether it is possible, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn promote(
    ctx: &BoardContext<'_>,
    args: &PromoteArgs,
) -> Result<Exit, CommandFailure> {
    let by = ctx.by();
    let reason = joined(&args.reason);
    let ids: Vec<String> = std::iter::once(&args.id).chain(&args.ids).cloned().collect();
    display::for_each_task(ctx, &ids, args.json, |board, id| {
        let by = &by;
        let why = reason.clone();
        let promotion = Promotion {
            reason: why.clone().unwrap_or_default(),
            force: args.force,
            dry_run: args.dry_run,
        };
        async move {
            let moved = board.promote(by, &id, promotion).await?;
            let done = if args.dry_run { "would promote" } else { "promoted" };
            Ok(ShownChange::new(moved, done).because(why))
        }
    })
    .await
}

const REOPEN_HELP: &str = "\
Tasks that depend on it wait again, unless they have been started.

Example:
  vestal kanban reopen t_4x7k the figures were wrong";

/// Reopen a task that is done or archived.
#[derive(Debug, Args)]
#[command(after_help = REOPEN_HELP)]
pub(super) struct ReopenArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Reason, kept in the history of the task.
    #[arg(value_name = "REASON")]
    reason: Vec<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn reopen(
    ctx: &BoardContext<'_>,
    args: &ReopenArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let reason = joined(&args.reason);
    let moved = board.reopen(&ctx.by(), &id, reason.as_deref().unwrap_or_default()).await?;
    let step = ShownChange::new(moved, "reopened").because(reason);
    display::finish(ctx, &board, step, args.json).await
}

const ARCHIVE_HELP: &str = "\
An archived task is hidden and can be reopened; tasks that wait for it wait no longer, even if it
was never done. --rm deletes archived tasks, with comments, runs and files.

Examples:
  vestal kanban archive t_4x7k t_9qwe
  vestal kanban archive --rm t_4x7k";

/// Archive tasks, or delete archived ones.
#[derive(Debug, Args)]
#[command(after_help = ARCHIVE_HELP)]
pub(super) struct ArchiveArgs {
    /// Task ids, or unique prefixes of them.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Delete archived tasks with everything that belongs to them.
    #[arg(long = "rm")]
    delete: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn archive(
    ctx: &BoardContext<'_>,
    args: &ArchiveArgs,
) -> Result<Exit, CommandFailure> {
    let by = ctx.by();
    if args.delete {
        return delete_archived(ctx, args).await;
    }
    display::for_each_task(ctx, &args.ids, args.json, |board, id| {
        let by = &by;
        async move { Ok(ShownChange::new(board.archive(by, &id).await?, "archived")) }
    })
    .await
}

async fn delete_archived(
    ctx: &BoardContext<'_>,
    args: &ArchiveArgs,
) -> Result<Exit, CommandFailure> {
    let mut views = Vec::new();
    let mut exit = Exit::Success;
    for name in &args.ids {
        let deleted = async {
            let (board, id) = ctx.task(name).await?;
            board.delete(&ctx.by(), &id).await?;
            Ok::<_, CommandFailure>(id)
        };
        match deleted.await {
            Ok(id) => {
                if !args.json {
                    ctx.console().print(&format!("deleted {id}"))?;
                }
                views.push(DeletedTaskView { task_id: id.to_string(), deleted: true, error: None });
            }
            Err(failure) => {
                ctx.console().explain(&failure);
                exit = display::worse(exit, failure.exit());
                let error = failure.message().map(str::to_owned);
                views.push(DeletedTaskView { task_id: name.clone(), deleted: false, error });
            }
        }
    }
    if args.json {
        ctx.print(&views)?;
    }
    Ok(exit)
}
