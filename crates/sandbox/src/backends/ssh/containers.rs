//! Backend `ssh-docker`: sandboxes that are containers of the other machine's engine.
//!
//! It is the backend `docker` with an engine that is reached by streams over the one connection:
//! the guest's program over there connects each to the engine's socket. So what holds of
//! containers of a remote engine holds here: workspace and home are volumes of that engine, and
//! its exec leads to the guests.
//!
//! It takes the place of `ssh` where `terminal.ssh_isolation` is `docker`. Its records have a
//! name of their own, because a container is nothing that `ssh` could start, and the reverse:
//! from one to the other a sandbox is moved, with its files.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use vestal_config::{AnyKey as _, ConfigError, Settings};

use super::backend::HUNG_ADVICE;
use super::login::HostLogin;
use super::look::{MachineNotes, look};
use super::machine::Machine;
use super::machines::Machines;
use super::settings::{self, SSH_ISOLATION, SshIsolation};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Declaration, Description, Diagnostics,
    DoctorNote, FoundInstance, HostDirectories, Instance, InstanceFilter, InstanceRequest,
    InstanceState, KeptVolumes, Locator, Marked, Preflight, StartedInstance, VolumeStore,
};
use crate::backends::docker::{self, Docker, EngineDialer};
use crate::spec::Tightening;
use crate::store::remove_tree;
use crate::{HomeId, Key, Overrides, ProgressSink, Spec};

/// The declaration of the backend.
pub(crate) static CONTAINERS: Declaration = Declaration {
    name: "ssh-docker",
    host_directories: HostDirectories::Synced,
    takes_images: true,
    image_setting: Some("terminal.docker_image"),
    hung_advice: HUNG_ADVICE,
    tightening: |key| {
        if key == SSH_ISOLATION.name() {
            Tightening::Set
        } else {
            (docker::DECLARATION.tightening)(key)
        }
    },
    ..Declaration::REMOTE
};

/// What is recorded of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ContainerLocator {
    login: HostLogin,
    /// What the backend `docker` has recorded.
    container: Locator,
}

impl ContainerLocator {
    fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    fn wrap(login: &HostLogin, container: Locator) -> Locator {
        let known = Self { login: login.clone(), container };
        // A struct of strings and numbers always serializes.
        serde_json::to_value(known).unwrap_or_default()
    }
}

/// The engine of a machine.
#[derive(Debug)]
struct MachineEngine(Arc<Machine>);

#[async_trait]
impl EngineDialer for MachineEngine {
    fn address(&self) -> String {
        format!("ssh://{}", self.0.login())
    }

    async fn dial(&self) -> Result<Box<dyn ByteStream>, BackendError> {
        Ok(Box::new(self.0.open_engine().await?))
    }
}

/// A machine with its containers.
#[derive(Debug, Clone)]
struct ContainerHost {
    machine: Arc<Machine>,
    containers: Arc<Docker>,
}

impl ContainerHost {
    /// Returns the instance as the backend of its container knows it.
    fn inner(instance: &Instance) -> Instance {
        let known = ContainerLocator::of(&instance.locator);
        let locator = known.map_or(Locator::Null, |known| known.container);
        Instance { locator, ..instance.clone() }
    }

    fn wrap(&self, container: Locator) -> Locator {
        ContainerLocator::wrap(self.machine.login(), container)
    }

    fn wrap_started(&self, started: StartedInstance) -> StartedInstance {
        StartedInstance { locator: self.wrap(started.locator), ..started }
    }
}

/// The backend `ssh-docker`.
#[derive(Debug)]
pub(crate) struct SshContainers {
    machines: Machines,
    home: HomeId,
    hosts: Mutex<HashMap<HostLogin, ContainerHost>>,
    /// Instances that no engine was ever asked to make.
    unmade: Mutex<HashSet<String>>,
}

impl SshContainers {
    /// Returns the backend for the settings' home. Nobody is asked yet.
    pub(crate) fn new(settings: Arc<Settings>, home: HomeId) -> Self {
        Self {
            machines: Machines::new(settings),
            home,
            hosts: Mutex::default(),
            unmade: Mutex::default(),
        }
    }

