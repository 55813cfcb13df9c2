//! What belongs to a task: its assignee, the tasks it waits for, comments and files.

use std::path::PathBuf;

use clap::Args;
use vestal_api::{AssigneeView, AttachedFileView, AttachmentView, CommentedView, DetachedView};
use vestal_board::{AttachmentSource, NewAttachment, Status};

use super::board_context::BoardContext;
use super::display::{self, ShownChange};
use super::stats;
use super::values::{joined, parse_assignee, text_or_stdin};
use crate::console::{Cell, DIM, GREEN, Table, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_ASSIGN: &str = "\
`none` removes the assignee. A running task is not reassigned; use vestal kanban reassign ID PROFILE
--reclaim.

Examples:
  vestal kanban assign t_4x7k writer
  vestal kanban assign t_4x7k none";

const AFTER_REASSIGN: &str = "\
Example:
  vestal kanban reassign t_4x7k writer --reclaim --reason 'needs a better model'";

/// Assign a task to a profile, or to nobody.
#[derive(Debug, Args)]
#[command(after_help = AFTER_ASSIGN)]
pub(super) struct AssignArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Name of the profile, or `none`.
    #[arg(value_name = "PROFILE")]
    to: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Assign a task to another profile, even while it is running.
#[derive(Debug, Args)]
#[command(after_help = AFTER_REASSIGN)]
pub(super) struct ReassignArgs {
    #[command(flatten)]
    assign: AssignArgs,

    /// End the current run first.
    #[arg(long)]
    reclaim: bool,

    /// Reason, kept in the history of the task.
    #[arg(long, value_name = "TEXT", default_value = "given to another profile")]
    reason: String,
}

pub(super) async fn assign(
    ctx: &BoardContext<'_>,
    args: &AssignArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let to = parse_assignee(&args.to)?;
    let task = board.assign(&ctx.by(), &id, to.clone()).await?;
    if let Some(profile) = &to {
        ctx.warn_of_unknown(profile)?;
    }
    display::finish(
        ctx,
        &board,
        ShownChange::alone(task, "assigned").because(Some(args.to.clone())),
        args.json,
    )
    .await
}

pub(super) async fn reassign(
    ctx: &BoardContext<'_>,
    args: &ReassignArgs,
) -> Result<Exit, CommandFailure> {
    let ReassignArgs { assign, reclaim, reason } = args;
    let (board, id) = ctx.task(&assign.id).await?;
    let to = parse_assignee(&assign.to)?;
    let by = ctx.by();
    let ended = if *reclaim && board.get(&id).await?.current_run.is_some() {
        board.reclaim(&by, &id, reason).await?.ended
    } else {
        None
    };
    let task = board.assign(&by, &id, to.clone()).await?;
    if let Some(profile) = &to {
        ctx.warn_of_unknown(profile)?;
    }
    let step = ShownChange::ending(task, ended, "assigned").because(Some(assign.to.clone()));
    display::finish(ctx, &board, step, assign.json).await
}

const ASSIGNEES_HELP: &str = "\
Tasks of a profile that does not exist wait until a person claims them.

Example:
  vestal kanban assignees";

/// List profiles that tasks can be assigned to, with their numbers of tasks.
#[derive(Debug, Args)]
#[command(after_help = ASSIGNEES_HELP)]
pub(super) struct AssigneesArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn assignees(
    ctx: &BoardContext<'_>,
    args: &AssigneesArgs,
) -> Result<Exit, CommandFailure> {
    let mut by_assignee = stats::board_stats(ctx).await?.by_assignee;
    let mut views: Vec<AssigneeView> = Vec::new();
    for profile in ctx.profiles()? {
        let counts = by_assignee.remove(profile.as_str()).unwrap_or_default();
        views.push(AssigneeView { name: profile.to_string(), exists: true, counts });
    }
    let strangers = by_assignee.into_iter();
    views.extend(strangers.map(|(name, counts)| AssigneeView { name, exists: false, counts }));
    if args.json {
        ctx.print(&views)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["PROFILE", "EXISTS", "READY", "RUNNING", "BLOCKED", "ALL"]);
    for view in &views {
        let count = |status| view.counts.get(&status).copied().unwrap_or_default().to_string();
        let exists =
            if view.exists { Cell::styled("yes", GREEN) } else { Cell::styled("no", YELLOW) };
        table.row(vec![
            view.name.as_str().into(),
            exists,
            count(Status::Ready).into(),
            count(Status::Running).into(),
            count(Status::Blocked).into(),
            view.counts.values().sum::<u64>().to_string().into(),
        ]);
    }
    ctx.console().print_table(&table)?;
    Ok(Exit::Success)
}

const AFTER_LINK: &str = "\
The child waits until the parent is done or archived. A ready child goes back to todo. Cycles are
refused.

Example:
  vestal kanban link t_4x7k t_9qwe";

const AFTER_UNLINK: &str = "\
A child that waits for no other task becomes ready.

Example:
  vestal kanban unlink t_4x7k t_9qwe";

/// Make a task wait for another.
#[derive(Debug, Args)]
#[command(after_help = AFTER_LINK)]
pub(super) struct LinkArgs {
    #[command(flatten)]
    pair: Pair,
}

/// Let a task no longer wait for another.
#[derive(Debug, Args)]
#[command(after_help = AFTER_UNLINK)]
pub(super) struct UnlinkArgs {
    #[command(flatten)]
    pair: Pair,
}

#[derive(Debug, Args)]
struct Pair {
    /// Task to wait for.
    #[arg(value_name = "PARENT")]
    parent: String,

    /// Task that waits.
    #[arg(value_name = "CHILD")]
    child: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn link(ctx: &BoardContext<'_>, args: &LinkArgs) -> Result<Exit, CommandFailure> {
    let Pair { parent, child, json } = &args.pair;
    let (board, parent) = ctx.task(parent).await?;
    let child = board.find(child).await?;
    let task = board.link(&ctx.by(), &parent, &child).await?;
    let step = ShownChange::alone(task, "linked").because(Some(format!("waits for {parent}")));
    display::finish(ctx, &board, step, *json).await
}

pub(super) async fn unlink(
    ctx: &BoardContext<'_>,
    args: &UnlinkArgs,
) -> Result<Exit, CommandFailure> {
    let Pair { parent, child, json } = &args.pair;
    let (board, parent) = ctx.task(parent).await?;
    let child = board.find(child).await?;
    let task = board.unlink(&ctx.by(), &parent, &child).await?;
    let why = format!("waits for {parent} no longer");
    display::finish(ctx, &board, ShownChange::alone(task, "unlinked").because(Some(why)), *json)
        .await
}

const COMMENT_HELP: &str = "\
The next worker of the task gets the last comments.

Examples:
  vestal kanban comment t_4x7k the figures are in the annex
  git log -1 | vestal kanban comment t_4x7k -";

/// Comment on a task.
#[derive(Debug, Args)]
#[command(after_help = COMMENT_HELP)]
pub(super) struct CommentArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Text of the comment; `-` reads it from standard input.
    #[arg(value_name = "TEXT", required = true, allow_hyphen_values = true)]
    text: Vec<String>,

    /// Name to act under, instead of `user`.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn comment(
    ctx: &BoardContext<'_>,
    args: CommentArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let text = text_or_stdin(joined(&args.text).unwrap_or_default()).await?;
    let by = ctx.authority_of(args.author.as_deref());
    let number = board.comment(&by, &id, text.trim()).await?;
    if args.json {
        ctx.print(&CommentedView { task_id: id.to_string(), comment_id: number })?;
    } else {
        ctx.console().print(&format!("commented on {id}"))?;
    }
    Ok(Exit::Success)
}

const ATTACH_HELP: &str = "\
The file is copied to the board, at most 25 MiB; workers get its path.

Examples:
  vestal kanban attach t_4x7k figures.csv
  vestal kanban attach t_4x7k /tmp/x.bin --name model.bin --content-type application/octet-stream";

/// Attach a file to a task.
#[derive(Debug, Args)]
#[command(after_help = ATTACH_HELP)]
pub(super) struct AttachArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// File to attach.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Name of the attachment [default: the name of the file].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Content type, such as `text/csv`.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// Name to act under, instead of `user`.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn attach(
    ctx: &BoardContext<'_>,
    args: AttachArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let own = || args.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(name) = args.name.clone().or_else(own) else {
        return Err(CommandFailure::usage(format!("{} is not a file", args.path.display())));
    };
    let new = NewAttachment {
        name,
        content_type: args.content_type,
        source: AttachmentSource::File(args.path),
    };
    let by = ctx.authority_of(args.author.as_deref());
    let attachment = board.attach(&by, &id, new).await?;
    if args.json {
        ctx.print(&AttachmentView::from(&attachment))?;
    } else {
        ctx.console().print(&format!(
            "attached {} to {id}  (number {}, {})",
            text::printable(&attachment.filename),
            attachment.id,
            text::bytes(attachment.size)
        ))?;
    }
    Ok(Exit::Success)
}

