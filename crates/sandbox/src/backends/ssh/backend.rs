//! The backend's traits, implemented with requests to another machine.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use vestal_config::{AnyKey as _, ConfigError, Settings};
use vestal_wire::machine::{InstanceLabel, LaunchOrder, MachineReply, MachineRequest};

use super::isolation::{self, IsolatedLaunch};
use super::locator::{SshLocator, instance_state};
use super::look::{MachineNotes, look};
use super::machine::Machine;
use super::machines::Machines;
use super::settings::{self, SshIsolation};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Declaration, Description, FoundInstance,
    HostDirectories, Instance, InstanceFilter, InstanceRequest, InstanceState, KeptVolumes,
    Locator, Remedy, StartedInstance, VolumeStore,
};
use crate::backends::docker::one_line;
use crate::backends::native::elsewhere::{self, RemoteShape};
use crate::backends::own_system::{self, start_dir};
use crate::spec::Tightening;
use crate::store::remove_tree;
use crate::{HomeId, Overrides, ProgressSink, Spec};

/// What to do when the machine does not answer.
pub(super) const HUNG_ADVICE: &str =
    "see whether the host of terminal.ssh_host is up and reached, and try again";

/// The declaration of the backend.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "ssh",
    workspace: |locator| {
        let known = SshLocator::of(locator);
        known.map_or_else(|| PathBuf::from("/"), |known| known.workspace)
    },
    host_directories: HostDirectories::Synced,
    remedy: Remedy::Restart,
    tightening: |key| {
        if key == settings::SSH_ISOLATION.name() {
            Tightening::Set
        } else {
            own_system::tightening(key)
        }
    },
    hung_advice: HUNG_ADVICE,
    replaced_by: |settings| {
        let isolation = settings::isolation(settings)?;
        Ok((isolation == SshIsolation::Docker).then_some(super::CONTAINERS.name))
    },
    ..Declaration::REMOTE
};

/// The backend `ssh`.
#[derive(Debug)]
pub(crate) struct Ssh {
    machines: Machines,
    home: HomeId,
    /// Instances that no machine was ever asked to make.
    unmade: Mutex<HashSet<String>>,
}

impl Ssh {
    /// Returns the backend for the settings' home. Nobody is asked yet.
    pub(crate) fn new(settings: Arc<Settings>, home: HomeId) -> Self {
        Self { machines: Machines::new(settings), home, unmade: Mutex::default() }
    }

    fn settings(&self) -> &Settings {
        self.machines.settings()
    }

    /// Returns the machine that an instance is on.
    fn machine_of(&self, instance: &Instance) -> Result<Arc<Machine>, BackendError> {
        let recorded = SshLocator::of(&instance.locator);
        self.machines.recorded(recorded.map(|recorded| recorded.login))
    }

    async fn launch(
        &self,
        request: InstanceRequest,
        is_new: bool,
    ) -> Result<StartedInstance, BackendError> {
        let wanted = self.machines.login()?;
        let machine = if is_new {
            self.machines.of(wanted.clone())?
        } else {
            self.machine_of(&request.instance)?
        };
        if !machine.login().is_same_place(&wanted) {
            return Err(BackendError::OtherSystem {
                was: machine.login().to_string(),
                now: wanted.to_string(),
            });
        }
        let owner = request.owner.as_ref().map(serde_json::to_string).transpose();
        let owner =
            owner.map_err(|error| BackendError::GuestFailed { reason: error.to_string() })?;
        let label = InstanceLabel {
            instance: request.instance.id.clone(),
            key: request.key.hash(),
            home: request.key.home().as_str().to_owned(),
            task: request.key.task().as_str().to_owned(),
            generation: request.generation,
            owner,
            spec: request.spec.hash(),
            machine: None,
            created_ms: None,
            is_enclosed: None,
        };
        let start_dir = start_dir(self.settings(), &request.overrides)?;
        let isolated = match settings::isolation(self.settings())? {
            // The containers are another backend's, and this one is asked for by its record.
            SshIsolation::None | SshIsolation::Docker => None,
            SshIsolation::Native => {
                let shape = RemoteShape::read(self.settings(), &request.overrides)?;
                Some(isolation::plan(&machine, &shape, &request).await?)
            }
        };
        let guest = match &isolated {
            Some(isolated) => isolated.plan.guest_settings(&request.guest),
            None => request.guest,
        };
        let order = LaunchOrder {
            label,
            guest,
            is_new,
            start_dir: start_dir.map(|dir| dir.as_os_str().as_bytes().to_vec().into()),
            failpoint: guest_failpoint(),
            enclosed: isolated.as_ref().map(IsolatedLaunch::to_order),
        };
        let order = MachineRequest::Launch(Box::new(order));
        match (machine.ask(&order, &request.progress).await?, isolated) {
            (MachineReply::Launched(places), isolated) => {
                let (record, warnings) = isolated.map(IsolatedLaunch::into_record).unzip();
                let locator = SshLocator::new(machine.login(), places, record)?.into_locator()?;
                Ok(StartedInstance { locator, warnings: warnings.unwrap_or_default() })
            }
            (MachineReply::NotStarted { reason }, Some(isolated)) => {
                Err(isolated.explain(&machine, &reason))
            }
            (other, _) => Err(machine.unexpected(other)),
        }
    }

