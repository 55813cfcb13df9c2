//! An engine: what it is made of, how it is opened, what its backends declare, and
//! which task a caller means.

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use crate::settings::{SandboxSettings as _, keys};
use async_recursion::async_recursion as boxed;
use futures_util::future::join_all;
use vestal_config::{Settings, too_wide};
use vestal_wire::EnvVar;

use super::owned::OwnedInstances;
use super::reap;
use super::sweep::{IdleReaper, Sweep};
use crate::backend::{Availability, Backend, Confinement, Declaration, DoctorNote, Remedy};
use crate::backends::{Backends, registered};
use crate::key::hex;
use crate::mounts::planted_link;
use crate::notice::Wording;
use crate::sandbox::Handle;
use crate::store::{
    DiskReserve, Guests, HomeContext, HomeError, HomeNotes, SandboxDir, StoreError,
    adopt_sandboxes, holds_sandboxes_of, is_below, machine, open_home, running_guests,
};
use crate::{Error, HomeId, Key, Overrides, ProgressSink, TaskName, overrides};

/// How long a listing or a diagnosis waits for backends and guests, which are all
/// asked at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeTimeouts {
    pub(crate) listing: Duration,
    /// For a thorough look, which may build or start something.
    pub(crate) examining: Duration,
}

const PROBE_TIMEOUTS: ProbeTimeouts =
    ProbeTimeouts { listing: Duration::from_secs(5), examining: Duration::from_secs(15) };

/// Shown for a backend or guest that does not answer.
pub(super) const NOT_ANSWERED: &str = "it has not answered in time";

/// The sandboxes of one profile home.
///
/// Any number of engines, in any number of processes, share a home. Cloning is
/// cheap and gives the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What an engine is made of.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) home_id: HomeId,
    pub(crate) profile: String,
    pub(crate) sandboxes: PathBuf,
    pub(crate) settings: Arc<Settings>,
    pub(crate) backends: Backends,
    /// The environment of jobs: the settings do not change, nor does it.
    pub(crate) base_environment: OnceLock<Vec<EnvVar>>,
    /// The same for jobs that do not start with the caller's.
    pub(crate) container_environment: OnceLock<Vec<EnvVar>>,
    /// Variables that every job is given ([`Engine::forward`]).
    pub(crate) forwarded: RwLock<Arc<[EnvVar]>>,
    /// Backends without isolation that a sandbox may be on at its own wish; any, unless it is said
    /// ([`Engine::permit_unconfined`]).
    pub(crate) permitted: OnceLock<Vec<String>>,
    /// Set once every sandbox has to be isolated ([`Engine::require_confinement`]).
    pub(crate) confined: OnceLock<()>,
    /// Locks by which the tasks of this process open a sandbox one at a time.
    pub(crate) open_locks: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>,
    /// Sandboxes this process has a connection to.
    pub(crate) handles: Mutex<HashMap<Key, Arc<Handle>>>,
    /// Instances that end with this process.
    pub(crate) owned: OwnedInstances,
    pub(crate) idle_reaper: IdleReaper,
    pub(crate) sweep: Sweep,
    /// Held for reading by work that must not be cut off half-way.
    pub(crate) unfinished: Arc<tokio::sync::RwLock<()>>,
    pub(crate) progress: ProgressSink,
    /// The directory that the program was started in.
    pub(crate) launch_dir: Option<PathBuf>,
    pub(crate) probe_timeouts: ProbeTimeouts,
}

/// What the program that opens an engine tells it.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// The directory that the program was started in. Where nothing confines
    /// commands they start there unless the settings say otherwise, and
    /// `terminal.docker_mount_cwd_to_workspace` mounts it. Without it, as in a
    /// service, commands start in the sandbox's own workspace, and a sandbox that
    /// is to mount it is refused.
    pub launch_dir: Option<PathBuf>,
    /// Gets progress of slow steps.
    pub progress: ProgressSink,
}

