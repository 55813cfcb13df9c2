//! `vestal restore`.

use clap::Args;
use jiff::Timestamp;
use vestal_api::RestoredView;
use vestal_sandbox::{Engine, Snapshot, SnapshotName, Summary, SummaryState, Task};

use crate::cli::Busy;
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::copies;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;
use crate::values::quoted;

const AFTER_HELP: &str = "\
What is there now goes for good; the snapshot stays and can be gone back to again. With jobs or open
calls in the sandbox nothing is done, unless --stop is given. On a terminal it asks first, unless -y
is given; without a terminal it needs -y.

Examples:
  vestal restore web before-upgrade
  vestal restore -y --stop web 2026-11-15-1830";

/// Makes a sandbox what it was when a snapshot was kept.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RestoreArgs {
    /// Task whose sandbox is meant.
    #[arg(value_name = "TASK")]
    task: Task,

    /// The snapshot, as `vestal snapshots` lists it.
    #[arg(value_name = "NAME")]
    name: SnapshotName,

    /// Asks no question.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    busy: Busy,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: RestoreArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let task = find::task(&engine, Some(&args.task))?;
    let snapshot = copies::snapshot(&engine, &task, &args.name).await?;
    if !args.yes {
        let plan = plan(&snapshot, current(&engine, &task).await.as_ref(), Timestamp::now());
        if !confirm::is_confirmed(context.console, "restore", "Restore?", &[plan])? {
            context.console.note("nothing was restored");
            return Ok(Exit::No);
        }
    }
    let what = format!("restoring {task} to {}", args.name);
    let restoring = engine.restore(&task, &args.name, args.busy.into());
    let restored = match copies::see_done(context, &engine, &what, restoring).await? {
        Ok(restored) => restored,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    if args.json {
        context.console.print_json(&RestoredView::new(&task, &restored))?;
        return Ok(Exit::Success);
    }
    let Snapshot { name, files, bytes, .. } = &restored.snapshot;
    let ago = text::ago(restored.snapshot.created_at, Timestamp::now());
    let task = text::printable(task.as_str());
    let size = copies::size(*files, *bytes);
    context.console.print(&format!("restored {task} to {name} of {ago} ({size})"))?;
    Ok(Exit::Success)
}

/// Returns what there is of the sandbox now; nothing where only its snapshots are left.
async fn current(engine: &Engine, task: &Task) -> Option<Summary> {
    let summaries = engine.inspect(task).await.ok()?;
    summaries.into_iter().find(|summary| !summary.owned)
}

/// Says what goes and what stays.
fn plan(snapshot: &Snapshot, current: Option<&Summary>, now: Timestamp) -> String {
    let Snapshot { task, name, system, .. } = snapshot;
    let ago = text::ago(snapshot.created_at, now);
    let what = if *system {
        "workspace, home and everything installed"
    } else {
        "workspace and home, and makes the rest anew"
    };
    let mut parts = vec![format!("{name} of {ago} takes the place of {what}")];
    match current {
        Some(summary) => {
            if summary.state == SummaryState::Running {
                let jobs = text::count(u64::from(summary.jobs_running), "running job");
                parts.push(format!("the running sandbox with {jobs} is stopped"));
            }
            parts.push("what was made or changed since goes for good".to_owned());
            if let Some(mount) = &summary.overrides.mount {
                let mount = mount.display();
                parts.push(format!("{mount}, its /workspace, is yours and stays as it is"));
            }
            let keep = quoted(task.as_str());
            parts.push(format!("to keep it, before that: vestal snapshot {keep}"));
        }
        None => parts.push("there is no sandbox now whose files could go".to_owned()),
    }
    format!("{task}: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_said_before_it_does() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut snapshot = Snapshot {
            task: "a b".parse().unwrap(),
            name: "good".parse().unwrap(),
            created_at: at(0),
            backend: "native".to_owned(),
            system: true,
            files: 1,
            bytes: 1,
            note: None,
            path: "/x".into(),
        };
        assert_eq!(
            plan(&snapshot, None, at(7300)),
            "a b: good of 2h ago takes the place of workspace, home and everything installed; \
             there is no sandbox now whose files could go"
        );
        snapshot.system = false;
        assert!(plan(&snapshot, None, at(0)).contains("makes the rest anew"));
    }
}
