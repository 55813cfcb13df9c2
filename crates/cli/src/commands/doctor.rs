//! `vestal doctor`.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use vestal_config::{BackendChoice, Settings, Severity, keys};
use vestal_sandbox::backend::{Availability, DoctorNote};
use vestal_sandbox::{Drift, Engine, GUEST, Pruned, Summary, SummaryState};

use crate::console::{Console, DIM, GREEN, RED, YELLOW, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::values::quoted;

/// Free space below which things begin to fail.
const LITTLE_SPACE: u64 = 100 << 20;

const AFTER_HELP: &str = "\
The exit code is 1 if something is broken.

Example:
  vestal doctor";

/// Says what works here and what to do about the rest.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Ok,
    Note,
    Warning,
    Broken,
}

#[derive(Debug, Serialize)]
struct Check {
    name: String,
    health: Health,
    message: String,
    advice: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    version: &'static str,
    checks: Vec<Check>,
}

impl Check {
    fn new(name: impl Into<String>, health: Health, message: impl Into<String>) -> Self {
        Self { name: name.into(), health, message: message.into(), advice: None }
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Returns what a backend says of itself. Where there is something to do
    /// about it, something could be better.
    fn remark(backend: &str, remark: DoctorNote) -> Self {
        let health = match (&remark.advice, remark.topic.as_str()) {
            (None, _) => Health::Ok,
            (Some(_), "isolation" | "leaked") => Health::Warning,
            (Some(_), _) => Health::Note,
        };
        let name = format!("{backend} {}", remark.topic);
        Self { name, health, message: remark.text, advice: remark.advice }
    }

    fn failure(name: &str, failure: &Failure) -> Self {
        let check = Self::new(name, Health::Broken, failure.message().unwrap_or("failed"));
        let advice = failure.advice().join("; ");
        if advice.is_empty() { check } else { check.advise(advice) }
    }
}

pub(crate) async fn run(context: &Context, args: DoctorArgs) -> Result<Exit, Failure> {
    let checks = context.console.while_waiting("looking around", examine(context)).await;
    let ok = checks.iter().all(|check| check.health < Health::Broken);
    if args.json {
        context.console.print_json(&Report { ok, version: env!("CARGO_PKG_VERSION"), checks })?;
    } else {
        for check in &checks {
            print(context.console, check)?;
        }
    }
    Ok(if ok { Exit::Success } else { Exit::No })
}

async fn examine(context: &Context) -> Vec<Check> {
    let choice = context.tolerate_choice();
    let mut checks = vec![guest(), shell(context)];
    checks
        .extend(choice.map(|trouble| Check::new("profile", Health::Warning, trouble.to_string())));
    let mut chosen = None;
    match context.settings() {
        Ok(settings) => {
            checks.extend(settings_checks(&settings));
            checks.push(model(&settings));
            chosen = settings.get(&keys::BACKEND).ok().map(|resolved| resolved.value);
        }
        Err(failure) => checks.push(Check::failure("home", &failure)),
    }
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
        // A home that cannot be found has been told of.
        Err(failure) if context.home().is_ok() => checks.push(Check::failure("home", &failure)),
        Err(_) => {}
    }
    checks
}

fn guest() -> Check {
    let size = text::bytes(GUEST.len() as u64);
    let protocol = format!("{}.{}", vestal_wire::MAJOR, vestal_wire::MINOR);
    Check::new("guest", Health::Ok, format!("built in, {size}, protocol {protocol}"))
}

