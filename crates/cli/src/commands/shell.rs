//! `vestal shell`.

use clap::Args;
use vestal_api::JobPrefix;
use vestal_runtime::Terminations;
use vestal_sandbox::job::{Follow, JobStream};
use vestal_sandbox::{
    AttachJob, Engine, JobId, JobInfo, JobState, OutputDelivery, Overrides, Sandbox, TaskName,
    interactive_shell, redraw_terminal,
};

use super::logs::{LogTail, tail_start};
use crate::cli::SandboxFlags;
use crate::console::terminal;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};
use crate::find;
use crate::follow::{JobOutlet, exit_of, kill_before_exit, unless_terminated};
use crate::interact::{self, Detach, Interacted, interact};
use crate::values::quoted;

/// Bytes shown again of what a shell had printed before one comes back to it.
const REPLAYED: u64 = 4 << 10;

const AFTER_HELP: &str = "\
Press Ctrl-\\ twice to detach: the shell and everything in it keeps running. `exit` ends the shell,
and so does closing the terminal.

Examples:
  vestal shell -t web
  vestal shell -t web --attach j-06f3      (come back to a shell that was left)";

/// Open an interactive shell in a sandbox.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ShellArgs {
    /// Task whose sandbox to use [default: default].
    #[arg(short, long, value_name = "TASK")]
    task: Option<TaskName>,

    #[command(flatten)]
    wanted: SandboxFlags,

    /// Shell session to restore.
    #[arg(long, value_name = "NAME", default_value = "main")]
    session: String,

    /// Attach to a shell you detached from, or to another job that runs on a terminal.
    #[arg(short, long, value_name = "JOB")]
    attach: Option<JobPrefix>,
}

pub(crate) async fn run(context: &Context, args: ShellArgs) -> Result<Exit, CommandFailure> {
    if !interact::is_possible() {
        return Err(CommandFailure::usage(
            "a shell needs a terminal, but standard input is not one",
        )
        .advise("to run a command without one: vestal run CMD"));
    }
    let mut signals = exit::listen_or_fail()?;
    let engine = context.engine()?;
    let opening = open(context, &engine, &args, &mut signals);
    let result = Box::pin(opening).await;
    context.close(&engine).await;
    result
}

async fn open(
    context: &Context,
    engine: &Engine,
    args: &ShellArgs,
    signals: &mut Terminations,
) -> Result<Exit, CommandFailure> {
    let prepared = Box::pin(prepare(context, engine, args));
    let (sandbox, job) = match unless_terminated(signals, prepared).await {
        Ok(prepared) => prepared?,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    let sandbox = &sandbox;
    let id = job.id().clone();
    let outlet = JobOutlet::both(context.console)?;
    let interacted = interact(sandbox, job, &outlet, signals, Detach::Allowed).await;
    context.print_sync_notes(sandbox);
    match interacted {
        Ok(Interacted::Ended(info)) => exit_of(&info),
        Ok(Interacted::Detached) => {
            print_detached(context, sandbox, &id);
            Ok(Exit::Success)
        }
        Ok(Interacted::NoReader) => {
            kill_before_exit(context.console, sandbox, &id, signals).await;
            Ok(Exit::BrokenPipe)
        }
        Ok(Interacted::Terminated(signal)) => {
            kill_before_exit(context.console, sandbox, &id, signals).await;
            Ok(Exit::Terminated(signal))
        }
        Err(failure) => Err(failure),
    }
}

/// Starts a shell, or finds the one to come back to.
async fn prepare(
    context: &Context,
    engine: &Engine,
    args: &ShellArgs,
) -> Result<(Sandbox, JobStream), CommandFailure> {
    match &args.attach {
        None => {
            let task = args.task.clone().unwrap_or_else(TaskName::default_task);
            let overrides = context.overrides(&args.wanted)?;
            let sandbox = context.sandbox(engine, &task, &overrides).await?;
            let job = start(context, &sandbox, &args.session).await?;
            Ok((sandbox, job))
        }
        Some(wanted) => {
            let found = find::job(context, engine, args.task.as_ref(), wanted).await?;
            let sandbox = context.sandbox(engine, &found.task, &Overrides::default()).await?;
            let job = come_back(&sandbox, &found.info).await?;
            Ok((sandbox, job))
        }
    }
}

fn print_detached(context: &Context, sandbox: &Sandbox, id: &JobId) {
    context.console.note(&format!("detached; the shell keeps running as job {id}"));
    context.console.note(&format!(
        "to come back: vestal shell -t {} --attach {id}",
        quoted(sandbox.task().as_str())
    ));
}

async fn start(
    context: &Context,
    sandbox: &Sandbox,
    session: &str,
) -> Result<JobStream, CommandFailure> {
    let mut command = interactive_shell(session, terminal::size_or_default());
    // The terminal is ours, whatever the environment of the sandbox says.
    for name in ["TERM", "COLORTERM"] {
        if let Some(value) = context.environment().non_empty(name) {
            command = command.secret_env(name, value);
        }
    }
    Ok(Box::pin(sandbox.start(command, Follow::EveryByte)).await?)
}

/// Follows a job on a terminal again, from a little before where it is.
async fn come_back(sandbox: &Sandbox, info: &JobInfo) -> Result<JobStream, CommandFailure> {
    if !info.pty {
        return Err(CommandFailure::new(format!("job {} does not run on a terminal", info.id))
            .advise(format!("to follow it: vestal logs -f {}", info.id)));
    }
    if let JobState::Ended(_) = info.state {
        return Err(CommandFailure::new(format!("job {} has ended", info.id))
            .advise(format!("what it printed: vestal logs {}", info.id)));
    }
    let connection = sandbox.connection().await?;
    let start = tail_start(&connection, info, LogTail::Bytes(REPLAYED)).await?;
    redraw_terminal(&connection, &info.id, terminal::size_or_default()).await;
    let request = AttachJob {
        id: info.id.clone(),
        stdout_from: start.stdout,
        stderr_from: start.stderr,
        follow: true,
        delivery: OutputDelivery::EveryByte,
    };
    Ok(sandbox.attach(request).await?)
}
