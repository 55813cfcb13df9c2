//! Creating containers.

use std::path::Path;

use bollard::models::ContainerStateStatusEnum;
use bollard::query_parameters::CreateContainerOptionsBuilder;

use super::api::{self, EngineClient, EngineFault, EngineInfo, ImageInfo, classify};
use super::backend::Docker;
use super::boot;
use super::guest::{GuestConfig, upload, wait_until_ready};
use super::identity::DockerLocator;
use super::images::{BaseImage, BaseSystem};
use super::inspect::inspect;
use super::lifecycle::{ContainerStartFailure, force_remove, remove_stopped, rename_aside, start};
use super::mounts::{self, HostMounts};
use super::plan::{
    self, Blueprint, ContainerLabels, PlannedContainer, Ulimits, limits_not_applied,
};
use super::prepare::{PrepareInput, Prepared, Sharing};
use super::settings::DockerSettings;
use super::storage::{self, ContainerDirs, MountSources};
use crate::backend::{BackendError, InstanceRequest, StartedInstance};
use crate::backends::own_system::LimitKind;
use crate::mounts::KnownMounts;
use crate::{HomeId, Progress, failpoint};

/// Most attempts at a container. Each one leaves out what the engine refused in
/// the one before.
const ATTEMPTS: usize = 5;

impl Docker {
    /// Creates a container and waits until its guest listens.
    pub(super) async fn create_instance(
        &self,
        request: InstanceRequest,
    ) -> Result<StartedInstance, BackendError> {
        let client = self.client().await?;
        let settings = DockerSettings::read(&self.settings, &request.overrides)?;
        storage::check_sources(&client, &settings)?;
        let dirs = ContainerDirs::of(&request);
        let (image, copied_from) = self.image_for(&client, &settings, &request).await?;
        request.progress.report(Progress::Starting { what: format!("starting {}", image.name) });
        let home_is_new = !dirs.home.exists();
        if self.is_behind_streams() {
            dirs.make_instances(&request)?;
        } else {
            dirs.make(&request, &settings)?;
        }
        let fill = settings.persistent && (copied_from.is_none() || home_is_new);
        let preparation = Preparation {
            dirs: &dirs,
            fill: fill.then_some(&*dirs.home),
            copied_from: copied_from.as_ref(),
        };
        let prepared =
            self.prepare_container(&client, &settings, &image, &request, &preparation).await?;
        let base_image = BaseImage {
            image: copied_from.map_or_else(|| image.clone(), |base_image| base_image.image),
            user: Some(prepared.known_user()),
        };
        mounts::check_binds_shared(&settings, prepared.sharing)?;
        let mounts = match prepared.sharing {
            Sharing::Shared => {
                let host_mounts = mounts::mounts_of_settings(&settings);
                HostMounts::admit(&self.settings, host_mounts, &request, KnownMounts::Nothing)?
            }
            Sharing::Separate => HostMounts::none(&self.settings)?,
        };
        let sources = MountSources::of(&request, &dirs, &settings, prepared.sharing);
        if prepared.sharing == Sharing::Separate && !self.is_behind_streams() {
            dirs.remove_empty();
        }
        sources.make_volumes(&client, &request.key, &self.home).await?;
        failpoint::reach("docker.create.prepared");

        let mut left_out: Vec<LimitKind> = Vec::new();
        let mut ulimits = self.ulimits(&client).await?;
        for _ in 0..ATTEMPTS {
            let attempt = CreateAttempt {
                request: &request,
                settings: &settings,
                image: &image,
                base_image: &base_image,
                prepared: &prepared,
                sources: &sources,
                mounts: &mounts,
                left_out: &left_out,
                ulimits,
            };
            match self.attempt(&client, &attempt, &dirs).await {
                Ok(made) => return Ok(made),
                Err(ContainerStartFailure::Rlimit) if ulimits.is_none() => {
                    ulimits = Some(self.remember_ulimits(&client).await?);
                }
                Err(ContainerStartFailure::Limits(kinds))
                    if kinds.iter().any(|kind| !left_out.contains(kind)) =>
                {
                    left_out.extend(kinds);
                }
                Err(failure) => return Err(failure.into_error()),
            }
        }
        Err(BackendError::Engine {
            action: "create a container".to_owned(),
            message: "it refused one limit after another".to_owned(),
        })
    }

