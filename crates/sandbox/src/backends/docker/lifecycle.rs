//! A container after it was made: starting it again, ending it, giving it another
//! name, removing it.

use std::time::Duration;

use bollard::query_parameters::{
    KillContainerOptionsBuilder, RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder,
    StartContainerOptions,
};
use tokio::time::Instant;

use super::api::{Client, Fault, fault};
use super::backend::Docker;
use super::boot;
use super::guest::{GuestPart, upload, wait};
use super::helper::is_rlimit;
use super::identity::{DockerLocator, Transport};
use super::inspect::{Seen, inspect, look};
use super::mounts::{self, HostMounts};
use super::plan::container_name;
use super::prepare::Reach;
use super::settings::DockerSettings;
use super::storage::HostDirs;
use crate::backend::{BackendError, Instance, InstanceRequest, InstanceState, StartedInstance};
use crate::backends::limits::LimitKind;
use crate::key::random_hex;
use crate::mounts::Before;
use crate::{HomeId, failpoint};

/// How long an engine may take to have removed a container.
const GONE_WITHIN: Duration = Duration::from_mins(1);

/// Time between two looks at something that is going.
const PAUSE: Duration = Duration::from_millis(20);

/// How often an engine may fail to remove a container before that is told.
const REFUSALS: u32 = 5;

impl Docker {
    /// Starts a container that has stopped and waits until its guest listens.
    pub(super) async fn start_again(
        &self,
        request: InstanceRequest,
    ) -> Result<StartedInstance, BackendError> {
        let client = self.client().await?;
        let lost = |reason: &str| BackendError::Unresumable { reason: reason.to_owned() };
        let Some(locator) = DockerLocator::of_instance(&request.instance) else {
            return Err(lost("nothing is known of its container"));
        };
        let Some(seen) = inspect(&client, &locator.container).await? else {
            return Err(lost("its container is gone"));
        };
        give_name_back(&client, &request, &seen).await;
        let settings = DockerSettings::read(&self.settings, &request.overrides)?;
        let dirs = HostDirs::of(&request);
        let reach = match locator.transport {
            Transport::Socket { .. } => Reach::Shared,
            Transport::Exec => Reach::Apart,
        };
        let part = GuestPart::of(&seen.inspected)
            .ok_or_else(|| lost("its container does not say how its guest is started"))?;
        let mounts = match reach {
            Reach::Shared => {
                let placed = mounts::of_container(&seen, &request);
                let mounts = HostMounts::admit(&self.settings, placed, &request, Before::Recorded)?;
                mounts.refuse_uncovered(&seen, &request)?;
                mounts
            }
            Reach::Apart => HostMounts::none(&self.settings)?,
        };
        let guest = part.settings(&request)?;
        if reach == Reach::Shared {
            dirs.make(&request, &settings)?;
            boot::lay_out(&dirs.boot, &guest).map_err(BackendError::io("lay out the guest"))?;
            // The socket of the guest before is nobody's.
            std::fs::remove_file(dirs.io.join(crate::client::socket::SOCKET_NAME)).ok();
        } else {
            let program = self.guest_of_engine(&client).await?;
            upload(&client, &locator.container, &program, &guest).await?;
        }
        failpoint::reach("docker.start.prepared");
        start(&client, &locator.container)
            .await
            .map_err(|setback| setback.into_start_error(&locator.container))?;
        failpoint::reach("docker.start.started");
        let waited = async {
            let waiting = wait(&client, &request.instance, &locator.container, reach);
            let transport = waiting.await?;
            mounts.confirm(&request.instance, &dirs).await?;
            Ok::<_, BackendError>(transport)
        };
        let transport = match waited.await {
            Ok(transport) => transport,
            Err(error) => {
                let patience = std::time::Duration::from_secs(10);
                end(&client, &self.home, &request.instance, patience).await.ok();
                return Err(error);
            }
        };
        let locator = DockerLocator { transport, ..locator };
        Ok(StartedInstance { locator: locator.to_locator(), warnings: Vec::new() })
    }
}

/// Gives a container its name back that was set aside for one that then did not
/// take its place. Without it it is found all the same.
async fn give_name_back(client: &Client, request: &InstanceRequest, seen: &Seen) {
    let name = container_name(&request.key, None);
    let is_aside = seen.inspected.name.as_deref().is_some_and(|now| now.contains("-aside-"));
    if request.owner.is_none() && is_aside {
        let options = RenameContainerOptionsBuilder::new().name(&name).build();
        if let Err(error) = client.api().rename_container(&seen.id, options).await {
            tracing::debug!(%error, name, "the name is not free");
        }
    }
}

pub(super) async fn start(client: &Client, container: &str) -> Result<(), Setback> {
    match client.api().start_container(container, None::<StartContainerOptions>).await {
        Ok(()) => Ok(()),
        Err(error) => Err(Setback::read(client, "start the container", error)),
    }
}

/// Why an attempt failed, as far as another one could go better.
#[derive(Debug)]
pub(super) enum Setback {
    /// The engine may not set the limits of processes that it wants to.
    Rlimit,
    /// The engine cannot enforce some of these.
    Limits(Vec<LimitKind>),
    /// Nothing helps.
    Final(BackendError),
}

impl From<BackendError> for Setback {
    fn from(error: BackendError) -> Self {
        Self::Final(error)
    }
}

impl Setback {
    pub(super) fn into_error(self) -> BackendError {
        let message = match self {
            Self::Final(error) => return error,
            Self::Rlimit => "it may not set the limits of processes".to_owned(),
            Self::Limits(kinds) => format!(
                "it cannot enforce {}",
                kinds.iter().map(|kind| kind.key()).collect::<Vec<_>>().join(", ")
            ),
        };
        BackendError::Engine { action: "start the container".to_owned(), message }
    }

