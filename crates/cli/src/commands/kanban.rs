//! `vestal kanban`: its verbs, and what they share.

mod board_context;
mod boards;
mod create;
mod dispatch;
mod display;
mod events;
mod import;
mod list;
mod merge;
mod moves;
mod relations;
mod review;
mod runs;
mod show;
mod stats;
mod values;

use clap::{Args, Command, FromArgMatches as _, Subcommand};
use vestal_api::{DispatchPlanView, WorkerEnd};
use vestal_board::boards::Slug;
use vestal_board::store::TaskQuery;
use vestal_board::{Board, Run};
use vestal_gateway::DispatcherHost;

use self::board_context::BoardContext;
pub(crate) use self::review::scratch_diff;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A task is a piece of work with a title, a status and usually a profile that works on it. A
dispatcher (`vestal kanban dispatch --watch`) starts one worker per ready task. Tasks are named by
their id or a unique prefix of it. The board is chosen by --board, else $VESTAL_KANBAN_BOARD, else
`vestal kanban boards switch`, else it is `default`.

Exit codes: 0 done, 1 there is no such task or board, or the status of the task does not allow it,
2 wrong usage, 125 Vestal failed, 130 interrupted.

Examples:
  vestal kanban create 'Write the report' --assignee writer --body 'Two pages, by Friday.'
  vestal kanban list
  vestal kanban dispatch --watch";

/// Manage tasks on a board, and the workers that do them.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct KanbanArgs {
    /// Board to use instead of the current one.
    #[arg(long, value_name = "SLUG", global = true, help_heading = "Board", display_order = 900)]
    board: Option<String>,

    #[command(subcommand)]
    verb: KanbanVerb,
}

#[derive(Debug, Subcommand)]
enum KanbanVerb {
    Init(stats::InitArgs),
    Boards(boards::BoardsArgs),
    Create(Box<create::CreateArgs>),
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    Show(show::ShowArgs),
    Edit(Box<create::EditArgs>),
    Assign(relations::AssignArgs),
    Reassign(relations::ReassignArgs),
    Reclaim(runs::ReclaimArgs),
    Link(relations::LinkArgs),
    Unlink(relations::UnlinkArgs),
    Comment(relations::CommentArgs),
    Attach(relations::AttachArgs),
    Attachments(relations::AttachmentsArgs),
    #[command(name = "attach-rm")]
    Detach(relations::DetachArgs),
    Claim(runs::ClaimArgs),
    Heartbeat(runs::HeartbeatArgs),
    Complete(moves::CompleteArgs),
    Submit(moves::SubmitArgs),
    Changes(moves::ChangesArgs),
    Diff(review::DiffArgs),
    Review(Box<review::ReviewArgs>),
    Merge(merge::MergeArgs),
    Export(merge::ExportArgs),
    Block(moves::BlockArgs),
    Schedule(moves::ScheduleArgs),
    Unblock(moves::UnblockArgs),
    Promote(moves::PromoteArgs),
    Reopen(moves::ReopenArgs),
    Archive(moves::ArchiveArgs),
    Dispatch(dispatch::DispatchArgs),
    Watch(events::WatchArgs),
    Tail(events::TailArgs),
    Log(events::LogArgs),
    Context(show::ContextArgs),
    Runs(runs::RunsArgs),
    Assignees(relations::AssigneesArgs),
    Stats(stats::StatsArgs),
    #[command(visible_alias = "diag")]
    Diagnostics(stats::DiagnosticsArgs),
    Gc(stats::GcArgs),
    #[command(hide = true)]
    Worker(runs::WorkerArgs),
}

pub(crate) async fn run(context: &Context, args: KanbanArgs) -> Result<Exit, CommandFailure> {
    let ctx = BoardContext::new(context, args.board.as_deref()).await?;
    let done = Box::pin(act(&ctx, args.verb)).await;
    ctx.close().await;
    done
}

/// Tasks that are named at once where names are completed.
const NAMED: u32 = 500;

/// Returns the dispatcher of all boards, for a gateway to host.
pub(crate) async fn hosted_dispatcher(context: &Context) -> Result<DispatcherHost, CommandFailure> {
    dispatch::hosted(&BoardContext::new(context, None).await?)
}

/// Says what a dispatcher would do with a board now.
pub(crate) async fn dispatch_plan(
    context: &Context,
    board: &Slug,
) -> Result<DispatchPlanView, CommandFailure> {
    let ctx = BoardContext::new(context, Some(board.as_str())).await?;
    let plan = dispatch::plan_of(&ctx).await;
    ctx.close().await;
    plan
}

/// Stops the worker of a run that has ended by somebody's hand, if it is on this host.
pub(crate) async fn stop_worker(
    context: &Context,
    board: &Board,
    run: &Run,
) -> Result<WorkerEnd, CommandFailure> {
    let ctx = BoardContext::new(context, Some(board.slug())).await?;
    ctx.end_worker(board, run).await
}

/// Returns the names of the boards there are.
pub(crate) async fn board_names(context: &Context) -> Result<Vec<String>, CommandFailure> {
    let ctx = BoardContext::new(context, None).await?;
    let mut names: Vec<String> = ctx.boards().names()?.iter().map(ToString::to_string).collect();
    // The default board always exists, even before the first write.
    let default = Slug::default_board().to_string();
    if !names.contains(&default) {
        names.insert(0, default);
    }
    Ok(names)
}

