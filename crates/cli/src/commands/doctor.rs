//! `vestal doctor`.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use vestal_api::{DASHBOARD_SLOT, Health, HealthCheckView, HealthReportView};
use vestal_config::Settings;
use vestal_sandbox::backend::Availability;
use vestal_sandbox::client::{PROTOCOL_MAJOR, PROTOCOL_MINOR};
use vestal_sandbox::{
    BackendChoice, Drift, Engine, GUEST, Pruned, SandboxSummary, SummaryState, keys,
};

use super::gateway::find_gateways;
use crate::console::{Console, DIM, GREEN, RED, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::quoted;

/// Free space below which things begin to fail.
const LITTLE_SPACE: u64 = 100 << 20;

const AFTER_HELP: &str = "\
The exit code is 1 if something is broken.

Example:
  vestal doctor";

/// Check what works on this machine, and what to do about the rest.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: DoctorArgs) -> Result<Exit, CommandFailure> {
    let checks = context.console.while_waiting("checking this machine", examine(context)).await;
    let report = HealthReportView::new(env!("CARGO_PKG_VERSION"), checks);
    if args.json {
        context.console.print_json(&report)?;
    } else {
        for check in &report.checks {
            print(context.console, check)?;
        }
    }
    Ok(if report.ok { Exit::Success } else { Exit::No })
}

/// Looks at everything that a profile needs.
pub(super) async fn examine(context: &Context) -> Vec<HealthCheckView> {
    let choice = context.fall_back_to_default();
    let mut checks = vec![guest(), shell(context)];
    checks.extend(
        choice.map(|trouble| HealthCheckView::new("profile", Health::Warning, trouble.to_string())),
    );
    let mut chosen = None;
    match context.settings() {
        Ok(settings) => {
            checks.extend(settings_checks(&settings));
            checks.push(model(&settings));
            chosen = settings.get(&keys::BACKEND).ok().map(|resolved| resolved.value);
        }
        Err(failure) => checks.push(failed("home", &failure)),
    }
    checks.extend(gateway(context).await);
    match context.engine() {
        Ok(engine) => {
            checks.push(home(&engine));
            // Asked at the same time: what does not answer delays nothing else.
            let (backends, sandboxes, snapshots, leftovers) = tokio::join!(
                backends(&engine, chosen),
                sandboxes(&engine),
                snapshots(&engine),
                leftovers(&engine)
            );
            checks.extend(backends);
            checks.extend(sandboxes);
            checks.push(snapshots);
            checks.extend(leftovers);
        }
        // A home that cannot be found has been reported.
        Err(failure) if context.home().is_ok() => checks.push(failed("home", &failure)),
        Err(_) => {}
    }
    checks
}

fn failed(name: &str, failure: &CommandFailure) -> HealthCheckView {
    let message = failure.message().unwrap_or("failed");
    HealthCheckView::new(name, Health::Broken, message).advise_all(failure.advice())
}

fn guest() -> HealthCheckView {
    let size = text::bytes(GUEST.len() as u64);
    let protocol = format!("{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}");
    HealthCheckView::new("guest", Health::Ok, format!("built in, {size}, protocol {protocol}"))
}

