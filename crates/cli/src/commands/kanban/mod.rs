//! `vestal kanban`, one file for each of its verbs.

mod archive;
mod assign;
mod assignees;
mod attach;
mod attachments;
mod block;
mod boards;
mod bulk;
mod changes;
pub(crate) mod chat;
mod claim;
mod comment;
mod complete;
mod context;
mod create;
mod desk;
mod detach;
mod diagnostics;
mod dispatch;
mod edit;
mod events;
mod gc;
mod heartbeat;
mod import;
mod init;
mod link;
mod list;
mod log;
mod look;
mod promote;
mod reclaim;
mod reopen;
mod runs;
mod schedule;
mod show;
mod stats;
mod steps;
mod submit;
mod tail;
mod unblock;
mod values;
mod watch;
mod worker;

use clap::{Args, Subcommand};
use vestal_board::boards::Slug;
use vestal_board::store::Query;

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

use desk::Desk;

const AFTER_HELP: &str = "\
A task is a piece of work with a title, a status and, mostly, a profile that works on it. A
dispatcher starts one worker per ready task: `vestal kanban dispatch --watch`. Tasks are named by
their id or any beginning of it that only one has. Which board: --board, else
$VESTAL_KANBAN_BOARD, else the one of `vestal kanban boards switch`, else default.

Exit codes: 0 done, 1 no such task or board, or not from where the task stands, 2 wrong usage,
125 Vestal failed, 130 interrupted.

Examples:
  vestal kanban create 'Write the report' --assignee writer --body 'Two pages, by Friday.'
  vestal kanban list
  vestal kanban dispatch --watch";

/// The board: tasks, who works on them, and how far they are.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct KanbanArgs {
    /// Board to use, in place of the current one.
    #[arg(long, value_name = "SLUG", global = true, help_heading = "Board", display_order = 900)]
    board: Option<String>,

    #[command(subcommand)]
    verb: KanbanVerb,
}

#[derive(Debug, Subcommand)]
enum KanbanVerb {
    Init(init::InitArgs),
    Boards(boards::BoardsArgs),
    Create(Box<create::CreateArgs>),
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    Show(show::ShowArgs),
    Edit(Box<edit::EditArgs>),
    Assign(assign::AssignArgs),
    Reassign(assign::ReassignArgs),
    Reclaim(reclaim::ReclaimArgs),
    Link(link::LinkArgs),
    Unlink(link::UnlinkArgs),
    Comment(comment::CommentArgs),
    Attach(attach::AttachArgs),
    Attachments(attachments::AttachmentsArgs),
    #[command(name = "attach-rm")]
    Detach(detach::DetachArgs),
    Claim(claim::ClaimArgs),
    Heartbeat(heartbeat::HeartbeatArgs),
    Complete(complete::CompleteArgs),
    Submit(submit::SubmitArgs),
    Changes(changes::ChangesArgs),
    Block(block::BlockArgs),
    Schedule(schedule::ScheduleArgs),
    Unblock(unblock::UnblockArgs),
    Promote(promote::PromoteArgs),
    Reopen(reopen::ReopenArgs),
    Archive(archive::ArchiveArgs),
    Dispatch(dispatch::DispatchArgs),
    Watch(watch::WatchArgs),
    Tail(tail::TailArgs),
    Log(log::LogArgs),
    Context(context::ContextArgs),
    Runs(runs::RunsArgs),
    Assignees(assignees::AssigneesArgs),
    Stats(stats::StatsArgs),
    #[command(visible_alias = "diag")]
    Diagnostics(diagnostics::DiagnosticsArgs),
    Gc(gc::GcArgs),
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
}

pub(crate) async fn run(context: &Context, args: KanbanArgs) -> Result<Exit, Failure> {
    let desk = Desk::new(context, args.board.as_deref()).await?;
    let done = Box::pin(act(&desk, args.verb)).await;
    desk.close().await;
    done
}

