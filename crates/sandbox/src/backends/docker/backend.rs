//! The trait, carried out with containers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::query_parameters::RenameContainerOptionsBuilder;
use tokio::sync::OnceCell;
use vestal_config::{ConfigError, Settings};

use super::api::{self, Client, Fault, fault};
use super::cache::Cache;
use super::inspect::{self, is_below, look};
use super::locator::{DockerLocator, Transport};
use super::plan::{self, container_name};
use super::settings::{self, DockerSettings};
use super::{exec, places, remove};
use crate::backend::{
    Availability, Backend, BackendError, Confinement, Copies, CopyTotals, Declaration, Description,
    Diagnostics, DoctorNote, FoundInstance, HostDirectories, HostFiles, HostProcess, IdleSource,
    Instance, InstanceFilter, InstanceRequest, InstanceState, JobEnvironment, KeptVolumes, Locator,
    Marked, Preflight, Publishing, Remedy, SavedSystem, StartedInstance, Stream, VolumeStore,
};
use crate::backends::guest_process;
use crate::backends::layout::WORKSPACE;
use crate::client::socket::{PeerExpectation, connect};
use crate::embedded;
use crate::key::random_hex;
use crate::{Bundle, HomeId, Key, Overrides, ProgressSink, PublishedName, Spec};

/// What holds for all its instances.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "docker",
    mistaken_names: &[(
        "podman",
        "Podman is used through the backend docker; set terminal.backend: docker",
    )],
    confinement: Confinement::Contained,
    host_directories: HostDirectories::Mounted,
    workspace: |_| PathBuf::from(WORKSPACE),
    takes_images: true,
    system_setting: None,
    asks_engine: true,
    hung_advice: "see whether its engine hangs: `docker info`; restart it if it does",
    remedy: Remedy::Recreate,
    idle_source: IdleSource::GuestFiles,
    job_environment: JobEnvironment::Guests,
    tightening: settings::tightening,
    host_processes: |instance| {
        let process = DockerLocator::of_instance(instance).and_then(|locator| locator.pid());
        process.map(HostProcess::Number).into_iter().collect()
    },
    adopt_copy: None,
};

/// The backend `docker`.
#[derive(Debug)]
pub(crate) struct Docker {
    pub(super) settings: Arc<Settings>,
    pub(super) home: HomeId,
    pub(super) run_dir: PathBuf,
    pub(super) cache: Cache,
    client: OnceCell<Client>,
}

impl Docker {
    /// Returns the backend of a home. No engine is asked until one is needed.
    pub(crate) fn new(settings: Arc<Settings>, home: HomeId) -> Self {
        let run_dir = settings.home().run_dir();
        let cache = Cache::new(&run_dir);
        Self { settings, home, run_dir, cache, client: OnceCell::new() }
    }

    /// Returns the connection to the engine, made when it is first needed.
    pub(super) async fn client(&self) -> Result<Client, BackendError> {
        let connect = || Client::connect(&self.settings, &self.run_dir);
        let client = self.client.get_or_try_init(connect).await?.clone();
        client.wake().await?;
        Ok(client)
    }

    /// Returns the guest's program for the machine that an engine is on, which
    /// need not be this one.
    pub(super) async fn guest_of_engine(
        &self,
        client: &Client,
    ) -> Result<Cow<'static, [u8]>, BackendError> {
        let architecture = &client.info().await?.architecture;
        embedded::guest_for(architecture, &embedded::guests_dir(self.settings.home()))
    }

    /// Returns what is worth knowing about the engine, if there is one that
    /// answers and has the image. Nothing is started and nothing fetched.
    async fn try_probe(&self) -> Result<Vec<String>, BackendError> {
        let client = match self.client.get() {
            Some(client) => client.clone(),
            None => Client::connect_to_running(&self.settings, &self.run_dir).await?,
        };
        let info = client.info().await?;
        let image = self.settings.get(&crate::settings::keys::DOCKER_IMAGE)?.value;
        if !api::exists(&client, image.as_str()).await? {
            return Err(BackendError::NoImage {
                image: image.as_str().to_owned(),
                reason: "it is not on this machine".to_owned(),
                advice: format!("docker pull {}", image.as_str()),
            });
        }
        let mut notes =
            vec![format!("{} {} at {}", info.flavour.name(), info.version, client.address())];
        notes.extend(client.passed_over());
        Ok(notes)
    }
}

