//! `vestal kanban show` and `context`.

use std::fmt::Write as _;

use clap::Args;
use vestal_api::{TaskContextView, TaskDetailsView};
use vestal_board::verbs::TaskSheet;
use vestal_board::{BlockKind, Board, Status, Task, TaskEvent, TaskId};

use super::board_context::BoardContext;
use super::{display, events, runs};
use crate::console::{BOLD, Cell, Console, DIM, RED, Table, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

const SHOW_HELP: &str = "\
Examples:
  vestal kanban show t_4x7k
  vestal kanban show t_4x7k --json | jq '.runs[-1].summary'";

/// Show everything about a task.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(ctx: &BoardContext<'_>, args: &ShowArgs) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let sheet = board.show(&id).await?;
    if args.json {
        ctx.print(&TaskDetailsView::new(&board, &sheet))?;
        return Ok(Exit::Success);
    }
    let console = ctx.console();
    console.write(&head(console, &sheet))?;
    relatives(console, &sheet)?;
    section(console, "", &sheet.task.body)?;
    section(console, "result", sheet.task.result.as_deref().unwrap_or_default())?;
    section(console, "summary", sheet.latest_summary.as_deref().unwrap_or_default())?;
    files(console, &board, &sheet)?;
    comments(console, &sheet)?;
    if !sheet.runs.is_empty() {
        heading(console, "runs")?;
        console.print_table(&runs::runs_table(&sheet.runs))?;
    }
    happened(console, &sheet.events)?;
    next_step(console, &sheet.task);
    Ok(Exit::Success)
}

fn head(console: Console, sheet: &TaskSheet) -> String {
    let task = &sheet.task;
    let mut out = format!("{}\n", console.paint(BOLD, &text::printable(&display::title(task))));
    let status = console.paint(
        display::style(task.status),
        &format!("{} {}", display::icon(task.status), task.status),
    );
    let mut facts = vec![format!("assignee {}", display::assignee(task))];
    if task.priority != 0 {
        facts.push(format!("priority {}", task.priority));
    }
    facts.push(workspace(task));
    facts.push(format!(
        "created {} by {}",
        display::ago(task.created_at),
        text::printable(&task.created_by)
    ));
    if task.needs_review {
        let by = task.reviewer.as_ref().map_or("a person", |profile| profile.as_str());
        facts.push(format!("to be reviewed by {by}"));
    }
    if let Some(limit) = task.max_runtime {
        facts.push(format!("at most {}", text::span(limit)));
    }
    if let Some(model) = &task.model {
        facts.push(format!("model {}", text::printable(model)));
    }
    if !task.skills.is_empty() {
        facts.push(format!("skills {}", text::printable(&task.skills.join(", "))));
    }
    // Writing to a string cannot fail.
    writeln!(out, "{}  {status}  {}", task.id, console.paint(DIM, &facts.join(" · "))).ok();
    let kind = task.block_kind.map_or("blocked", BlockKind::as_str);
    if let Some(why) = &task.attention {
        let needs = console.paint(RED, &format!("! needs you ({kind}):"));
        writeln!(out, "{needs} {}", text::printable(why)).ok();
    }
    if let (Status::Blocked, Some(why)) = (task.status, &task.block_reason)
        && task.attention.as_ref() != Some(why)
    {
        writeln!(out, "{} {}", console.paint(YELLOW, &format!("{kind}:")), text::printable(why))
            .ok();
    }
    if let Some(wake) = task.wake_at {
        let why = task.guard.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        writeln!(out, "goes on {}{}", display::moment(wake), text::printable(&why)).ok();
    }
    for failure in &sheet.failures {
        let times = text::count(failure.count, "time");
        writeln!(out, "{} {times}: {}", failure.cause, text::printable(&failure.error)).ok();
    }
    out
}

fn workspace(task: &Task) -> String {
    let kind = task.workspace.kind();
    let mut line = kind.to_owned();
    if let Some(path) = task.workspace.path() {
        line.push(' ');
        line.push_str(&text::printable(&path.to_string_lossy()));
    }
    if let Some(branch) = task.workspace.branch() {
        write!(line, " on {}", text::printable(branch)).ok();
    }
    if let Some(host) = &task.workspace_host {
        write!(line, " of {}", text::printable(host.as_str())).ok();
    }
    line
}