    fn host(&self, machine: Arc<Machine>) -> ContainerHost {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = hosts.entry(machine.login().clone()).or_insert_with(|| {
            let engine = Arc::new(MachineEngine(Arc::clone(&machine)));
            let settings = Arc::clone(self.machines.settings());
            let containers = Docker::through(settings, self.home.clone(), engine);
            ContainerHost { machine, containers: Arc::new(containers) }
        });
        opened.clone()
    }

    /// Returns the machine that the settings name.
    fn wanted(&self) -> Result<ContainerHost, BackendError> {
        Ok(self.host(self.machines.of(self.machines.login()?)?))
    }

    /// Returns the same; none if they name no host.
    fn named(&self) -> Result<Option<ContainerHost>, BackendError> {
        Ok(self.machines.named()?.map(|machine| self.host(machine)))
    }

    /// Returns the machine that an instance is on.
    fn host_of(&self, instance: &Instance) -> Result<ContainerHost, BackendError> {
        let recorded = ContainerLocator::of(&instance.locator);
        Ok(self.host(self.machines.recorded(recorded.map(|recorded| recorded.login))?))
    }

    /// Returns whether the settings ask for containers.
    fn is_asked_for(&self) -> Result<bool, ConfigError> {
        Ok(settings::isolation(self.machines.settings())? == SshIsolation::Docker)
    }
}

/// Returns what is asked for a container there: directories of this machine are not.
fn there(overrides: &Overrides) -> Overrides {
    Overrides { mount: None, binds: Vec::new(), volumes: Vec::new(), ..overrides.clone() }
}

fn request_there(request: InstanceRequest) -> InstanceRequest {
    let instance = ContainerHost::inner(&request.instance);
    InstanceRequest { instance, overrides: there(&request.overrides), ..request }
}

