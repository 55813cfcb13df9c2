//! The backend's traits, implemented with containers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use vestal_config::{ConfigError, Settings};

use super::api::{self, EngineClient, EngineDialer};
use super::guest::connect_exec;
use super::identity::{DockerLocator, GuestTransport};
use super::inspect::{self, find_container, is_descendant};
use super::prepare::Cache;
use super::settings::{self, DockerSettings};
use super::{lifecycle, plan, storage};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Confinement, Copies, CopyTotals, Declaration,
    Description, Diagnostics, DoctorNote, FoundInstance, HostDirectories, HostFiles, HostProcess,
    IdleSource, Instance, InstanceFilter, InstanceRequest, InstanceState, JobEnvironment,
    KeptVolumes, Locator, Marked, Preflight, Publishing, Remedy, SavedSystem, StartedInstance,
    VolumeStore,
};
use crate::backends::guest_process;
use crate::backends::own_system::WORKSPACE;
use crate::client::socket::{PeerExpectation, connect};
use crate::{Bundle, HomeId, Key, Overrides, ProgressSink, PublishedName, Spec, embedded};

/// The declaration of the backend.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "docker",
    aliases: &[],
    mistaken_names: &[(
        "podman",
        "Podman is used through the backend docker; set terminal.backend: docker",
    )],
    confinement: Confinement::Contained,
    host_directories: HostDirectories::Mounted,
    workspace: |_| PathBuf::from(WORKSPACE),
    takes_images: true,
    image_setting: Some("terminal.docker_image"),
    system_setting: None,
    asks_engine: true,
    hung_advice: "see whether its engine hangs: `docker info`; restart it if it does",
    remedy: Remedy::Recreate,
    idle_source: IdleSource::GuestFiles,
    job_environment: JobEnvironment::Guests,
    can_be_cut_off: |locator| {
        let transport = DockerLocator::of(locator).map(|locator| locator.transport);
        matches!(transport, Some(GuestTransport::Exec))
    },
    tightening: settings::tightening,
    host_processes: |instance| {
        let process = DockerLocator::of_instance(instance).and_then(|locator| locator.pid());
        process.map(HostProcess::Number).into_iter().collect()
    },
    adopt_copy: None,
    replaced_by: |_| Ok(None),
};

/// Returns the settings that shape a container.
pub(in crate::backends) fn spec(
    settings: &Settings,
    overrides: &Overrides,
) -> Result<Spec, ConfigError> {
    Ok(DockerSettings::read(settings, overrides)?.spec())
}

/// Returns what a locator tells people.
pub(in crate::backends) fn describe(locator: &Locator) -> Description {
    DockerLocator::of(locator).map(DockerLocator::describe).unwrap_or_default()
}

/// The backend `docker`.
#[derive(Debug)]
pub(crate) struct Docker {
    pub(super) settings: Arc<Settings>,
    pub(super) home: HomeId,
    pub(super) run_dir: PathBuf,
    pub(super) cache: Cache,
    client: OnceCell<EngineClient>,
    /// What leads to the engine, if that is not for the settings to say.
    dialer: Option<Arc<dyn EngineDialer>>,
}

impl Docker {
    /// Returns the backend of a home. It connects to an engine when one is needed.
    pub(crate) fn new(settings: Arc<Settings>, home: HomeId) -> Self {
        let run_dir = settings.home().run_dir();
        let cache = Cache::new(&run_dir);
        Self { settings, home, run_dir, cache, client: OnceCell::new(), dialer: None }
    }

    /// Returns the same with the engine that another backend's streams lead to.
    pub(in crate::backends) fn through(
        settings: Arc<Settings>,
        home: HomeId,
        dialer: Arc<dyn EngineDialer>,
    ) -> Self {
        Self { dialer: Some(dialer), ..Self::new(settings, home) }
    }

    /// Returns the connection to the engine, opened at the first call.
    pub(super) async fn client(&self) -> Result<EngineClient, BackendError> {
        let connect = || async {
            match &self.dialer {
                Some(dialer) => {
                    let dialer = Arc::clone(dialer);
                    EngineClient::connect_through(dialer, &self.settings, &self.run_dir).await
                }
                None => EngineClient::connect(&self.settings, &self.run_dir).await,
            }
        };
        let client = self.client.get_or_try_init(connect).await?.clone();
        client.ensure_running().await?;
        Ok(client)
    }

