//! `vestal inspect`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Drift, Engine, Overrides, Snapshot, Summary, SummaryState, Task};
use vestal_wire::{JobInfo, Stats, Status, Welcome};

use super::{jobs, ps, stats};
use crate::cli::Tasks;
use crate::console::{Cell, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;
use crate::views::{JobView, SandboxView, SnapshotView, StatsView};

/// How long a guest may take to describe itself.
const WITHIN: Duration = Duration::from_secs(10);

/// Jobs that are shown, the newest.
const JOBS: u32 = 50;

const AFTER_HELP: &str = "\
Example:
  vestal inspect web --json | jq .guest";

/// Shows everything about sandboxes, without using them.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InspectArgs {
    /// Prints an array of JSON objects: the sandbox, and instances of its task that belong to
    /// processes.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

/// A sandbox and what its guest says.
#[derive(Debug)]
struct Inspected {
    summary: Summary,
    guest: Option<Guest>,
    snapshots: Vec<Snapshot>,
}

#[derive(Debug)]
struct Guest {
    welcome: Welcome,
    status: Status,
    stats: Stats,
    jobs: Vec<JobInfo>,
}

pub(crate) async fn run(context: &Context, args: InspectArgs) -> Result<Exit, Failure> {
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
            found.push(Inspected { summary, guest, snapshots });
        }
    }
    if args.json {
        let views: Vec<InspectView> = found.iter().map(InspectView::from).collect();
        context.console.print_json(&views)?;
    } else {
        for inspected in &found {
            print(context, inspected)?;
        }
    }
    Ok(Exit::Success)
}

/// Asks the guest of a running sandbox; one that does not answer is shown
/// without what it would have said.
async fn ask(engine: &Engine, task: &Task, summary: &Summary) -> Option<Guest> {
    if summary.owned || summary.state != SummaryState::Running {
        return None;
    }
    let connection = engine.observe(task).await.ok()?;
    match describe(&connection).await {
        Ok(guest) => Some(guest),
        Err(error) => {
            tracing::warn!(%error, "the guest does not describe itself");
            None
        }
    }
}

async fn describe(connection: &Connection) -> Result<Guest, vestal_sandbox::client::CallError> {
    Ok(Guest {
        welcome: connection.welcome().clone(),
        status: connection.status(WITHIN).await?,
        stats: connection.stats(WITHIN).await?,
        jobs: job::jobs(connection, JobFilter::All, JOBS).await?.jobs,
    })
}

#[derive(Debug, Serialize)]
struct InspectView {
    #[serde(flatten)]
    sandbox: SandboxView,
    dir: String,
    spec: BTreeMap<String, String>,
    drift_details: Vec<DriftView>,
    retention_seconds: Option<u64>,
    owned: bool,
    owner_pid: Option<u32>,
    /// How its guest is reached, where there is more than one way.
    transport: Option<String>,
    /// What was asked for this sandbox alone.
    overrides: OverridesView,
    /// What the backend knows the instance by; its form is the backend's.
    locator: serde_json::Value,
    guest: Option<GuestView>,
    stats: Option<StatsView>,
    jobs: Vec<JobView>,
    /// What is missing for a better tier, and how to have it.
    missing: Vec<String>,
    snapshots: Vec<SnapshotView>,
}

#[derive(Debug, Serialize)]
struct OverridesView {
    image: Option<String>,
    cwd: Option<String>,
    backend: Option<String>,
    mount: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    binds: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DriftView {
    key: String,
    was: Option<String>,
    now: Option<String>,
    tightens: bool,
    loosens: bool,
}

#[derive(Debug, Serialize)]
struct GuestView {
    program: String,
    protocol: String,
    incarnation: String,
    boot: String,
    up_seconds: u64,
    jobs_known: u32,
}

impl From<&Inspected> for InspectView {
    fn from(Inspected { summary, guest, snapshots }: &Inspected) -> Self {
        let guest = guest.as_ref();
        let jobs = guest.map_or(&[][..], |guest| &guest.jobs);
        Self {
            sandbox: summary.into(),
            dir: summary.dir.display().to_string(),
            spec: summary.spec.clone(),
            drift_details: summary.drift.iter().map(DriftView::from).collect(),
            retention_seconds: summary.retention.map(|retention| retention.as_secs()),
            owned: summary.owned,
            owner_pid: summary.owner.as_ref().map(|owner| owner.pid),
            transport: summary.description.transport.clone(),
            overrides: (&summary.overrides).into(),
            locator: summary.locator.clone(),
            guest: guest.map(GuestView::from),
            stats: guest.map(|guest| (&guest.stats).into()),
            jobs: jobs.iter().map(|info| JobView::new(&summary.task, info)).collect(),
            missing: summary.description.missing.clone(),
            snapshots: snapshots.iter().map(SnapshotView::from).collect(),
        }
    }
}

impl From<&Overrides> for OverridesView {
    fn from(overrides: &Overrides) -> Self {
        let path = |path: &Option<std::path::PathBuf>| {
            path.as_ref().map(|path| path.display().to_string())
        };
        Self {
            image: overrides.image.clone(),
            cwd: path(&overrides.cwd),
            backend: overrides.backend.clone(),
            mount: path(&overrides.mount),
            binds: overrides.binds.iter().map(|bind| bind.display().to_string()).collect(),
        }
    }
}

impl From<&Drift> for DriftView {
    fn from(drift: &Drift) -> Self {
        let Drift { key, was, now, tightens, loosens } = drift.clone();
        Self { key, was, now, tightens, loosens }
    }
}

impl From<&Guest> for GuestView {
    fn from(Guest { welcome, status, .. }: &Guest) -> Self {
        Self {
            program: welcome.program.clone(),
            protocol: format!("{}.{}", welcome.major, welcome.minor),
            incarnation: welcome.incarnation.clone(),
            boot: welcome.boot.clone(),
            up_seconds: status.up_ms / 1000,
            jobs_known: status.jobs_known,
        }
    }
}

/// Says what the backend tells of the instance, and what was asked for it.
fn describe_instance(summary: &Summary, row: &mut impl FnMut(&str, Cell)) {
    let description = &summary.description;
    let process = summary.locator.pointer("/process/pid").and_then(serde_json::Value::as_u64);
    match (&description.name, process) {
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

fn print(context: &Context, inspected: &Inspected) -> Result<(), Failure> {
    let Inspected { summary, guest, snapshots } = inspected;
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
        row("cpu", stats::cpu(guest.stats.cpu_ms).into());
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