    /// Returns the image for a container and, if it is a copy of another
    /// container's system, the base image of that system.
    async fn image_for(
        &self,
        client: &EngineClient,
        settings: &DockerSettings,
        request: &InstanceRequest,
    ) -> Result<(ImageInfo, Option<BaseImage>), BackendError> {
        let Some(base) = &request.base else {
            let image =
                api::find_or_pull(client, settings.image.as_str(), &request.progress).await?;
            return Ok((image, None));
        };
        let BaseSystem { id, base_image } = self.prepare_base(client, request, base).await?;
        failpoint::reach("docker.fork.copied");
        Ok((base_image.image_info(id), Some(base_image)))
    }

    async fn prepare_container(
        &self,
        client: &EngineClient,
        settings: &DockerSettings,
        image: &ImageInfo,
        request: &InstanceRequest,
        preparation: &Preparation<'_>,
    ) -> Result<Prepared, BackendError> {
        let Preparation { dirs, fill, copied_from } = preparation;
        // The helper container runs the same program.
        boot::lay_out(&dirs.boot, &[]).map_err(BackendError::io("install the guest"))?;
        let program = dirs.boot.join(boot::PROGRAM);
        let sandboxes = request.sandbox_dir.parent().unwrap_or(&request.sandbox_dir);
        let input = PrepareInput {
            home: &self.home,
            program: &program,
            io: &dirs.io,
            home_dir: *fill,
            sandboxes,
            known: copied_from.and_then(|base_image| base_image.user.as_ref()),
        };
        self.prepare(client, settings, image, &input).await
    }

    async fn attempt(
        &self,
        client: &EngineClient,
        attempt: &CreateAttempt<'_>,
        dirs: &ContainerDirs,
    ) -> Result<StartedInstance, ContainerStartFailure> {
        let CreateAttempt { request, image, prepared, .. } = attempt;
        let info = client.info().await?;
        let hash = request.spec.hash();
        let mut plan = plan::plan(&attempt.blueprint(&self.home, info, &hash))?;
        let guest_config = GuestConfig::new(&plan, &prepared.user, prepared.sharing);
        guest_config.add_label(&mut plan.body);
        attempt.base_image.add_label(&mut plan.body);
        let settings = guest_config.encode_settings(request)?;
        if prepared.sharing == Sharing::Shared {
            boot::lay_out(&dirs.boot, &settings).map_err(BackendError::io("install the guest"))?;
        }
        let container = create(client, &plan).await?;
        failpoint::reach("docker.create.created");
        let brought_up = async {
            let dropped = self.dropped_limits(client, &container, &plan, attempt).await?;
            if prepared.sharing == Sharing::Separate {
                let program = self.guest_of_engine(client).await?;
                upload(client, &container, &program, &settings).await?;
            }
            failpoint::reach("docker.create.filled");
            start(client, &container).await?;
            failpoint::reach("docker.create.started");
            let transport =
                wait_until_ready(client, &request.instance, &container, prepared.sharing).await?;
            attempt.mounts.confirm(&request.instance, dirs).await?;
            Ok::<_, ContainerStartFailure>((dropped, transport))
        };
        let (dropped, transport) = match brought_up.await {
            Ok(up) => up,
            Err(failure) => {
                // A failed start leaves no container behind.
                if let Err(error) = force_remove(client, &container).await {
                    tracing::warn!(%error, container, "cannot remove the container");
                }
                return Err(failure);
            }
        };
        let mut unenforced = plan.unenforced;
        unenforced.extend(dropped.iter().map(|kind| kind.key().to_owned()));
        let mut warnings: Vec<String> =
            attempt.settings.limits.warning(&unenforced).into_iter().collect();
        if !plan.weakened.is_empty() {
            let weakened = plan.weakened.join(", ");
            warnings.push(format!("the settings weaken the isolation: {weakened}"));
        }
        warnings.extend(attempt.base_warnings());
        warnings.extend(client.denied_notice());
        let locator = DockerLocator {
            engine: info.id.clone(),
            address: client.address().to_owned(),
            container,
            name: plan.name,
            image: image.name.clone(),
            image_id: image.id.clone(),
            transport,
            unenforced,
            weakened: plan.weakened,
            is_copy: image.is_bare,
        };
        Ok(StartedInstance { locator: locator.to_locator(), warnings })
    }

    /// Returns the limits that the engine silently dropped. Refuses if one of them
    /// is required.
    async fn dropped_limits(
        &self,
        client: &EngineClient,
        container: &str,
        plan: &PlannedContainer,
        attempt: &CreateAttempt<'_>,
    ) -> Result<Vec<LimitKind>, BackendError> {
        let Some(seen) = inspect(client, container).await? else {
            return Err(BackendError::Engine {
                action: "create a container".to_owned(),
                message: "the new container has disappeared".to_owned(),
            });
        };
        let dropped = limits_not_applied(&seen.response, &plan.body);
        match dropped.iter().find(|kind| attempt.settings.limits.requires(**kind)) {
            Some(kind) => Err(kind.unenforceable("the engine silently drops it")),
            None => Ok(dropped),
        }
    }
}