    /// Connects to the engine, unless that was done before.
    pub(in crate::backends) async fn reach(&self) -> Result<(), BackendError> {
        self.client().await.map(drop)
    }

    /// Returns whether another backend's streams lead to the engine, which sees no file of this
    /// machine then.
    pub(super) fn is_behind_streams(&self) -> bool {
        self.dialer.is_some()
    }

    /// Returns the guest's program for the architecture of the engine's machine.
    pub(super) async fn guest_of_engine(
        &self,
        client: &EngineClient,
    ) -> Result<Cow<'static, [u8]>, BackendError> {
        let architecture = &client.info().await?.architecture;
        embedded::guest_for(architecture, &embedded::guests_dir(self.settings.home()))
    }

    /// Returns notes about the engine, if one answers and has the image. Starts and
    /// pulls nothing.
    async fn try_probe(&self) -> Result<Vec<String>, BackendError> {
        let client = match self.client.get() {
            Some(client) => client.clone(),
            // No service is started on the other machine in any case.
            None if self.dialer.is_some() => self.client().await?,
            None => EngineClient::connect_to_running(&self.settings, &self.run_dir).await?,
        };
        let info = client.info().await?;
        let image = self.settings.get(&crate::settings::keys::DOCKER_IMAGE)?.value;
        if !api::exists(&client, image.as_str()).await? {
            return Err(BackendError::NoImage {
                image: image.as_str().to_owned(),
                reason: "the engine does not have it".to_owned(),
                advice: format!("docker pull {}", image.as_str()),
            });
        }
        let mut notes =
            vec![format!("{} {} at {}", info.flavour.name(), info.version, client.address())];
        notes.extend(client.denied_notice());
        Ok(notes)
    }
}

#[async_trait]
impl Backend for Docker {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        Availability::of_probe(self.try_probe().await, "see `vestal doctor`")
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        spec(settings, overrides)
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.create_instance(request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        Box::pin(self.start_again(request)).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        let client = self.client().await?;
        self.check_engine(&client, instance).await?;
        let seen = find_container(&client, &self.home, instance).await?;
        Ok(seen.map_or(InstanceState::Absent, |seen| seen.state))
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        let not_listening = || BackendError::NotListening { id: instance.id.clone() };
        let locator = match DockerLocator::of_instance(instance) {
            Some(locator) => locator,
            // Its creator died before it recorded the container.
            None => self.find_locator(instance).await?.ok_or_else(not_listening)?,
        };
        let expected = match locator.transport {
            GuestTransport::Socket { pid: Some(pid) } => PeerExpectation::process(pid),
            GuestTransport::Socket { pid: None } => PeerExpectation::anyone(),
            GuestTransport::Exec => {
                let client = self.client().await?;
                let stream = connect_exec(&client, &locator.container, &instance.id).await?;
                return Ok(Box::new(stream));
            }
        };
        match connect(&storage::io_dir(&instance.dir), expected).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(guest_process::unreached(instance, error)),
        }
    }

    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError> {
        lifecycle::end(&self.client().await?, &self.home, instance, timeout).await
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        let client = self.client().await?;
        lifecycle::remove(&client, &self.home, instance).await?;
        self.remove_own_image(&client, &instance.id).await?;
        self.remove_instance_dir(&instance.dir).await
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        let client = self.client().await?;
        let mut found = inspect::find_instances(&client, whose).await?;
        if let InstanceFilter::Home(_) = whose {
            match self.orphan_images(&client).await {
                Ok(images) => found.extend(images),
                // The containers are found nevertheless.
                Err(error) => tracing::debug!(%error, "cannot list orphan images"),
            }
        }
        Ok(found)
    }

    fn describe(&self, locator: &Locator) -> Description {
        describe(locator)
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
        plan::check_limits(&settings, client.info().await?)?;
        storage::check_sources(&client, &settings)?;
        api::find_or_pull(&client, settings.image.as_str(), progress).await.map(drop)
    }
}