    /// Makes a request whose answer is that it is done.
    async fn order(&self, machine: &Machine, request: &MachineRequest) -> Result<(), BackendError> {
        match machine.ask(request, &ProgressSink::default()).await? {
            MachineReply::Done => Ok(()),
            other => Err(machine.unexpected(other)),
        }
    }

    async fn look(&self) -> Result<Vec<String>, BackendError> {
        let machine = self.machines.of(self.machines.login()?)?;
        let MachineNotes { identity, concerns } = look(&machine).await?;
        let isolation = match settings::isolation(self.settings())? {
            SshIsolation::None => {
                vec![
                    "no isolation: commands run as that user, on that machine's files and \
                     network; terminal.ssh_isolation: native keeps them apart from it"
                        .to_owned(),
                ]
            }
            SshIsolation::Native => {
                let shape = RemoteShape::read(self.settings(), &Overrides::default())?;
                isolation::rehearse(&machine, &shape).await?
            }
            SshIsolation::Docker => vec![format!(
                "sandboxes are containers of that machine's engine: see {}",
                super::CONTAINERS.name
            )],
        };
        Ok(identity.into_iter().chain(isolation).chain(concerns).collect())
    }
}

/// Returns a test's failpoint for the guest.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a switch of tests is not a setting")]
fn guest_failpoint() -> Option<String> {
    std::env::var("VESTAL_GUEST_FAILPOINT").ok()
}

#[cfg(not(feature = "failpoints"))]
fn guest_failpoint() -> Option<String> {
    None
}