impl Engine {
    /// Opens the engine of the profile home that the settings belong to, making
    /// the home if need be.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        Self::open_with(settings, EngineOptions::default())
    }

    /// Opens the engine with options of the program.
    pub fn open_with(settings: Settings, options: EngineOptions) -> Result<Self, Error> {
        let settings = Arc::new(settings);
        let declared: Vec<_> = registered().collect();
        let home_id = identity(&settings, &declared)?;
        let backends = Backends::of_registry(&settings, &home_id);
        Self::assemble(settings, home_id, backends, options, PROBE_TIMEOUTS)
    }

    /// Opens an engine that knows exactly these backends, best first.
    pub fn with_backends(
        settings: Settings,
        backends: Vec<Arc<dyn Backend>>,
    ) -> Result<Self, Error> {
        Self::with_probe_timeouts(settings, backends, PROBE_TIMEOUTS)
    }

    /// Opens it with other timeouts.
    pub(crate) fn with_probe_timeouts(
        settings: Settings,
        backends: Vec<Arc<dyn Backend>>,
        probe_timeouts: ProbeTimeouts,
    ) -> Result<Self, Error> {
        let backends = Backends::exactly(backends);
        let declared: Vec<_> = backends.declarations().collect();
        let home_id = identity(&settings, &declared)?;
        let settings = Arc::new(settings);
        Self::assemble(settings, home_id, backends, EngineOptions::default(), probe_timeouts)
    }

    fn assemble(
        settings: Arc<Settings>,
        home_id: HomeId,
        backends: Backends,
        options: EngineOptions,
        probe_timeouts: ProbeTimeouts,
    ) -> Result<Self, Error> {
        crate::mounts::admit_store(&settings)?;
        let EngineOptions { launch_dir, progress } = options;
        let inner = Inner {
            home_id,
            profile: settings.home().profile().to_string(),
            sandboxes: settings.sandboxes_dir()?.value,
            settings,
            backends,
            base_environment: OnceLock::new(),
            container_environment: OnceLock::new(),
            forwarded: RwLock::default(),
            permitted: OnceLock::new(),
            confined: OnceLock::new(),
            open_locks: Mutex::default(),
            handles: Mutex::default(),
            owned: OwnedInstances::default(),
            idle_reaper: IdleReaper::default(),
            sweep: Sweep::default(),
            unfinished: Arc::default(),
            progress,
            launch_dir,
            probe_timeouts,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the settings of the profile.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.inner.settings
    }

    /// Refuses sandboxes from now on that were made without isolation at somebody's wish (`-b local`),
    /// but for those on these backends. It is for a process that works for others, who must not reach
    /// this machine through a sandbox that its user made for himself. What is permitted is reported once.
    pub fn permit_unconfined(&self, backends: Vec<String>) {
        // Said again, it would be by the same settings.
        self.inner.permitted.set(backends).ok();
    }

    /// Refuses every sandbox without isolation from now on, whether it was made, is named by the
    /// settings, or would be chosen for want of another. It is for a process whose callers' commands
    /// nobody approves.
    pub fn require_confinement(&self) {
        // Twice is the same as once.
        self.inner.confined.set(()).ok();
    }

    /// Returns the name of the profile.
    pub fn profile(&self) -> &str {
        &self.inner.profile
    }

    /// Returns the key of a task in this home and profile.
    pub fn key(&self, task: &TaskName) -> Key {
        self.inner.key(task)
    }

    /// Returns the directory that holds the sandboxes.
    pub fn sandboxes_dir(&self) -> &Path {
        &self.inner.sandboxes
    }

    /// Returns every backend of this version and whether it works here.
    #[boxed]
    pub async fn backends(&self) -> Vec<(&'static str, Availability)> {
        let within = self.inner.probe_timeouts.examining;
        let asked = self.inner.backends.iter().map(|backend| async move {
            let probed = tokio::time::timeout(within, backend.probe()).await;
            let availability = probed.unwrap_or_else(|_| Availability::Missing {
                reason: NOT_ANSWERED.to_owned(),
                advice: backend.declaration().hung_advice.to_owned(),
            });
            (backend.name(), availability)
        });
        join_all(asked).await
    }
}

