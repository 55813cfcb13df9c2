//! The report of `vestal doctor` on an engine.

use std::collections::{BTreeSet, HashMap};

use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::client::EngineClient;
use super::error::one_line;
use super::info::EngineInfo;
use crate::backend::{BackendError, DoctorNote};
use crate::backends::docker::identity::ContainerIdentity;

/// Most containers that are named in a note.
const MAX_NAMED: usize = 5;

/// What the engine's containers are compared with.
#[derive(Debug, Clone, Copy)]
pub(in crate::backends::docker) struct DoctorScope<'a> {
    /// The id of the profile home.
    pub(in crate::backends::docker) home: &'a str,
    /// The known instances; if `None`, no container counts as leaked.
    pub(in crate::backends::docker) instances: Option<&'a BTreeSet<String>>,
}

/// Returns the notes on the engine and on Vestal's containers.
pub(in crate::backends::docker) async fn report(
    client: &EngineClient,
    scope: DoctorScope<'_>,
) -> Vec<DoctorNote> {
    let mut notes = match client.info().await {
        Ok(info) => engine(client.address(), info),
        Err(error) => vec![error_note("engine", &error)],
    };
    match containers(client).await {
        Ok(containers) => notes.extend(ContainerGroups::new(&containers, scope).notes()),
        Err(error) => notes.push(error_note("containers", &error)),
    }
    notes
}

fn error_note(topic: &str, error: &BackendError) -> DoctorNote {
    DoctorNote {
        topic: topic.to_owned(),
        text: error.to_string(),
        advice: Some(error.advice().unwrap_or("see the engine's own log").to_owned()),
    }
}

fn note(topic: &str, text: String) -> DoctorNote {
    DoctorNote { topic: topic.to_owned(), text, advice: None }
}

async fn containers(client: &EngineClient) -> Result<Vec<ContainerSummary>, BackendError> {
    let filters = HashMap::from([("label", vec!["vestal-agent=1"])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    client.api().list_containers(Some(options)).await.map_err(client.error("list its containers"))
}

fn engine(address: &str, info: &EngineInfo) -> Vec<DoctorNote> {
    let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let mut kind = format!("{} {}", info.flavour.name(), known(&info.version));
    if info.rootless {
        kind.push_str(", rootless");
    }
    if info.userns_remap {
        kind.push_str(", users remapped");
    }
    let mut notes = vec![note("engine", format!("{kind}, API {}, at {address}", info.api_version))];
    let below = match info.backing_filesystem.as_str() {
        "" => String::new(),
        filesystem => format!(" on {filesystem}"),
    };
    notes.push(note("storage", format!("{}{below}", known(&info.storage_driver))));
    notes.push(note(
        "cgroups",
        format!("version {}, driver {}", known(&info.cgroup_version), known(&info.cgroup_driver)),
    ));
    notes.push(limits(info));
    if !info.seccomp {
        notes.push(DoctorNote {
            topic: "isolation".to_owned(),
            text: "the engine does not filter system calls".to_owned(),
            advice: Some("use an engine and a kernel with seccomp".to_owned()),
        });
    }
    notes
}

/// Returns the note on limits: which are enforced, and which are left out.
fn limits(info: &EngineInfo) -> DoctorNote {
    let limits = [
        ("terminal.container_memory", info.can_limit_memory),
        ("terminal.container_cpu", info.can_limit_cpu),
        ("terminal.container_pids", info.can_limit_pids),
        ("terminal.container_disk", info.can_limit_disk),
    ];
    let named = |wanted: bool| {
        let names = limits.iter().filter(|(_, can)| *can == wanted).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    let (held, left_out) = (named(true), named(false));
    let text = match (held.is_empty(), left_out.is_empty()) {
        (_, true) => format!("enforced: {held}"),
        (true, false) => format!("none can be enforced; left out: {left_out}"),
        (false, false) => {
            format!("enforced: {held}; cannot be, so left out: {left_out}")
        }
    };
    let mut advice = Vec::new();
    if !(info.can_limit_memory && info.can_limit_cpu && info.can_limit_pids) {
        advice.push("memory, cpu and pids need cgroups that the engine may manage");
    }
    if !info.can_limit_disk {
        advice.push("disk needs btrfs, zfs, or overlay on XFS mounted with pquota");
    }
    let advice = (!advice.is_empty()).then(|| advice.join("; "));
    DoctorNote { topic: "limits".to_owned(), text, advice }
}

/// Vestal's containers, by owner.
#[derive(Debug, Default, PartialEq, Eq)]
struct ContainerGroups {
    own: Vec<String>,
    foreign: Vec<String>,
    leaked: Vec<String>,
    helpers: Vec<String>,
    /// Containers that merely carry the labels.
    label_only: Vec<String>,
}

impl ContainerGroups {
    fn new(containers: &[ContainerSummary], scope: DoctorScope<'_>) -> Self {
        let mut groups = Self::default();
        for container in containers {
            let label = |name: &str| {
                container.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str)
            };
            let is_known = |instance: &str| {
                scope.instances.is_none_or(|instances| instances.contains(instance))
            };
            let list = if label("vestal-home") != Some(scope.home) {
                &mut groups.foreign
            } else if label("vestal-errand").is_some() {
                &mut groups.helpers
            } else if ContainerIdentity::listed(container)
                .and_then(ContainerIdentity::owned_labels)
                .is_none()
            {
                &mut groups.label_only
            } else if label("vestal-instance").is_some_and(is_known) {
                &mut groups.own
            } else {
                &mut groups.leaked
            };
            list.push(describe(container));
        }
        groups
    }

    fn notes(&self) -> Vec<DoctorNote> {
        let mut notes = vec![note("containers", format!("{} of this home", self.own.len()))];
        if !self.leaked.is_empty() {
            notes.push(DoctorNote {
                topic: "leaked".to_owned(),
                text: listed(&self.leaked, "of this home that no sandbox knows"),
                advice: Some(
                    "`vestal prune` removes those that have not run for \
                     terminal.retention_seconds; to remove one at once: docker rm -f NAME"
                        .to_owned(),
                ),
            });
        }
        if !self.helpers.is_empty() {
            notes.push(DoctorNote {
                topic: "errands".to_owned(),
                text: listed(&self.helpers, "helper containers, left over or still at work"),
                advice: Some("`vestal prune` removes them once they are old".to_owned()),
            });
        }
        if !self.label_only.is_empty() {
            let what = "with this home's labels that Vestal did not make, left alone";
            notes.push(note("labels", listed(&self.label_only, what)));
        }
        if !self.foreign.is_empty() {
            notes.push(note("foreign", listed(&self.foreign, "of other homes, left alone")));
        }
        notes
    }
}

fn describe(container: &ContainerSummary) -> String {
    let name = container.names.iter().flatten().next().map(|name| name.trim_start_matches('/'));
    let id = || container.id.as_deref().unwrap_or("?").chars().take(12).collect::<String>();
    let name = name.filter(|name| !name.is_empty()).map_or_else(id, one_line);
    match container.state.map(|state| state.to_string()).filter(|state| !state.is_empty()) {
        Some(state) => format!("{name} ({state})"),
        None => name,
    }
}

fn listed(containers: &[String], what: &str) -> String {
    let count = containers.len();
    let mut names = containers.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if count > MAX_NAMED {
        names.push_str(", …");
    }
    format!("{count} {what}: {names}")
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