fn shell(context: &Context) -> HealthCheckView {
    let path = context.environment().non_empty("PATH");
    let found = |program: &str| {
        path.is_some_and(|path| {
            std::env::split_paths(path).any(|dir| is_program(&dir.join(program)))
        })
    };
    if found("bash") {
        HealthCheckView::new(
            "shell",
            Health::Ok,
            "bash is installed: sessions of native and local sandboxes keep variables, functions and aliases",
        )
    } else {
        HealthCheckView::new(
            "shell",
            Health::Warning,
            "bash is not installed: sessions of native and local sandboxes keep what sh can print, but no functions and arrays",
        )
        .advise("install bash")
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn settings_checks(settings: &Settings) -> Vec<HealthCheckView> {
    let findings = settings.check();
    if findings.is_empty() {
        return vec![HealthCheckView::new("settings", Health::Ok, "no mistakes found")];
    }
    findings.into_iter().map(HealthCheckView::from).collect()
}

/// Says which model the agent would ask. Nobody is asked here: looking around
/// costs nothing and sends nothing.
fn model(settings: &Settings) -> HealthCheckView {
    match vestal_agent::settings::endpoints(settings, None) {
        Ok(chain) => {
            let names =
                chain.iter().map(|endpoint| format!("{}:{}", endpoint.name, endpoint.model));
            let names: Vec<String> = names.collect();
            HealthCheckView::new(
                "model",
                Health::Ok,
                format!("the agent uses {}", names.join(", then ")),
            )
        }
        Err(error) => {
            let check = HealthCheckView::new("model", Health::Note, error.to_string());
            check.advise_all(&error.advice())
        }
    }
}

/// Says what is wrong with the gateway of the profile, and with the dashboard; nothing about what
/// nobody uses or is as it is wanted.
async fn gateway(context: &Context) -> Vec<HealthCheckView> {
    let Ok(home) = context.home() else { return Vec::new() };
    let profile = home.profile().to_string();
    let view = match find_gateways(context, Some(vec![profile, DASHBOARD_SLOT.to_owned()])).await {
        Ok(view) => view,
        Err(failure) => return vec![failed("gateway", &failure)],
    };
    let mut checks = Vec::new();
    for gateway in view.gateways.iter().chain(&view.dashboard) {
        let name = if gateway.profile == DASHBOARD_SLOT { "dashboard" } else { "gateway" };
        for listener in &gateway.foreign_listeners {
            let check = HealthCheckView::new(name, Health::Warning, listener.line());
            checks.push(check.advise(listener.advice()));
        }
        let health = match gateway.state_name() {
            "failed" => Health::Broken,
            "degraded" | "down" | "backoff" => Health::Warning,
            "running" => Health::Ok,
            _ => continue,
        };
        let message = match &gateway.reason {
            Some(reason) => format!("{}: {reason}", gateway.state_name()),
            None => gateway.state_name().to_owned(),
        };
        let check = HealthCheckView::new(name, health, message);
        checks.push(match gateway.advice() {
            Some(advice) => check.advise(advice),
            None => check,
        });
    }
    checks
}

fn home(engine: &Engine) -> HealthCheckView {
    let dir = engine.sandboxes_dir();
    let place = format!("sandboxes are kept in {}", dir.display());
    // The directory itself is made with the first sandbox.
    let Some(stat) = dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok()) else {
        return HealthCheckView::new("home", Health::Ok, place);
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let message = format!("{place}, {} free", text::bytes(free));
    if free < LITTLE_SPACE {
        HealthCheckView::new("home", Health::Warning, message).advise("free some space")
    } else {
        HealthCheckView::new("home", Health::Ok, message)
    }
}

/// Says which backends work and what they report about themselves. One that is
/// missing is only worth a note, unless it is the one that the settings name.
async fn backends(engine: &Engine, chosen: Option<BackendChoice>) -> Vec<HealthCheckView> {
    let (found, mut reports) = tokio::join!(engine.backends(), engine.report());
    let works = |available: &Availability| matches!(available, Availability::Works { .. });
    let any = found.iter().any(|(_, available)| works(available));
    let mut checks = Vec::new();
    for (name, available) in found {
        let title = format!("backend {name}");
        let is_chosen = chosen.is_some_and(|chosen| chosen.as_str() == name);
        checks.push(match available {
            Availability::Works { notes } if notes.is_empty() => {
                HealthCheckView::new(title, Health::Ok, "works")
            }
            Availability::Works { notes } => {
                HealthCheckView::new(title, Health::Ok, format!("works; {}", notes.join("; ")))
            }
            Availability::Missing { reason, advice } => {
                let health = if any && !is_chosen { Health::Note } else { Health::Broken };
                HealthCheckView::new(title, health, reason).advise(advice)
            }
            Availability::Misconfigured { problem, advice } => {
                let health = match chosen {
                    Some(BackendChoice::Auto) => Health::Broken,
                    _ if is_chosen || !any => Health::Broken,
                    _ => Health::Note,
                };
                HealthCheckView::new(title, health, problem).advise(advice)
            }
        });
        let remarks = reports.iter_mut().find(|(backend, _)| *backend == name);
        let remarks = remarks.map(|(_, remarks)| std::mem::take(remarks)).unwrap_or_default();
        checks.extend(remarks.into_iter().map(|remark| HealthCheckView::of_backend(name, remark)));
    }
    checks
}

async fn sandboxes(engine: &Engine) -> Vec<HealthCheckView> {
    let summaries = match engine.list().await {
        Ok(summaries) => summaries,
        Err(error) => return vec![failed("sandboxes", &error.into())],
    };
    let running = summaries.iter().filter(|summary| summary.state == SummaryState::Running);
    let message = format!("{} in all, {} running", summaries.len(), running.count());
    let mut checks = vec![HealthCheckView::new("sandboxes", Health::Ok, message)];
    for summary in &summaries {
        checks.extend(sandbox(engine, summary));
    }
    checks.extend(limits(&summaries));
    checks
}

/// Says which limits were left out of how many sandboxes, because they cannot
/// be enforced here.
fn limits(summaries: &[SandboxSummary]) -> Option<HealthCheckView> {
    let mut left_out: BTreeMap<&str, u64> = BTreeMap::new();
    for limit in summaries.iter().flat_map(|summary| &summary.description.unenforced) {
        *left_out.entry(limit).or_default() += 1;
    }
    let limits: Vec<String> = left_out
        .iter()
        .map(|(limit, count)| format!("{limit} in {}", sandbox_count(*count)))
        .collect();
    let message = format!("cannot be enforced here and are left out: {}", limits.join(", "));
    (!limits.is_empty()).then(|| HealthCheckView::new("limits", Health::Note, message))
}

fn sandbox_count(count: u64) -> String {
    if count == 1 { "1 sandbox".to_owned() } else { format!("{count} sandboxes") }
}

/// Says what is wrong with one sandbox.
fn sandbox(engine: &Engine, summary: &SandboxSummary) -> Vec<HealthCheckView> {
    let name = format!("sandbox {}", summary.task);
    let mut checks = Vec::new();
    match summary.state {
        SummaryState::Unresponsive => {
            checks.push(HealthCheckView::new(&*name, Health::Broken, "does not answer").advise(
                format!("its next use restarts it; or: vestal stop {}", quoted(&summary.task)),
            ));
        }
        SummaryState::Unknown => {
            let trouble = summary.trouble.as_deref().unwrap_or("its backend cannot be asked");
            checks.push(
                HealthCheckView::new(&*name, Health::Broken, format!("not answered: {trouble}"))
                    .advise("see what its backend says above"),
            );
        }
        SummaryState::Running | SummaryState::Stopped | SummaryState::Absent => {}
    }
    if !summary.drift.is_empty() {
        let changes: Vec<String> = summary.drift.iter().map(Drift::to_string).collect();
        let message = format!("settings changed since: {}", changes.join(", "));
        let wording = engine.wording(&summary.task, &summary.backend);
        checks.push(HealthCheckView::new(&*name, Health::Note, message).advise(wording.remedy()));
    }
    let weakened = &summary.description.weakened;
    if !weakened.is_empty() {
        let message = format!("its isolation is weakened by {}", weakened.join(", "));
        checks.push(HealthCheckView::new(&*name, Health::Note, message));
    }
    checks
}

/// Says what the copies take that were kept.
async fn snapshots(engine: &Engine) -> HealthCheckView {
    match engine.snapshots(None).await {
        Ok(kept) if kept.is_empty() => HealthCheckView::new("snapshots", Health::Ok, "none"),
        Ok(kept) => {
            let bytes = kept.iter().map(|snapshot| snapshot.bytes).sum();
            let message = format!("{} in all, {}", kept.len(), text::bytes(bytes));
            HealthCheckView::new("snapshots", Health::Ok, message)
        }
        Err(error) => failed("snapshots", &error.into()),
    }
}

async fn leftovers(engine: &Engine) -> Vec<HealthCheckView> {
    let Pruned { reaped: left, unanswered, unrecorded } = match engine.prune_with_report(true).await
    {
        Ok(pruned) => pruned,
        Err(error) => return vec![failed("leftovers", &error.into())],
    };
    let mut checks = Vec::new();
    if let Some(first) = unrecorded.first() {
        let more = match unrecorded.len() {
            1 => String::new(),
            many => format!(", and {} more", many - 1),
        };
        let message = format!("files without a sandbox: {}{more}", first.display());
        checks.push(
            HealthCheckView::new("leftovers", Health::Note, message)
                .advise("vestal prune --dry-run lists them and what to do with them"),
        );
    }
    if !left.is_empty() {
        let message = format!("{} left over", text::count(left.len(), "instance"));
        checks.push(
            HealthCheckView::new("leftovers", Health::Note, message)
                .advise("vestal prune --dry-run lists them, vestal prune removes them"),
        );
    } else if unanswered.is_empty() && unrecorded.is_empty() {
        checks.push(HealthCheckView::new("leftovers", Health::Ok, "none"));
    }
    checks.extend(unanswered.into_iter().map(|(what, why)| {
        HealthCheckView::new(
            "leftovers",
            Health::Warning,
            format!("{what} could not be checked: {why}"),
        )
    }));
    checks
}

fn print(console: Console, check: &HealthCheckView) -> Result<(), CommandFailure> {
    let (word, style) = match check.health {
        Health::Ok => ("ok", GREEN),
        Health::Note => ("note", DIM),
        Health::Warning => ("warning", YELLOW),
        Health::Broken => ("broken", RED),
    };
    let mark = console.paint(style, &format!("{word:<8}"));
    console.print(&format!("{mark}{}: {}", check.name, text::printable(&check.message)))?;
    match &check.advice {
        Some(advice) => console.print(&format!("        → {}", text::printable(advice))),
        None => Ok(()),
    }
}