/// Returns the names of the first tasks of the current board, in the order of a list.
pub(crate) async fn task_names(context: &Context) -> Result<Vec<String>, CommandFailure> {
    let ctx = BoardContext::new(context, None).await?;
    let Some(board) = ctx.board_if_any().await? else { return Ok(Vec::new()) };
    let tasks = board.list(&TaskQuery { limit: Some(NAMED), ..TaskQuery::default() }).await?;
    ctx.close().await;
    Ok(tasks.iter().map(|task| task.id.to_string()).collect())
}

async fn act(ctx: &BoardContext<'_>, verb: KanbanVerb) -> Result<Exit, CommandFailure> {
    match verb {
        KanbanVerb::Init(args) => stats::init(ctx, &args),
        KanbanVerb::Boards(args) => boards::run(ctx, args).await,
        KanbanVerb::Create(args) => create::run(ctx, *args).await,
        KanbanVerb::List(args) => list::run(ctx, args).await,
        KanbanVerb::Show(args) => show::run(ctx, &args).await,
        KanbanVerb::Edit(args) => create::edit(ctx, *args).await,
        KanbanVerb::Assign(args) => relations::assign(ctx, &args).await,
        KanbanVerb::Reassign(args) => relations::reassign(ctx, &args).await,
        KanbanVerb::Reclaim(args) => runs::reclaim(ctx, &args).await,
        KanbanVerb::Link(args) => relations::link(ctx, &args).await,
        KanbanVerb::Unlink(args) => relations::unlink(ctx, &args).await,
        KanbanVerb::Comment(args) => relations::comment(ctx, args).await,
        KanbanVerb::Attach(args) => relations::attach(ctx, args).await,
        KanbanVerb::Attachments(args) => relations::attachments(ctx, &args).await,
        KanbanVerb::Detach(args) => relations::detach(ctx, &args).await,
        KanbanVerb::Claim(args) => runs::claim(ctx, &args).await,
        KanbanVerb::Heartbeat(args) => runs::heartbeat(ctx, args).await,
        KanbanVerb::Complete(args) => moves::complete(ctx, args).await,
        KanbanVerb::Submit(args) => moves::submit(ctx, args).await,
        KanbanVerb::Changes(args) => moves::changes(ctx, &args).await,
        KanbanVerb::Diff(args) => review::diff_task(ctx, &args).await,
        KanbanVerb::Review(args) => Box::pin(review::review(ctx, *args)).await,
        KanbanVerb::Merge(args) => Box::pin(merge::run(ctx, &args)).await,
        KanbanVerb::Export(args) => merge::export_patch(ctx, &args).await,
        KanbanVerb::Block(args) => moves::block(ctx, &args).await,
        KanbanVerb::Schedule(args) => moves::schedule(ctx, &args).await,
        KanbanVerb::Unblock(args) => moves::unblock(ctx, &args).await,
        KanbanVerb::Promote(args) => moves::promote(ctx, &args).await,
        KanbanVerb::Reopen(args) => moves::reopen(ctx, &args).await,
        KanbanVerb::Archive(args) => moves::archive(ctx, &args).await,
        KanbanVerb::Dispatch(args) => dispatch::run(ctx, &args).await,
        KanbanVerb::Watch(args) => events::watch(ctx, args).await,
        KanbanVerb::Tail(args) => events::tail(ctx, &args).await,
        KanbanVerb::Log(args) => events::log(ctx, &args).await,
        KanbanVerb::Context(args) => show::context(ctx, &args).await,
        KanbanVerb::Runs(args) => runs::run(ctx, &args).await,
        KanbanVerb::Assignees(args) => relations::assignees(ctx, &args).await,
        KanbanVerb::Stats(args) => stats::run(ctx, &args).await,
        KanbanVerb::Diagnostics(args) => stats::diagnostics(ctx, &args).await,
        KanbanVerb::Gc(args) => stats::gc(ctx, &args).await,
        KanbanVerb::Worker(args) => runs::worker(ctx, args).await,
    }
}

const SHORT_HELP: &str = "\
/kanban list                       tasks, what needs you first
/kanban show ID                    everything about a task
/kanban create TITLE -a PROFILE    a new task
/kanban comment ID TEXT            say something about it
/kanban unblock ID --reason TEXT   let a blocked task go on
/kanban complete ID                say that it is done
/kanban dispatch                   start workers for ready tasks
/kanban VERB --help                how a verb is used; /kanban --help lists all of them";

/// Runs the words that follow `/kanban` in a conversation: the same verbs, without asking a model.
pub(crate) async fn run_words(context: &Context, words: &[String]) -> Result<Exit, CommandFailure> {
    if words.is_empty() {
        context.console.print(SHORT_HELP)?;
        return Ok(Exit::Success);
    }
    let command = command();
    let args = command
        .try_get_matches_from(words)
        .and_then(|matches| KanbanArgs::from_arg_matches(&matches));
    match args {
        Ok(args) => Box::pin(run(context, args)).await,
        Err(error) => Ok(context.console.explain_usage(&error)),
    }
}

fn command() -> Command {
    let command = Command::new("/kanban").no_binary_name(true).max_term_width(100);
    KanbanArgs::augment_args(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verbs_are_those_of_the_command_line() {
        command().debug_assert();
        let given = ["--board", "web", "list", "--status", "ready"];
        let matches = command().try_get_matches_from(given).unwrap();
        assert_eq!(KanbanArgs::from_arg_matches(&matches).unwrap().board.as_deref(), Some("web"));
        assert!(command().try_get_matches_from(["lst"]).is_err());
    }
}
