//! `vestal cp`.

use std::ffi::OsString;

use clap::Args;
use vestal_api::{CopiedView, TransferPlan};
use vestal_sandbox::{Engine, Overrides};

use crate::cli::SandboxFlags;
use crate::console::{CopyStatusLine, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::find;
use crate::follow::unless_terminated;
use crate::signals;
use crate::transfer::{Download, Upload};

/// The session whose directory relative paths start in.
const SESSION: &str = "main";

const AFTER_HELP: &str = "\
One side is task:path (`:path` for the task default), the other a path on this machine or `-`. In
the sandbox, `~` is its home, and relative paths start at the directory that `vestal run pwd`
prints. Directories are copied recursively. Links stay links, modes are kept, and each file appears
complete or not at all.

Examples:
  vestal cp src web:/srv/app
  vestal cp web:report.pdf .
  vestal cp web:/var/log/app.log - | tail";

/// Copy files into and out of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    wanted: SandboxFlags,

    /// Print a JSON object with the number of files and bytes copied.
    #[arg(long)]
    json: bool,

    /// Source: task:path, a path on this machine, or `-` for standard input.
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Destination: task:path, a path on this machine, or `-` for standard output.
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
    let mut signals = signals::listen_or_fail()?;
    let engine = context.engine()?;
    let overrides = context.overrides(&args.wanted)?;
    let is_printed = plan.is_printed();
    let copying = Box::pin(copy(context, &engine, &overrides, plan));
    let copied = unless_terminated(&mut signals, copying).await;
    context.close(&engine).await;
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

async fn copy(
    context: &Context,
    engine: &Engine,
    overrides: &Overrides,
    plan: TransferPlan,
) -> Result<CopiedView, CommandFailure> {
    match plan {
        TransferPlan::Download { task, from, to } => {
            let task = match &overrides.mount {
                Some(dir) => engine.task_with_mount(&task, dir)?,
                None => find::task(engine, Some(&task))?,
            };
            // Nothing can be had from a sandbox that is not there yet.
            if let Err(error) = engine.inspect(&task).await {
                return Err(find::explain(engine, error).await);
            }
            let sandbox = context.sandbox(engine, &task, overrides).await?;
            let files = sandbox.files(Some(SESSION)).await?;
            let mut download =
                Download { files, console: context.console, progress: CopyStatusLine::new() };
            match to {
                Some(to) => download.save(&from, &to).await?,
                None => download.print(&from).await?,
            }
            Ok(download.progress.totals())
        }
        TransferPlan::Upload { from, task, to } => {
            let sandbox = context.sandbox(engine, &task, overrides).await?;
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
            Ok(upload.progress.totals())
        }
    }
}