#[async_trait]
impl Backend for SshContainers {
    fn declaration(&self) -> &'static Declaration {
        &CONTAINERS
    }

    async fn probe(&self) -> Availability {
        let looked = async {
            if !self.is_asked_for()? {
                return Err(BackendError::Advised {
                    problem: "terminal.ssh_isolation is not docker".to_owned(),
                    advice: "vestal config set terminal.ssh_isolation docker".to_owned(),
                });
            }
            let host = self.wanted()?;
            Ok((look(&host.machine).await?, host))
        };
        let (MachineNotes { identity, concerns }, host) = match looked.await {
            Ok(looked) => looked,
            Err(error) => return Availability::of_probe(Err(error), "try again"),
        };
        match host.containers.probe().await {
            Availability::Works { notes } => Availability::Works {
                notes: identity.into_iter().chain(notes).chain(concerns).collect(),
            },
            other => other,
        }
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        docker::spec(settings, &there(overrides))
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        // An engine that cannot be asked at all has made nothing, which is certain only as long
        // as it has not been asked to.
        let reached = async {
            let host = self.wanted()?;
            host.containers.reach().await?;
            Ok(host)
        };
        let host = match reached.await {
            Ok(host) => host,
            Err(error) => {
                let mut unmade = self.unmade.lock().unwrap_or_else(PoisonError::into_inner);
                unmade.insert(request.instance.id);
                return Err(error);
            }
        };
        let started = host.containers.create(request_there(request)).await?;
        Ok(host.wrap_started(started))
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        let (host, wanted) = (self.host_of(&request.instance)?, self.machines.login()?);
        if !host.machine.login().is_same_place(&wanted) {
            return Err(BackendError::OtherSystem {
                was: host.machine.login().to_string(),
                now: wanted.to_string(),
            });
        }
        let started = host.containers.start(request_there(request)).await?;
        Ok(host.wrap_started(started))
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        self.host_of(instance)?.containers.state(&ContainerHost::inner(instance)).await
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        self.host_of(instance)?.containers.connect(&ContainerHost::inner(instance)).await
    }

    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError> {
        self.host_of(instance)?.containers.end(&ContainerHost::inner(instance), timeout).await
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        let unmade =
            self.unmade.lock().unwrap_or_else(PoisonError::into_inner).remove(&instance.id);
        if !unmade {
            return self
                .host_of(instance)?
                .containers
                .remove(&ContainerHost::inner(instance))
                .await;
        }
        remove_tree(&instance.dir).map_err(|error| {
            let action = format!("remove {}", instance.dir.display());
            BackendError::io(action)(std::io::Error::other(error))
        })
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        // A sweep asks no engine that nobody uses.
        if matches!(whose, InstanceFilter::Home(_)) && !self.is_asked_for()? {
            return Ok(Vec::new());
        }
        let Some(host) = self.named()? else {
            return Ok(Vec::new());
        };
        let found = host.containers.find(whose).await?;
        let wrap =
            |found: FoundInstance| FoundInstance { locator: host.wrap(found.locator), ..found };
        Ok(found.into_iter().map(wrap).collect())
    }

    fn describe(&self, locator: &Locator) -> Description {
        let Some(known) = ContainerLocator::of(locator) else {
            return Description::default();
        };
        let container = docker::describe(&known.container);
        Description {
            name: container.name.map(|name| format!("{name} on {}", known.login)),
            transport: Some("exec, over ssh".to_owned()),
            ..container
        }
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

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

#[async_trait]
impl Preflight for SshContainers {
    async fn vet(
        &self,
        overrides: &Overrides,
        progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        self.wanted()?.containers.vet(&there(overrides), progress).await
    }
}

#[async_trait]
impl Marked for SshContainers {
    async fn locate(&self, instance: &Instance) -> Result<Locator, BackendError> {
        let host = self.host_of(instance)?;
        Ok(match host.containers.locate(&ContainerHost::inner(instance)).await? {
            Locator::Null => Locator::Null,
            container => host.wrap(container),
        })
    }

    async fn collect(&self, found: &FoundInstance) -> Result<bool, BackendError> {
        let Some(known) = ContainerLocator::of(&found.locator) else {
            return Ok(false);
        };
        let host = self.host(self.machines.recorded(Some(known.login))?);
        host.containers.collect(&FoundInstance { locator: known.container, ..found.clone() }).await
    }

    async fn set_aside(&self, key: &Key) -> Result<(), BackendError> {
        self.wanted()?.containers.set_aside(key).await
    }
}

#[async_trait]
impl VolumeStore for SshContainers {
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        let Some(host) = self.named()? else {
            return Ok(Vec::new());
        };
        let names = host.containers.volumes(key).await?;
        let login = host.machine.login();
        Ok(names.into_iter().map(|name| format!("{login}:{name}")).collect())
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        match self.named()? {
            Some(host) => host.containers.remove_volumes(key, kept).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Diagnostics for SshContainers {
    async fn report(&self, known: &std::collections::BTreeSet<String>) -> Vec<DoctorNote> {
        match (self.is_asked_for(), self.named()) {
            (Ok(true), Ok(Some(host))) => host.containers.report(known).await,
            // The probe says what is wrong.
            _ => Vec::new(),
        }
    }

    /// What the kernel of that machine has killed is not seen from here.
    fn memory_kills(&self, _locator: &Locator) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_record_of_a_container_names_its_machine() {
        let login = HostLogin { host: "there".into(), ..HostLogin::default() };
        let container = serde_json::json!({ "container": "c1" });
        let locator = ContainerLocator::wrap(&login, container.clone());
        let instance = Instance { id: "i".into(), dir: PathBuf::new(), locator };
        assert_eq!(ContainerHost::inner(&instance).locator, container);
        assert_eq!(ContainerLocator::of(&instance.locator).unwrap().login, login);
        let nobody = Instance { locator: Locator::Null, ..instance };
        assert_eq!(ContainerHost::inner(&nobody).locator, Locator::Null);
        // What `ssh` has recorded is none of this backend, nor the reverse.
        let other = serde_json::json!({ "login": { "host": "there" }, "workspace": "/w" });
        assert!(ContainerLocator::of(&other).is_none());
    }

    #[test]
    fn directories_of_this_machine_are_not_asked_for_there() {
        let asked = Overrides {
            image: Some("debian".into()),
            mount: Some("/home/me/project".into()),
            binds: vec!["/srv".into()],
            ..Overrides::default()
        };
        let expected = Overrides { image: Some("debian".into()), ..Overrides::default() };
        assert_eq!(there(&asked), expected);
    }
}
