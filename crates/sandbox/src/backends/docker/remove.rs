//! Ending and removing containers, and the files that only they may touch.

use std::path::Path;
use std::time::Duration;

use bollard::query_parameters::{
    KillContainerOptionsBuilder, ListImagesOptions, RemoveContainerOptionsBuilder,
};
use tokio::time::Instant;

use super::api::{self, Client, Fault, fault};
use super::backend::Docker;
use super::errand::{ErrandError, Runner, end_copies};
use super::facts::Request;
use super::inspect::{inspect, look};
use crate::HomeId;
use crate::backend::{BackendError, Instance, InstanceState};
use crate::embedded::GUEST_PROGRAM;
use crate::store::{StoreError, remove_tree};

/// Where the directory to empty is mounted for the errand.
const DIR_TO_EMPTY: &str = "/.vestal/dir";

/// How long an engine may take to have removed a container.
const GONE_WITHIN: Duration = Duration::from_mins(1);

/// Time between two looks at something that is going.
const PAUSE: Duration = Duration::from_millis(20);

/// How often an engine may fail to remove a container before that is told.
const REFUSALS: u32 = 5;

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

impl Docker {
    /// Removes the directory of an instance.
    pub(super) async fn remove_instance_dir(&self, dir: &Path) -> Result<(), BackendError> {
        match remove_tree(dir) {
            Ok(()) => Ok(()),
            Err(StoreError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                self.empty(dir).await?;
                remove_tree(dir).map_err(|error| BackendError::Io {
                    action: format!("remove {}", dir.display()),
                    source: std::io::Error::other(error),
                })
            }
            Err(error) => Err(BackendError::Io {
                action: format!("remove {}", dir.display()),
                source: std::io::Error::other(error),
            }),
        }
    }

    /// Empties a directory from inside a container, whose root may do what
    /// this user may not.
    pub(super) async fn empty(&self, dir: &Path) -> Result<(), BackendError> {
        let client = self.client().await?;
        end_copies(&client, &self.home, dir).await?;
        let image = self.any_image(&client).await?;
        let program = GUEST_PROGRAM
            .install(&self.run_dir)
            .map_err(BackendError::io(format!("put the guest into {}", self.run_dir.display())))?;
        let request = Request { home: &self.home, image: &image, user: None };
        let words = vec!["erase".to_owned(), DIR_TO_EMPTY.to_owned()];
        let mounts = vec![(dir, DIR_TO_EMPTY)];
        let as_host = client.info().await?.maps_root_away();
        let runner = Runner::Eraser { program: &program, as_host };
        let emptied = self.errand(&client, request, words, mounts, runner).await;
        emptied.map(drop).map_err(|error| match error {
            ErrandError::Backend(error) => error,
            other => BackendError::Engine {
                action: format!("empty {}", dir.display()),
                message: other.to_string(),
            },
        })
    }

    /// Returns an image that is there: the guest needs nothing in it.
    pub(super) async fn any_image(&self, client: &Client) -> Result<String, BackendError> {
        let configured = self.settings.get(&crate::settings::keys::DOCKER_IMAGE)?.value;
        if api::exists(client, configured.as_str()).await? {
            return Ok(configured.as_str().to_owned());
        }
        let listed = client.api().list_images(None::<ListImagesOptions>).await;
        let listed = listed.map_err(client.error("list images"))?;
        listed.into_iter().next().map(|image| image.id).ok_or_else(|| BackendError::NoImage {
            image: configured.as_str().to_owned(),
            reason: "files of the sandbox belong to another user and can only be removed from \
                     inside a container"
                .to_owned(),
            advice: format!("pull an image: docker pull {}", configured.as_str()),
        })
    }
}
