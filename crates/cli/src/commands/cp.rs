//! `vestal cp`.

use std::ffi::OsString;

use clap::Args;
use vestal_api::{CopiedView, TransferPlace, TransferPlan};
use vestal_sandbox::{Engine, Error, FilesOnRemoval, Overrides, Sandbox, TaskName};

use crate::cli::SandboxFlags;
use crate::console::{CopyStatusLine, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};
use crate::find;
use crate::follow::unless_terminated;
use crate::transfer::{Download, Upload};

/// The session whose directory relative paths start in.
const SESSION: &str = "main";

const AFTER_HELP: &str = "\
One side is task:path (`:path` for the task default), the other a path on this machine or `-`. In
the sandbox, `~` is its home, and relative paths start at the directory that `vestal run pwd`
prints. Directories are copied recursively; DIR/. is what is in DIR. Links stay links, modes are
kept, out of a sandbox times too, and each file appears complete or not at all.
ssh://[user@]host[:port]/path names a file of another machine, in no sandbox, with the rights of who
logs in there.

Examples:
  vestal cp src web:/srv/app
  vestal cp web:report.pdf .
  vestal cp web:/var/log/app.log - | tail
  vestal cp ssh://cellar/var/log/syslog .";

/// Copy files into and out of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    wanted: SandboxFlags,

    /// Print a JSON object with the number of files and bytes copied.
    #[arg(long)]
    json: bool,

    /// Source: task:path, `ssh://host/path`, a path on this machine, or `-` for standard input.
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Destination: task:path, `ssh://host/path`, a path on this machine, or `-` for standard output.
    #[arg(value_name = "DST")]
    destination: OsString,
}

pub(crate) async fn run(context: &Context, args: CpArgs) -> Result<Exit, CommandFailure> {
    let plan = TransferPlan::new(&args.source, &args.destination).map_err(|error| {
        error
            .advice()
            .into_iter()
            .fold(CommandFailure::usage(error.to_string()), CommandFailure::advise)
    })?;
    let mut signals = exit::listen_or_fail()?;
    let overrides = context.overrides(&args.wanted)?;
    let (engine, visit) = match plan.machine() {
        Some(_) if overrides != Overrides::default() => {
            return Err(CommandFailure::usage("a file of ssh://… is in no sandbox")
                .advise("leave out the flags that describe one"));
        }
        Some(address) => (context.engine_visiting(address)?, Some(visiting_task()?)),
        None => (context.engine()?, None),
    };
    let is_printed = plan.is_printed();
    let copying = Box::pin(copy(context, &engine, &overrides, plan, visit.as_ref()));
    let copied = unless_terminated(&mut signals, copying).await;
    context.close(&engine).await;
    if let Some(task) = visit {
        leave(&engine, &task).await;
    }
    let copied = match copied {
        Ok(copied) => copied?,
        // What was half copied is gone with the copy.
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    if args.json && !is_printed {
        context.console.print_json(&copied)?;
    } else {
        context.console.note(&format!(
            "copied {}, {}",
            text::count(copied.files, "file"),
            text::bytes(copied.bytes)
        ));
    }
    Ok(Exit::Success)
}

/// Returns the task of the guest that copies files of a machine. It is nobody's sandbox.
fn visiting_task() -> Result<TaskName, CommandFailure> {
    let name = format!("copy-{}-{}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
    name.parse().map_err(|_| CommandFailure::new("a task cannot be named"))
}

/// Removes the directories that the guest was given which has copied files of a machine, and is
/// gone with this process's part in the engine.
async fn leave(engine: &Engine, task: &TaskName) {
    match engine.remove(task, FilesOnRemoval::Remove).await {
        Ok(_) | Err(Error::NoSandbox { .. }) => {}
        Err(error) => tracing::warn!(%task, %error, "something of the copy is left there"),
    }
}

async fn copy(
    context: &Context,
    engine: &Engine,
    overrides: &Overrides,
    plan: TransferPlan,
    visit: Option<&TaskName>,
) -> Result<CopiedView, CommandFailure> {
    match plan {
        TransferPlan::Download { place, from, to } => {
            let sandbox = match (place, visit) {
                (TransferPlace::Task(task), _) => {
                    let task = match &overrides.mount {
                        Some(dir) => engine.task_with_mount(&task, dir)?,
                        None => find::task(engine, Some(&task))?,
                    };
                    // Nothing can be had from a sandbox that is not there yet.
                    if let Err(error) = engine.inspect(&task).await {
                        return Err(find::explain(engine, error).await);
                    }
                    context.sandbox(engine, &task, overrides).await?
                }
                (TransferPlace::Machine(_), visit) => visited(context, engine, visit).await?,
            };
            let files = sandbox.files(Some(SESSION)).await?;
            let mut download =
                Download { files, console: context.console, progress: CopyStatusLine::new() };
            match to {
                Some(to) => download.save(&from, &to).await?,
                None => download.print(&from).await?,
            }
            Ok(download.progress.totals())
        }
        TransferPlan::Upload { from, place, to } => {
            let sandbox = match place {
                TransferPlace::Task(task) => context.sandbox(engine, &task, overrides).await?,
                TransferPlace::Machine(_) => visited(context, engine, visit).await?,
            };
            let files = sandbox.files(Some(SESSION)).await?;
            let mut upload = Upload {
                sandbox: &sandbox,
                files,
                console: context.console,
                progress: CopyStatusLine::new(),
            };
            match from {
                Some(from) => upload.send(&from, &to).await?,
                None => upload.send_stdin(&to).await?,
            }
            let totals = upload.progress.totals();
            sandbox.bring_back().await;
            context.print_sync_notes(&sandbox);
            Ok(totals)
        }
    }
}

/// Returns the guest that copies files of a machine. What it says of its isolation is no news to
/// who names the machine.
async fn visited(
    context: &Context,
    engine: &Engine,
    task: Option<&TaskName>,
) -> Result<Sandbox, CommandFailure> {
    let task = task.cloned().unwrap_or_else(TaskName::default_task);
    let visiting = Box::pin(engine.sandbox(&task));
    Ok(context.activity().while_waiting(visiting).await?)
}
