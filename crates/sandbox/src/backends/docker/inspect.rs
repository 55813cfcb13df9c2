//! Finding and inspecting containers.

use std::collections::HashMap;
use std::str::FromStr as _;
use std::time::Duration;

use bollard::models::{
    ContainerInspectResponse, ContainerStateStatusEnum as Status, ContainerSummary,
    ContainerSummaryStateEnum as Listed,
};
use bollard::query_parameters::{InspectContainerOptions, ListContainersOptionsBuilder};
use jiff::Timestamp;

use super::api::{EngineClient, EngineFault, classify};
use super::helper::{self, HELPER_LABEL};
use super::identity::{ContainerIdentity, DockerLocator, GuestTransport, warn_unowned};
use super::images::BaseImage;
use super::plan::{BOOT_DIR, ContainerLabels, label};
use crate::HomeId;
use crate::backend::{BackendError, FoundInstance, Instance, InstanceFilter, InstanceState};

/// How often a request is repeated while a container changes its state.
const RACE_TRIES: usize = 500;

/// Time between two such requests.
const RACE_PAUSE: Duration = Duration::from_millis(10);

/// How often an inspection is repeated after an internal error of the engine, which
/// may be transient.
const ERROR_TRIES: usize = 3;

/// Time between two such inspections.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A container as the engine describes it.
#[derive(Debug)]
pub(super) struct InspectedContainer {
    pub(super) id: String,
    pub(super) state: InstanceState,
    /// Its first process, while it runs.
    pub(super) pid: Option<u32>,
    pub(super) response: ContainerInspectResponse,
}

impl InspectedContainer {
    /// Returns the labels if name and mounts prove that the container is a
    /// sandbox's own.
    pub(super) fn owned_labels(&self) -> Option<ContainerLabels> {
        ContainerIdentity::of(&self.response)?.owned_labels()
    }

    /// Returns the labels of a container whose id is on record, if its mounts
    /// agree with them.
    fn recorded_labels(&self) -> Option<ContainerLabels> {
        ContainerIdentity::of(&self.response)?.recorded_labels()
    }
}

/// Returns the container of an instance, by the id on record or by its label. A
/// container that merely carries the label is not the instance's.
pub(super) async fn find_container(
    client: &EngineClient,
    home: &HomeId,
    instance: &Instance,
) -> Result<Option<InspectedContainer>, BackendError> {
    let is_wanted =
        |labels: ContainerLabels| labels.instance == instance.id && labels.home == home.as_str();
    if let Some(locator) = DockerLocator::of_instance(instance)
        && let Some(seen) = inspect(client, &locator.container).await?
        && seen.recorded_labels().is_some_and(is_wanted)
    {
        return Ok(Some(seen));
    }
    for listed in list(client, &format!("{}={}", label::INSTANCE, instance.id)).await? {
        if let Some(id) = listed.id
            && let Some(seen) = inspect(client, &id).await?
        {
            if seen.owned_labels().is_some_and(is_wanted) {
                return Ok(Some(seen));
            }
            warn_unowned(&seen.response);
        }
    }
    Ok(None)
}

/// Inspects one container; `None` if there is none.
pub(super) async fn inspect(
    client: &EngineClient,
    name: &str,
) -> Result<Option<InspectedContainer>, BackendError> {
    let (mut races, mut errors) = (0, 0);
    let answer = loop {
        match client.api().inspect_container(name, None::<InspectContainerOptions>).await {
            Err(error) if is_state_race(&error) && races < RACE_TRIES => {
                races += 1;
                tokio::time::sleep(RACE_PAUSE).await;
            }
            Err(error) if is_internal(&error) && errors < ERROR_TRIES => {
                tracing::debug!(%error, name, "inspecting the container again");
                errors += 1;
                tokio::time::sleep(ERROR_PAUSE).await;
            }
            other => break other,
        }
    };
    match answer {
        Ok(inspected) => Ok(Some(InspectedContainer {
            id: inspected.id.clone().unwrap_or_else(|| name.to_owned()),
            state: state(&inspected),
            pid: pid(&inspected),
            response: inspected,
        })),
        Err(error) => match classify(&error) {
            EngineFault::Absent => Ok(None),
            _ => Err(client.error("look at the container")(error)),
        },
    }
}

