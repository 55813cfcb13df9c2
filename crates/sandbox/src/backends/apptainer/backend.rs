//! The `Backend` trait and its capabilities, implemented with Apptainer.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use vestal_config::{ConfigError, Settings};

use super::program::ApptainerProgram;
use super::records::{self, ApptainerLabel, ApptainerLocator};
use super::settings::{self, ApptainerSettings, SINGULARITY_IMAGE};
use super::{image, session};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Confinement, Copies, CopyTotals, Declaration,
    Description, Diagnostics, DoctorNote, FoundInstance, HostDirectories, HostFiles, HostProcess,
    IdleSource, Instance, InstanceFilter, InstanceRequest, InstanceState, JobEnvironment, Locator,
    Preflight, Publishing, Remedy, SavedSystem, StartedInstance,
};
use crate::backends::label::unrecorded_instances;
use crate::backends::native::{
    LimitMechanism, all_possible_users, limits_note, memory_kills, remove_groups, run_within,
};
use crate::backends::own_system::{BOOT_DIR, WORKSPACE};
use crate::backends::scope::SystemdScope;
use crate::backends::{boot, guest_process};
use crate::client::socket::{PeerExpectation, connect};
use crate::embedded::{EmbeddedProgram, GUEST_PROGRAM, STAGE_PROGRAM};
use crate::store::{InstanceMark, StoreError, remove_tree};
use crate::{Bundle, Overrides, ProgressSink, PublishedName, Spec};

/// What is the same for all instances on Apptainer.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "apptainer",
    aliases: &["singularity"],
    mistaken_names: &[],
    confinement: Confinement::Contained,
    host_directories: HostDirectories::Mounted,
    workspace: |_| PathBuf::from(WORKSPACE),
    takes_images: true,
    system_setting: None,
    asks_engine: false,
    hung_advice: "see whether the machine is overloaded and try again",
    remedy: Remedy::Restart,
    idle_source: IdleSource::GuestFiles,
    job_environment: JobEnvironment::Guests,
    can_be_cut_off: |_| false,
    tightening: settings::tightening,
    host_processes: |instance| {
        let launches = records::launches(instance).unwrap_or_default();
        let guests = launches.into_iter().filter_map(|launch| launch.guest);
        guests.map(HostProcess::Known).collect()
    },
    adopt_copy: Some(records::adopt_copy),
};

/// The backend `apptainer`.
#[derive(Debug)]
pub(crate) struct Apptainer {
    pub(super) settings: Arc<Settings>,
    run_dir: PathBuf,
    program: OnceCell<ApptainerProgram>,
}

impl Apptainer {
    /// Returns the backend of a home. The program is looked for when it is needed.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let run_dir = settings.home().run_dir();
        Self { settings, run_dir, program: OnceCell::new() }
    }

    /// Returns the program that builds containers.
    pub(super) async fn program(&self) -> Result<&ApptainerProgram, BackendError> {
        self.program.get_or_try_init(|| ApptainerProgram::find(&self.settings)).await
    }

    /// Installs one of our programs and returns its path.
    pub(super) fn install(
        &self,
        program: &EmbeddedProgram,
        name: &str,
    ) -> Result<PathBuf, BackendError> {
        let into = self.run_dir.display();
        program
            .install(&self.run_dir)
            .map_err(BackendError::io(format!("install the {name} in {into}")))
    }

    /// Returns notes about the program, if there is one and it has an image.
    async fn try_probe(&self) -> Result<Vec<String>, BackendError> {
        let program = self.program().await?;
        let image = self.settings.get(&SINGULARITY_IMAGE)?.value;
        let user_home = self.settings.environment().user_home();
        let mut notes = vec![
            format!("{} at {}", program.version, program.path.display()),
            program.rights.meaning().to_owned(),
        ];
        match image::find(&image, user_home.as_deref(), &self.run_dir) {
            Ok(Some(_)) => {}
            Ok(None) => notes.push(format!("{} is fetched when it is needed", image.as_str())),
            // A task may have an image of its own.
            Err(error) => notes.push(error.to_string()),
        }
        Ok(notes)
    }

    /// Ends all processes of an instance and removes its control groups.
    pub(super) async fn end_instance(
        &self,
        instance: &Instance,
        timeout: Duration,
    ) -> Result<(), BackendError> {
        for launch in records::launches(instance)? {
            session::end(&launch, instance, timeout).await?;
        }
        let located = ApptainerLocator::of(&instance.locator).map(|locator| locator.system.cgroups);
        let labelled = ApptainerLabel::read(&instance.dir).map(|label| label.system.cgroups);
        let dirs: Vec<_> = located.into_iter().chain(labelled).flatten().collect();
        let removed = remove_groups(&instance.id, &dirs).await;
        removed.map_err(BackendError::io("remove the control groups of the sandbox"))
    }

    /// Removes a tree; an absent one is not an error. What a user has closed to itself, and
    /// the work directory of an overlay, is emptied by root of a user namespace first.
    async fn remove_tree_whole(&self, dir: &Path) -> Result<(), BackendError> {
        let failed = |error: StoreError| BackendError::Io {
            action: format!("remove {}", dir.display()),
            source: std::io::Error::other(error),
        };
        match remove_tree(dir) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
                self.empty(dir).await?;
                remove_tree(dir).map_err(failed)
            }
            other => other.map_err(failed),
        }
    }

    /// Empties a directory as root of a user namespace.
    async fn empty(&self, dir: &Path) -> Result<(), BackendError> {
        let action = format!("empty {}", dir.display());
        let words = [OsStr::new("erase"), dir.as_os_str()];
        let stage = self.install(&STAGE_PROGRAM, "stage")?;
        let guest = self.install(&GUEST_PROGRAM, "guest")?;
        run_within(&stage, &all_possible_users(), &guest, &words, &action).await
    }
}

