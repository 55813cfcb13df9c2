//! The life of a container after its creation: start, end, set aside, remove.

use std::time::Duration;

use bollard::query_parameters::{
    KillContainerOptionsBuilder, RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder,
    StartContainerOptions,
};
use tokio::time::Instant;

use super::api::{EngineClient, EngineFault, classify};
use super::backend::Docker;
use super::boot;
use super::guest::{GuestConfig, upload, wait_until_ready};
use super::helper::is_rlimit;
use super::identity::{DockerLocator, GuestTransport};
use super::inspect::{InspectedContainer, find_by_name, find_container, inspect};
use super::mounts::{self, HostMounts};
use super::plan::container_name;
use super::prepare::Sharing;
use super::settings::DockerSettings;
use super::storage::ContainerDirs;
use crate::backend::{BackendError, Instance, InstanceRequest, InstanceState, StartedInstance};
use crate::backends::own_system::LimitKind;
use crate::key::random_hex;
use crate::mounts::KnownMounts;
use crate::{HomeId, Key, failpoint};

/// Longest time until a container must be removed.
const REMOVE_TIMEOUT: Duration = Duration::from_mins(1);

/// Time between two checks of a container that is ending.
const PAUSE: Duration = Duration::from_millis(20);

/// How often an engine may refuse to remove a container.
const MAX_REFUSALS: u32 = 5;

impl Docker {
    /// Starts a stopped container and waits until its guest listens.
    pub(super) async fn start_again(
        &self,
        request: InstanceRequest,
    ) -> Result<StartedInstance, BackendError> {
        let client = self.client().await?;
        let lost = |reason: &str| BackendError::Unresumable { reason: reason.to_owned() };
        let Some(locator) = DockerLocator::of_instance(&request.instance) else {
            return Err(lost("its container is not recorded"));
        };
        let Some(seen) = inspect(&client, &locator.container).await? else {
            return Err(lost("its container is gone"));
        };
        restore_name(&client, &request, &seen).await;
        let settings = DockerSettings::read(&self.settings, &request.overrides)?;
        let dirs = ContainerDirs::of(&request);
        let sharing = match locator.transport {
            GuestTransport::Socket { .. } => Sharing::Shared,
            GuestTransport::Exec => Sharing::Separate,
        };
        let guest_config = GuestConfig::of_container(&seen.response)
            .ok_or_else(|| lost("its container lacks the label with the guest's settings"))?;
        let mounts = match sharing {
            Sharing::Shared => {
                let host_mounts = mounts::mounts_of_container(&seen, &request);
                let mounts = HostMounts::admit(
                    &self.settings,
                    host_mounts,
                    &request,
                    KnownMounts::Recorded,
                )?;
                mounts.refuse_uncovered(&seen, &request)?;
                mounts
            }
            Sharing::Separate => HostMounts::none(&self.settings)?,
        };
        let guest = guest_config.encode_settings(&request)?;
        if sharing == Sharing::Shared {
            dirs.make(&request, &settings)?;
            boot::lay_out(&dirs.boot, &guest).map_err(BackendError::io("install the guest"))?;
            // The socket is left over from the previous guest.
            std::fs::remove_file(dirs.io.join(crate::client::socket::SOCKET_NAME)).ok();
        } else {
            let program = self.guest_of_engine(&client).await?;
            upload(&client, &locator.container, &program, &guest).await?;
        }
        failpoint::reach("docker.start.prepared");
        start(&client, &locator.container)
            .await
            .map_err(|failure| failure.into_start_error(&locator.container))?;
        failpoint::reach("docker.start.started");
        let waited = async {
            let waiting = wait_until_ready(&client, &request.instance, &locator.container, sharing);
            let transport = waiting.await?;
            mounts.confirm(&request.instance, &dirs).await?;
            Ok::<_, BackendError>(transport)
        };
        let transport = match waited.await {
            Ok(transport) => transport,
            Err(error) => {
                let timeout = std::time::Duration::from_secs(10);
                end(&client, &self.home, &request.instance, timeout).await.ok();
                return Err(error);
            }
        };
        let locator = DockerLocator { transport, ..locator };
        Ok(StartedInstance { locator: locator.to_locator(), warnings: Vec::new() })
    }
}

