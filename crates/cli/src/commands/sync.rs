//! `vestal sync`.

use clap::Args;
use vestal_api::SyncView;
use vestal_sandbox::{Overrides, SyncMode, TaskName};

use crate::cli::OneTask;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::find;
use crate::values::quoted;

const SYNC_HELP: &str = "\
A directory that is mounted in a sandbox on another machine (--mount-cwd) is copied there before a
command and back after it. This does the same now, for example when a background job has changed
files. What was changed on both sides is kept twice: here as you have it, and the sandbox's version
as NAME.conflict-…; look at both, take what you need and delete the other. Without TASK, the sandbox
of this directory is meant. docs/sync.md says what is copied and what is not.

Examples:
  vestal sync --dry-run
  vestal sync 'default@/home/me/project'";

/// Make a mounted directory and its copy on another machine the same.
#[derive(Debug, Args)]
#[command(after_help = SYNC_HELP)]
pub(crate) struct SyncArgs {
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    task: OneTask,
}

pub(crate) async fn run(context: &Context, args: SyncArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let task = if args.task.is_named() {
        args.task.or_default(&engine)?
    } else {
        let here = std::env::current_dir();
        let here =
            here.map_err(|error| CommandFailure::io("find the current directory", &error))?;
        let of_here = engine.task_with_mount(&TaskName::default_task(), &here);
        match of_here {
            Ok(task) if find::is_there(&engine, &task) => task,
            _ => args.task.or_default(&engine)?,
        }
    };
    let sandbox = context.sandbox(&engine, &task, &Overrides::default()).await?;
    let mode = if args.dry_run { SyncMode::DryRun } else { SyncMode::Run };
    let syncing = context.activity().while_waiting(Box::pin(sandbox.sync(mode))).await;
    context.finish(&engine).await;
    let Some(report) = syncing? else {
        let message = format!("nothing is copied to the sandbox {}", quoted(task.as_str()));
        return Err(CommandFailure::new(message).advise(
            "a directory is copied where it is mounted in a sandbox on another machine: vestal run \
             -b ssh --mount-cwd …",
        ));
    };
    let view = SyncView::new(task.as_str(), &report, args.dry_run);
    if args.json {
        context.console.print_json(&view)?;
    } else {
        for line in &view.planned {
            context.console.print(&text::printable(line))?;
        }
        for (place, deleted) in
            [("here", &view.deleted_here), ("in the sandbox", &view.deleted_in_sandbox)]
        {
            for path in deleted {
                context.console.print(&text::printable(&format!("deleted {place}: {path}")))?;
            }
        }
        for note in report.notes() {
            context.console.warn(&text::printable(&note));
        }
        let copied = format!(
            "{}, {} copied",
            text::count(view.copied_files, "file"),
            text::bytes(view.copied_bytes)
        );
        let changes = text::count(view.changes, "change");
        context.console.note(&match (view.changes, args.dry_run) {
            (0, _) => "both sides are the same".to_owned(),
            (_, true) => format!("it would take {changes}, {copied}"),
            (_, false) => format!("{changes}, {copied}"),
        });
    }
    Ok(if view.failed.is_empty() { Exit::Success } else { Exit::No })
}