    /// The same for a container that was there before: one that the engine has
    /// lost parts of can never be started again.
    fn into_start_error(self, container: &str) -> BackendError {
        match self.into_error() {
            BackendError::Engine { message, .. } if is_lost(&message, container) => {
                BackendError::Unresumable { reason: message }
            }
            error => error,
        }
    }

    /// Reads a refusal of the engine's.
    pub(super) fn read(client: &Client, action: &str, error: bollard::errors::Error) -> Self {
        if let Fault::Refused { message, .. } = fault(&error) {
            if is_rlimit(&message) {
                return Self::Rlimit;
            }
            // There are fewer processors than the limit allows.
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

/// Returns whether an engine says that a container, by its id, or what it is made
/// of, is gone. Whatever else it says may pass: a full disk, a busy device, a
/// cgroup, another container whose network it shares.
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

/// Makes sure that nothing of a container runs.
pub(super) async fn end(
    client: &Client,
    home: &HomeId,
    instance: &Instance,
    patience: Duration,
) -> Result<(), BackendError> {
    let Some(seen) = look(client, home, instance).await? else {
        return Ok(());
    };
    let deadline = Instant::now() + patience;
    let mut state = seen.state;
    while matches!(state, InstanceState::Running | InstanceState::Paused) {
        if Instant::now() >= deadline {
            return Err(BackendError::WontEnd {
                id: instance.id.clone(),
                reason: format!("container {} does not stop", seen.id),
            });
        }
        if state == InstanceState::Paused {
            tolerate(client.api().unpause_container(&seen.id).await, client, "unpause")?;
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

/// Kills a container by its name or id, whether it runs, is held, or neither.
pub(super) async fn kill_blindly(client: &Client, container: &str) -> Result<(), BackendError> {
    tolerate(client.api().unpause_container(container).await, client, "unpause")?;
    kill(client, container).await
}

/// Kills a container by its name or id, if it runs.
async fn kill(client: &Client, container: &str) -> Result<(), BackendError> {
    let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
    tolerate(client.api().kill_container(container, Some(options)).await, client, "kill")
}

/// Takes it as done when the container is gone or in another state than the
/// one that was just seen.
fn tolerate(
    result: Result<(), bollard::errors::Error>,
    client: &Client,
    verb: &str,
) -> Result<(), BackendError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => match fault(&error) {
            Fault::Unreachable => Err(client.error(&format!("{verb} the container"))(error)),
            _ => Ok(()),
        },
    }
}

/// Removes a container and its own volumes, whatever it does, and waits until
/// it is gone.
pub(super) async fn remove(
    client: &Client,
    home: &HomeId,
    instance: &Instance,
) -> Result<(), BackendError> {
    let deadline = Instant::now() + GONE_WITHIN;
    let mut refusals = 0;
    while let Some(seen) = look(client, home, instance).await? {
        if Instant::now() >= deadline {
            return Err(BackendError::WontEnd {
                id: instance.id.clone(),
                reason: format!("container {} is not removed", seen.id),
            });
        }
        match force_remove(client, &seen.id).await {
            Ok(()) => {}
            // It is being removed already, as one that ended by itself may be.
            Err(error) if matches!(fault(&error), Fault::Conflict) => {
                tokio::time::sleep(PAUSE).await;
            }
            // One that ends at this very moment cannot be killed, and the engine
            // then fails instead of removing it.
            Err(error) if refusals < REFUSALS && !matches!(fault(&error), Fault::Unreachable) => {
                refusals += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(client.error("remove the container")(error)),
        }
    }
    Ok(())
}

/// Removes a container by its name or id; absent is fine.
pub(super) async fn force_remove(
    client: &Client,
    name: &str,
) -> Result<(), bollard::errors::Error> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match client.api().remove_container(name, Some(options)).await {
        Err(error) if !matches!(fault(&error), Fault::Absent) => Err(error),
        _ => Ok(()),
    }
}

/// Removes a container that does not run; one that runs again is left alone.
pub(super) async fn collect(client: &Client, container: &str) -> Result<bool, BackendError> {
    let options = RemoveContainerOptionsBuilder::new().force(false).v(true).build();
    match client.api().remove_container(container, Some(options)).await {
        Ok(()) => Ok(true),
        Err(error) => match fault(&error) {
            Fault::Absent | Fault::Conflict => Ok(false),
            _ => Err(client.error("remove a container")(error)),
        },
    }
}

/// Gives a container another name; absent is fine.
pub(super) async fn rename_aside(
    client: &Client,
    container: &str,
    name: &str,
) -> Result<(), BackendError> {
    let random = random_hex::<4>().map_err(BackendError::io("name a container"))?;
    let aside = format!("{name}-aside-{random}");
    let options = RenameContainerOptionsBuilder::new().name(&aside).build();
    match client.api().rename_container(container, options).await {
        Ok(()) => Ok(()),
        Err(error) => match fault(&error) {
            Fault::Absent => Ok(()),
            _ => Err(client.error("move the old container aside")(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_container_itself_and_its_layers_can_be_lost() {
        let id = "4f5e6d7c".repeat(8);
        let cases = [
            (format!("No such container: {id}"), true),
            (format!("container {id} is marked for removal and cannot be started"), true),
            (format!("no container with name or ID \"{id}\" found: no such container"), true),
            ("layer does not exist".to_owned(), true),
            // Docker's words for a container whose network it was to share.
            ("No such container: proxy".to_owned(), false),
            (
                format!("cannot join network of {}: No such container: {}", "proxy", &id[..12]),
                false,
            ),
            ("no space left on device".to_owned(), false),
        ];
        for (message, expected) in cases {
            assert_eq!(is_lost(&message, &id), expected, "{message}");
        }
    }
}