/// Restores the name of a container that was set aside for one that was never
/// made. A failure does no harm: the container is found without its name.
async fn restore_name(client: &EngineClient, request: &InstanceRequest, seen: &InspectedContainer) {
    let name = container_name(&request.key, None);
    let is_aside = seen.response.name.as_deref().is_some_and(|now| now.contains("-aside-"));
    if request.owner.is_none() && is_aside {
        let options = RenameContainerOptionsBuilder::new().name(&name).build();
        if let Err(error) = client.api().rename_container(&seen.id, options).await {
            tracing::debug!(%error, name, "cannot restore the name");
        }
    }
}

pub(super) async fn start(
    client: &EngineClient,
    container: &str,
) -> Result<(), ContainerStartFailure> {
    match client.api().start_container(container, None::<StartContainerOptions>).await {
        Ok(()) => Ok(()),
        Err(error) => Err(ContainerStartFailure::classify(client, "start the container", error)),
    }
}

/// Why a container could not be created or started, by what another attempt can
/// change.
#[derive(Debug)]
pub(super) enum ContainerStartFailure {
    /// The engine is not allowed to set its default process limits.
    Rlimit,
    /// The engine cannot enforce some of these limits.
    Limits(Vec<LimitKind>),
    /// Another attempt would fail as well.
    Final(BackendError),
}

impl From<BackendError> for ContainerStartFailure {
    fn from(error: BackendError) -> Self {
        Self::Final(error)
    }
}

impl ContainerStartFailure {
    pub(super) fn into_error(self) -> BackendError {
        let message = match self {
            Self::Final(error) => return error,
            Self::Rlimit => "it is not allowed to set process limits".to_owned(),
            Self::Limits(kinds) => format!(
                "it cannot enforce {}",
                kinds.iter().map(|kind| kind.key()).collect::<Vec<_>>().join(", ")
            ),
        };
        BackendError::Engine { action: "start the container".to_owned(), message }
    }

    /// Returns the error for an existing container, which can never be started
    /// again if the engine has lost parts of it.
    fn into_start_error(self, container: &str) -> BackendError {
        match self.into_error() {
            BackendError::Engine { message, .. } if is_lost(&message, container) => {
                BackendError::Unresumable { reason: message }
            }
            error => error,
        }
    }

    pub(super) fn classify(
        client: &EngineClient,
        action: &str,
        error: bollard::errors::Error,
    ) -> Self {
        if let EngineFault::Refused { message, .. } = classify(&error) {
            if is_rlimit(&message) {
                return Self::Rlimit;
            }
            // The machine has fewer processors than the limit.
            if message.contains("Range of CPUs") {
                return Self::Limits(vec![LimitKind::Cpu]);
            }
            if is_about_storage(&message) {
                return Self::Limits(vec![LimitKind::Disk]);
            }
            if is_about_cgroups(&message) {
                return Self::Limits(vec![LimitKind::Cpu, LimitKind::Memory, LimitKind::Pids]);
            }
        }
        Self::Final(client.error(action)(error))
    }
}

/// Returns whether the message says that the container with this id, or one of its
/// layers, is gone. Other errors can pass: a full disk, a busy device, a cgroup,
/// a missing container whose network it shares.
fn is_lost(message: &str, container: &str) -> bool {
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    let is_gone = says(&["no such container", "marked for removal"]);
    let names_it = !container.is_empty() && message.contains(&container.to_lowercase());
    (is_gone && names_it) || says(&["layer does not exist", "layer not known"])
}

fn is_about_storage(message: &str) -> bool {
    message.contains("storage-opt") || message.contains("pquota") || message.contains("storage opt")
}

fn is_about_cgroups(message: &str) -> bool {
    message.contains("cgroup") || message.contains("cpu.cfs_") || message.contains("NanoCPUs")
}

/// Kills a container and waits until it has stopped.
pub(super) async fn end(
    client: &EngineClient,
    home: &HomeId,
    instance: &Instance,
    timeout: Duration,
) -> Result<(), BackendError> {
    let Some(seen) = find_container(client, home, instance).await? else {
        return Ok(());
    };
    let deadline = Instant::now() + timeout;
    let mut state = seen.state;
    while matches!(state, InstanceState::Running | InstanceState::Paused) {
        if Instant::now() >= deadline {
            return Err(BackendError::WontEnd {
                id: instance.id.clone(),
                reason: format!("container {} does not stop", seen.id),
            });
        }
        if state == InstanceState::Paused {
            ignore_wrong_state(client.api().unpause_container(&seen.id).await, client, "unpause")?;
        }
        kill(client, &seen.id).await?;
        tokio::time::sleep(PAUSE).await;
        match inspect(client, &seen.id).await? {
            Some(seen) => state = seen.state,
            None => return Ok(()),
        }
    }
    Ok(())
}

