//! `vestal rebuild`.

use clap::Args;
use vestal_api::RebuiltView;
use vestal_sandbox::backend::Confinement;
use vestal_sandbox::{Engine, Rebuild, SandboxSummary, SummaryState, TaskName};

use super::restore;
use crate::cli::{Busy, OneTask};
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::{confirm, find};

const AFTER_HELP: &str = "\
Workspace, home and snapshots stay; anything installed elsewhere in the sandbox is lost. With
--backend the sandbox moves to another backend, with its workspace and home. If the new sandbox
cannot be created, the old one stays. Refused while jobs or calls are running in it, unless --stop
is given. Asks for confirmation on a terminal; without a terminal, -y is required.

Examples:
  vestal rebuild web
  vestal rebuild -y web --backend docker";

/// Recreate a sandbox with the current settings; workspace and home stay.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RebuildArgs {
    /// Move it to this backend.
    #[arg(short, long, value_name = "BACKEND")]
    backend: Option<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    busy: Busy,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    task: OneTask,
}

pub(crate) async fn run(context: &Context, args: RebuildArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let task = args.task.or_default(&engine)?;
    let backend = match &args.backend {
        Some(name) => Some(backend(context, name)?),
        None => None,
    };
    let current = current(&engine, &task).await?;
    if !args.yes {
        let plan = RebuildPlan {
            task: &task,
            current: &current,
            to: backend.as_deref(),
            confined: engine.confinement(&current.backend) != Some(Confinement::None),
            files: if current.has_files_in_memory() {
                FilesOutlook::InMemory
            } else if context.is_persistent() {
                FilesOutlook::Kept
            } else {
                FilesOutlook::OutOfSight
            },
        };
        if !confirm::is_confirmed(context.console, "rebuild", "Rebuild?", &[plan.words()])? {
            context.console.note("nothing was rebuilt");
            return Ok(Exit::No);
        }
    }
    let rebuild = Rebuild { backend };
    let rebuilding = engine.rebuild(&task, &rebuild, args.busy.into());
    let what = format!("rebuilding {task}");
    let rebuilt = match restore::see_done(context, &engine, &what, rebuilding).await? {
        Ok(rebuilt) => rebuilt,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    for remark in &rebuilt.remarks {
        context.console.note(remark);
    }
    if args.json {
        context.console.print_json(&RebuiltView::new(&task, &rebuilt))?;
        return Ok(Exit::Success);
    }
    let task = text::printable(task.as_str());
    let moved = if rebuilt.was == rebuilt.now {
        format!("on {}", rebuilt.now)
    } else {
        format!("on {} (was on {})", rebuilt.now, rebuilt.was)
    };
    let kept: Vec<String> = rebuilt.kept.iter().map(|path| path.display().to_string()).collect();
    let kept = if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) };
    context.console.print(&format!("rebuilt {task} {moved}{kept}"))?;
    Ok(Exit::Success)
}

/// Returns the name of a backend as the settings know it.
fn backend(context: &Context, name: &str) -> Result<String, CommandFailure> {
    let named = context.backend_named(name)?.named().map(str::to_owned);
    named.ok_or_else(|| {
        CommandFailure::usage("to move a sandbox, name the backend")
            .advise("`vestal doctor` says which ones work here")
    })
}

/// Returns the current state of the sandbox.
async fn current(engine: &Engine, task: &TaskName) -> Result<SandboxSummary, CommandFailure> {
    let summaries = match engine.inspect(task).await {
        Ok(summaries) => summaries,
        Err(error) => return Err(find::explain(engine, error).await),
    };
    summaries.into_iter().find(|summary| !summary.owned).ok_or_else(|| {
        CommandFailure::new(format!("the instance of {task} belongs to a process and ends with it"))
            .advise("the next one is created with the current settings anyway")
    })
}

/// A sandbox that is about to be recreated.
#[derive(Debug)]
struct RebuildPlan<'a> {
    task: &'a TaskName,
    current: &'a SandboxSummary,
    /// The backend it moves to.
    to: Option<&'a str>,
    /// Whether it is a system of its own.
    confined: bool,
    files: FilesOutlook,
}

/// What becomes of workspace and home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilesOutlook {
    /// The new sandbox has them.
    Kept,
    /// They are in memory and go with the old one.
    InMemory,
    /// They stay on disk, and the new one has others, in memory.
    OutOfSight,
}

impl RebuildPlan<'_> {
    /// Says what goes and what stays.
    fn words(&self) -> String {
        let Self { task, current, to, confined, files } = self;
        let moves = to.filter(|to| *to != current.backend);
        let on = match &current.description.name {
            Some(name) => format!("on {} ({name})", current.backend),
            None => format!("on {}", current.backend),
        };
        let sandbox = match current.state {
            SummaryState::Running => {
                let jobs = text::count(current.jobs_running, "running job");
                format!("the running sandbox {on} with {jobs}")
            }
            _ => format!("the sandbox {on}"),
        };
        let anew = moves.map_or_else(|| "is recreated".to_owned(), |to| format!("moves to {to}"));
        let mut parts = vec![format!("{sandbox} {anew} with the current settings")];
        if *confined {
            parts.push("software installed outside workspace and home is lost".to_owned());
        }
        if moves.is_some() {
            parts.push("shell sessions and job logs will be removed".to_owned());
        }
        let dir = current.dir.display();
        parts.push(match (confined, files) {
            (true, FilesOutlook::Kept) => format!("kept: workspace, home and snapshots in {dir}"),
            (true, FilesOutlook::InMemory) => {
                "workspace and home are in memory and are lost too".to_owned()
            }
            (true, FilesOutlook::OutOfSight) => format!(
                "workspace and home stay in {dir}, but the new sandbox does not have them: \
                 terminal.container_persistent is false, and its own are in memory"
            ),
            (false, _) => "files of yours that its commands made stay where they are".to_owned(),
        });
        if let Some(mount) = &current.overrides.mount {
            parts.push(format!("{}, its /workspace, is yours and stays", mount.display()));
        }
        format!("{task}: {}", parts.join("; "))
    }
}