fn shell(context: &Context) -> Check {
    let path = context.environment().non_empty("PATH");
    let found = |program: &str| {
        path.is_some_and(|path| {
            std::env::split_paths(path).any(|dir| is_program(&dir.join(program)))
        })
    };
    if found("bash") {
        Check::new(
            "shell",
            Health::Ok,
            "this machine has bash: sessions of native and local sandboxes keep variables, functions and aliases",
        )
    } else {
        Check::new(
            "shell",
            Health::Warning,
            "this machine has no bash: sessions of native and local sandboxes keep what sh can print, no functions and arrays",
        )
        .advise("install bash")
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn settings_checks(settings: &Settings) -> Vec<Check> {
    let findings = settings.check();
    if findings.is_empty() {
        return vec![Check::new("settings", Health::Ok, "no mistakes found")];
    }
    findings
        .into_iter()
        .map(|finding| {
            let health = match finding.severity {
                Severity::Error => Health::Broken,
                Severity::Warning => Health::Warning,
                Severity::Note => Health::Note,
            };
            Check::new("settings", health, finding.message)
        })
        .collect()
}

/// Says which model the agent would ask. Nobody is asked here: looking around
/// costs nothing and sends nothing.
fn model(settings: &Settings) -> Check {
    match vestal_agent::settings::endpoints(settings, None) {
        Ok(chain) => {
            let names =
                chain.iter().map(|endpoint| format!("{}:{}", endpoint.name, endpoint.model));
            let names: Vec<String> = names.collect();
            Check::new("model", Health::Ok, format!("the agent asks {}", names.join(", then ")))
        }
        Err(error) => {
            let check = Check::new("model", Health::Note, error.to_string());
            let advice = error.advice().join("; ");
            if advice.is_empty() { check } else { check.advise(advice) }
        }
    }
}

fn home(engine: &Engine) -> Check {
    let dir = engine.sandboxes_dir();
    let place = format!("sandboxes are kept in {}", dir.display());
    // The directory itself is made with the first sandbox.
    let Some(stat) = dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok()) else {
        return Check::new("home", Health::Ok, place);
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let message = format!("{place}, {} free", text::bytes(free));
    if free < LITTLE_SPACE {
        Check::new("home", Health::Warning, message).advise("free some space")
    } else {
        Check::new("home", Health::Ok, message)
    }
}

/// Says which backends work and what they tell of themselves. One that is
/// missing is only worth a note, unless it is the one that the settings name.
async fn backends(engine: &Engine, chosen: Option<BackendChoice>) -> Vec<Check> {
    let (found, mut reports) = tokio::join!(engine.backends(), engine.report());
    let works = |available: &Availability| matches!(available, Availability::Works { .. });
    let any = found.iter().any(|(_, available)| works(available));
    let mut checks = Vec::new();
    for (name, available) in found {
        let title = format!("backend {name}");
        let is_chosen = chosen.is_some_and(|chosen| chosen.as_str() == name);
        checks.push(match available {
            Availability::Works { notes } if notes.is_empty() => {
                Check::new(title, Health::Ok, "works")
            }
            Availability::Works { notes } => {
                Check::new(title, Health::Ok, format!("works; {}", notes.join("; ")))
            }
            Availability::Missing { reason, advice } => {
                let health = if any && !is_chosen { Health::Note } else { Health::Broken };
                Check::new(title, health, reason).advise(advice)
            }
            Availability::Misconfigured { problem, advice } => {
                let health = match chosen {
                    Some(BackendChoice::Auto) => Health::Broken,
                    _ if is_chosen || !any => Health::Broken,
                    _ => Health::Note,
                };
                Check::new(title, health, problem).advise(advice)
            }
        });
        let remarks = reports.iter_mut().find(|(backend, _)| *backend == name);
        let remarks = remarks.map(|(_, remarks)| std::mem::take(remarks)).unwrap_or_default();
        checks.extend(remarks.into_iter().map(|remark| Check::remark(name, remark)));
    }
    checks
}

async fn sandboxes(engine: &Engine) -> Vec<Check> {
    let summaries = match engine.list().await {
        Ok(summaries) => summaries,
        Err(error) => return vec![Check::failure("sandboxes", &error.into())],
    };
    let running = summaries.iter().filter(|summary| summary.state == SummaryState::Running);
    let message = format!("{} in all, {} running", summaries.len(), running.count());
    let mut checks = vec![Check::new("sandboxes", Health::Ok, message)];
    for summary in &summaries {
        checks.extend(sandbox(engine, summary));
    }
    checks.extend(limits(&summaries));
    checks
}

/// Says which limits were left out of how many sandboxes, because they cannot
/// be enforced here.
fn limits(summaries: &[Summary]) -> Option<Check> {
    let mut left_out: BTreeMap<&str, u64> = BTreeMap::new();
    for limit in summaries.iter().flat_map(|summary| &summary.description.unenforced) {
        *left_out.entry(limit).or_default() += 1;
    }
    let said: Vec<String> = left_out
        .iter()
        .map(|(limit, count)| format!("{limit} in {}", sandbox_count(*count)))
        .collect();
    let message = format!("cannot be enforced here and are left out: {}", said.join(", "));
    (!said.is_empty()).then(|| Check::new("limits", Health::Note, message))
}

fn sandbox_count(count: u64) -> String {
    if count == 1 { "1 sandbox".to_owned() } else { format!("{count} sandboxes") }
}

/// Says what is wrong with one sandbox.
fn sandbox(engine: &Engine, summary: &Summary) -> Vec<Check> {
    let name = format!("sandbox {}", summary.task);
    let mut checks = Vec::new();
    match summary.state {
        SummaryState::Unresponsive => {
            checks.push(Check::new(&*name, Health::Broken, "does not answer").advise(format!(
                "its next use starts it anew; or: vestal stop {}",
                quoted(&summary.task)
            )));
        }
        SummaryState::Unknown => {
            let trouble = summary.trouble.as_deref().unwrap_or("its backend cannot be asked");
            checks.push(
                Check::new(&*name, Health::Broken, format!("not answered: {trouble}"))
                    .advise("see what its backend says above"),
            );
        }
        SummaryState::Running | SummaryState::Stopped | SummaryState::Absent => {}
    }
    if !summary.drift.is_empty() {
        let changes: Vec<String> = summary.drift.iter().map(Drift::to_string).collect();
        let message = format!("settings changed since: {}", changes.join(", "));
        let wording = engine.wording(&summary.task, &summary.backend);
        checks.push(Check::new(&*name, Health::Note, message).advise(wording.remedy()));
    }
    let weakened = &summary.description.weakened;
    if !weakened.is_empty() {
        let message = format!("its isolation is weakened by {}", weakened.join(", "));
        checks.push(Check::new(&*name, Health::Note, message));
    }
    checks
}

/// Says what the copies take that were kept.
async fn snapshots(engine: &Engine) -> Check {
    match engine.snapshots(None).await {
        Ok(kept) if kept.is_empty() => Check::new("snapshots", Health::Ok, "none"),
        Ok(kept) => {
            let bytes = kept.iter().map(|snapshot| snapshot.bytes).sum();
            let message = format!("{} in all, {}", kept.len(), text::bytes(bytes));
            Check::new("snapshots", Health::Ok, message)
        }
        Err(error) => Check::failure("snapshots", &error.into()),
    }
}

async fn leftovers(engine: &Engine) -> Vec<Check> {
    let Pruned { reaped: left, unanswered, unrecorded } = match engine.prune_telling(true).await {
        Ok(pruned) => pruned,
        Err(error) => return vec![Check::failure("leftovers", &error.into())],
    };
    let mut checks = Vec::new();
    if let Some(first) = unrecorded.first() {
        let more = match unrecorded.len() {
            1 => String::new(),
            many => format!(", and {} more", many - 1),
        };
        let message = format!("files without a sandbox: {}{more}", first.display());
        checks.push(
            Check::new("leftovers", Health::Note, message)
                .advise("vestal prune --dry-run names them and says what can be done with them"),
        );
    }
    if !left.is_empty() {
        let message =
            format!("{} that nobody can want", text::count(left.len() as u64, "instance"));
        checks.push(
            Check::new("leftovers", Health::Note, message)
                .advise("vestal prune --dry-run lists them, vestal prune removes them"),
        );
    } else if unanswered.is_empty() && unrecorded.is_empty() {
        checks.push(Check::new("leftovers", Health::Ok, "none"));
    }
    checks.extend(unanswered.into_iter().map(|(what, why)| {
        Check::new("leftovers", Health::Warning, format!("{what} could not be looked at: {why}"))
    }));
    checks
}

fn print(console: Console, check: &Check) -> Result<(), Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_promised_shape() {
        let report = Report {
            ok: false,
            version: "1.2.3",
            checks: vec![
                Check::new("guest", Health::Ok, "built in"),
                Check::new("home", Health::Broken, "is full").advise("free some space"),
            ],
        };
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"ok":false,"version":"1.2.3","checks":[{"name":"guest","health":"ok","message":"built in","advice":null},{"name":"home","health":"broken","message":"is full","advice":"free some space"}]}"#
        );
    }
}
