//! `vestal inspect`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{GuestFacts, OverridesView, SandboxDetailsView};
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Engine, SandboxSummary, Snapshot, SummaryState, SyncStatus, TaskName};

use super::{jobs, operations, ps};
use crate::cli::TaskSelection;
use crate::console::{Cell, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::find;

/// How long a guest may take to describe itself.
const WITHIN: Duration = Duration::from_secs(10);

/// Jobs that are shown, the newest.
const JOBS: u32 = 50;

const AFTER_HELP: &str = "\
Example:
  vestal inspect web --json | jq .guest";

/// Show everything about sandboxes, without using them.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InspectArgs {
    /// Print a JSON array: the sandbox, and instances of its task that belong to processes.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: TaskSelection,
}

/// A sandbox and what its guest says.
#[derive(Debug)]
struct Inspected {
    summary: SandboxSummary,
    guest: Option<GuestFacts>,
    snapshots: Vec<Snapshot>,
    sync: Option<SyncStatus>,
}

pub(crate) async fn run(context: &Context, args: InspectArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let mut found = Vec::new();
    for task in &args.tasks.or_default(&engine)? {
        let summaries = match engine.inspect(task).await {
            Ok(summaries) => summaries,
            Err(error) => return Err(find::explain(&engine, error).await),
        };
        let mut snapshots = engine.snapshots(Some(task)).await?;
        for summary in summaries {
            let guest = ask(&engine, task, &summary).await;
            // They are the sandbox's, not those of instances that processes own.
            let snapshots = if summary.owned { Vec::new() } else { std::mem::take(&mut snapshots) };
            let sync = engine.sync_status(task)?;
            found.push(Inspected { summary, guest, snapshots, sync });
        }
    }
    if args.json {
        let views: Vec<SandboxDetailsView> = found
            .iter()
            .map(|Inspected { summary, guest, snapshots, .. }| {
                SandboxDetailsView::new(summary, guest.as_ref(), snapshots)
            })
            .collect();
        context.console.print_json(&views)?;
    } else {
        for inspected in &found {
            print(context, inspected)?;
        }
        for task in &args.tasks.or_default(&engine)? {
            operations::note_running(context, engine.settings().home(), Some(task.as_str()));
        }
    }
    Ok(Exit::Success)
}

/// Asks the guest of a running sandbox; one that does not answer is shown
/// without what it would have said.
async fn ask(engine: &Engine, task: &TaskName, summary: &SandboxSummary) -> Option<GuestFacts> {
    if summary.owned || summary.state != SummaryState::Running {
        return None;
    }
    let connection = engine.observe(task).await.ok()?;
    match describe(&connection).await {
        Ok(guest) => Some(guest),
        Err(error) => {
            tracing::warn!(%error, "the guest does not answer");
            None
        }
    }
}

async fn describe(
    connection: &Connection,
) -> Result<GuestFacts, vestal_sandbox::client::CallError> {
    Ok(GuestFacts {
        welcome: connection.welcome().clone(),
        status: connection.status(WITHIN).await?,
        stats: connection.stats(WITHIN).await?,
        jobs: job::jobs(connection, JobFilter::All, JOBS).await?.jobs,
    })
}

/// Says what the backend reports about the instance, and what was asked for it.
fn describe_instance(summary: &SandboxSummary, row: &mut impl FnMut(&str, Cell)) {
    let description = &summary.description;
    let process = summary.locator.pointer("/process/pid").and_then(serde_json::Value::as_u64);
    let is_machine = summary.locator.get("machine").is_some();
    match (&description.name, process) {
        (Some(name), _) if is_machine => row("machine", name.as_str().into()),
        (Some(name), _) => row("container", name.as_str().into()),
        (None, Some(pid)) => row("process", format!("{pid}, the first one").into()),
        // A backend that has no words for it is taken at its own.
        (None, None) if !summary.locator.is_null() => {
            row("locator", summary.locator.to_string().into());
        }
        (None, None) => {}
    }
    if let Some(id) = summary.locator.get("container").and_then(|id| id.as_str()) {
        row("container id", id.into());
    }
    if let Some(id) = &description.image_id {
        row("image id", id.as_str().into());
    }
    if let Some(transport) = &description.transport {
        row("transport", transport.as_str().into());
    }
    if let Some(tier) = &description.tier {
        row("tier", tier.as_str().into());
    }
    for missing in &description.missing {
        row("for more", missing.as_str().into());
    }
    if let Some(trouble) = &summary.trouble {
        row("trouble", Cell::styled(trouble, RED));
    }
    for limit in &description.unenforced {
        row("not enforced", format!("{limit}: that cannot be done here").into());
    }
    for cause in &description.weakened {
        row("weakened by", Cell::styled(cause, YELLOW));
    }
    let overrides = OverridesView::from(&summary.overrides);
    let asked = [
        ("image", overrides.image),
        ("backend", overrides.backend),
        ("directory", overrides.cwd),
        ("/workspace", overrides.mount),
    ];
    for (what, value) in asked {
        if let Some(value) = value {
            row("asked for", format!("{what}: {value}").into());
        }
    }
    for bind in overrides.binds {
        row("asked for", format!("mounted at the same path: {bind}").into());
    }
}

