//! Making containers.

use std::path::Path;

use bollard::models::ContainerStateStatusEnum;
use bollard::query_parameters::CreateContainerOptionsBuilder;

use super::api::{self, Client, EngineInfo, Fault, ImageFacts, fault};
use super::backend::Docker;
use super::boot;
use super::guest::{GuestPart, upload, wait};
use super::identity::{DockerLocator, Traits};
use super::images::{Beginning, Origin};
use super::inspect::inspect;
use super::lifecycle::{Setback, collect, force_remove, rename_aside, start};
use super::mounts::{self, HostMounts};
use super::plan::{self, Blueprint, Marks, Plan, Ulimits, read_back};
use super::prepare::{Facts, Ground, Reach};
use super::settings::DockerSettings;
use super::storage::{self, HostDirs, Sources};
use crate::backend::{BackendError, InstanceRequest, StartedInstance};
use crate::backends::limits::LimitKind;
use crate::mounts::Before;
use crate::{HomeId, Progress, failpoint};

/// Attempts at a container: each one leaves out what the one before has shown
/// to be beyond the engine.
const ATTEMPTS: usize = 5;

impl Docker {
    /// Makes a container and waits until its guest listens.
    pub(super) async fn make(
        &self,
        request: InstanceRequest,
    ) -> Result<StartedInstance, BackendError> {
        let client = self.client().await?;
        let settings = DockerSettings::read(&self.settings, &request.overrides)?;
        storage::check_sources(&client, &settings)?;
        let dirs = HostDirs::of(&request);
        let (image, began) = self.image_for(&client, &settings, &request).await?;
        request.progress.tell(Progress::Starting { what: format!("starting {}", image.name) });
        let home_is_new = !dirs.home.exists();
        dirs.make(&request, &settings)?;
        let fill = settings.persistent && (began.is_none() || home_is_new);
        let lay = Lay { dirs: &dirs, fill: fill.then_some(&*dirs.home), began: began.as_ref() };
        let facts = self.find_facts(&client, &settings, &image, &request, &lay).await?;
        let origin = Origin {
            image: began.map_or_else(|| image.clone(), |origin| origin.image),
            user: Some(facts.known_user()),
        };
        mounts::check_shared(&settings, facts.reach)?;
        let mounts = match facts.reach {
            Reach::Shared => {
                let placed = mounts::of_settings(&settings);
                HostMounts::admit(&self.settings, placed, &request, Before::Nothing)?
            }
            Reach::Apart => HostMounts::none(&self.settings)?,
        };
        let sources = Sources::of(&request, &dirs, &settings, facts.reach);
        if facts.reach == Reach::Apart {
            dirs.unmake();
        }
        sources.make_volumes(&client, &request.key, &self.home).await?;
        failpoint::reach("docker.create.prepared");

        let mut left_out: Vec<LimitKind> = Vec::new();
        let mut ulimits = self.ulimits(&client).await?;
        for _ in 0..ATTEMPTS {
            let attempt = Attempt {
                request: &request,
                settings: &settings,
                image: &image,
                origin: &origin,
                facts: &facts,
                sources: &sources,
                mounts: &mounts,
                left_out: &left_out,
                ulimits,
            };
            match self.attempt(&client, &attempt, &dirs).await {
                Ok(made) => return Ok(made),
                Err(Setback::Rlimit) if ulimits.is_none() => {
                    ulimits = Some(self.remember_ulimits(&client).await?);
                }
                Err(Setback::Limits(kinds))
                    if kinds.iter().any(|kind| !left_out.contains(kind)) =>
                {
                    left_out.extend(kinds);
                }
                Err(setback) => return Err(setback.into_error()),
            }
        }
        Err(BackendError::Engine {
            action: "make a container".to_owned(),
            message: "it refuses one limit after the other".to_owned(),
        })
    }

