//! What happens on a board: `watch`, `tail` and `log`.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use serde_json::Value;
use vestal_api::{EventView, TaskLogView};
use vestal_board::store::EventQuery;
use vestal_board::{Board, Status, TaskEvent, TaskId, log_path};

use super::board_context::BoardContext;
use super::display;
use crate::console::{DIM, GREEN, RED, Sink, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::{self, Exit};
use crate::follow::unless_terminated;

const WATCH_HELP: &str = "\
Ctrl-C ends it.

Examples:
  vestal kanban watch
  vestal kanban watch --kinds completed,blocked,gave_up
  vestal kanban watch --json | jq -c '[.task_id, .kind]'";

/// Events fetched at a time.
const PAGE: u32 = 500;
/// Time between two looks for a board that is not there yet.
const BOARD_POLL: Duration = Duration::from_millis(250);

/// Print events of a board as they happen.
#[derive(Debug, Args)]
#[command(after_help = WATCH_HELP)]
pub(super) struct WatchArgs {
    /// Only events of tasks assigned to this profile.
    #[arg(short, long, value_name = "PROFILE")]
    assignee: Option<String>,

    /// Only events of tasks of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Only events of these kinds, separated by commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn watch(ctx: &BoardContext<'_>, args: WatchArgs) -> Result<Exit, CommandFailure> {
    let watching = async {
        let (board, after) = match ctx.board_if_any().await? {
            Some(board) => {
                let after = board.read().await?.last_event().await?;
                (board, after)
            }
            // Looking makes nothing; the first task does.
            None => (wait_for_board(ctx).await?, 0),
        };
        if !args.json {
            ctx.console().note(&format!("watching board {}; Ctrl-C ends it", ctx.slug()));
        }
        let query = EventQuery {
            after,
            task: None,
            kinds: args.kinds,
            assignee: args.assignee,
            tenant: args.tenant,
            limit: PAGE,
        };
        follow_events(ctx, &board, query, args.json).await
    };
    until_signal(watching).await
}

/// Waits until the board exists.
async fn wait_for_board(ctx: &BoardContext<'_>) -> Result<Board, CommandFailure> {
    ctx.console().note(&format!("board {} has no task yet; waiting for the first", ctx.slug()));
    loop {
        if let Some(board) = ctx.board_if_any().await? {
            return Ok(board);
        }
        tokio::time::sleep(BOARD_POLL).await;
    }
}

/// Runs endless work until a signal asks this process to end.
async fn until_signal(
    work: impl Future<Output = Result<Infallible, CommandFailure>>,
) -> Result<Exit, CommandFailure> {
    let mut signals = exit::listen_or_fail()?;
    match unless_terminated(&mut signals, work).await {
        Ok(Ok(never)) => match never {},
        Ok(Err(failure)) => Err(failure),
        Err(signal) => Ok(Exit::Terminated(signal)),
    }
}

/// Prints events as they come.
async fn follow_events(
    ctx: &BoardContext<'_>,
    board: &Board,
    mut query: EventQuery,
    json: bool,
) -> Result<Infallible, CommandFailure> {
    // Before the first look: no change is missed between the two.
    let mut changes = board.changes()?;
    loop {
        loop {
            let page = board.events_after(&query).await?;
            for event in &page {
                if json {
                    ctx.print_line(&EventView::from(event))?;
                } else {
                    // The title is of no use when only one task is watched.
                    let title =
                        if query.task.is_none() { title_of(board, event).await } else { None };
                    print_event(ctx, event, title.as_deref())?;
                }
                query.after = event.id;
            }
            if page.len() < PAGE as usize {
                break;
            }
        }
        changes.next().await?;
    }
}

/// Returns the title of an event's task; nothing where it is gone.
async fn title_of(board: &Board, event: &TaskEvent) -> Option<String> {
    Some(board.get(&event.task_id).await.ok()?.title)
}

const TAIL_HELP: &str = "\
Starts with the most recent events. Ctrl-C ends it.

Example:
  vestal kanban tail t_4x7k";

/// Events of the past that are printed first.
const PAST: u32 = 20;

/// Print events of a task as they happen.
#[derive(Debug, Args)]
#[command(after_help = TAIL_HELP)]
pub(super) struct TailArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Number of past events to print first.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = PAST)]
    last: u32,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn tail(ctx: &BoardContext<'_>, args: &TailArgs) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let mut read = board.read().await?;
    let (past, after) = (read.events(&id, args.last).await?, read.last_event().await?);
    drop(read);
    for event in &past {
        if args.json {
            ctx.print_line(&EventView::from(event))?;
        } else {
            print_event(ctx, event, None)?;
        }
    }
    let query = EventQuery {
        after,
        task: Some(id),
        kinds: Vec::new(),
        assignee: None,
        tenant: None,
        limit: PAGE,
    };
    until_signal(follow_events(ctx, &board, query, args.json)).await
}