/// Tasks that are named at once where names are completed.
const NAMED: u32 = 500;

/// Returns the names of the boards there are.
pub(crate) async fn board_names(context: &Context) -> Result<Vec<String>, Failure> {
    let desk = Desk::new(context, None).await?;
    let mut names: Vec<String> = desk.boards().names()?.iter().map(ToString::to_string).collect();
    // It is always there, also where nobody has written to it.
    let default = Slug::default_board().to_string();
    if !names.contains(&default) {
        names.insert(0, default);
    }
    Ok(names)
}

/// Returns the names of the first tasks of the current board, in the order of a list.
pub(crate) async fn task_names(context: &Context) -> Result<Vec<String>, Failure> {
    let desk = Desk::new(context, None).await?;
    let Some(board) = desk.board_if_any().await? else { return Ok(Vec::new()) };
    let tasks = board.list(&Query { limit: Some(NAMED), ..Query::default() }).await?;
    desk.close().await;
    Ok(tasks.iter().map(|task| task.id.to_string()).collect())
}

async fn act(desk: &Desk<'_>, verb: KanbanVerb) -> Result<Exit, Failure> {
    match verb {
        KanbanVerb::Init(args) => init::run(desk, &args),
        KanbanVerb::Boards(args) => boards::run(desk, args).await,
        KanbanVerb::Create(args) => create::run(desk, *args).await,
        KanbanVerb::List(args) => list::run(desk, args).await,
        KanbanVerb::Show(args) => show::run(desk, &args).await,
        KanbanVerb::Edit(args) => edit::run(desk, *args).await,
        KanbanVerb::Assign(args) => assign::run(desk, &args).await,
        KanbanVerb::Reassign(args) => assign::again(desk, &args).await,
        KanbanVerb::Reclaim(args) => reclaim::run(desk, &args).await,
        KanbanVerb::Link(args) => link::run(desk, &args).await,
        KanbanVerb::Unlink(args) => link::undo(desk, &args).await,
        KanbanVerb::Comment(args) => comment::run(desk, args).await,
        KanbanVerb::Attach(args) => attach::run(desk, args).await,
        KanbanVerb::Attachments(args) => attachments::run(desk, &args).await,
        KanbanVerb::Detach(args) => detach::run(desk, &args).await,
        KanbanVerb::Claim(args) => claim::run(desk, &args).await,
        KanbanVerb::Heartbeat(args) => heartbeat::run(desk, args).await,
        KanbanVerb::Complete(args) => complete::run(desk, args).await,
        KanbanVerb::Submit(args) => submit::run(desk, args).await,
        KanbanVerb::Changes(args) => changes::run(desk, &args).await,
        KanbanVerb::Block(args) => block::run(desk, &args).await,
        KanbanVerb::Schedule(args) => schedule::run(desk, &args).await,
        KanbanVerb::Unblock(args) => unblock::run(desk, &args).await,
        KanbanVerb::Promote(args) => promote::run(desk, &args).await,
        KanbanVerb::Reopen(args) => reopen::run(desk, &args).await,
        KanbanVerb::Archive(args) => archive::run(desk, &args).await,
        KanbanVerb::Dispatch(args) => dispatch::run(desk, &args).await,
        KanbanVerb::Watch(args) => watch::run(desk, args).await,
        KanbanVerb::Tail(args) => tail::run(desk, &args).await,
        KanbanVerb::Log(args) => log::run(desk, &args).await,
        KanbanVerb::Context(args) => context::run(desk, &args).await,
        KanbanVerb::Runs(args) => runs::run(desk, &args).await,
        KanbanVerb::Assignees(args) => assignees::run(desk, &args).await,
        KanbanVerb::Stats(args) => stats::run(desk, &args).await,
        KanbanVerb::Diagnostics(args) => diagnostics::run(desk, &args).await,
        KanbanVerb::Gc(args) => gc::run(desk, &args).await,
        KanbanVerb::Worker(args) => worker::run(desk, args).await,
    }
}
