//! `vestal kanban diff` and `review`: what a task changed, and what a person says about it.

use std::io::IsTerminal as _;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use vestal_api::{ChangedFileView, TaskDiffView};
use vestal_board::review::{LineComment, Review, Side, parse_quoted_review, quoted_diff};
use vestal_board::verbs::TaskCompletion;
use vestal_board::{Board, RunId, Status, TaskId};
use vestal_dispatcher::{DiffError, DiffRange, NewFile, TaskDiff, diff, diff_of_new};
use vestal_worker::{ScratchError, ScratchFile, scratch_files};

use super::board_context::BoardContext;
use super::display::{self, ShownChange};
use super::values::text_or_stdin;
use crate::confirm;
use crate::console::{Cell, Console, DIM, GREEN, RED, Sink, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const DIFF_HELP: &str = "\
Everything that differs from the commit that the working tree began with, committed or not, new files
included. Of a task that works in a scratch directory, all files there are new; its sandbox must run.
A task that works in a directory of yours has nothing to compare with. Into a pipe the patch is printed
as git prints it, so that `git apply` takes it. Files of more than 8 MiB are named and left out.

Examples:
  vestal kanban diff t_4x7k
  vestal kanban diff t_4x7k --stat
  vestal kanban diff t_4x7k --attempt 7
  vestal kanban diff t_4x7k | git apply --check";

/// Show what a task changed in its working tree.
#[derive(Debug, Args)]
#[command(after_help = DIFF_HELP)]
pub(super) struct DiffArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Show only what this attempt changed; `vestal kanban runs ID` lists attempts.
    #[arg(long, value_name = "RUN")]
    attempt: Option<i64>,

    /// Print the files that differ, and how many lines of them.
    #[arg(long)]
    stat: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn diff_task(
    ctx: &BoardContext<'_>,
    args: &DiffArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let found = look(ctx, &board, &id, args.attempt).await?;
    let view = TaskDiffView::new(id.as_str(), args.attempt, &found);
    let console = ctx.console();
    if args.json {
        ctx.print(&view)?;
        return Ok(Exit::Success);
    }
    for path in &view.left_out {
        console.warn(&format!("not shown, since it is large or no file: {path}"));
    }
    if view.files.is_empty() {
        console.note(&match view.base.as_str() {
            "" => format!("there is no file in {}", view.tree),
            base => format!("nothing differs from {base}"),
        });
        return Ok(Exit::Success);
    }
    match &found.patch {
        Some(patch) if !args.stat => print_patch(console, patch).await?,
        patch => {
            if patch.is_none() && !args.stat {
                console.warn("the differences are too large to be shown; these are the files");
            }
            print_stat(console, &view.files)?;
        }
    }
    Ok(Exit::Success)
}

async fn look(
    ctx: &BoardContext<'_>,
    board: &Board,
    id: &TaskId,
    attempt: Option<i64>,
) -> Result<TaskDiff, CommandFailure> {
    let range = attempt.map_or(DiffRange::Whole, |run| DiffRange::Attempt(RunId::new(run)));
    let environment = ctx.settings().environment();
    match diff(board, id, range, environment).await {
        Err(DiffError::Scratch { task }) => scratch_diff(ctx.context, board, &task, range).await,
        found => found.map_err(|error| explain(&error)),
    }
}

/// Looks at what a task has made in the scratch directory of its sandbox, all of which is new. Nothing is
/// started for it.
pub(crate) async fn scratch_diff(
    context: &Context,
    board: &Board,
    id: &TaskId,
    range: DiffRange,
) -> Result<TaskDiff, CommandFailure> {
    let refused = |message: String| CommandFailure::new(message).with_exit(Exit::No);
    if range != DiffRange::Whole {
        return Err(refused(format!(
            "of task {id}, which works in a scratch directory, no state of single attempts is kept"
        )));
    }
    let Some(profile) = board.get(id).await?.assignee else {
        return Err(refused(format!(
            "task {id} has no files: it is assigned to nobody, so no worker has made any"
        )));
    };
    let engine = context.engine_of(context.home_of(&profile)?)?;
    let found = scratch_files(&engine, id).await;
    context.close(&engine).await;
    let found = found.map_err(|error| {
        let failure = refused(error.to_string());
        match &error {
            ScratchError::Stopped { sandbox, .. } => {
                failure.advise(format!("to start it: vestal -p {profile} run -t {sandbox} true"))
            }
            _ => failure
                .advise(format!("what its worker said and attached: vestal kanban show {id}")),
        }
    })?;
    let new = |file: ScratchFile| {
        let ScratchFile { path, is_executable, bytes } = file;
        NewFile { path, is_executable, bytes }
    };
    let files = found.files.into_iter().map(new).collect();
    let made = diff_of_new(found.dir, files, found.left_out, context.environment()).await;
    made.map_err(|error| CommandFailure::new(error.to_string()))
}

/// Returns the failure of a look at what a task changed.
pub(super) fn explain(error: &DiffError) -> CommandFailure {
    let failure = CommandFailure::new(error.to_string());
    match error {
        DiffError::Scratch { task } => {
            failure.with_exit(Exit::No).advise(format!("to see them: vestal kanban diff {task}"))
        }
        DiffError::NoTree { .. } | DiffError::Directory { .. } | DiffError::NoAttempt { .. } => {
            failure.with_exit(Exit::No)
        }
        DiffError::Workspace(_) => failure,
    }
}

/// Prints a patch: for people with colours and harmless to their terminal, else byte by byte.
async fn print_patch(console: Console, patch: &[u8]) -> Result<(), CommandFailure> {
    if !std::io::stdout().is_terminal() {
        let written = match Sink::stdout() {
            Ok(sink) => sink.write(Bytes::from(patch.to_vec())).await,
            Err(error) => Err(error),
        };
        return written.map_err(|error| CommandFailure::output(&error));
    }
    let mut shown = String::new();
    for line in String::from_utf8_lossy(patch).lines() {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("diff ")
                || line.starts_with("+++")
                || line.starts_with("---") =>
            {
                YELLOW
            }
            Some(b'+') => GREEN,
            Some(b'-') => RED,
            Some(b'@') => DIM,
            _ => anstyle::Style::new(),
        };
        shown.push_str(&console.paint(style, &text::printable(line)));
        shown.push('\n');
    }
    console.write(&shown)
}