/// Input of the preparation of a container.
#[derive(Debug)]
struct Preparation<'a> {
    dirs: &'a ContainerDirs,
    /// The home, if it is to be filled from the image. The home of a copy comes
    /// from the original, even if it is empty.
    fill: Option<&'a Path>,
    /// The base image of the system, if it is a copy.
    copied_from: Option<&'a BaseImage>,
}

/// One attempt to create a container.
#[derive(Debug)]
struct CreateAttempt<'a> {
    request: &'a InstanceRequest,
    settings: &'a DockerSettings,
    image: &'a ImageInfo,
    base_image: &'a BaseImage,
    prepared: &'a Prepared,
    sources: &'a MountSources,
    mounts: &'a HostMounts,
    left_out: &'a [LimitKind],
    ulimits: Option<Ulimits>,
}

impl CreateAttempt<'_> {
    /// Returns the warnings for a container whose system is a copy.
    fn base_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.image.is_bare {
            return warnings;
        }
        let (was, now) = (&self.image.name, self.settings.image.as_str());
        if was != now {
            warnings.push(format!(
                "the system of this sandbox is a copy based on image {was}; terminal.docker_image \
                 is now {now}, which `vestal rebuild` applies"
            ));
        }
        if !self.image.volumes.is_empty() {
            warnings.push(format!(
                "the volumes of image {was} are not copied and start empty: {}",
                self.image.volumes.join(", ")
            ));
        }
        warnings
    }

    fn blueprint<'a>(
        &'a self,
        home: &'a HomeId,
        info: &'a EngineInfo,
        spec_hash: &'a str,
    ) -> Blueprint<'a> {
        Blueprint {
            key: &self.request.key,
            home,
            generation: self.request.generation,
            instance: &self.request.instance.id,
            owner: self.request.owner.as_ref(),
            spec_hash,
            settings: self.settings,
            image: self.image,
            info,
            user: &self.prepared.user,
            boot: self.sources.boot.clone(),
            io: self.sources.io.clone(),
            state: self.sources.state.clone(),
            workspace: self.sources.workspace.clone(),
            home_dir: self.sources.home.clone(),
            mounts: &self.mounts.mounts,
            hidden: &self.mounts.own_dirs.hidden,
            leave_out: self.left_out,
            ulimits: self.ulimits,
        }
    }
}

/// Creates the container. A half-made container of the same sandbox that has its
/// name is removed or renamed; any other container is left alone.
async fn create(
    client: &EngineClient,
    plan: &PlannedContainer,
) -> Result<String, ContainerStartFailure> {
    let mut options = CreateContainerOptionsBuilder::new().name(&plan.name);
    if let Some(platform) = &plan.platform {
        options = options.platform(platform);
    }
    let options = options.build();
    for _ in 0..3 {
        let made = client.api().create_container(Some(options.clone()), plan.body.clone()).await;
        match made {
            Ok(made) => {
                for warning in made.warnings {
                    tracing::debug!(warning, "warning of the engine");
                }
                return Ok(made.id);
            }
            Err(error) if matches!(classify(&error), EngineFault::NameTaken(_)) => {
                clear_name(client, plan).await?;
            }
            Err(error) => {
                return Err(ContainerStartFailure::classify(client, "create a container", error));
            }
        }
    }
    Err(ContainerStartFailure::Final(BackendError::NameTaken { name: plan.name.clone() }))
}

/// Frees the name of the container if another container of the same sandbox has
/// it.
async fn clear_name(client: &EngineClient, plan: &PlannedContainer) -> Result<(), BackendError> {
    let taken = || BackendError::NameTaken { name: plan.name.clone() };
    let Some(seen) = inspect(client, &plan.name).await? else {
        return Ok(());
    };
    let ours = plan.body.labels.as_ref().and_then(ContainerLabels::parse).ok_or_else(taken)?;
    let theirs = seen.owned_labels().ok_or_else(taken)?;
    if theirs.key != ours.key {
        return Err(taken());
    }
    // It never ran and holds nothing: its creator was killed while the engine
    // created it.
    let status = seen.response.state.as_ref().and_then(|state| state.status);
    if status == Some(ContainerStateStatusEnum::CREATED) && remove_stopped(client, &seen.id).await?
    {
        return Ok(());
    }
    // The caller holds the lock, so the container is unknown or about to be
    // replaced, and does not run. It keeps its files under another name.
    tracing::debug!(container = seen.id, "setting aside the container that has the name");
    rename_aside(client, &seen.id, &plan.name).await
}