/// Returns the id of the settings' home. A copy of a home gets an id of its own here,
/// before anything acts on the sandboxes in it.
fn identity(settings: &Settings, declared: &[&'static Declaration]) -> Result<HomeId, Error> {
    let home = settings.home().dir();
    let user_home = settings.environment().user_home().filter(|dir| dir.is_dir());
    let context = HomeContext {
        notes: user_home.as_deref().map(HomeNotes::of_user),
        guests: &|| match settings.sandboxes_dir() {
            Ok(sandboxes) if is_below(&sandboxes.value, &home) => {
                running_guests(&sandboxes.value, declared)
            }
            // Sandboxes kept elsewhere were not copied with the home.
            _ => Guests::None,
        },
        machine,
        // Those kept elsewhere may be another home's.
        sandboxes: settings
            .sandboxes_dir()
            .ok()
            .map(|dir| dir.value)
            .filter(|dir| is_below(dir, &home)),
        adopt_sandboxes: &|old, new, original| {
            let sandboxes = settings.sandboxes_dir().map_err(|error| {
                StoreError::io("find the sandboxes of", &home, std::io::Error::other(error))
            })?;
            if is_below(&sandboxes.value, &home) {
                return Ok(adopt_sandboxes(&sandboxes.value, old, new, declared)?);
            }
            if !holds_sandboxes_of(&sandboxes.value, old)? {
                return Ok(());
            }
            Err(HomeError::SandboxesOfOriginal {
                path: home.clone(),
                original: original.unwrap_or(&home).to_owned(),
                sandboxes: sandboxes.value,
                source_of_dir: sandboxes.source.to_string(),
            })
        },
    };
    Ok(open_home(&home, &context)?)
}

impl Engine {
    /// Returns the notes of `vestal doctor` about each backend.
    #[boxed]
    pub async fn report(&self) -> Vec<(&'static str, Vec<DoctorNote>)> {
        let known = reap::known_instances(&self.inner);
        let (known, within) = (&known, self.inner.probe_timeouts.examining);
        let asked = self.inner.backends.iter().map(|backend| async move {
            let reported = tokio::time::timeout(within, backend.report(known)).await;
            let remarks = reported.unwrap_or_else(|_| {
                let (topic, text) = ("engine".to_owned(), NOT_ANSWERED.to_owned());
                let advice = Some(backend.declaration().hung_advice.to_owned());
                vec![DoctorNote { topic, text, advice }]
            });
            (backend.name(), remarks)
        });
        join_all(asked).await
    }
}

impl Inner {
    /// Returns an engine of the same home with other settings, to make or start one instance with.
    /// It holds no sandbox.
    pub(super) fn with_settings(&self, settings: Arc<Settings>) -> Self {
        let forwarded = self.forwarded.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        Self {
            home_id: self.home_id.clone(),
            profile: self.profile.clone(),
            sandboxes: self.sandboxes.clone(),
            backends: self.backends.with_settings(&settings, &self.home_id),
            settings,
            base_environment: self.base_environment.clone(),
            container_environment: self.container_environment.clone(),
            forwarded: RwLock::new(Arc::clone(&forwarded)),
            permitted: self.permitted.clone(),
            confined: self.confined.clone(),
            open_locks: Mutex::default(),
            handles: Mutex::default(),
            owned: OwnedInstances::default(),
            idle_reaper: IdleReaper::default(),
            sweep: Sweep::default(),
            unfinished: Arc::clone(&self.unfinished),
            progress: self.progress.clone(),
            launch_dir: self.launch_dir.clone(),
            probe_timeouts: self.probe_timeouts,
        }
    }

    pub(crate) fn key(&self, task: &TaskName) -> Key {
        Key::new(self.home_id.clone(), &*self.profile, task.clone())
    }

    pub(crate) fn dir(&self, key: &Key) -> SandboxDir {
        SandboxDir::new(self.sandboxes.join(key.dir_name()))
    }

    /// Returns a backend by the name a record carries.
    pub(crate) fn backend(&self, task: &TaskName, name: &str) -> Result<&Arc<dyn Backend>, Error> {
        self.backends.named(name).ok_or_else(|| Error::UnknownBackend {
            task: task.to_string(),
            backend: name.to_owned(),
        })
    }

    /// Returns the space that is kept for a start on a full disk.
    pub(super) fn disk_reserve(&self) -> DiskReserve {
        DiskReserve::of(&self.settings.home().run_dir(), &self.sandboxes)
    }

    pub(crate) fn wording<'a>(&self, task: &'a str, backend: &'a str) -> Wording<'a> {
        // What is unknown has to be rebuilt in any case.
        let remedy = self.declaration(backend).map_or(Remedy::Recreate, |found| found.remedy);
        // A setting that cannot be read was reported where it was needed.
        Wording::new(task, backend, remedy, self.persistent_files().unwrap_or(true))
    }

    /// Returns the handles. A poisoned lock is ignored: the map is never half changed.
    pub(crate) fn handles(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Handle>>> {
        self.handles.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Engine {
    /// Returns what a backend declares, or nothing if this version does not have it.
    pub fn declaration(&self, backend: &str) -> Option<&'static Declaration> {
        self.inner.declaration(backend)
    }

    /// Returns how far the instances of a backend keep commands away from the
    /// host.
    pub fn confinement(&self, backend: &str) -> Option<Confinement> {
        self.declaration(backend).map(|declared| declared.confinement)
    }

    /// Returns whether the instances of a backend are made from images.
    pub fn takes_images(&self, backend: &str) -> Option<bool> {
        self.declaration(backend).map(|declared| declared.takes_images)
    }

    /// Returns how changed settings reach the instances of a backend.
    pub fn remedy(&self, backend: &str) -> Option<Remedy> {
        self.declaration(backend).map(|declared| declared.remedy)
    }

    /// Returns how to speak about a task's sandbox on a backend.
    pub fn wording<'a>(&self, task: &'a str, backend: &'a str) -> Wording<'a> {
        self.inner.wording(task, backend)
    }
}

impl Inner {
    /// Returns the backend whose instances nothing confines, if there is one.
    pub(super) fn unconfined_backend(&self) -> Option<Arc<dyn Backend>> {
        self.backends.find(|declared| declared.confinement == Confinement::None).cloned()
    }

    /// Returns whether a backend's sandboxes are processes like any other, for
    /// which nothing can be mounted.
    pub(super) fn is_unconfined(&self, backend: &str) -> bool {
        self.declaration(backend).is_some_and(|declared| declared.confinement == Confinement::None)
    }

    pub(crate) fn declaration(&self, name: &str) -> Option<&'static Declaration> {
        self.backends.declarations().find(|found| found.name == name)
    }
}

/// What separates a task's name from the directory mounted in its sandbox.
const AT: &str = "@/";

/// Longest task name that carries its directory as it is.
const LONGEST: usize = 180;

impl Engine {
    /// Returns the task whose sandbox a caller means: the one named or, when
    /// the directory it was started in is to be mounted, the one of that
    /// directory. So no project is ever handed another one's files.
    pub fn scoped(&self, task: &TaskName) -> Result<TaskName, Error> {
        Ok(self.inner.scope(task, &Overrides::default())?.0)
    }

    /// Returns the task of a directory that is mounted in its sandbox.
    pub fn task_with_mount(&self, task: &TaskName, dir: &Path) -> Result<TaskName, Error> {
        let overrides = Overrides { mount: Some(dir.to_owned()), ..Overrides::default() };
        Ok(self.inner.scope(task, &overrides)?.0)
    }
}

impl Inner {
    /// Resolves the directory to mount, if any, and the task it belongs to.
    pub(super) fn scope(
        &self,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<(TaskName, Overrides), Error> {
        let mut overrides = overrides.clone();
        overrides.binds = overrides::resolve_binds(&overrides.binds)?;
        overrides::check_volumes(&overrides.volumes)?;
        if overrides.mount.is_none() && self.mounts_launch_dir(&overrides)? {
            let launch_dir = self.launch_dir.clone().ok_or_else(|| {
                let unknown = std::io::Error::other("this program does not say which it is");
                StoreError::io("mount", "the directory it was started in", unknown)
            })?;
            overrides.mount = Some(launch_dir);
        }
        // A task that names its directory has it on record, or gets it now.
        if let Some(at) = task.as_str().find(AT) {
            let dir = Path::new(&task.as_str()[at + 1..]);
            let known = self.dir(&self.key(task)).exists();
            let unconfined = self.names_unconfined(&overrides)?;
            overrides.mount = None;
            if !known && !unconfined && dir.is_dir() {
                // A client that names a directory must not get it: only its user mounts one.
                if self.permitted.get().is_some() {
                    return Err(Error::NoSandbox { task: task.to_string() });
                }
                self.refuse_planted_links(dir)?;
                let mount = std::fs::canonicalize(dir)
                    .map_err(|error| StoreError::io("mount", dir, error))?;
                self.refuse_wide_mount(&mount)?;
                overrides.mount = Some(mount);
            }
            return Ok((task.clone(), overrides));
        }
        let Some(mount) = &overrides.mount else {
            return Ok((task.clone(), overrides));
        };
        self.refuse_planted_links(mount)?;
        let mount =
            std::fs::canonicalize(mount).map_err(|error| StoreError::io("mount", mount, error))?;
        self.refuse_wide_mount(&mount)?;
        let task = at_directory(task, &mount)?;
        overrides.mount = Some(mount);
        Ok((task, overrides))
    }

    /// Refuses a directory that is reached by a link which a sandbox may have
    /// planted. The directory that this process was started in has no link in its
    /// name: the shell says by which way it came there.
    fn refuse_planted_links(&self, mount: &Path) -> Result<(), Error> {
        let logical = self.settings.environment().get("PWD").map(Path::new);
        let logical = logical.filter(|way| is_same_dir(way, mount));
        for way in [Some(mount), logical].into_iter().flatten().filter(|way| way.is_absolute()) {
            if let Some(reason) = planted_link(&self.settings, way)? {
                return Err(Error::Bind { path: way.to_owned(), reason });
            }
        }
        Ok(())
    }

    /// Refuses directories for a workspace that a command must not change as a
    /// whole. The root is never noted as something that sandboxes can write to,
    /// for then all of the host would be. A directory that is named as a volume
    /// in the settings is the user's decision.
    fn refuse_wide_mount(&self, mount: &Path) -> Result<(), Error> {
        let user_home = self.settings.environment().user_home();
        let user_home = user_home.map(|home| home.canonicalize().unwrap_or(home));
        match too_wide(mount, user_home.as_deref()) {
            None => Ok(()),
            Some(reason) => Err(Error::TooWideMount { path: mount.to_owned(), reason }),
        }
    }

    fn mounts_launch_dir(&self, overrides: &Overrides) -> Result<bool, Error> {
        Ok(!self.names_unconfined(overrides)?
            && self.settings.get(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE)?.value)
    }

    /// Reports whether a backend is named whose sandboxes see the host's files
    /// as they are.
    fn names_unconfined(&self, overrides: &Overrides) -> Result<bool, Error> {
        Ok(self.named_backend(overrides)?.is_some_and(|name| self.is_unconfined(&name)))
    }
}

/// Returns whether two paths lead to the same directory.
fn is_same_dir(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

/// Returns the name of a task in a directory.
fn at_directory(task: &TaskName, dir: &Path) -> Result<TaskName, Error> {
    let shown = dir.to_string_lossy();
    let mut name = format!("{task}@{shown}");
    if name.len() > LONGEST || dir.to_str().is_none() {
        use sha2::{Digest as _, Sha256};
        use std::os::unix::ffi::OsStrExt as _;
        let digest = hex(&Sha256::digest(dir.as_os_str().as_bytes())[..8]);
        let last = dir.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        name = format!("{}@/…/{}~{digest}", head(task.as_str()), head(&last));
    }
    name.parse().map_err(|_| Error::NoSandbox { task: name })
}

/// Returns the beginning of a name.
fn head(name: &str) -> &str {
    &name[..name.floor_char_boundary(60)]
}
