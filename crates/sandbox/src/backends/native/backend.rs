//! The trait, carried out with namespaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use vestal_config::{ConfigError, Settings};

use super::enforce::Means;
use super::facts::Facts;
use super::locator::NativeLocator;
use super::plan;
use super::settings::{self, NativeSettings};
use super::trial::Trial;
use super::{identity, label, launch, report, rootfs};
use crate::backend::{
    Availability, Backend, BackendError, Confinement, Copies, CopyTotals, Declaration, Description,
    Diagnostics, DoctorNote, FoundInstance, HostDirectories, HostFiles, HostProcess, IdleSource,
    Instance, InstanceFilter, InstanceRequest, InstanceState, JobEnvironment, Locator, Preflight,
    Publishing, Remedy, SavedSystem, StartedInstance, Stream,
};
use crate::backends::guest_process;
use crate::backends::layout::{BOOT_DIR, WORKSPACE};
use crate::backends::scope::Scope;
use crate::backends::show;
use crate::client::socket::{PeerExpectation, connect};
use crate::embedded::{GUEST_PROGRAM, Program, STAGE_PROGRAM};
use crate::settings::SandboxSettings as _;
use crate::store::InstanceMark;
use crate::{Bundle, Overrides, ProgressSink, PublishedName, Spec};

/// What holds for all its instances.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "native",
    mistaken_names: &[],
    confinement: Confinement::Contained,
    host_directories: HostDirectories::Mounted,
    workspace: |_| PathBuf::from(WORKSPACE),
    takes_images: false,
    system_setting: Some("terminal.native_rootfs"),
    asks_engine: false,
    hung_advice: "see whether the machine is overloaded and try again",
    remedy: Remedy::Restart,
    idle_source: IdleSource::GuestFiles,
    job_environment: JobEnvironment::Guests,
    tightening: settings::tightening,
    host_processes: |instance| {
        let recorded = NativeLocator::of(&instance.locator).map(|locator| locator.process);
        let written = identity::read(&instance.dir).ok().flatten();
        recorded.into_iter().chain(written).map(HostProcess::Known).collect()
    },
    adopt_copy: Some(label::disown),
};

/// The backend `native`.
#[derive(Debug)]
pub(crate) struct Native {
    pub(super) settings: Arc<Settings>,
    run_dir: PathBuf,
    trial: OnceCell<Trial>,
    pub(super) tidied: AtomicBool,
}

impl Native {
    /// Returns the backend of a home. Nothing is tried until it is asked for.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let run_dir = settings.home().run_dir();
        Self { settings, run_dir, trial: OnceCell::new(), tidied: AtomicBool::new(false) }
    }

    /// Returns where the backend keeps what all sandboxes of the home share.
    pub(super) fn cache_dir(&self) -> PathBuf {
        self.run_dir.join("native")
    }

    /// Returns the stage's program.
    pub(super) fn stage(&self) -> Result<PathBuf, BackendError> {
        self.install(&STAGE_PROGRAM, "stage")
    }

    /// Returns the guest's program.
    pub(super) fn guest(&self) -> Result<PathBuf, BackendError> {
        self.install(&GUEST_PROGRAM, "guest")
    }

    fn install(&self, program: &Program, name: &str) -> Result<PathBuf, BackendError> {
        let into = self.run_dir.display();
        program
            .install(&self.run_dir)
            .map_err(BackendError::io(format!("put the {name} into {into}")))
    }

    /// Returns whether sandboxes can be built here, found out once.
    pub(super) async fn trial(&self) -> &Trial {
        self.trial.get_or_init(|| self.try_out()).await
    }

    /// Returns the sandboxes' directories that have no record.
    fn unrecorded(&self) -> Vec<PathBuf> {
        let Ok(sandboxes) = self.settings.sandboxes_dir() else {
            return Vec::new();
        };
        let entries = fs::read_dir(sandboxes.value).into_iter().flatten().flatten();
        let dirs = entries.map(|entry| entry.path());
        dirs.filter(|dir| !dir.join("sandbox.json").exists()).collect()
    }
}

/// Returns all users that sandboxes of this user can have had, so that what any
/// of them has left can be removed or copied.
pub(super) fn widest_users() -> vestal_wire::Users {
    plan::users(super::tier::Tier::Rootfs, &Facts::gather())
}

#[async_trait]
impl Backend for Native {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        self.trial().await.availability()
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        Ok(NativeSettings::read(settings, overrides)?.spec())
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.make(request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.start_again(request).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        if identity::living(instance)?.is_some() {
            return Ok(InstanceState::Running);
        }
        // What belongs to a process is never started again: once it has ended,
        // only rubbish is left of it.
        let mark = InstanceMark::read(&instance.dir).ok().flatten();
        if mark.is_some_and(|mark| mark.owner.is_some()) {
            return Ok(InstanceState::Absent);
        }
        guest_process::at_rest(&instance.dir.join("io"))
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn Stream>, BackendError> {
        let not_listening = || BackendError::NotListening { id: instance.id.clone() };
        let (pid, uid) = match NativeLocator::of(&instance.locator) {
            Some(locator) => (locator.process.pid, locator.made.uid),
            // Its creator died before it could write it down.
            None => {
                let process = identity::living(instance)?.ok_or_else(not_listening)?;
                let made = launch::made_of(instance).ok_or_else(not_listening)?;
                (process.pid, made.uid)
            }
        };
        let expected = PeerExpectation::process_of_user(pid, uid);
        match connect(&instance.dir.join("io"), expected).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(guest_process::unreached(instance, error)),
        }
    }

    async fn end(&self, instance: &Instance, patience: Duration) -> Result<(), BackendError> {
        self.end_all(instance, patience).await
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        self.end_all(instance, super::END_PATIENCE).await?;
        self.remove_all(&instance.dir).await
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        // Those that have a directory in this home are known by that.
        let InstanceFilter::Key(key) = whose else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for sandbox in self.unrecorded() {
            let instances = fs::read_dir(sandbox.join("instances")).into_iter().flatten();
            for entry in instances.flatten() {
                let Ok(id) = entry.file_name().into_string() else {
                    continue;
                };
                let dir = entry.path();
                if let Some(label) = super::label::Label::read(&dir).filter(|own| own.is_of(key)) {
                    let instance =
                        Instance { id: id.clone(), dir: dir.clone(), locator: Locator::Null };
                    let state = self.state(&instance).await?;
                    found.push(label.found(id, &dir, state));
                }
            }
        }
        Ok(found)
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
        plan::check_sources(&settings)?;
        rootfs::check(&settings)?;
        let uid = rustix::process::geteuid().as_raw();
        Means::of_this_machine(Scope::detect(uid).as_ref(), uid).vet(&settings.limits)
    }
}

#[async_trait]
impl HostFiles for Native {
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
impl Copies for Native {
    async fn save(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        self.save_layers(instance, into, progress).await
    }

    /// All of it is in the directory.
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
        show::show(instance, "boot", name, bundle).await?;
        Ok(Path::new(BOOT_DIR).join(name.shelf()).join(name.name()))
    }
}

#[async_trait]
impl Diagnostics for Native {
    async fn report(&self, known: &BTreeSet<String>) -> Vec<DoctorNote> {
        report::report(self.trial().await, known)
    }

    fn memory_kills(&self, locator: &Locator) -> Option<u64> {
        super::memory_kills(NativeLocator::of(locator)?.process.pid)
    }
}