#[async_trait]
impl Backend for Docker {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        match self.try_probe().await {
            Ok(notes) => Availability::Works { notes },
            Err(BackendError::Config(error)) => Availability::Misconfigured {
                problem: error.to_string(),
                advice: "mend the setting".to_owned(),
            },
            Err(error) => Availability::Missing {
                advice: error.advice().unwrap_or("see `vestal doctor`").to_owned(),
                reason: error.to_string(),
            },
        }
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        Ok(DockerSettings::read(settings, overrides)?.spec())
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.make(request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        Box::pin(self.start_again(request)).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        let client = self.client().await?;
        self.check_engine(&client, instance).await?;
        let seen = look(&client, &self.home, instance).await?;
        Ok(seen.map_or(InstanceState::Absent, |seen| seen.state))
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn Stream>, BackendError> {
        let not_listening = || BackendError::NotListening { id: instance.id.clone() };
        let locator = match DockerLocator::of_instance(instance) {
            Some(locator) => locator,
            // Its creator died before it could write it down.
            None => self.locator_by_mark(instance).await?.ok_or_else(not_listening)?,
        };
        let expected = match locator.transport {
            Transport::Socket { pid: Some(pid) } => PeerExpectation::process(pid),
            Transport::Socket { pid: None } => PeerExpectation::anyone(),
            Transport::Exec => {
                let client = self.client().await?;
                let stream = exec::connect(&client, &locator.container, &instance.id).await?;
                return Ok(Box::new(stream));
            }
        };
        match connect(&places::io_dir(&instance.dir), expected).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(guest_process::unreached(instance, error)),
        }
    }

    async fn end(&self, instance: &Instance, patience: Duration) -> Result<(), BackendError> {
        remove::end(&self.client().await?, &self.home, instance, patience).await
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        let client = self.client().await?;
        remove::remove(&client, &self.home, instance).await?;
        self.remove_own_image(&client, &instance.id).await?;
        self.remove_instance_dir(&instance.dir).await
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        let client = self.client().await?;
        let mut found = inspect::find(&client, whose).await?;
        if let InstanceFilter::Home(_) = whose {
            match self.stray_images(&client).await {
                Ok(images) => found.extend(images),
                // Containers can be found all the same.
                Err(error) => tracing::debug!(%error, "images cannot be swept"),
            }
        }
        Ok(found)
    }

    fn describe(&self, locator: &Locator) -> Description {
        DockerLocator::of(locator).map(DockerLocator::describe).unwrap_or_default()
    }

    fn preflight(&self) -> Option<&dyn Preflight> {
        Some(self)
    }

    fn marked(&self) -> Option<&dyn Marked> {
        Some(self)
    }

    fn volume_store(&self) -> Option<&dyn VolumeStore> {
        Some(self)
    }

    fn host_files(&self) -> Option<&dyn HostFiles> {
        Some(self)
    }

    fn copies(&self) -> Option<&dyn Copies> {
        Some(self)
    }

