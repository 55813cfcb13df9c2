//! `vestal stop`, `rm` and `touch`.

use std::time::Duration;

use clap::Args;
use vestal_api::{RemovedView, StoppedView};
use vestal_sandbox::{
    Engine, Error, FilesOnRemoval, Removal, SandboxSummary, SummaryState, TaskName,
};

use crate::cli::Tasks;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
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
    tasks: Tasks,
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
        // Scripts are not asked; what they did not name is told.
        for plan in &plans {
            context.console.note(plan);
        }
    }
    // What cannot be stopped is no reason to let the rest run.
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

Examples:
  vestal rm web
  vestal rm -y --files web api";

/// Remove sandboxes; workspace, home and snapshots stay unless --files is given.
#[derive(Debug, Args)]
#[command(after_help = RM_HELP)]
pub(crate) struct RmArgs {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Remove workspace, home and snapshots too.
    #[arg(long)]
    files: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

pub(crate) async fn rm(context: &Context, args: RmArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let tasks = args.tasks.named(&engine)?;
    if tasks.is_empty() {
        return Err(CommandFailure::usage("name the tasks whose sandboxes to remove"));
    }
    // What cannot be removed is no reason to keep the rest.
    let (mut plans, mut failures) = (Vec::new(), Vec::new());
    for task in &tasks {
        match removal_plan(&engine, task, args.files).await {
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
    let files = if args.files { FilesOnRemoval::Remove } else { FilesOnRemoval::Keep };
    let mut removed = Vec::new();
    for (task, _) in &plans {
        let removing = engine.remove(task, files);
        let removal =
            match context.console.while_waiting(&format!("removing {task}"), removing).await {
                Ok(removal) => removal,
                Err(error) => {
                    failures.push((task.to_string(), find::explain(&engine, error).await));
                    continue;
                }
            };
        if !args.json {
            context.console.print(&describe(task, &removal))?;
        }
        removed.push(RemovedView::new(task, &removal));
    }
    if args.json {
        return context.console.conclude_in_json(&removed, &failures);
    }
    context.console.conclude(failures)
}

/// Says what goes and what stays.
async fn removal_plan(
    engine: &Engine,
    task: &TaskName,
    files: bool,
) -> Result<String, CommandFailure> {
    let dir = engine.sandboxes_dir().join(engine.key(task).dir_name());
    let kept: Vec<String> = ["workspace", "home", "snapshots"]
        .map(|name| dir.join(name))
        .into_iter()
        .filter(|path| path.is_dir())
        .map(|path| path.display().to_string())
        .collect();
    let summaries = match engine.inspect(task).await {
        Ok(summaries) => summaries,
        // Instances that ended with their processes leave their files here.
        Err(Error::NoSandbox { .. }) if !kept.is_empty() => Vec::new(),
        Err(error) => return Err(find::explain(engine, error).await),
    };
    let mut parts: Vec<String> = summaries.iter().map(part).collect();
    if summaries.is_empty() {
        parts.push("it has files and no sandbox".to_owned());
    } else {
        parts.push("shell sessions and job logs will be removed".to_owned());
    }
    let in_volumes =
        summaries.iter().any(|summary| summary.description.transport.as_deref() == Some("exec"));
    parts.push(match (in_volumes, kept.is_empty(), files) {
        (true, _, true) => "its volumes in the container engine will be removed too".to_owned(),
        (true, _, false) => {
            "kept: its volumes in the container engine, where its files are".to_owned()
        }
        (false, false, true) => format!("these files will be removed too: {}", kept.join(", ")),
        (false, false, false) => format!("kept: {}", kept.join(", ")),
        (false, true, _) => {
            "it has no files of its own; files of yours that its commands made stay".to_owned()
        }
    });
    for summary in &summaries {
        if let Some(mount) = &summary.overrides.mount {
            parts.push(format!("{}, its /workspace, is yours and stays", mount.display()));
        }
    }
    Ok(format!("{task}: {}", parts.join("; ")))
}

/// Says what of one instance goes.
fn part(summary: &SandboxSummary) -> String {
    let description = &summary.description;
    let on = match &description.name {
        Some(name) => format!("on {} (container {name})", summary.backend),
        None => format!("on {}", summary.backend),
    };
    let rest = if description.image.is_some() || description.tier.is_some() {
        ", with everything installed in it"
    } else {
        ""
    };
    match summary.state {
        SummaryState::Running => {
            let jobs = text::count(summary.jobs_running, "running job");
            format!("the running sandbox {on} with {jobs} will be removed{rest}")
        }
        SummaryState::Unresponsive => {
            format!("the sandbox {on}, which does not answer, will be removed{rest}")
        }
        SummaryState::Stopped => format!("the stopped sandbox {on} will be removed{rest}"),
        SummaryState::Absent => "its record will be removed".to_owned(),
        SummaryState::Unknown => {
            format!("the sandbox {on}, whose state is unknown, will be removed{rest}")
        }
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
    tasks: Tasks,
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
