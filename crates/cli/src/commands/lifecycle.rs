//! `vestal stop`, `rm` and `touch`.

use std::time::Duration;

use clap::Args;
use vestal_api::{ForgottenView, RemovalView, RemovedView, StoppedView};
use vestal_operations::{Action, ActionError, Done};
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::{
    Engine, Error, FilesOnRemoval, Removal, SandboxSummary, SummaryState, TaskName,
};

use crate::cli::TaskSelection;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::quoted;
use crate::{confirm, find};

const STOP_HELP: &str = "\
Running jobs are asked to end, and killed after terminal.stop_grace_seconds. Files and shell
sessions stay; the next use starts the sandbox again, with the settings in effect then. If workspace
and home are in memory (terminal.container_persistent: false), they are lost. Without TASK, the
sandbox of the task `default` is stopped. In both cases you are asked first on a terminal, unless -y
is given; without a terminal it is done, with a note on standard error. Scripts should name the TASK.

Examples:
  vestal stop web
  vestal stop -y scratch";

/// Stop sandboxes: their processes end, their files stay.
#[derive(Debug, Args)]
#[command(after_help = STOP_HELP)]
pub(crate) struct StopArgs {
    /// Accept mounted directories that were replaced since the sandbox was created. Directories
    /// replaced later are refused again.
    #[arg(long)]
    accept_mounts: bool,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: TaskSelection,
}

pub(crate) async fn stop(context: &Context, args: StopArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let tasks = args.tasks.or_default(&engine)?;
    let (mut plans, mut in_memory) = (Vec::new(), Vec::new());
    for task in &tasks {
        // An error is reported by the attempt to stop it.
        let summaries = engine.inspect(task).await.unwrap_or_default();
        let shared = || summaries.iter().filter(|summary| !summary.owned);
        if shared().any(SandboxSummary::has_files_in_memory) {
            plans.push(format!("{task}: workspace and home are in memory and will be lost"));
            in_memory.push(task.clone());
        } else if args.tasks.is_empty() && shared().any(is_running) {
            plans.push(format!("no task was named: the sandbox of {task} will be stopped"));
        }
    }
    if !args.yes && confirm::is_possible() {
        if !plans.is_empty() && !confirm::is_confirmed(context.console, "stop", "Stop?", &plans)? {
            context.console.note("nothing was stopped");
            return Ok(Exit::No);
        }
    } else {
        // Scripts are not asked; what they did not name is reported.
        for plan in &plans {
            context.console.note(plan);
        }
    }
    // What cannot be stopped is not a reason to let the rest run.
    let (mut stopped, mut failures) = (Vec::new(), Vec::new());
    for task in &tasks {
        let stopping = async {
            let was_running = engine.stop(task).await?;
            if args.accept_mounts {
                for reason in engine.accept_mounts(task).await? {
                    let advice = "if the settings still name it, the next start refuses it";
                    context.console.warn(&format!("not accepted: {reason}; {advice}"));
                }
            }
            Ok(was_running)
        };
        let was_running =
            match context.console.while_waiting(&format!("stopping {task}"), stopping).await {
                Ok(was_running) => was_running,
                Err(error) => {
                    failures.push((task.to_string(), find::explain(&engine, error).await));
                    continue;
                }
            };
        let files_lost = was_running && in_memory.contains(task);
        if !args.json {
            let outcome = if was_running { "stopped" } else { "was not running:" };
            let lost = if files_lost {
                "; its workspace and home were in memory and are gone"
            } else {
                ""
            };
            context
                .console
                .print(&format!("{outcome} {}{lost}", text::printable(task.as_str())))?;
        }
        stopped.push(StoppedView { task: task.to_string(), was_running, files_lost });
    }
    if args.json {
        return context.console.conclude_in_json(&stopped, &failures);
    }
    context.console.conclude(failures)
}

fn is_running(summary: &SandboxSummary) -> bool {
    summary.state == SummaryState::Running
}

const RM_HELP: &str = "\
Asks for confirmation on a terminal; without a terminal, -y is required.

--forget is for a sandbox on another machine that is gone for good: it removes the record here, and
nothing there. Should that machine come back, the forgotten instance is nobody's sandbox: it is ended
and removed when it is met again (by `vestal prune` at the latest), and its files stay there.

Examples:
  vestal rm web
  vestal rm -y --files web api
  vestal rm --forget web";

/// Remove sandboxes; workspace, home and snapshots stay unless --files is given.
#[derive(Debug, Args)]
#[command(after_help = RM_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct RmArgs {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Remove workspace, home and snapshots too.
    #[arg(long)]
    files: bool,

    /// Only remove the record here, of a sandbox whose machine does not answer any more.
    #[arg(long, conflicts_with = "files")]
    forget: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: TaskSelection,
}