    fn publishing(&self) -> Option<&dyn Publishing> {
        Some(self)
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

#[async_trait]
impl Preflight for Docker {
    async fn vet(
        &self,
        overrides: &Overrides,
        progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        let client = self.client().await?;
        let settings = DockerSettings::read(&self.settings, overrides)?;
        plan::vet(&settings, client.info().await?)?;
        places::check_sources(&client, &settings)?;
        api::resolve(&client, settings.image.as_str(), progress).await.map(drop)
    }
}

#[async_trait]
impl Marked for Docker {
    async fn locate(&self, instance: &Instance) -> Result<Locator, BackendError> {
        let client = self.client().await?;
        let Some(mut locator) = DockerLocator::of_instance(instance) else {
            return Ok(instance.locator.clone());
        };
        let Some(seen) = look(&client, &self.home, instance).await? else {
            return Ok(instance.locator.clone());
        };
        if seen.state == InstanceState::Paused {
            let unpaused = client.api().unpause_container(&seen.id).await;
            unpaused.map_err(client.error("let the container go on"))?;
        }
        // Under an init of the image's the guest is another process: whoever
        // listens now was started with the container.
        if let Transport::Socket { pid: Some(known) } = &mut locator.transport
            && let Some(first) = seen.pid
            && !is_below(*known, first)
        {
            *known = listener(instance).await.filter(|pid| is_below(*pid, first)).unwrap_or(first);
        }
        locator.container = seen.id;
        Ok(locator.to_locator())
    }

    async fn collect(&self, found: &FoundInstance) -> Result<bool, BackendError> {
        let Some(locator) = DockerLocator::of(&found.locator) else {
            return Ok(false);
        };
        let client = self.client().await?;
        if locator.container.is_empty() {
            return self.collect_image(&client, &locator.image).await;
        }
        let gone = remove::collect(&client, &locator.container).await?;
        if gone {
            self.remove_own_image(&client, &found.id).await.ok();
        }
        Ok(gone)
    }

    async fn set_aside(&self, key: &Key) -> Result<(), BackendError> {
        let (client, name) = (self.client().await?, container_name(key, None));
        // What has the name and is not the sandbox's own is not touched: it is
        // met, and told of, when the next one is made.
        let Some(container) = inspect::own_by_name(&client, &name, &key.hash()).await? else {
            return Ok(());
        };
        // Two guests cannot share what the sandbox keeps. Where this fails, the
        // new guest says so.
        remove::kill_blindly(&client, &container).await?;
        rename_aside(&client, &container, &name).await
    }
}

#[async_trait]
impl VolumeStore for Docker {
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        places::volumes(&self.client().await?, key).await
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        places::remove_volumes(&self.client().await?, key, kept).await
    }
}

#[async_trait]
impl HostFiles for Docker {
    async fn erase(&self, dir: &Path) -> Result<(), BackendError> {
        self.empty(dir).await
    }

    async fn copy(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        self.copy_tree(from, to, progress).await
    }
}

#[async_trait]
impl Copies for Docker {
    async fn save(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        self.save_image(instance, into, progress).await
    }

    async fn discard(&self, dir: &Path) -> Result<(), BackendError> {
        self.discard_image(dir).await
    }
}

#[async_trait]
impl Publishing for Docker {
    async fn publish(
        &self,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<PathBuf, BackendError> {
        self.show(instance, name, bundle).await
    }
}

#[async_trait]
impl Diagnostics for Docker {
    async fn report(&self, known: &BTreeSet<String>) -> Vec<DoctorNote> {
        match self.client().await {
            Ok(client) => {
                let survey = api::Survey { home: self.home.as_str(), instances: Some(known) };
                let mut remarks = api::report(&client, survey).await;
                remarks.extend(self.image_remarks(&client, known).await);
                remarks
            }
            // The probe has said that there is no engine.
            Err(_) => Vec::new(),
        }
    }

    fn memory_kills(&self, locator: &Locator) -> Option<u64> {
        match DockerLocator::of(locator)?.transport {
            Transport::Socket { pid } => crate::backends::native::memory_kills(pid?),
            Transport::Exec => None,
        }
    }
}

impl Docker {
    /// Refuses to look for a container on another engine than its own: there
    /// it would be taken for gone. So it may be when its engine is down and
    /// nobody has said which one to use.
    pub(super) async fn check_engine(
        &self,
        client: &Client,
        instance: &Instance,
    ) -> Result<(), BackendError> {
        let Some(locator) = DockerLocator::of_instance(instance) else {
            return Ok(());
        };
        if locator.engine.is_empty() || locator.engine == client.info().await?.id {
            return Ok(());
        }
        Err(BackendError::Unreachable {
            address: locator.address,
            reason: format!(
                "the sandbox's container is there, and what answers is another engine, at {}",
                client.address()
            ),
            advice: "start that engine or name it with DOCKER_HOST; if it is gone for good, \
                     `vestal rm` forgets the container and keeps workspace and home"
                .to_owned(),
        })
    }

    async fn locator_by_mark(
        &self,
        instance: &Instance,
    ) -> Result<Option<DockerLocator>, BackendError> {
        let client = self.client().await?;
        let found = inspect::find(&client, InstanceFilter::Home(&self.home)).await?;
        let found = found.into_iter().find(|found| found.id == instance.id);
        Ok(found.and_then(|found| DockerLocator::of(&found.locator)))
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

/// Returns the process that listens on an instance's socket.
async fn listener(instance: &Instance) -> Option<u32> {
    let stream = connect(&places::io_dir(&instance.dir), PeerExpectation::anyone()).await.ok()?;
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok()
}
