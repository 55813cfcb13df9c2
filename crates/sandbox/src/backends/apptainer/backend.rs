//! The `Backend` trait and its capabilities, implemented with Apptainer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use vestal_config::{ConfigError, Settings};

use super::image;
use super::program::ApptainerProgram;
use super::records::{self, ApptainerLabel, ApptainerLocator};
use super::settings::{self, ApptainerSettings, SINGULARITY_IMAGE};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Confinement, Copies, CopyTotals, Declaration,
    Description, Diagnostics, DoctorNote, FoundInstance, HostDirectories, HostFiles, HostProcess,
    IdleSource, Instance, InstanceFilter, InstanceRequest, InstanceState, JobEnvironment, Locator,
    Preflight, Publishing, Remedy, SavedSystem, StartedInstance,
};
use crate::backends::label::find_unrecorded;
use crate::backends::native::{
    LimitMechanism, empty_as_root, install, limits_note, memory_kills, remove_groups,
    remove_tree_as_root,
};
use crate::backends::own_system::{BOOT_DIR, WORKSPACE};
use crate::backends::scope::SystemdScope;
use crate::backends::{boot, guest_process};
use crate::client::socket::{PeerExpectation, connect};
use crate::embedded::{GUEST_PROGRAM, STAGE_PROGRAM};
use crate::store::InstanceMark;
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
    image_setting: Some("terminal.singularity_image"),
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
    replaced_by: |_| Ok(None),
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

    /// Installs the stage and returns its path.
    pub(super) fn stage(&self) -> Result<PathBuf, BackendError> {
        install(&STAGE_PROGRAM, "stage", &self.run_dir)
    }

    /// Installs the guest and returns its path.
    pub(super) fn guest(&self) -> Result<PathBuf, BackendError> {
        install(&GUEST_PROGRAM, "guest", &self.run_dir)
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
            records::end(&launch, instance, timeout).await?;
        }
        let located = ApptainerLocator::of(&instance.locator).map(|locator| locator.system.cgroups);
        let labelled = ApptainerLabel::read(&instance.dir).map(|label| label.system.cgroups);
        let dirs: Vec<_> = located.into_iter().chain(labelled).flatten().collect();
        let removed = remove_groups(&instance.id, &dirs).await;
        removed.map_err(BackendError::io("remove the control groups of the sandbox"))
    }
}

#[async_trait]
impl Backend for Apptainer {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        Availability::of_probe(self.try_probe().await, "see docs/apptainer.md")
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
        remove_tree_as_root(&self.run_dir, &instance.dir).await
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        find_unrecorded(self, &self.settings, whose, records::locator_of_label).await
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
        empty_as_root(&self.run_dir, dir).await
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