pub(crate) async fn rm(context: &Context, args: RmArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let tasks = args.tasks.named(&engine)?;
    if tasks.is_empty() {
        return Err(CommandFailure::usage("name the tasks whose sandboxes to remove"));
    }
    let files = match (args.forget, args.files) {
        (true, _) => OnRemoval::Forget,
        (false, true) => OnRemoval::Remove(FilesOnRemoval::Remove),
        (false, false) => OnRemoval::Remove(FilesOnRemoval::Keep),
    };
    // What cannot be removed is not a reason to keep the rest.
    let (mut plans, mut failures) = (Vec::new(), Vec::new());
    for task in &tasks {
        match removal_plan(&engine, task, files).await {
            Ok(words) => plans.push((task, words)),
            Err(failure) => failures.push((task.to_string(), failure)),
        }
    }
    let words: Vec<String> = plans.iter().map(|(_, words)| words.clone()).collect();
    if !args.yes
        && !words.is_empty()
        && !confirm::is_confirmed(context.console, "remove", "Remove?", &words)?
    {
        context.console.note("nothing was removed");
        return Ok(Exit::No);
    }
    let mut removed = Vec::new();
    for (task, _) in &plans {
        // Forgetting is one file's removal; there is nothing to follow.
        let recording = match files {
            OnRemoval::Remove(files) => {
                Some(context.record(&engine, task, &Action::Remove { files }))
            }
            OnRemoval::Forget => None,
        };
        let removing = removal_of(&engine, task, files);
        let done = context.console.while_waiting(&format!("removing {task}"), removing).await;
        let (words, view) = match done {
            Ok((words, view, done)) => {
                if let (Some(recording), Some(done)) = (recording, done) {
                    recording.done(done);
                }
                (words, view)
            }
            Err(error) => {
                if is_out_of_reach(&error) {
                    let task = quoted(task.as_str());
                    context.console.note(&format!(
                        "if that machine is gone for good: vestal rm --forget {task}"
                    ));
                }
                let error = ActionError::from(error);
                if let Some(recording) = recording {
                    recording.failed(&error);
                }
                let failure = find::explain(&engine, error.into_error()).await;
                failures.push((task.to_string(), failure));
                continue;
            }
        };
        if !args.json {
            context.console.print(&words)?;
        }
        removed.push(view);
    }
    if args.json {
        return context.console.conclude_in_json(&removed, &failures);
    }
    context.console.conclude(failures)
}

/// Returns whether nobody can say what became of a sandbox.
fn is_out_of_reach(error: &Error) -> bool {
    matches!(
        error,
        Error::OutOfReach { .. }
            | Error::Backend { source: BackendError::HostUnreachable { .. }, .. }
    )
}

/// What `rm` does.
#[derive(Debug, Clone, Copy)]
enum OnRemoval {
    /// It removes the sandbox.
    Remove(FilesOnRemoval),
    /// It removes the record of it alone.
    Forget,
}

/// Does it, and returns it in a sentence and as JSON has it.
async fn removal_of(
    engine: &Engine,
    task: &TaskName,
    what: OnRemoval,
) -> Result<(String, RemovalView, Option<Done>), Error> {
    match what {
        OnRemoval::Remove(files) => {
            let removal = engine.remove(task, files).await?;
            let view = RemovalView::Removed(RemovedView::new(task, &removal));
            Ok((describe(task, &removal), view, Some(Done::removed(task, &removal))))
        }
        OnRemoval::Forget => {
            let left = engine.forget(task).await?;
            let words = format!(
                "forgot {} ({}); what is left on {} stays there: {}",
                text::printable(task.as_str()),
                text::count(left.instances, "instance"),
                text::printable(&left.machine),
                text::printable(&left.workspace)
            );
            Ok((words, RemovalView::Forgotten(ForgottenView::new(task, &left)), None))
        }
    }
}

/// Says what goes and what stays.
async fn removal_plan(
    engine: &Engine,
    task: &TaskName,
    what: OnRemoval,
) -> Result<String, CommandFailure> {
    let files = match what {
        OnRemoval::Remove(files) => files,
        OnRemoval::Forget => {
            return match engine.left_behind(task).await {
                Ok(left) => Ok(format!(
                    "{task}: its record here goes; nothing is ended or removed on {}, where {} and \
                     jobs that run may be left",
                    text::printable(&left.machine),
                    text::printable(&left.workspace)
                )),
                Err(error) => Err(find::explain(engine, error).await),
            };
        }
    };
    match vestal_operations::plan(engine, task, &Action::Remove { files }).await {
        Ok(parts) => Ok(format!("{task}: {}", parts.join("; "))),
        Err(error) => Err(find::explain(engine, error).await),
    }
}

fn describe(task: &TaskName, removal: &Removal) -> String {
    let dirs = removal.kept.iter().map(|path| path.display().to_string());
    let volumes = removal.kept_volumes.iter().map(|name| format!("volume {name}"));
    let kept: Vec<String> = dirs.chain(volumes).collect();
    let kept = if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) };
    format!(
        "removed {} ({}){kept}",
        text::printable(task.as_str()),
        text::count(removal.instances, "instance")
    )
}

/// How long a guest may take to notice.
const TOUCH_WITHIN: Duration = Duration::from_secs(10);

const TOUCH_HELP: &str = "\
Example:
  vestal touch web";

/// Reset the idle timer of running sandboxes.
#[derive(Debug, Args)]
#[command(after_help = TOUCH_HELP)]
pub(crate) struct TouchArgs {
    #[command(flatten)]
    tasks: TaskSelection,
}

pub(crate) async fn touch(context: &Context, args: TouchArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    for task in &args.tasks.or_default(&engine)? {
        match engine.observe(task).await {
            Ok(connection) => connection.touch(TOUCH_WITHIN).await?,
            Err(error) => return Err(find::explain(&engine, error).await),
        }
    }
    Ok(Exit::Success)
}