#[async_trait]
impl Backend for Apptainer {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        match self.try_probe().await {
            Ok(notes) => Availability::Works { notes },
            Err(BackendError::Config(error)) => Availability::Misconfigured {
                problem: error.to_string(),
                advice: "correct the setting".to_owned(),
            },
            Err(error) => Availability::Missing {
                advice: error.advice().unwrap_or("see docs/apptainer.md").to_owned(),
                reason: error.to_string(),
            },
        }
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        Ok(ApptainerSettings::read(settings, overrides)?.spec())
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.create_instance(request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.start_stopped(request).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        if records::living_guest(instance)?.is_some() {
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
        let guest = ApptainerLocator::of(&instance.locator).map(|locator| locator.processes);
        let guest = match guest.and_then(|processes| processes.guest) {
            Some(guest) => guest,
            // The creator died before it wrote the locator.
            None => records::living_guest(instance)?.ok_or_else(not_listening)?,
        };
        let uid = rustix::process::geteuid().as_raw();
        let expected = PeerExpectation::process_of_user(guest.pid, uid);
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
        self.remove_tree_whole(&instance.dir).await
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        // Instances with a record are found by their directory in this home.
        let InstanceFilter::Key(key) = whose else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for (id, dir) in unrecorded_instances(&self.settings) {
            if let Some(label) = ApptainerLabel::read(&dir).filter(|label| label.belongs_to(key)) {
                let instance =
                    Instance { id: id.clone(), dir: dir.clone(), locator: Locator::Null };
                let state = self.state(&instance).await?;
                let locator = |system| records::locator_of_label(system, &dir);
                found.push(label.into_found(id, state, locator));
            }
        }
        Ok(found)
    }

    fn describe(&self, locator: &Locator) -> Description {
        ApptainerLocator::of(locator).map(ApptainerLocator::describe).unwrap_or_default()
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
impl Preflight for Apptainer {
    async fn vet(
        &self,
        overrides: &Overrides,
        progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        let settings = ApptainerSettings::read(&self.settings, overrides)?;
        settings.user_mounts().check()?;
        let uid = rustix::process::geteuid().as_raw();
        LimitMechanism::detect(SystemdScope::detect(uid).as_ref(), uid).vet(&settings.limits)?;
        let program = self.program().await?;
        image::find_or_fetch(program, &self.settings, &settings.image, progress).await.map(drop)
    }
}

#[async_trait]
impl HostFiles for Apptainer {
    async fn erase(&self, dir: &Path) -> Result<(), BackendError> {
        self.empty(dir).await
    }

    async fn copy(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
        let what = format!("the sandbox's {}", name.as_deref().unwrap_or("files"));
        self.copy_files(from, to, &what, progress).await
    }
}

#[async_trait]
impl Copies for Apptainer {
    async fn save(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        self.save_overlay(instance, into, progress).await
    }

    /// A copy is only files in the directory, which the caller removes.
    async fn discard(&self, _dir: &Path) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl Publishing for Apptainer {
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
impl Diagnostics for Apptainer {
    async fn report(&self, _known: &BTreeSet<String>) -> Vec<DoctorNote> {
        if self.program().await.is_err() {
            // The probe's result already says what is wrong.
            return Vec::new();
        }
        let uid = rustix::process::geteuid().as_raw();
        let mechanism = LimitMechanism::detect(SystemdScope::detect(uid).as_ref(), uid);
        vec![limits_note(&mechanism)]
    }

    fn memory_kills(&self, locator: &Locator) -> Option<u64> {
        memory_kills(ApptainerLocator::of(locator)?.processes.guest?.pid)
    }
}
