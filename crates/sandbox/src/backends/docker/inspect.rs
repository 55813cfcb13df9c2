//! Looking at containers.

use std::collections::HashMap;
use std::str::FromStr as _;
use std::time::Duration;

use bollard::models::{
    ContainerInspectResponse, ContainerStateStatusEnum as Status, ContainerSummary,
};
use bollard::query_parameters::{InspectContainerOptions, ListContainersOptionsBuilder};
use jiff::Timestamp;

use super::api::{Client, Fault, fault};
use super::helper::{self, ERRAND_LABEL};
use super::identity::{DockerLocator, Traits, Transport, tell_of_bearer};
use super::images::Origin;
use super::plan::{BOOT_DIR, Marks, label};
use crate::HomeId;
use crate::backend::{BackendError, FoundInstance, Instance, InstanceFilter, InstanceState};

/// How often a container between two states is looked at again.
const BETWEEN_TRIES: usize = 500;

/// Time between two such looks.
const BETWEEN_PAUSE: Duration = Duration::from_millis(10);

/// A container, as the engine describes it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) state: InstanceState,
    /// Its first process, while it runs.
    pub(super) pid: Option<u32>,
    pub(super) inspected: ContainerInspectResponse,
}

/// Looks at the container of an instance, by what is known of it or by its
/// mark. One that merely carries the mark is not the instance's.
pub(super) async fn look(
    client: &Client,
    home: &HomeId,
    instance: &Instance,
) -> Result<Option<Seen>, BackendError> {
    let is_wanted = |marks: Marks| marks.instance == instance.id && marks.home == home.as_str();
    if let Some(locator) = DockerLocator::of_instance(instance)
        && let Some(seen) = inspect(client, &locator.container).await?
        && Traits::of(&seen.inspected).and_then(Traits::recorded).is_some_and(is_wanted)
    {
        return Ok(Some(seen));
    }
    for listed in list(client, &format!("{}={}", label::INSTANCE, instance.id)).await? {
        if let Some(id) = listed.id
            && let Some(seen) = inspect(client, &id).await?
        {
            if Traits::of(&seen.inspected).and_then(Traits::own).is_some_and(is_wanted) {
                return Ok(Some(seen));
            }
            tell_of_bearer(&seen.inspected);
        }
    }
    Ok(None)
}

/// Looks at one container; absent is nothing.
pub(super) async fn inspect(client: &Client, name: &str) -> Result<Option<Seen>, BackendError> {
    let mut tries = 0;
    let answer = loop {
        match client.api().inspect_container(name, None::<InspectContainerOptions>).await {
            Err(error) if is_between_states(&error) && tries < BETWEEN_TRIES => {
                tries += 1;
                tokio::time::sleep(BETWEEN_PAUSE).await;
            }
            other => break other,
        }
    };
    match answer {
        Ok(inspected) => Ok(Some(Seen {
            id: inspected.id.clone().unwrap_or_else(|| name.to_owned()),
            state: state(&inspected),
            pid: pid(&inspected),
            inspected,
        })),
        Err(error) => match fault(&error) {
            Fault::Absent => Ok(None),
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
        // One that never ran has no end to count from.
        Some(Status::CREATED) => InstanceState::Broken { since: finished.or(created) },
        Some(Status::DEAD | Status::REMOVING) => InstanceState::Broken { since: finished },
        Some(Status::EMPTY) | None => match state.running {
            Some(true) => InstanceState::Running,
            _ => InstanceState::Stopped { since: finished },
        },
    }
}

/// Reads a time of the engine's, which has nanoseconds and may be the year 1
/// for "never". What cannot be read is nothing, and reaps nothing.
fn time(text: &str) -> Option<Timestamp> {
    let time = Timestamp::from_str(text).ok()?;
    (time > Timestamp::UNIX_EPOCH).then_some(time)
}

/// Returns the containers with a label.
async fn list(client: &Client, wanted: &str) -> Result<Vec<ContainerSummary>, BackendError> {
    let filters: HashMap<String, Vec<String>> =
        [("label".to_owned(), vec![format!("{}=1", label::AGENT), wanted.to_owned()])].into();
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let mut tries = 0;
    loop {
        match client.api().list_containers(Some(options.clone())).await {
            Err(error) if is_between_states(&error) && tries < BETWEEN_TRIES => {
                tries += 1;
                tokio::time::sleep(BETWEEN_PAUSE).await;
            }
            other => return other.map_err(client.error("list containers")),
        }
    }
}

/// Returns whether Podman was asked in a moment it is not made for: a container
/// is `stopped`, which Docker does not know, between its end and the note of it,
/// and its process may go while it is looked at.
fn is_between_states(error: &bollard::errors::Error) -> bool {
    let text = error.to_string();
    let passing = ["unknown variant `stopped`", "unknown variant `stopping`", "no such process"];
    passing.iter().any(|passing| text.contains(passing))
}

/// Returns the instances that carry a mark.
pub(super) async fn find(
    client: &Client,
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
        // Between the list and the look it may have gone.
        let Some(seen) = inspect(client, id).await? else {
            continue;
        };
        match describe(client, &info.id, &listed, &seen) {
            Some(own) => found.push(own),
            None => tell_of_bearer(&seen.inspected),
        }
    }
    Ok(found)
}