#[async_trait]
impl Marked for Docker {
    async fn locate(&self, instance: &Instance) -> Result<Locator, BackendError> {
        let client = self.client().await?;
        let Some(mut locator) = DockerLocator::of_instance(instance) else {
            return Ok(instance.locator.clone());
        };
        let Some(seen) = find_container(&client, &self.home, instance).await? else {
            return Ok(instance.locator.clone());
        };
        if seen.state == InstanceState::Paused {
            let unpaused = client.api().unpause_container(&seen.id).await;
            unpaused.map_err(client.error("unpause the container"))?;
        }
        // Under an init of the image the guest is not the first process. The
        // process that listens now was started with the container.
        if let GuestTransport::Socket { pid: Some(known) } = &mut locator.transport
            && let Some(first) = seen.pid
            && !is_descendant(*known, first)
        {
            *known = listening_pid(instance)
                .await
                .filter(|pid| is_descendant(*pid, first))
                .unwrap_or(first);
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
            return self.remove_orphan_image(&client, &locator.image).await;
        }
        let gone = lifecycle::remove_stopped(&client, &locator.container).await?;
        if gone {
            self.remove_own_image(&client, &found.id).await.ok();
        }
        Ok(gone)
    }

    async fn set_aside(&self, key: &Key) -> Result<(), BackendError> {
        lifecycle::set_aside(&self.client().await?, key).await
    }
}

#[async_trait]
impl VolumeStore for Docker {
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        storage::volumes(&self.client().await?, key).await
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        storage::remove_volumes(&self.client().await?, key, kept).await
    }
}

#[async_trait]
impl HostFiles for Docker {
    async fn erase(&self, dir: &Path) -> Result<(), BackendError> {
        self.empty_dir(dir).await
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
        self.publish_files(instance, name, bundle).await
    }
}

#[async_trait]
impl Diagnostics for Docker {
    async fn report(&self, known: &BTreeSet<String>) -> Vec<DoctorNote> {
        match self.client().await {
            Ok(client) => {
                let scope = api::DoctorScope { home: self.home.as_str(), instances: Some(known) };
                let mut notes = api::report(&client, scope).await;
                notes.extend(self.image_notes(&client, known).await);
                notes
            }
            // The probe reports that there is no engine.
            Err(_) => Vec::new(),
        }
    }

    fn memory_kills(&self, locator: &Locator) -> Option<u64> {
        match DockerLocator::of(locator)?.transport {
            GuestTransport::Socket { pid } => crate::backends::native::memory_kills(pid?),
            GuestTransport::Exec => None,
        }
    }
}

impl Docker {
    /// Refuses to look for a container on another engine than its own, where it
    /// would seem to be gone. That happens when its engine is down and the settings
    /// do not name one.
    pub(super) async fn check_engine(
        &self,
        client: &EngineClient,
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
                "it has the sandbox's container, and another engine answers, at {}",
                client.address()
            ),
            advice: "start that engine or select it with DOCKER_HOST; if it is gone for good, \
                     `vestal rm` forgets the container and keeps workspace and home"
                .to_owned(),
        })
    }

    /// Finds the container of an instance by its labels.
    async fn find_locator(
        &self,
        instance: &Instance,
    ) -> Result<Option<DockerLocator>, BackendError> {
        let client = self.client().await?;
        let found = inspect::find_instances(&client, InstanceFilter::Home(&self.home)).await?;
        let found = found.into_iter().find(|found| found.id == instance.id);
        Ok(found.and_then(|found| DockerLocator::of(&found.locator)))
    }
}

/// Returns the process that listens on the instance's socket.
async fn listening_pid(instance: &Instance) -> Option<u32> {
    let stream = connect(&storage::io_dir(&instance.dir), PeerExpectation::anyone()).await.ok()?;
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_behind_the_engines_exec_can_be_cut_off() {
        let reached = |transport: serde_json::Value| {
            let locator = serde_json::json!({
                "container": "c", "name": "n", "image": "i", "image_id": "sha256:1",
                "transport": transport,
            });
            (DECLARATION.can_be_cut_off)(&locator)
        };
        assert!(reached(serde_json::json!({ "by": "exec" })));
        assert!(!reached(serde_json::json!({ "by": "socket", "pid": 7 })));
        assert!(!(DECLARATION.can_be_cut_off)(&Locator::Null));
    }
}