/// Characters shown of a title.
const TITLE: usize = 40;
/// Characters shown of a value.
const LONGEST: usize = 120;

/// Prints an event on a line, with the title of its task where there are several.
fn print_event(
    ctx: &BoardContext<'_>,
    event: &TaskEvent,
    title: Option<&str>,
) -> Result<(), CommandFailure> {
    let console = ctx.console();
    let style = match event.kind.as_str() {
        "completed" | "promoted" | "promoted_manual" | "unblocked" | "submitted" => GREEN,
        "gave_up" | "crashed" | "timed_out" | "block_loop_detected" | "spawn_failed" => RED,
        "blocked" | "stale" | "reclaimed" | "protocol_violation" | "rate_limited"
        | "changes_requested" => YELLOW,
        _ => anstyle::Style::new(),
    };
    let kind = text::printable(&event.kind);
    let title = title.map(|title| format!("{}  ", cut(&text::printable(title), TITLE)));
    console.print(
        format!(
            "{}  {}  {}  {}{}",
            console.paint(DIM, &display::clock(event.created_at)),
            event.task_id,
            console.paint(style, &format!("{kind:<18}")),
            title.unwrap_or_default(),
            console.paint(DIM, &text::printable(&details(event))),
        )
        .trim_end(),
    )
}

/// Returns what is known about an event beside its kind, in short.
pub(super) fn details(event: &TaskEvent) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(run) = event.run_id {
        parts.push(format!("run {run}"));
    }
    if let Value::Object(payload) = &event.payload {
        for (name, value) in payload {
            // Shown elsewhere in the line, or of no use to people.
            if ["run_id", "expires", "lock", "comment", "person"].contains(&name.as_str()) {
                continue;
            }
            let value = match value {
                Value::Null | Value::Bool(false) => continue,
                Value::Bool(true) => {
                    parts.push(name.clone());
                    continue;
                }
                Value::Array(entries) if entries.is_empty() => continue,
                Value::Array(entries) => entries.iter().map(plain).collect::<Vec<_>>().join(","),
                value => plain(value),
            };
            if !value.is_empty() {
                parts.push(format!("{name}={}", shortened(&value)));
            }
        }
    }
    parts.join("  ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shortened(text: &str) -> String {
    cut(&text.replace('\n', " "), LONGEST)
}

fn cut(line: &str, longest: usize) -> String {
    let mut characters = line.chars();
    let shown: String = characters.by_ref().take(longest).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

const LOG_HELP: &str = "\
The log is on the host where the worker ran. A rotated older part is kept beside it.

Examples:
  vestal kanban log t_4x7k --tail 4096
  vestal kanban log -f t_4x7k";

/// Bytes read at a time.
const PIECE: usize = 64 << 10;
/// Time between two looks at a log that is followed.
const LOG_POLL: Duration = Duration::from_millis(200);

/// Print the log of the workers of a task.
#[derive(Debug, Args)]
#[command(after_help = LOG_HELP)]
pub(super) struct LogArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Start with the last BYTES bytes.
    #[arg(long, value_name = "BYTES")]
    tail: Option<u64>,

    /// Keep printing while the task is running.
    #[arg(short, long)]
    follow: bool,

    /// Print a JSON object with the path of the log instead of its content.
    #[arg(long, conflicts_with_all = ["follow", "tail"])]
    json: bool,
}