fn print_stat(console: Console, files: &[ChangedFileView]) -> Result<(), CommandFailure> {
    let mut table = Table::new(&["", "FILE", "ADDED", "REMOVED"]);
    let lines = |count: Option<u64>| count.map_or_else(|| "binary".to_owned(), text::grouped);
    for file in files {
        let path = match &file.from {
            Some(from) => format!("{from} → {}", file.path),
            None => file.path.clone(),
        };
        table.row(vec![
            Cell::styled(file.change.letter(), YELLOW),
            path.into(),
            lines(file.added).into(),
            lines(file.removed).into(),
        ]);
    }
    console.print_table(&table)
}

const REVIEW_HELP: &str = "\
On a terminal, without options, your editor ($VISUAL, $EDITOR) opens with the quoted changes: write
below the lines that you mean, as in mail. With comments the task is sent back, and they are the
instructions of its next attempt; without any you are asked whether it is done. The task must be in review.

Examples:
  vestal kanban review t_4x7k
  vestal kanban review t_4x7k --approve
  vestal kanban review t_4x7k --comment 'src/main.rs:12: handle the error' --changes 'Nearly there.'
  vestal kanban review t_4x7k --from review.json";

/// Review the work on a task: approve it, or comment on lines of it and send it back.
#[derive(Debug, Args)]
#[command(after_help = REVIEW_HELP)]
#[command(group = ArgGroup::new("decision").args(["approve", "changes", "from"]))]
pub(super) struct ReviewArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Approve: the task is done.
    #[arg(long, conflicts_with = "comments")]
    approve: bool,

    /// Send it back with this word about the whole; `-` reads standard input.
    #[arg(long, value_name = "TEXT")]
    changes: Option<String>,

    /// Send it back with a comment on a line or a file; repeatable.
    #[arg(long = "comment", value_name = "FILE[:LINE]: TEXT", value_parser = parse_comment, id = "comments")]
    comments: Vec<LineComment>,

    /// Send it back with the review in this JSON file: {"summary", "comments": [{"path", "line", "side",
    /// "quote", "text"}]}; `-` reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "comments")]
    from: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Reads `FILE: TEXT` or `FILE:LINE: TEXT`.
fn parse_comment(words: &str) -> Result<LineComment, String> {
    let wrong = || "write FILE: TEXT or FILE:LINE: TEXT".to_owned();
    let (place, text) = words.split_once(": ").ok_or_else(wrong)?;
    let (path, line) = match place.rsplit_once(':') {
        Some((path, line)) if line.parse::<u32>().is_ok() => (path, line.parse().ok()),
        _ => (place, None),
    };
    if path.is_empty() || text.trim().is_empty() {
        return Err(wrong());
    }
    let (path, text) = (path.to_owned(), text.to_owned());
    Ok(LineComment { path, line, side: Side::New, quote: None, text })
}

