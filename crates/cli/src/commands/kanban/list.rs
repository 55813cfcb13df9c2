//! `vestal kanban list`.

use std::ops::ControlFlow;

use clap::Args;
use vestal_api::{BoardTaskView, TaskView};
use vestal_board::boards::{BoardsError, Make, Slug};
use vestal_board::store::{Order, Read, TaskQuery};
use vestal_board::{Error, Status, Task};

use super::board_context::BoardContext;
use super::display;
use super::values::parse_assignee;
use crate::console::{Cell, DIM, JsonList, RED, Table, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Tasks that need a person come first, marked with !, with the reason below. Listing changes nothing.

Examples:
  vestal kanban list
  vestal kanban list --status blocked --status review
  vestal kanban list --attention --all-boards
  vestal kanban list --assignee writer --search report
  vestal kanban list --json --all | jq -r '.[] | select(.status == \"ready\") | .id'";

/// Tasks named in the footer.
const NAMED: u32 = 5;
/// Lines that the reason why a task needs a person takes among other tasks.
const REASON_LINES: usize = 2;

/// List tasks.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct ListArgs {
    /// Only tasks of the current profile.
    #[arg(long, conflicts_with = "assignee")]
    mine: bool,

    /// Only tasks of this profile; `none` for unassigned tasks.
    #[arg(short, long, value_name = "PROFILE")]
    assignee: Option<String>,

    /// Only tasks with this status; repeatable.
    #[arg(short, long = "status", value_name = "STATUS")]
    statuses: Vec<Status>,

    /// Only tasks of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Only tasks created in this conversation.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Include archived tasks.
    #[arg(long)]
    archived: bool,

    /// Only tasks that need a person.
    #[arg(long)]
    attention: bool,

    /// List tasks of all boards that are not archived.
    #[arg(long, requires = "attention", conflicts_with = "offset")]
    all_boards: bool,

    /// Only tasks with this text in title or body.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    /// Order: board, created, created-desc, priority, priority-desc, status, assignee, title or
    /// updated.
    #[arg(long, value_name = "ORDER", default_value = "board")]
    sort: Order,

    /// Show at most this many.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    limit: u32,

    /// Skip this many.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    offset: u32,

    /// Show all tasks.
    #[arg(long, conflicts_with_all = ["limit", "offset"])]
    all: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    fn query(&self, ctx: &BoardContext<'_>) -> Result<TaskQuery, CommandFailure> {
        let assignee = match (&self.assignee, self.mine) {
            (Some(name), _) => Some(parse_assignee(name)?.map(|name| name.to_string())),
            (None, true) => Some(Some(ctx.context.home()?.profile().to_string())),
            (None, false) => None,
        };
        Ok(TaskQuery {
            statuses: self.statuses.clone(),
            with_archived: self.archived,
            assignee,
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            needs_attention: self.attention,
            text: self.search.clone(),
            order: self.sort,
            // One more shows whether there are more.
            limit: (!self.all).then(|| self.limit.saturating_add(1)),
            offset: self.offset,
        })
    }

    /// Reports whether all tasks are asked for, so that none means there are none.
    fn is_plain(&self) -> bool {
        self.statuses.is_empty()
            && self.tenant.is_none()
            && self.session.is_none()
            && self.search.is_none()
            && self.assignee.is_none()
            && !self.mine
            && !self.attention
            && self.offset == 0
    }
}

pub(super) async fn run(ctx: &BoardContext<'_>, args: ListArgs) -> Result<Exit, CommandFailure> {
    if args.all_boards {
        return everywhere(ctx, &args).await;
    }
    let mut query = args.query(ctx)?;
    let Some(board) = ctx.board_if_any().await? else {
        return nothing(ctx, &args);
    };
    let mut read = board.read().await?;
    if args.json {
        query.limit = (!args.all).then_some(args.limit);
        return stream(read.as_mut(), &query).await;
    }
    let mut tasks = read.list(&query).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = !args.all && tasks.len() > limit;
    if more {
        tasks.truncate(limit);
    }
    if tasks.is_empty() {
        return nothing(ctx, &args);
    }
    let reason_lines = if args.attention { usize::MAX } else { REASON_LINES };
    ctx.console().print_table(&table(tasks.iter().map(|task| (None, task)), reason_lines))?;
    if more {
        let next = args.offset.saturating_add(args.limit);
        ctx.console().note(&format!("there are more tasks: --offset {next}, or --all"));
    }
    if !args.attention {
        footer(ctx, read.as_mut()).await?;
    }
    Ok(Exit::Success)
}

