//! The `Backend` trait and its capabilities, implemented with namespaces.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use vestal_config::{ConfigError, Settings};

use super::enforce::LimitMechanism;
use super::facts::HostFacts;
use super::probe::ProbeResult;
use super::records::{self, NativeLabel, NativeLocator};
use super::settings::{self, NativeSettings};
use super::stage::{empty_as_root, install, remove_tree_as_root};
use super::{cgroups, launch, plan, probe, rootfs};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Confinement, Copies, CopyTotals, Declaration,
    Description, Diagnostics, DoctorNote, FoundInstance, HostDirectories, HostFiles, HostProcess,
    IdleSource, Instance, InstanceFilter, InstanceRequest, InstanceState, JobEnvironment, Locator,
    Preflight, Publishing, Remedy, SavedSystem, StartedInstance,
};
use crate::backends::label::find_unrecorded;
use crate::backends::own_system::{BOOT_DIR, WORKSPACE};
use crate::backends::scope::SystemdScope;
use crate::backends::{boot, guest_process};
use crate::client::socket::{PeerExpectation, connect};
use crate::embedded::{GUEST_PROGRAM, STAGE_PROGRAM};
use crate::store::InstanceMark;
use crate::{Bundle, Overrides, ProgressSink, PublishedName, Spec};

/// What is the same for all native instances.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "native",
    aliases: &[],
    mistaken_names: &[],
    confinement: Confinement::Contained,
    host_directories: HostDirectories::Mounted,
    workspace: |_| PathBuf::from(WORKSPACE),
    takes_images: false,
    image_setting: None,
    system_setting: Some("terminal.native_rootfs"),
    asks_engine: false,
    hung_advice: "see whether the machine is overloaded and try again",
    remedy: Remedy::Restart,
    idle_source: IdleSource::GuestFiles,
    job_environment: JobEnvironment::Guests,
    can_be_cut_off: |_| false,
    tightening: settings::tightening,
    host_processes: |instance| {
        let recorded = NativeLocator::of(&instance.locator).map(|locator| locator.process);
        let written = records::read_init(&instance.dir).ok().flatten();
        recorded.into_iter().chain(written).map(HostProcess::Known).collect()
    },
    adopt_copy: Some(records::adopt_copy),
    replaced_by: |_| Ok(None),
};

/// The backend `native`.
#[derive(Debug)]
pub(crate) struct Native {
    pub(super) settings: Arc<Settings>,
    pub(super) run_dir: PathBuf,
    probe: OnceCell<ProbeResult>,
    pub(super) pruned: AtomicBool,
}

impl Native {
    /// Returns the backend of a home. The probe runs at its first use.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let run_dir = settings.home().run_dir();
        Self { settings, run_dir, probe: OnceCell::new(), pruned: AtomicBool::new(false) }
    }

    /// Returns the directory of files that all sandboxes of the home share.
    pub(super) fn cache_dir(&self) -> PathBuf {
        self.run_dir.join("native")
    }

    /// Installs the stage and returns its path.
    pub(super) fn stage(&self) -> Result<PathBuf, BackendError> {
        install(&STAGE_PROGRAM, "stage", &self.run_dir)
    }

    /// Installs the guest and returns its path.
    pub(super) fn guest(&self) -> Result<PathBuf, BackendError> {
        install(&GUEST_PROGRAM, "guest", &self.run_dir)
    }

    /// Returns whether sandboxes can be built here. The probe runs once.
    pub(super) async fn probe_result(&self) -> &ProbeResult {
        self.probe.get_or_init(|| self.run_probe()).await
    }
}

/// Returns every user that a sandbox of this user can have had, so that the files
/// of all of them can be removed or copied.
pub(in crate::backends) fn all_possible_users() -> vestal_wire::UserMapping {
    plan::users(super::tier::Tier::Rootfs, &HostFacts::gather())
}