fn described(snapshot: &Snapshot, now: Timestamp) -> String {
    let Snapshot { name, bytes, note, .. } = snapshot;
    let note = note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    format!("{name}, {}, {}{note}", text::ago(snapshot.created_at, now), text::bytes(*bytes))
}

fn print(context: &Context, inspected: &Inspected) -> Result<(), CommandFailure> {
    let Inspected { summary, guest, snapshots, .. } = inspected;
    let now = Timestamp::now();
    let mut table = Table::new(&["WHAT", "VALUE"]);
    let mut row = |name: &str, value: Cell| table.row(vec![name.into(), value]);
    row("profile", summary.profile.as_str().into());
    row("task", summary.task.as_str().into());
    row("backend", summary.backend.as_str().into());
    row("state", ps::state(summary));
    row("instance", summary.id.as_deref().unwrap_or("-").into());
    row("generation", summary.generation.to_string().into());
    row("image", summary.image.as_deref().unwrap_or("-").into());
    row("directory", summary.dir.display().to_string().into());
    describe_instance(summary, &mut row);
    if let Some(sync) = &inspected.sync {
        let when = sync.synced_at.map_or_else(|| "not yet".to_owned(), |time| text::ago(time, now));
        row("synced", format!("{}, {when}", sync.directory.display()).into());
        for conflict in &sync.conflicts {
            let kept = text::printable(&conflict.to_string_lossy());
            let what =
                format!("{kept} is the sandbox's version: take what you need, then delete it");
            row("conflict", Cell::styled(&what, YELLOW));
        }
    }
    row("created", text::ago(summary.created_at, now).into());
    row(
        "last used",
        summary.last_used_at.map_or_else(|| "-".to_owned(), |time| text::ago(time, now)).into(),
    );
    row(
        "expires",
        summary.expires_at.map_or_else(|| "never".to_owned(), |time| text::ago(time, now)).into(),
    );
    row("retention", summary.retention.map_or_else(|| "for ever".to_owned(), text::span).into());
    if let Some(owner) = &summary.owner {
        row("owner", format!("process {}, with which it ends", owner.pid).into());
    }
    for (key, value) in &summary.spec {
        row("made with", format!("{key} = {value}").into());
    }
    for drift in &summary.drift {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "default".to_owned());
        row(
            "drift",
            format!("{}: {} → {}", drift.key, value(&drift.was), value(&drift.now)).into(),
        );
    }
    for snapshot in snapshots {
        row("snapshot", described(snapshot, now).into());
    }
    if let Some(guest) = guest {
        let up = text::span(Duration::from_millis(guest.status.up_ms));
        row(
            "guest",
            format!(
                "{}, protocol {}.{}, up {up}",
                guest.welcome.program, guest.welcome.major, guest.welcome.minor
            )
            .into(),
        );
        row("processes", guest.stats.processes.to_string().into());
        row("memory", text::bytes(guest.stats.memory_bytes).into());
        row("cpu", ps::cpu(guest.stats.cpu_ms).into());
        row("job logs", text::bytes(guest.stats.log_bytes).into());
    }
    context.console.print_table(&table)?;
    let Some(guest) = guest.as_ref().filter(|guest| !guest.jobs.is_empty()) else {
        return Ok(());
    };
    context.console.print("")?;
    let mut table = Table::new(&jobs::HEADING);
    for info in &guest.jobs {
        table.row(jobs::row(&summary.task, info, now));
    }
    context.console.print_table(&table)
}