fn heading(console: Console, name: &str) -> Result<(), CommandFailure> {
    console.print(&format!("\n{}", console.paint(BOLD, name)))
}

/// Prints a text under a heading, a little to the right; nothing for no text.
fn section(console: Console, name: &str, words: &str) -> Result<(), CommandFailure> {
    if words.trim().is_empty() {
        return Ok(());
    }
    if name.is_empty() {
        console.print("")?;
    } else {
        heading(console, name)?;
    }
    indented(console, words)
}

fn indented(console: Console, words: &str) -> Result<(), CommandFailure> {
    let lines = text::harmless(words.trim_end());
    for line in lines.lines() {
        console
            .print(if line.is_empty() { String::new() } else { format!("  {line}") }.as_str())?;
    }
    Ok(())
}

fn relatives(console: Console, sheet: &TaskSheet) -> Result<(), CommandFailure> {
    for (name, relatives) in [("waits for", &sheet.parents), ("wanted by", &sheet.children)] {
        for relative in relatives {
            let status = display::painted_status(console, relative.status);
            let title = text::printable(&relative.title);
            let name = console.paint(DIM, name);
            console.print(&format!("{name}  {}  {status}  {title}", relative.id))?;
        }
    }
    Ok(())
}

fn files(console: Console, board: &Board, sheet: &TaskSheet) -> Result<(), CommandFailure> {
    if sheet.attachments.is_empty() {
        return Ok(());
    }
    heading(console, "files")?;
    let mut table = Table::new(&["NUMBER", "NAME", "SIZE", "PATH"]);
    for file in &sheet.attachments {
        table.row(vec![
            file.id.to_string().into(),
            file.filename.as_str().into(),
            text::bytes(file.size).into(),
            Cell::styled(board.attachment_path(file).to_string_lossy(), DIM),
        ]);
    }
    console.print_table(&table)
}

fn comments(console: Console, sheet: &TaskSheet) -> Result<(), CommandFailure> {
    if sheet.comments.is_empty() {
        return Ok(());
    }
    heading(console, "comments")?;
    for comment in &sheet.comments {
        let who = text::printable(&comment.author);
        let when = console.paint(DIM, &display::ago(comment.created_at));
        console.print(&format!("{who} {when}"))?;
        indented(console, &comment.body)?;
    }
    Ok(())
}

fn happened(console: Console, events: &[TaskEvent]) -> Result<(), CommandFailure> {
    if events.is_empty() {
        return Ok(());
    }
    heading(console, "events")?;
    let mut table = Table::new(&["WHEN", "WHAT", "MORE"]);
    for event in events {
        table.row(vec![
            display::ago(event.created_at).into(),
            event.kind.as_str().into(),
            Cell::styled(events::details(event), DIM),
        ]);
    }
    console.print_table(&table)
}

/// Says what a person can do about a task that waits for one.
fn next_step(console: Console, task: &Task) {
    let id: &TaskId = &task.id;
    match task.status {
        Status::Blocked => {
            console.note(&format!("to unblock it: vestal kanban unblock {id} --reason …"));
        }
        Status::Review if task.reviewer.is_none() => console.note(&format!(
            "to approve: vestal kanban complete {id}; else: vestal kanban changes {id} WHAT"
        )),
        Status::Triage => {
            console.note(&format!("to make it ready: vestal kanban promote {id} REASON"));
        }
        Status::Running => {
            console.note(&format!("to follow its worker: vestal kanban log -f {id}"));
        }
        Status::Todo
        | Status::Scheduled
        | Status::Ready
        | Status::Review
        | Status::Done
        | Status::Archived => {}
    }
}

const CONTEXT_HELP: &str = "\
Example:
  vestal kanban context t_4x7k";

/// Print the text that a worker gets about a task.
#[derive(Debug, Args)]
#[command(after_help = CONTEXT_HELP)]
pub(super) struct ContextArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn context(
    ctx: &BoardContext<'_>,
    args: &ContextArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let context = board.context(&id).await?;
    if args.json {
        ctx.print(&TaskContextView { task_id: id.to_string(), context })?;
    } else {
        let shown = text::harmless(&context);
        ctx.console().print(shown.trim_end())?;
    }
    Ok(Exit::Success)
}