/// Prints tasks as an array of JSON, one at a time: a board may have more of them than memory takes.
async fn stream(read: &mut dyn Read, query: &TaskQuery) -> Result<Exit, CommandFailure> {
    let mut list = JsonList::on_stdout();
    let mut printed = Ok(());
    let each = &mut |task: Task| {
        printed = list.push(&TaskView::from(&task));
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    read.visit(query, each).await?;
    printed?;
    list.end()?;
    Ok(Exit::Success)
}

/// Lists what needs a person, of all boards.
async fn everywhere(ctx: &BoardContext<'_>, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let query = TaskQuery { limit: (!args.all).then_some(args.limit), ..args.query(ctx)? };
    let mut found: Vec<(Slug, Task)> = Vec::new();
    for slug in ctx.boards().names()? {
        let board = match ctx.boards().open(&slug, Make::Never).await {
            Ok(board) => board,
            // It is archived, or was removed since it was listed.
            Err(Error::Boards(BoardsError::Archived { .. } | BoardsError::Missing { .. })) => {
                continue;
            }
            Err(error) => {
                ctx.console().warn(&format!("board {slug}: {error}"));
                continue;
            }
        };
        let tasks = board.list(&query).await?;
        found.extend(tasks.into_iter().map(|task| (slug.clone(), task)));
        board.close().await?;
    }
    if args.json {
        let mut list = JsonList::on_stdout();
        for (board, task) in found {
            list.push(&BoardTaskView::new(&board, &task))?;
        }
        list.end()?;
        return Ok(Exit::Success);
    }
    if found.is_empty() {
        ctx.console().note("no task of any board needs you");
        return Ok(Exit::Success);
    }
    let rows = found.iter().map(|(slug, task)| (Some(slug), task));
    ctx.console().print_table(&table(rows, usize::MAX))?;
    Ok(Exit::Success)
}

fn nothing(ctx: &BoardContext<'_>, args: &ListArgs) -> Result<Exit, CommandFailure> {
    if args.json {
        ctx.print(&[(); 0])?;
    } else if args.is_plain() {
        let text = format!(
            "no tasks on board {} yet; to create one: vestal kanban create TITLE --assignee PROFILE",
            ctx.slug()
        );
        ctx.console().note(&text);
    } else {
        ctx.console().note("no matching tasks");
    }
    Ok(Exit::Success)
}

/// Returns the rows of tasks, with the boards they are on where several are asked. Why a task needs
/// a person stands below it: a column would leave no room for the words.
fn table<'t>(
    tasks: impl Iterator<Item = (Option<&'t Slug>, &'t Task)>,
    reason_lines: usize,
) -> Table {
    let mut tasks = tasks.peekable();
    let has_boards = tasks.peek().is_some_and(|(slug, _)| slug.is_some());
    let mut heading = vec!["", "ID", "STATUS", "ASSIGNEE", "PRI", "CHANGED", "TITLE"];
    if has_boards {
        heading.insert(1, "BOARD");
    }
    let mut table = Table::new(&heading);
    for (slug, task) in tasks {
        let sign = match &task.attention {
            Some(_) => Cell::styled("!", RED),
            None => Cell::styled(display::icon(task.status), display::style(task.status)),
        };
        let assignee = match &task.assignee {
            Some(profile) => Cell::from(profile.as_str()),
            None => Cell::styled("-", DIM),
        };
        let priority = if task.priority == 0 { String::new() } else { task.priority.to_string() };
        let mut row = vec![sign];
        row.extend(slug.map(|slug| Cell::from(slug.as_str())));
        row.extend([
            task.id.as_str().into(),
            Cell::styled(task.status.as_str(), display::style(task.status)),
            assignee,
            Cell::styled(priority, YELLOW),
            Cell::styled(display::ago(task.updated_at), DIM),
            display::title(task).into(),
        ]);
        table.row(row);
        if let Some(reason) = &task.attention {
            table.note(reason, RED, reason_lines);
        }
    }
    table
}

/// Says which tasks of the board need a person, whatever was asked for.
async fn footer(ctx: &BoardContext<'_>, read: &mut dyn Read) -> Result<(), CommandFailure> {
    let mut query = TaskQuery { needs_attention: true, limit: Some(NAMED), ..TaskQuery::default() };
    let named = read.list(&query).await?;
    if named.is_empty() {
        return Ok(());
    }
    query.limit = None;
    let count = read.count(&query).await?;
    let names: Vec<&str> = named.iter().map(|task| task.id.as_str()).collect();
    let more = if count > u64::from(NAMED) { ", …" } else { "" };
    let need = if count == 1 { "needs" } else { "need" };
    ctx.console().warn(&format!(
        "{} {need} you: {}{more}; to see why: vestal kanban list --attention, or show ID",
        text::count(count, "task"),
        names.join(", ")
    ));
    Ok(())
}
