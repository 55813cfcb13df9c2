//! The backend's traits, implemented with processes and directories.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use vestal_config::{ConfigError, Settings};

use super::process::{self, socket_dir};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Confinement, Declaration, FoundInstance,
    HostDirectories, HostProcess, IdleSource, Instance, InstanceFilter, InstanceRequest,
    InstanceState, JobEnvironment, Publishing, Remedy, StartedInstance,
};
use crate::backends::scope::SystemdScope;
use crate::backends::{boot, guest_process};
use crate::client::socket::{PeerExpectation, connect};
use crate::embedded::{ELSEWHERE, GUEST_PROGRAM, why_nothing_starts_in};
use crate::spec::Tightening;
use crate::store::{make_private_dir, remove_tree};
use crate::{Bundle, Overrides, PublishedName, Spec};
use vestal_process::ProcessId;

/// The declaration of the backend.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "local",
    aliases: &[],
    mistaken_names: &[],
    confinement: Confinement::None,
    host_directories: HostDirectories::All,
    workspace: |_| PathBuf::from("/"),
    takes_images: false,
    image_setting: None,
    system_setting: None,
    asks_engine: false,
    hung_advice: "see whether the machine is overloaded and try again",
    remedy: Remedy::Restart,
    idle_source: IdleSource::GuestFiles,
    job_environment: JobEnvironment::Callers,
    can_be_cut_off: |_| false,
    tightening: |_| Tightening::Never,
    host_processes: |instance| {
        let recorded = serde_json::from_value::<LocalLocator>(instance.locator.clone());
        let written = process::read_guest_file(&instance.dir).ok().flatten();
        let processes = recorded.map(|locator| locator.process).into_iter().chain(written);
        processes.map(HostProcess::Known).collect()
    },
    adopt_copy: None,
    replaced_by: |_| Ok(None),
};

/// What is recorded of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LocalLocator {
    process: ProcessId,
}

/// The backend `local`.
#[derive(Debug)]
pub(crate) struct Local {
    run_dir: PathBuf,
    path_variable: OsString,
}

impl Local {
    /// Returns the backend for the settings' home.
    pub(crate) fn of(settings: &Settings) -> Self {
        let path_variable = settings
            .environment()
            .get("PATH")
            .map_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"), OsString::from);
        Self::new(settings.home().run_dir(), path_variable)
    }

    /// Returns the backend. The guest's program is installed in `run_dir`;
    /// `path_variable` is the guest's `PATH`.
    pub(crate) fn new(run_dir: PathBuf, path_variable: OsString) -> Self {
        Self { run_dir, path_variable }
    }

    async fn launch(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        let dir = socket_dir(&request.instance.dir);
        make_private_dir(&dir)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })?;
        let guest = GUEST_PROGRAM.install(&self.run_dir).map_err(BackendError::io(format!(
            "install the guest in {}",
            self.run_dir.display()
        )))?;
        let uid = rustix::process::getuid().as_raw();
        let scope = SystemdScope::detect(uid);
        let InstanceRequest { guest: settings, hold, .. } = request;
        let process =
            process::spawn_guest(&guest, scope.as_ref(), &settings, &self.path_variable, hold)
                .await?;
        let locator = serde_json::to_value(LocalLocator { process })
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })?;
        Ok(StartedInstance { locator, warnings: Vec::new() })
    }

    /// Returns the guest's process: the recorded one, else the one in `guest.json`,
    /// for an instance whose creator died before it recorded the process.
    fn process(instance: &Instance) -> Result<Option<ProcessId>, BackendError> {
        if let Ok(locator) = serde_json::from_value::<LocalLocator>(instance.locator.clone())
            && locator.process.is_alive()
        {
            return Ok(Some(locator.process));
        }
        let written = process::read_guest_file(&instance.dir)
            .map_err(BackendError::io(format!("read {}", instance.dir.display())))?;
        Ok(written.filter(ProcessId::is_alive))
    }
}

#[async_trait]
impl Backend for Local {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        if !Path::new("/proc/self/stat").exists() {
            return Availability::Missing {
                reason: "/proc is not mounted".into(),
                advice: "mount it: mount -t proc proc /proc".into(),
            };
        }
        if let Some(reason) = why_nothing_starts_in(&self.run_dir) {
            return Availability::Missing { reason, advice: ELSEWHERE.to_owned() };
        }
        let mut notes = vec!["no isolation: commands run as you, on your files and network".into()];
        if SystemdScope::detect(rustix::process::getuid().as_raw()).is_some() {
            notes.push("each sandbox gets a systemd scope of its own".into());
        }
        Availability::Works { notes }
    }

    fn spec(&self, _settings: &Settings, _overrides: &Overrides) -> Result<Spec, ConfigError> {
        Ok(Spec::default())
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.launch(request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.launch(request).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        if Self::process(instance)?.is_some() {
            return Ok(InstanceState::Running);
        }
        guest_process::at_rest(&socket_dir(&instance.dir))
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        let locator = serde_json::from_value::<LocalLocator>(instance.locator.clone()).ok();
        let pid = match locator {
            Some(locator) => Some(locator.process.pid),
            None => Self::process(instance)?.map(|process| process.pid),
        };
        let uid = rustix::process::getuid().as_raw();
        let expected = match pid {
            Some(pid) => PeerExpectation::process_of_user(pid, uid),
            None => PeerExpectation::user(uid),
        };
        match connect(&socket_dir(&instance.dir), expected).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(guest_process::unreached(instance, error)),
        }
    }

    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError> {
        if let Some(process) = Self::process(instance)? {
            guest_process::kill(&process, instance, timeout).await?;
        }
        let left = process::kill_remaining(&instance.id, timeout)
            .await
            .map_err(BackendError::io("look for processes that are left"))?;
        if left.is_empty() {
            Ok(())
        } else {
            let reason = format!("processes {left:?} do not die");
            Err(BackendError::WontEnd { id: instance.id.clone(), reason })
        }
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        self.end(instance, Duration::from_secs(10)).await?;
        remove_tree(&instance.dir).map_err(|error| {
            let action = format!("remove {}", instance.dir.display());
            BackendError::io(action)(std::io::Error::other(error))
        })
    }

    async fn find(&self, _whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        // Every instance has a directory in its home.
        Ok(Vec::new())
    }

    fn publishing(&self) -> Option<&dyn Publishing> {
        Some(self)
    }
}

#[async_trait]
impl Publishing for Local {
    /// Publishes a copy, so that a command that writes to the files does not change
    /// the original. Only the files' permissions prevent writing, and root ignores
    /// those.
    async fn publish(
        &self,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<PathBuf, BackendError> {
        boot::publish_bundle(instance, "shown", name, bundle).await
    }
}