async fn kill(client: &EngineClient, container: &str) -> Result<(), BackendError> {
    let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
    ignore_wrong_state(client.api().kill_container(container, Some(options)).await, client, "kill")
}

/// Ignores the error if the container is gone or has changed its state meanwhile.
fn ignore_wrong_state(
    result: Result<(), bollard::errors::Error>,
    client: &EngineClient,
    verb: &str,
) -> Result<(), BackendError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => match classify(&error) {
            EngineFault::Unreachable => Err(client.error(&format!("{verb} the container"))(error)),
            _ => Ok(()),
        },
    }
}

/// Removes a container and its anonymous volumes, running or not, and waits until
/// it is gone.
pub(super) async fn remove(
    client: &EngineClient,
    home: &HomeId,
    instance: &Instance,
) -> Result<(), BackendError> {
    let deadline = Instant::now() + REMOVE_TIMEOUT;
    let mut refusals = 0;
    while let Some(seen) = find_container(client, home, instance).await? {
        if Instant::now() >= deadline {
            return Err(BackendError::WontEnd {
                id: instance.id.clone(),
                reason: format!("container {} is not removed", seen.id),
            });
        }
        match force_remove(client, &seen.id).await {
            Ok(()) => {}
            // The engine is already removing it.
            Err(error) if matches!(classify(&error), EngineFault::Conflict) => {
                tokio::time::sleep(PAUSE).await;
            }
            // A container that is just exiting cannot be killed, and the engine
            // fails instead of removing it.
            Err(error)
                if refusals < MAX_REFUSALS
                    && !matches!(classify(&error), EngineFault::Unreachable) =>
            {
                refusals += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(client.error("remove the container")(error)),
        }
    }
    Ok(())
}

/// Removes a container by its name or id. An absent container is not an error.
pub(super) async fn force_remove(
    client: &EngineClient,
    name: &str,
) -> Result<(), bollard::errors::Error> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match client.api().remove_container(name, Some(options)).await {
        Err(error) if !matches!(classify(&error), EngineFault::Absent) => Err(error),
        _ => Ok(()),
    }
}

/// Removes a container unless it runs. Returns whether it was removed.
pub(super) async fn remove_stopped(
    client: &EngineClient,
    container: &str,
) -> Result<bool, BackendError> {
    let options = RemoveContainerOptionsBuilder::new().force(false).v(true).build();
    match client.api().remove_container(container, Some(options)).await {
        Ok(()) => Ok(true),
        Err(error) => match classify(&error) {
            EngineFault::Absent | EngineFault::Conflict => Ok(false),
            _ => Err(client.error("remove a container")(error)),
        },
    }
}

/// Frees the name of a sandbox's container by renaming the container, which must be
/// stopped.
///
/// Callers end an instance first, or have failed to inspect it. So a container that
/// runs is one of which the engine could not say so: it may have running jobs, and
/// is left as it is.
pub(super) async fn set_aside(client: &EngineClient, key: &Key) -> Result<(), BackendError> {
    let name = container_name(key, None);
    // A container of another owner that has the name is left alone. The creation of
    // the next container reports it.
    let Some(container) = find_by_name(client, &name, &key.hash()).await? else {
        return Ok(());
    };
    if !container.is_stopped {
        return Err(BackendError::Advised {
            problem: format!(
                "container {name} is running, and the engine failed to inspect it; it is left as \
                 it is"
            ),
            advice: format!(
                "try again; if the engine keeps failing, end the container with `docker kill \
                 {name}`"
            ),
        });
    }
    rename_aside(client, &container.id, &name).await
}

/// Renames a container so that its name is free. An absent container is not an
/// error.
pub(super) async fn rename_aside(
    client: &EngineClient,
    container: &str,
    name: &str,
) -> Result<(), BackendError> {
    let random = random_hex::<4>().map_err(BackendError::io("name a container"))?;
    let aside = format!("{name}-aside-{random}");
    let options = RenameContainerOptionsBuilder::new().name(&aside).build();
    match client.api().rename_container(container, options).await {
        Ok(()) => Ok(()),
        Err(error) => match classify(&error) {
            EngineFault::Absent => Ok(()),
            _ => Err(client.error("rename the old container")(error)),
        },
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