/// Returns the id of the sandbox's own container that has a name. For when
/// looking at it has failed: what the list says of it is enough then.
pub(super) async fn own_by_name(
    client: &Client,
    name: &str,
    key: &str,
) -> Result<Option<String>, BackendError> {
    for listed in list(client, &format!("{}={key}", label::KEY)).await? {
        let is_named =
            |listed: &String| listed.trim_start_matches('/') == name.trim_start_matches('/');
        if !listed.names.iter().flatten().any(is_named) {
            continue;
        }
        let Some(id) = listed.id.clone() else {
            continue;
        };
        let is_own = match inspect(client, &id).await {
            Ok(Some(seen)) => Traits::of(&seen.inspected).and_then(Traits::own).is_some(),
            Ok(None) => false,
            Err(error) => {
                tracing::debug!(%error, id, "known from the list only");
                Traits::listed(&listed).and_then(Traits::own).is_some()
            }
        };
        if is_own {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Returns what a container is to us; nothing for one that merely carries our
/// labels.
fn describe(
    client: &Client,
    engine: &str,
    listed: &ContainerSummary,
    seen: &Seen,
) -> Option<FoundInstance> {
    let labels = listed.labels.as_ref()?;
    let created_at = seen.inspected.created.as_deref().and_then(time);
    let mut name = seen.inspected.name.clone().unwrap_or_default();
    name = name.trim_start_matches('/').to_owned();
    let locator = |image: Option<String>, transport| DockerLocator {
        engine: engine.to_owned(),
        address: client.address().to_owned(),
        container: seen.id.clone(),
        name: name.clone(),
        image: image.unwrap_or_else(|| listed.image.clone().unwrap_or_default()),
        image_id: seen.inspected.image.clone().unwrap_or_default(),
        transport,
        unenforced: Vec::new(),
        weakened: Vec::new(),
        is_copy: Origin::is_elsewhere(&seen.inspected),
    };
    if labels.contains_key(ERRAND_LABEL) && helper::is_name(&name) {
        return Some(FoundInstance {
            id: seen.id.clone(),
            key: String::new(),
            task: name.clone(),
            generation: 0,
            persistent: false,
            owner: None,
            spec: String::new(),
            // Nobody resumes an errand.
            state: match seen.state {
                InstanceState::Stopped { since } => InstanceState::Broken { since },
                other => other,
            },
            created_at,
            locator: locator(None, Transport::Exec).to_locator(),
        });
    }
    let marks = Traits::of(&seen.inspected)?.own()?;
    let mounts = seen.inspected.mounts.as_ref()?;
    let at = |place: &str| mounts.iter().find(|mount| mount.destination.as_deref() == Some(place));
    let boot = at(BOOT_DIR)?;
    let transport = if boot.typ.as_deref() == Some("bind") {
        Transport::Socket { pid: seen.pid }
    } else {
        Transport::Exec
    };
    Some(FoundInstance {
        id: marks.instance,
        key: marks.key,
        task: marks.task,
        generation: marks.generation,
        persistent: marks.persistent,
        owner: marks.owner,
        spec: marks.spec,
        state: seen.state,
        created_at,
        locator: locator(marks.image, transport).to_locator(),
    })
}

/// Returns whether a process is `ancestor` or descends from it.
pub(super) fn is_below(pid: u32, ancestor: u32) -> bool {
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
    fn what_cannot_be_started_is_broken() {
        let never = "0001-01-01T00:00:00Z";
        for status in [Status::CREATED, Status::DEAD, Status::REMOVING] {
            let state = state(&inspected(status, never));
            assert_eq!(state, InstanceState::Broken { since: None });
        }
        assert_eq!(state(&inspected(Status::PAUSED, never)), InstanceState::Paused);
        assert_eq!(state(&inspected(Status::RUNNING, never)), InstanceState::Running);
    }
}