    /// Returns the image to make a container of, and what it began with where
    /// it is a copy of another container's system.
    async fn image_for(
        &self,
        client: &Client,
        settings: &DockerSettings,
        request: &InstanceRequest,
    ) -> Result<(ImageFacts, Option<Origin>), BackendError> {
        let Some(base) = &request.base else {
            let image = api::resolve(client, settings.image.as_str(), &request.progress).await?;
            return Ok((image, None));
        };
        let Beginning { id, origin } = self.begin_with(client, request, base).await?;
        failpoint::reach("docker.fork.copied");
        Ok((origin.facts(id), Some(origin)))
    }

    async fn find_facts(
        &self,
        client: &Client,
        settings: &DockerSettings,
        image: &ImageFacts,
        request: &InstanceRequest,
        lay: &Lay<'_>,
    ) -> Result<Facts, BackendError> {
        let Lay { dirs, fill, began } = lay;
        // The errand runs the program that the container will.
        boot::lay_out(&dirs.boot, &[]).map_err(BackendError::io("lay out the guest"))?;
        let program = dirs.boot.join(boot::PROGRAM);
        let sandboxes = request.sandbox_dir.parent().unwrap_or(&request.sandbox_dir);
        let ground = Ground {
            home: &self.home,
            program: &program,
            io: &dirs.io,
            home_dir: *fill,
            sandboxes,
            known: began.and_then(|origin| origin.user.as_ref()),
        };
        self.facts(client, settings, image, &ground).await
    }

    async fn attempt(
        &self,
        client: &Client,
        attempt: &Attempt<'_>,
        dirs: &HostDirs,
    ) -> Result<StartedInstance, Setback> {
        let Attempt { request, image, facts, .. } = attempt;
        let info = client.info().await?;
        let hash = request.spec.hash();
        let mut plan = plan::plan(&attempt.blueprint(&self.home, info, &hash))?;
        let part = GuestPart::new(&plan, &facts.user, facts.reach);
        part.mark(&mut plan.body);
        attempt.origin.mark(&mut plan.body);
        let settings = part.settings(request)?;
        if facts.reach == Reach::Shared {
            boot::lay_out(&dirs.boot, &settings).map_err(BackendError::io("lay out the guest"))?;
        }
        let container = create(client, &plan).await?;
        failpoint::reach("docker.create.created");
        let brought_up = async {
            let dropped = self.dropped_limits(client, &container, &plan, attempt).await?;
            if facts.reach == Reach::Apart {
                let program = self.guest_of_engine(client).await?;
                upload(client, &container, &program, &settings).await?;
            }
            failpoint::reach("docker.create.filled");
            start(client, &container).await?;
            failpoint::reach("docker.create.started");
            let transport = wait(client, &request.instance, &container, facts.reach).await?;
            attempt.mounts.confirm(&request.instance, dirs).await?;
            Ok::<_, Setback>((dropped, transport))
        };
        let (dropped, transport) = match brought_up.await {
            Ok(up) => up,
            Err(setback) => {
                // No container is left behind by a failed start.
                if let Err(error) = force_remove(client, &container).await {
                    tracing::warn!(%error, container, "could not be removed");
                }
                return Err(setback);
            }
        };
        let mut unenforced = plan.unenforced;
        unenforced.extend(dropped.iter().map(|kind| kind.key().to_owned()));
        let mut remarks: Vec<String> =
            attempt.settings.limits.told(&unenforced).into_iter().collect();
        if !plan.weakened.is_empty() {
            let weakened = plan.weakened.join(", ");
            remarks.push(format!("the settings weaken the isolation: {weakened}"));
        }
        remarks.extend(attempt.base_remarks());
        remarks.extend(client.passed_over());
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
        Ok(StartedInstance { locator: locator.to_locator(), warnings: remarks })
    }