#[async_trait]
impl Backend for Native {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        self.probe_result().await.availability()
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        Ok(NativeSettings::read(settings, overrides)?.spec())
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.create_instance(request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.start_stopped(request).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        if records::living_init(instance)?.is_some() {
            return Ok(InstanceState::Running);
        }
        // An instance with an owner process is never started again; when it has
        // ended it can only be removed.
        let mark = InstanceMark::read(&instance.dir).ok().flatten();
        if mark.is_some_and(|mark| mark.owner.is_some()) {
            return Ok(InstanceState::Absent);
        }
        guest_process::at_rest(&instance.dir.join("io"))
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        let not_listening = || BackendError::NotListening { id: instance.id.clone() };
        let (pid, uid) = match NativeLocator::of(&instance.locator) {
            Some(locator) => (locator.process.pid, locator.system.uid),
            // The creator died before it wrote the locator.
            None => {
                let process = records::living_init(instance)?.ok_or_else(not_listening)?;
                let made = launch::system_of(instance).ok_or_else(not_listening)?;
                (process.pid, made.uid)
            }
        };
        let expected = PeerExpectation::process_of_user(pid, uid);
        match connect(&instance.dir.join("io"), expected).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(guest_process::unreached(instance, error)),
        }
    }

    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError> {
        self.end_instance(instance, timeout).await
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        self.end_instance(instance, super::END_TIMEOUT).await?;
        remove_tree_as_root(&self.run_dir, &instance.dir).await
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        find_unrecorded(self, &self.settings, whose, records::locator_of_label).await
    }

    fn describe(&self, locator: &Locator) -> Description {
        NativeLocator::of(locator).map(NativeLocator::describe).unwrap_or_default()
    }

    fn preflight(&self) -> Option<&dyn Preflight> {
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
impl Preflight for Native {
    async fn vet(
        &self,
        overrides: &Overrides,
        _progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        let settings = NativeSettings::read(&self.settings, overrides)?;
        settings.user_mounts().check()?;
        rootfs::check(&settings)?;
        let uid = rustix::process::geteuid().as_raw();
        LimitMechanism::detect(SystemdScope::detect(uid).as_ref(), uid).vet(&settings.limits)
    }
}

#[async_trait]
impl HostFiles for Native {
    async fn erase(&self, dir: &Path) -> Result<(), BackendError> {
        empty_as_root(&self.run_dir, dir).await
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
impl Copies for Native {
    async fn save(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        self.save_layers(instance, into, progress).await
    }

    /// A copy is only files in the directory, which the caller removes.
    async fn discard(&self, _dir: &Path) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl Publishing for Native {
    async fn publish(
        &self,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<PathBuf, BackendError> {
        boot::publish_bundle(instance, "boot", name, bundle).await?;
        Ok(Path::new(BOOT_DIR).join(name.shelf()).join(name.name()))
    }
}

#[async_trait]
impl Diagnostics for Native {
    async fn report(&self, known: &BTreeSet<String>) -> Vec<DoctorNote> {
        probe::report(self.probe_result().await, known)
    }

    fn memory_kills(&self, locator: &Locator) -> Option<u64> {
        super::memory_kills(NativeLocator::of(locator)?.process.pid)
    }
}

impl Native {
    /// Kills the instance and removes its control groups. The kernel ends all
    /// processes and mounts of the namespaces before the first process is gone.
    pub(super) async fn end_instance(
        &self,
        instance: &Instance,
        timeout: Duration,
    ) -> Result<(), BackendError> {
        if let Some(process) = records::living_init(instance)? {
            guest_process::kill(&process, instance, timeout).await?;
        }
        let located = NativeLocator::of(&instance.locator).map(|locator| locator.system.cgroups);
        let labelled = NativeLabel::read(&instance.dir).map(|label| label.system.cgroups);
        let dirs: Vec<_> = located.into_iter().chain(labelled).flatten().collect();
        let removed = cgroups::remove(&instance.id, &dirs).await;
        removed.map_err(BackendError::io("remove the control groups of the sandbox"))
    }
}