const ATTACHMENTS_HELP: &str = "\
Examples:
  vestal kanban attachments t_4x7k
  vestal kanban attachments t_4x7k --json | jq -r '.[].path'";

/// List the attachments of a task.
#[derive(Debug, Args)]
#[command(after_help = ATTACHMENTS_HELP)]
pub(super) struct AttachmentsArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn attachments(
    ctx: &BoardContext<'_>,
    args: &AttachmentsArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let files = board.show(&id).await?.attachments;
    let views: Vec<AttachedFileView> =
        files.iter().map(|file| AttachedFileView::new(&board, file)).collect();
    if args.json {
        ctx.print(&views)?;
        return Ok(Exit::Success);
    }
    if views.is_empty() {
        ctx.console()
            .note(&format!("{id} has no files; to add one: vestal kanban attach {id} PATH"));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["NUMBER", "NAME", "SIZE", "BY", "ADDED", "PATH"]);
    for (file, view) in files.iter().zip(&views) {
        table.row(vec![
            file.id.to_string().into(),
            file.filename.as_str().into(),
            text::bytes(file.size).into(),
            file.uploaded_by.as_str().into(),
            display::ago(file.created_at).into(),
            Cell::styled(view.path.as_deref().unwrap_or("-"), DIM),
        ]);
    }
    ctx.console().print_table(&table)?;
    Ok(Exit::Success)
}

const DETACH_HELP: &str = "\
`vestal kanban attachments ID` prints the numbers.

Example:
  vestal kanban attach-rm 12";

/// Remove an attachment from its task.
#[derive(Debug, Args)]
#[command(after_help = DETACH_HELP)]
pub(super) struct DetachArgs {
    /// Number of the attachment.
    #[arg(value_name = "NUMBER")]
    number: i64,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn detach(
    ctx: &BoardContext<'_>,
    args: &DetachArgs,
) -> Result<Exit, CommandFailure> {
    let missing = || {
        CommandFailure::new(format!("there is no attachment {}", args.number))
            .with_exit(Exit::No)
            .advise("to see those of a task: vestal kanban attachments ID")
    };
    let Some(board) = ctx.board_if_any().await? else { return Err(missing()) };
    if board.read().await?.attachment(args.number).await?.is_none() {
        return Err(missing());
    }
    board.detach(&ctx.by(), args.number).await?;
    if args.json {
        ctx.print(&DetachedView { id: args.number, removed: true })?;
    } else {
        ctx.console().print(&format!("removed attachment {}", args.number))?;
    }
    Ok(Exit::Success)
}
