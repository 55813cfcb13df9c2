//! `vestal kanban list`.

use clap::Args;
use vestal_board::store::{Order, Query, Read};
use vestal_board::{Status, Task};

use super::desk::Desk;
use super::look;
use super::values::parse_assignee;
use crate::console::{Cell, DIM, RED, Table, YELLOW, text};
use crate::error::Failure;
use crate::exit::Exit;
use crate::views::TaskView;

const AFTER_HELP: &str = "\
What needs a person comes first and is marked with !. Nothing is changed by looking.

Examples:
  vestal kanban list
  vestal kanban list --status blocked --status review
  vestal kanban list --assignee writer --search report
  vestal kanban list --json --all | jq -r '.[] | select(.status == \"ready\") | .id'";

/// Tasks named in the footer.
const NAMED: u32 = 5;

/// Lists tasks.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct ListArgs {
    /// Only those of the profile in use.
    #[arg(long, conflicts_with = "assignee")]
    mine: bool,

    /// Only those of this profile; `none`: those of nobody.
    #[arg(short, long, value_name = "PROFILE")]
    assignee: Option<String>,

    /// Only those of this status; repeatable.
    #[arg(short, long = "status", value_name = "STATUS")]
    statuses: Vec<Status>,

    /// Only those of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Only those that were made in this conversation.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Also archived ones.
    #[arg(long)]
    archived: bool,

    /// Only those that need a person.
    #[arg(long)]
    attention: bool,

    /// Only those with this text in title or body.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    /// In which order: board, created, created-desc, priority, priority-desc, status, assignee,
    /// title, updated.
    #[arg(long, value_name = "ORDER", default_value = "board")]
    sort: Order,

    /// At most so many.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    limit: u32,

    /// After so many.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    offset: u32,

    /// All of them.
    #[arg(long, conflicts_with_all = ["limit", "offset"])]
    all: bool,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    fn query(&self, desk: &Desk<'_>) -> Result<Query, Failure> {
        let assignee = match (&self.assignee, self.mine) {
            (Some(name), _) => Some(parse_assignee(name)?.map(|name| name.to_string())),
            (None, true) => Some(Some(desk.context.home()?.profile().to_string())),
            (None, false) => None,
        };
        Ok(Query {
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

pub(super) async fn run(desk: &Desk<'_>, args: ListArgs) -> Result<Exit, Failure> {
    let query = args.query(desk)?;
    let Some(board) = desk.board_if_any().await? else {
        return nothing(desk, &args);
    };
    let mut read = board.read().await?;
    let mut tasks = read.list(&query).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = !args.all && tasks.len() > limit;
    if more {
        tasks.truncate(limit);
    }
    if args.json {
        desk.print(&tasks.iter().map(TaskView::from).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    if tasks.is_empty() {
        return nothing(desk, &args);
    }
    desk.console().print_table(&table(&tasks))?;
    if more {
        let next = args.offset.saturating_add(args.limit);
        desk.console().note(&format!("there are more: --offset {next}, or --all"));
    }
    if !args.attention {
        footer(desk, read.as_mut()).await?;
    }
    Ok(Exit::Success)
}

fn nothing(desk: &Desk<'_>, args: &ListArgs) -> Result<Exit, Failure> {
    if args.json {
        desk.print(&[(); 0])?;
    } else if args.is_plain() {
        let text = format!(
            "there is no task on board {} yet; to make one: vestal kanban create TITLE --assignee PROFILE",
            desk.slug()
        );
        desk.console().note(&text);
    } else {
        desk.console().note("there is no such task");
    }
    Ok(Exit::Success)
}

fn table(tasks: &[Task]) -> Table {
    let needy = tasks.iter().any(|task| task.attention.is_some());
    let mut heading = vec!["", "ID", "STATUS", "ASSIGNEE", "PRI", "CHANGED", "TITLE"];
    heading.extend(needy.then_some("NEEDS YOU"));
    let mut table = Table::new(&heading);
    for task in tasks {
        let sign = match &task.attention {
            Some(_) => Cell::styled("!", RED),
            None => Cell::styled(look::icon(task.status), look::style(task.status)),
        };
        let assignee = match &task.assignee {
            Some(profile) => Cell::from(profile.as_str()),
            None => Cell::styled("-", DIM),
        };
        let priority = if task.priority == 0 { String::new() } else { task.priority.to_string() };
        let mut row = vec![
            sign,
            task.id.as_str().into(),
            Cell::styled(task.status.as_str(), look::style(task.status)),
            assignee,
            Cell::styled(priority, YELLOW),
            Cell::styled(look::ago(task.updated_at), DIM),
            look::title(task).into(),
        ];
        row.extend(needy.then(|| Cell::styled(task.attention.as_deref().unwrap_or_default(), RED)));
        table.row(row);
    }
    table
}

/// Says which tasks of the board need a person, whatever was asked for.
async fn footer(desk: &Desk<'_>, read: &mut dyn Read) -> Result<(), Failure> {
    let mut query = Query { needs_attention: true, limit: Some(NAMED), ..Query::default() };
    let named = read.list(&query).await?;
    if named.is_empty() {
        return Ok(());
    }
    query.limit = None;
    let count = read.count(&query).await?;
    let names: Vec<&str> = named.iter().map(|task| task.id.as_str()).collect();
    let more = if count > u64::from(NAMED) { ", …" } else { "" };
    let need = if count == 1 { "needs" } else { "need" };
    desk.console().warn(&format!(
        "{} {need} you: {}{more}; to see why: vestal kanban list --attention, or show ID",
        text::count(count, "task"),
        names.join(", ")
    ));
    Ok(())
}