    /// Returns the limits that the engine has dropped without a word; none may be
    /// where limits are required.
    async fn dropped_limits(
        &self,
        client: &Client,
        container: &str,
        plan: &Plan,
        attempt: &Attempt<'_>,
    ) -> Result<Vec<LimitKind>, BackendError> {
        let Some(seen) = inspect(client, container).await? else {
            return Err(BackendError::Engine {
                action: "make a container".to_owned(),
                message: "it is gone again".to_owned(),
            });
        };
        let dropped = read_back(&seen.inspected, &plan.body);
        match dropped.iter().find(|kind| attempt.settings.limits.requires(**kind)) {
            Some(kind) => Err(kind.unenforceable("the engine drops it without a word")),
            None => Ok(dropped),
        }
    }
}

/// Where a container's files are before it is made.
#[derive(Debug)]
struct Lay<'a> {
    dirs: &'a HostDirs,
    /// The home, if it is to be filled from the image. A copy has the other's
    /// home, and if that was emptied it stays empty.
    fill: Option<&'a Path>,
    /// What its system began with, if it is a copy.
    began: Option<&'a Origin>,
}

/// One attempt at a container.
#[derive(Debug)]
struct Attempt<'a> {
    request: &'a InstanceRequest,
    settings: &'a DockerSettings,
    image: &'a ImageFacts,
    origin: &'a Origin,
    facts: &'a Facts,
    sources: &'a Sources,
    mounts: &'a HostMounts,
    left_out: &'a [LimitKind],
    ulimits: Option<Ulimits>,
}

impl Attempt<'_> {
    /// Returns what is to be said of a container whose system is a copy.
    fn base_remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.image.is_bare {
            return remarks;
        }
        let (was, now) = (&self.image.name, self.settings.image.as_str());
        if was != now {
            remarks.push(format!(
                "its system is a copy that began with image {was}; terminal.docker_image is now \
                 {now}, which `vestal rebuild` applies"
            ));
        }
        if !self.image.volumes.is_empty() {
            remarks.push(format!(
                "what image {was} keeps in volumes is not copied and begins anew: {}",
                self.image.volumes.join(", ")
            ));
        }
        remarks
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
            user: &self.facts.user,
            boot: self.sources.boot.clone(),
            io: self.sources.io.clone(),
            state: self.sources.state.clone(),
            workspace: self.sources.workspace.clone(),
            home_dir: self.sources.home.clone(),
            mounts: &self.mounts.mounts,
            hidden: &self.mounts.ours.hidden,
            leave_out: self.left_out,
            ulimits: self.ulimits,
        }
    }
}

/// Makes the container. A half-made one that a process left when it died has
/// its name, and goes; anything else that has it is not ours to touch.
async fn create(client: &Client, plan: &Plan) -> Result<String, Setback> {
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
                    tracing::debug!(warning, "said the engine");
                }
                return Ok(made.id);
            }
            Err(error) if matches!(fault(&error), Fault::NameTaken(_)) => {
                clear_name(client, plan).await?;
            }
            Err(error) => return Err(Setback::read(client, "make a container", error)),
        }
    }
    Err(Setback::Final(BackendError::NameTaken { name: plan.name.clone() }))
}

/// Removes what has the container's name if it is of the same sandbox and was
/// never used.
async fn clear_name(client: &Client, plan: &Plan) -> Result<(), BackendError> {
    let taken = || BackendError::NameTaken { name: plan.name.clone() };
    let Some(seen) = inspect(client, &plan.name).await? else {
        return Ok(());
    };
    let ours = plan.body.labels.as_ref().and_then(Marks::parse).ok_or_else(taken)?;
    let theirs = Traits::of(&seen.inspected).and_then(Traits::own).ok_or_else(taken)?;
    if theirs.key != ours.key {
        return Err(taken());
    }
    // It never ran, so there is nothing in it: its creator was killed while the
    // engine was still making it.
    let status = seen.inspected.state.as_ref().and_then(|state| state.status);
    if status == Some(ContainerStateStatusEnum::CREATED) && collect(client, &seen.id).await? {
        return Ok(());
    }
    // Nobody knows it, or it is about to be replaced and does not run: whoever
    // makes one holds the lock. It keeps what it has, under another name.
    tracing::debug!(container = seen.id, "a container has the name; set aside");
    rename_aside(client, &seen.id, &plan.name).await
}