#[async_trait]
impl Backend for Ssh {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        Availability::of_probe(self.look().await, "try again")
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        let mut spec = match settings::isolation(settings)? {
            SshIsolation::None | SshIsolation::Docker => Spec::default(),
            kept_apart @ SshIsolation::Native => {
                let shape = RemoteShape::read(settings, overrides)?.spec();
                let key = settings::SSH_ISOLATION.name();
                shape.with(key, kept_apart.as_str(), Tightening::Set)
            }
        };
        if let Some(login) = settings::login(settings)? {
            spec = spec.with(settings::SSH_HOST.name(), &login.host, Tightening::Never);
            if let Some(user) = &login.user {
                spec = spec.with(settings::SSH_USER.name(), user, Tightening::Never);
            }
            if let Some(port) = login.port {
                spec = spec.with(settings::SSH_PORT.name(), &port.to_string(), Tightening::Never);
            }
        }
        Ok(spec)
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        // A machine that cannot be asked at all has made nothing, which is certain only as long
        // as it has not been asked to.
        let reached = match self.machines.login().and_then(|login| self.machines.of(login)) {
            Ok(machine) => machine.ask(&MachineRequest::Look, &request.progress).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = reached {
            let mut unmade = self.unmade.lock().unwrap_or_else(PoisonError::into_inner);
            unmade.insert(request.instance.id);
            return Err(error);
        }
        self.launch(request, true).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.launch(request, false).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        let machine = self.machine_of(instance)?;
        let request = MachineRequest::State { instance: instance.id.clone() };
        match machine.ask(&request, &ProgressSink::default()).await? {
            MachineReply::State(state) => Ok(instance_state(&state)),
            other => Err(machine.unexpected(other)),
        }
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        Ok(Box::new(self.machine_of(instance)?.open(&instance.id).await?))
    }

    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError> {
        let machine = self.machine_of(instance)?;
        let request = MachineRequest::End { instance: instance.id.clone() };
        // The machine has a deadline of its own for the death of processes.
        let timeout = timeout.max(Duration::from_secs(15));
        match tokio::time::timeout(timeout, self.order(&machine, &request)).await {
            Ok(ended) => ended,
            Err(_) => Err(BackendError::WontEnd {
                id: instance.id.clone(),
                reason: format!(
                    "{} has not confirmed it within {} s",
                    machine.login(),
                    timeout.as_secs()
                ),
            }),
        }
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        let unmade =
            self.unmade.lock().unwrap_or_else(PoisonError::into_inner).remove(&instance.id);
        if !unmade {
            let machine = self.machine_of(instance)?;
            self.order(&machine, &MachineRequest::Remove { instance: instance.id.clone() }).await?;
        }
        remove_tree(&instance.dir).map_err(|error| {
            let action = format!("remove {}", instance.dir.display());
            BackendError::io(action)(std::io::Error::other(error))
        })
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        // Without a machine there is nothing to be found on it.
        let Some(machine) = self.machines.named()? else {
            return Ok(Vec::new());
        };
        let (home, key) = match whose {
            InstanceFilter::Key(key) => (Some(self.home.as_str().to_owned()), Some(key.to_owned())),
            InstanceFilter::Home(home) => (Some(home.as_str().to_owned()), None),
        };
        let request = MachineRequest::Find { home: home.clone(), key: key.clone() };
        match machine.ask(&request, &ProgressSink::default()).await? {
            MachineReply::Found(found) => Ok(found
                .into_iter()
                // What was not asked for is not taken.
                .filter(|found| home.as_ref().is_none_or(|home| found.label.home == *home))
                .filter(|found| key.as_ref().is_none_or(|key| found.label.key == *key))
                .filter_map(|found| SshLocator::found(machine.login(), found))
                .collect()),
            other => Err(machine.unexpected(other)),
        }
    }

    fn describe(&self, locator: &Locator) -> Description {
        let Some(known) = SshLocator::of(locator) else {
            return Description::default();
        };
        let description = Description {
            name: Some(format!("{} ({})", known.login, known.machine)),
            transport: Some("ssh".to_owned()),
            ..Description::default()
        };
        match known.isolation {
            Some(isolation) => Description {
                unenforced: isolation.unenforced,
                tier: Some(elsewhere::tier_name().to_owned()),
                missing: isolation.missing,
                ..description
            },
            None => {
                let weakness = format!(
                    "no isolation on {}: commands run there as {}",
                    known.machine, known.user
                );
                Description { weakened: vec![weakness], ..description }
            }
        }
    }

    fn volume_store(&self) -> Option<&dyn VolumeStore> {
        Some(self)
    }
}

#[async_trait]
impl VolumeStore for Ssh {
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        let Some(machine) = self.machines.named()? else {
            return Ok(Vec::new());
        };
        let request = MachineRequest::Files { key: key.to_owned() };
        match machine.ask(&request, &ProgressSink::default()).await? {
            MachineReply::Files(files) => Ok(files
                .iter()
                .map(|path| format!("{}:{}", machine.login(), one_line(&shown(path))))
                .collect()),
            other => Err(machine.unexpected(other)),
        }
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        let Some(machine) = self.machines.named()? else {
            return Ok(());
        };
        let keep_files = kept == KeptVolumes::Files;
        self.order(&machine, &MachineRequest::RemoveFiles { key: key.to_owned(), keep_files }).await
    }
}

/// Returns a path of the machine as text.
pub(super) fn shown(path: &[u8]) -> String {
    Path::new(std::ffi::OsStr::from_bytes(path)).to_string_lossy().into_owned()
}