pub(super) async fn review(
    ctx: &BoardContext<'_>,
    args: ReviewArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let task = board.get(&id).await?;
    // Before somebody writes a review that cannot be given.
    if task.status != Status::Review {
        return Err(CommandFailure::new(format!("{id} is {}, not in review", task.status))
            .with_exit(Exit::No)
            .advise("work is handed in with `vestal kanban submit`, or by its worker if the task was made with --review"));
    }
    if args.approve {
        return approve(ctx, &board, &id, args.json).await;
    }
    let review = match (&args.changes, &args.from) {
        (Some(summary), _) => {
            let summary = text_or_stdin(summary.clone()).await?;
            Review { summary, comments: args.comments }
        }
        (None, Some(file)) => read_review(file).await?,
        (None, None) if !args.comments.is_empty() => {
            Review { summary: String::new(), comments: args.comments }
        }
        (None, None) => {
            let written = edit(ctx, &board, &id, &task.title).await?;
            if written.is_empty() {
                let question = format!("no comment; is {id} done?");
                if confirm::is_possible() && ctx.console().ask(&question) {
                    return approve(ctx, &board, &id, args.json).await;
                }
                ctx.console().note("no comment was written; the task is still in review");
                return Ok(Exit::No);
            }
            written
        }
    };
    let instructions = review.instructions()?;
    let moved = board.request_changes(&ctx.by(), &id, &instructions).await?;
    let step = ShownChange::new(moved, "asked for changes to").because(Some(instructions));
    display::finish(ctx, &board, step, args.json).await
}

async fn approve(
    ctx: &BoardContext<'_>,
    board: &Board,
    id: &TaskId,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let moved = board.complete(&ctx.by(), id, TaskCompletion::default()).await?;
    display::finish(ctx, board, ShownChange::new(moved, "approved"), json).await
}

async fn read_review(file: &str) -> Result<Review, CommandFailure> {
    let text = if file == "-" {
        text_or_stdin(file.to_owned()).await?
    } else {
        std::fs::read_to_string(file)
            .map_err(|error| CommandFailure::usage(format!("cannot read {file}: {error}")))?
    };
    serde_json::from_str(&text)
        .map_err(|error| CommandFailure::usage(format!("{file} is not a review: {error}")))
}

/// Lets the person write between the quoted changes.
async fn edit(
    ctx: &BoardContext<'_>,
    board: &Board,
    id: &TaskId,
    title: &str,
) -> Result<Review, CommandFailure> {
    if !confirm::is_possible() {
        return Err(CommandFailure::usage("without a terminal, say what is to be done")
            .advise("--approve, --changes TEXT, --comment 'FILE:LINE: TEXT' or --from FILE"));
    }
    let found = look(ctx, board, id, None).await?;
    let Some(patch) = found.patch else {
        return Err(CommandFailure::new("the changes are too large to be quoted").advise(
            "vestal kanban diff --stat lists them; --changes and --comment say what is to be done",
        ));
    };
    let quoted = quoted_diff(&format!("{id}  {title}"), &String::from_utf8_lossy(&patch));
    let environment = ctx.settings().environment();
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| {
        environment.get(name)?.to_str().map(str::trim).filter(|words| !words.is_empty())
    });
    let editor = editor.unwrap_or("vi").to_owned();
    let edited =
        tokio::task::spawn_blocking(move || vestal_tui::edit_externally(&quoted, &editor)).await;
    match edited {
        Ok(Ok(text)) => Ok(parse_quoted_review(&text)),
        Ok(Err(error)) => {
            Err(CommandFailure::new(error.to_string())
                .advise("set VISUAL or EDITOR to your editor"))
        }
        Err(error) => Err(CommandFailure::new(format!("the editor was not waited for: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_names_a_file_and_perhaps_a_line() {
        let read =
            |words| parse_comment(words).map(|comment| (comment.path, comment.line, comment.text));
        let expected = |path: &str, line, text: &str| Ok((path.to_owned(), line, text.to_owned()));
        assert_eq!(read("src/a.rs:12: no: never"), expected("src/a.rs", Some(12), "no: never"));
        assert_eq!(read("a file: all of it"), expected("a file", None, "all of it"));
        for wrong in ["src/a.rs", "src/a.rs:12", ": x", "a: "] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