fn pid(inspected: &ContainerInspectResponse) -> Option<u32> {
    let pid = inspected.state.as_ref()?.pid?;
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

fn state(inspected: &ContainerInspectResponse) -> InstanceState {
    let Some(state) = &inspected.state else {
        return InstanceState::Broken { since: None };
    };
    let finished = state.finished_at.as_deref().and_then(time);
    let created = inspected.created.as_deref().and_then(time);
    match state.status {
        Some(Status::RUNNING | Status::RESTARTING) => InstanceState::Running,
        Some(Status::PAUSED) => InstanceState::Paused,
        Some(Status::EXITED | Status::STOPPING) => InstanceState::Stopped { since: finished },
        // A container that never ran has no end time.
        Some(Status::CREATED) => InstanceState::Broken { since: finished.or(created) },
        Some(Status::DEAD | Status::REMOVING) => InstanceState::Broken { since: finished },
        Some(Status::EMPTY) | None => match state.running {
            Some(true) => InstanceState::Running,
            _ => InstanceState::Stopped { since: finished },
        },
    }
}

/// Parses a time of the engine. The year 1 means "never"; a time that cannot be
/// parsed is `None`, so that nothing is reaped by it.
fn time(text: &str) -> Option<Timestamp> {
    let time = Timestamp::from_str(text).ok()?;
    (time > Timestamp::UNIX_EPOCH).then_some(time)
}

async fn list(client: &EngineClient, wanted: &str) -> Result<Vec<ContainerSummary>, BackendError> {
    let filters: HashMap<String, Vec<String>> =
        [("label".to_owned(), vec![format!("{}=1", label::AGENT), wanted.to_owned()])].into();
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let mut tries = 0;
    loop {
        match client.api().list_containers(Some(options.clone())).await {
            Err(error) if is_state_race(&error) && tries < RACE_TRIES => {
                tries += 1;
                tokio::time::sleep(RACE_PAUSE).await;
            }
            other => return other.map_err(client.error("list containers")),
        }
    }
}

/// Returns whether Podman was asked while a container changes its state. Between
/// its exit and the record of it a container is `stopped`, which Docker's API does
/// not define, and its process may exit during the request.
fn is_state_race(error: &bollard::errors::Error) -> bool {
    let text = error.to_string();
    let passing = ["unknown variant `stopped`", "unknown variant `stopping`", "no such process"];
    passing.iter().any(|passing| text.contains(passing))
}

/// Returns whether the engine failed to answer. That says nothing about the
/// container.
fn is_internal(error: &bollard::errors::Error) -> bool {
    matches!(classify(error), EngineFault::Refused { status: 500..=599, .. })
}

/// Returns the instances with the labels of a sandbox or a home.
pub(super) async fn find_instances(
    client: &EngineClient,
    whose: InstanceFilter<'_>,
) -> Result<Vec<FoundInstance>, BackendError> {
    let wanted = match whose {
        InstanceFilter::Key(key) => format!("{}={key}", label::KEY),
        InstanceFilter::Home(home) => format!("{}={}", label::HOME, home.as_str()),
    };
    let info = client.info().await?;
    let mut found = Vec::new();
    for listed in list(client, &wanted).await? {
        let Some(id) = &listed.id else {
            continue;
        };
        // It may have been removed since the list was made.
        let Some(seen) = inspect(client, id).await? else {
            continue;
        };
        match to_found_instance(client, &info.id, &listed, &seen) {
            Some(own) => found.push(own),
            None => warn_unowned(&seen.response),
        }
    }
    Ok(found)
}

/// A sandbox's own container that has the sandbox's name.
#[derive(Debug)]
pub(super) struct NamedContainer {
    pub(super) id: String,
    pub(super) is_stopped: bool,
}

/// Returns the sandbox's own container that has a name. If the engine keeps failing
/// to inspect it, the engine's list decides.
pub(super) async fn find_by_name(
    client: &EngineClient,
    name: &str,
    key: &str,
) -> Result<Option<NamedContainer>, BackendError> {
    for listed in list(client, &format!("{}={key}", label::KEY)).await? {
        let is_named = |listed: &String| listed.trim_start_matches('/') == name;
        if !listed.names.iter().flatten().any(is_named) {
            continue;
        }
        let Some(id) = listed.id.clone() else {
            continue;
        };
        let is_stopped = match inspect(client, &id).await {
            Ok(Some(seen)) if seen.owned_labels().is_some() => match seen.state {
                InstanceState::Running | InstanceState::Paused => false,
                InstanceState::Stopped { .. }
                | InstanceState::Broken { .. }
                | InstanceState::Absent => true,
            },
            Ok(_) => continue,
            Err(error) if error.is_refusal() => {
                tracing::debug!(%error, id, "cannot be inspected; using the list");
                let identity = ContainerIdentity::listed(&listed);
                if identity.and_then(ContainerIdentity::owned_labels).is_none() {
                    continue;
                }
                // Any other state, also an unknown one, may be a running container.
                matches!(listed.state, Some(Listed::CREATED | Listed::EXITED | Listed::DEAD))
            }
            Err(error) => return Err(error),
        };
        return Ok(Some(NamedContainer { id, is_stopped }));
    }
    Ok(None)
}

/// Returns the instance of a container; `None` for one that merely carries the
/// labels.
fn to_found_instance(
    client: &EngineClient,
    engine: &str,
    listed: &ContainerSummary,
    seen: &InspectedContainer,
) -> Option<FoundInstance> {
    let labels = listed.labels.as_ref()?;
    let created_at = seen.response.created.as_deref().and_then(time);
    let mut name = seen.response.name.clone().unwrap_or_default();
    name = name.trim_start_matches('/').to_owned();
    let locator = |image: Option<String>, transport| DockerLocator {
        engine: engine.to_owned(),
        address: client.address().to_owned(),
        container: seen.id.clone(),
        name: name.clone(),
        image: image.unwrap_or_else(|| listed.image.clone().unwrap_or_default()),
        image_id: seen.response.image.clone().unwrap_or_default(),
        transport,
        unenforced: Vec::new(),
        weakened: Vec::new(),
        is_copy: BaseImage::is_copy(&seen.response),
    };
    if labels.contains_key(HELPER_LABEL) && helper::is_helper_name(&name) {
        return Some(FoundInstance {
            id: seen.id.clone(),
            key: String::new(),
            task: name.clone(),
            generation: 0,
            persistent: false,
            owner: None,
            spec: String::new(),
            // A helper container is never started again.
            state: match seen.state {
                InstanceState::Stopped { since } => InstanceState::Broken { since },
                other => other,
            },
            created_at,
            locator: locator(None, GuestTransport::Exec).to_locator(),
        });
    }
    let labels = seen.owned_labels()?;
    let mounts = seen.response.mounts.as_ref()?;
    let boot = mounts.iter().find(|mount| mount.destination.as_deref() == Some(BOOT_DIR))?;
    let transport = if boot.typ.as_deref() == Some("bind") {
        GuestTransport::Socket { pid: seen.pid }
    } else {
        GuestTransport::Exec
    };
    Some(FoundInstance {
        id: labels.instance,
        key: labels.key,
        task: labels.task,
        generation: labels.generation,
        persistent: labels.persistent,
        owner: labels.owner,
        spec: labels.spec,
        state: seen.state,
        created_at,
        locator: locator(labels.image, transport).to_locator(),
    })
}

/// Returns whether a process is `ancestor` or one of its descendants.
pub(super) fn is_descendant(pid: u32, ancestor: u32) -> bool {
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        fields.split(' ').nth(1)?.parse::<u32>().ok().filter(|parent| *parent != 0)
    };
    std::iter::successors(Some(pid), |pid| parent(*pid)).take(64).any(|pid| pid == ancestor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bollard::models::ContainerState;

    fn inspected(status: Status, finished: &str) -> ContainerInspectResponse {
        ContainerInspectResponse {
            created: None,
            state: Some(ContainerState {
                status: Some(status),
                finished_at: Some(finished.to_owned()),
                ..ContainerState::default()
            }),
            ..ContainerInspectResponse::default()
        }
    }

    #[test]
    fn times_with_nanoseconds_are_read_and_zero_is_never() {
        let text = "2026-05-29T11:49:54.123456789Z";
        let since = time(text);
        assert!(since.is_some());
        assert_eq!(state(&inspected(Status::EXITED, text)), InstanceState::Stopped { since });
        assert!(time("2026-05-29T11:49:54.123456789+10:00").is_some());
        for never in ["0001-01-01T00:00:00Z", "", "yesterday", "2026-05-29"] {
            assert_eq!(
                state(&inspected(Status::EXITED, never)),
                InstanceState::Stopped { since: None },
                "{never}"
            );
        }
    }

    #[test]
    fn a_container_that_cannot_be_started_is_broken() {
        let never = "0001-01-01T00:00:00Z";
        for status in [Status::CREATED, Status::DEAD, Status::REMOVING] {
            let state = state(&inspected(status, never));
            assert_eq!(state, InstanceState::Broken { since: None });
        }
        assert_eq!(state(&inspected(Status::PAUSED, never)), InstanceState::Paused);
        assert_eq!(state(&inspected(Status::RUNNING, never)), InstanceState::Running);
    }
}