pub(super) async fn log(ctx: &BoardContext<'_>, args: &LogArgs) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let path = log_path(board.dir(), &id);
    if args.json {
        let found = std::fs::metadata(&path).ok();
        let size = found.as_ref().map_or(0, std::fs::Metadata::len);
        let path = path.display().to_string();
        ctx.print(&TaskLogView { task_id: id.to_string(), path, exists: found.is_some(), size })?;
        return Ok(Exit::Success);
    }
    let sink = Sink::stdout().map_err(|error| CommandFailure::output(&error))?;
    let mut signals = exit::listen_or_fail()?;
    let printing = print_log(ctx, &board, &id, path, args, &sink);
    match unless_terminated(&mut signals, printing).await {
        Ok(done) => done,
        Err(signal) => Ok(Exit::Terminated(signal)),
    }
}

async fn print_log(
    ctx: &BoardContext<'_>,
    board: &Board,
    id: &TaskId,
    path: PathBuf,
    args: &LogArgs,
    sink: &Sink,
) -> Result<Exit, CommandFailure> {
    let mut log = Log::open(&path, args.tail)?;
    loop {
        // Before the reading: what is printed up to the end of the work is read.
        let at_work = args.follow && board.get(id).await?.status == Status::Running;
        if let Some(log) = &mut log {
            log.pass_on(sink).await?;
        }
        if !at_work {
            break;
        }
        tokio::time::sleep(LOG_POLL).await;
        match &log {
            Some(known) if known.is_current(&path) => {}
            // It has been begun, or put aside for a new one.
            _ => log = Log::open(&path, None)?.or(log),
        }
    }
    if log.is_none() {
        let text = if board.get(id).await?.started_at.is_some() {
            format!("there is no log of {id} on this host")
        } else {
            format!("{id} has no runs yet")
        };
        ctx.console().note(&text);
        return Ok(Exit::No);
    }
    Ok(Exit::Success)
}

/// A log that is being read.
struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens a log at its beginning, or so much before its end; nothing if
    /// there is none.
    fn open(path: &Path, tail: Option<u64>) -> Result<Option<Self>, CommandFailure> {
        let failed =
            |error: &io::Error| CommandFailure::io(&format!("read {}", path.display()), error);
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        if let Some(tail) = tail {
            let size = file.metadata().map_err(|error| failed(&error))?.len();
            let start = SeekFrom::Start(size.saturating_sub(tail));
            file.seek(start).map_err(|error| failed(&error))?;
        }
        Ok(Some(Self { file, path: path.to_owned() }))
    }

    /// Reports whether the file that is read is the one of this name.
    fn is_current(&self, path: &Path) -> bool {
        let same = |own: std::fs::Metadata, found: std::fs::Metadata| {
            (own.dev(), own.ino()) == (found.dev(), found.ino())
        };
        match (self.file.metadata(), std::fs::metadata(path)) {
            (Ok(own), Ok(found)) => same(own, found),
            _ => false,
        }
    }

    /// Passes on the bytes that are there now.
    async fn pass_on(&mut self, sink: &Sink) -> Result<(), CommandFailure> {
        let mut piece = vec![0; PIECE];
        loop {
            let read = self.file.read(&mut piece).map_err(|error| {
                CommandFailure::io(&format!("read {}", self.path.display()), &error)
            })?;
            if read == 0 {
                return Ok(());
            }
            let bytes = Bytes::copy_from_slice(&piece[..read]);
            sink.write(bytes).await.map_err(|error| CommandFailure::output(&error))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vestal_board::{RunId, Time};

    use super::*;

    #[test]
    fn details_leave_out_what_says_nothing() {
        let event = TaskEvent {
            id: 1,
            task_id: "t_000000000000".parse().unwrap(),
            run_id: Some(RunId::new(3)),
            kind: "created".to_owned(),
            payload: json!({"assignee": "a", "parents": [], "tenant": null, "forced": true,
                "skills": ["x", "y"], "off": false, "long": "l\n".repeat(200)}),
            created_at: Time::from_millis(0),
        };
        let parts = details(&event);
        assert!(parts.starts_with("run 3  assignee=a  forced"), "{parts}");
        assert!(parts.contains("skills=x,y") && !parts.contains("tenant"), "{parts}");
        assert!(parts.contains('…') && !parts.contains('\n'), "{parts}");
    }
}
