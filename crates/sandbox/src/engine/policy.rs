//! What the settings say about a sandbox: its backend, its lifetime, its task.

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vestal_config::AnyKey as _;

use super::{Engine, Inner};
use crate::backend::{Availability, Backend, BackendError, Confinement, JobEnvironment, Locator};
use crate::key::hex;
use crate::mounts::planted_link;
use crate::settings::{BackendChoice, OnConfigChange, StartDir, keys};
use crate::spec::{Spec, Tightening};
use crate::store::StoreError;
use crate::{Error, Overrides, Task, binds};

/// Shortest lifetime the orphan reaper reckons with.
const SHORTEST_LIFETIME: Duration = Duration::from_mins(1);

/// The reading of settings. Each asks only for the key it needs, so that a
/// wrong value elsewhere is in nobody's way.
impl Inner {
    /// Returns whether instances outlive this process.
    pub(crate) fn across_processes(&self) -> Result<bool, Error> {
        Ok(self.settings.get(&keys::PERSIST_ACROSS_PROCESSES)?.value)
    }

    /// Returns whether the files of a sandbox outlive its instance.
    pub(crate) fn persistent_files(&self) -> Result<bool, Error> {
        Ok(self.settings.get(&keys::CONTAINER_PERSISTENT)?.value)
    }

    /// Returns how long a handle may idle in this process.
    pub(crate) fn lifetime(&self) -> Result<Duration, Error> {
        Ok(self.settings.get(&keys::LIFETIME_SECONDS)?.value.duration())
    }

    /// Returns how long an instance may idle at all; nothing: for ever.
    pub(crate) fn retention(&self) -> Result<Option<Duration>, Error> {
        Ok(self.settings.get(&keys::RETENTION_SECONDS)?.value.duration())
    }

    /// Returns the age from which an ended instance that nobody can want any
    /// more is removed.
    pub(crate) fn orphan_age(&self) -> Result<Duration, Error> {
        Ok(self.lifetime()?.max(SHORTEST_LIFETIME) * 2)
    }

    pub(crate) fn orphan_reaper(&self) -> Result<bool, Error> {
        Ok(self.settings.get(&keys::ORPHAN_REAPER)?.value)
    }

    pub(crate) fn on_config_change(&self) -> Result<OnConfigChange, Error> {
        Ok(self.settings.get(&keys::ON_CONFIG_CHANGE)?.value)
    }

    pub(crate) fn stop_grace(&self) -> Result<Duration, Error> {
        Ok(self.settings.get(&keys::STOP_GRACE_SECONDS)?.value.duration())
    }

    /// Returns the settings that shape an instance, without the defaults.
    pub(crate) fn spec(&self, backend: &dyn Backend, overrides: &Overrides) -> Result<Spec, Error> {
        let mut spec = backend.spec(&self.settings, overrides)?;
        let log_bytes = self.settings.get(&keys::JOB_LOG_BYTES)?.value;
        if log_bytes != *keys::JOB_LOG_BYTES.default_value() {
            spec = spec.with(
                keys::JOB_LOG_BYTES.name(),
                &log_bytes.get().to_string(),
                Tightening::Never,
            );
        }
        let jobs_kept = self.settings.get(&keys::JOBS_KEPT)?.value;
        if jobs_kept != *keys::JOBS_KEPT.default_value() {
            spec =
                spec.with(keys::JOBS_KEPT.name(), &jobs_kept.get().to_string(), Tightening::Never);
        }
        Ok(spec)
    }

    /// Returns the directory sessions without one start in: the one asked for
    /// this sandbox, else the configured one, else where this process was
    /// started, or for a sandbox with a system of its own its workspace. There
    /// a directory of the host means nothing.
    pub(crate) fn start_dir(
        &self,
        backend: &dyn Backend,
        locator: &Locator,
        asked: Option<&Path>,
    ) -> Result<PathBuf, Error> {
        let configured = self.settings.get(&keys::CWD)?.value;
        if let Some(asked) = asked {
            return Ok(asked.to_owned());
        }
        if backend.job_environment() == JobEnvironment::Guests {
            let home = self.settings.environment().user_home();
            let means_something = |path: &Path| {
                path.is_absolute() && home.as_deref().is_none_or(|home| !path.starts_with(home))
            };
            return Ok(match configured {
                StartDir::At(path) if means_something(&path) => path,
                StartDir::At(_) | StartDir::Launch => (backend.declaration().workspace)(locator),
            });
        }
        let launch_dir = std::env::current_dir()
            .map_err(|error| StoreError::io("find", "the current directory", error))?;
        Ok(configured.resolve(&launch_dir, self.settings.environment().user_home().as_deref()))
    }

    /// Returns the backend the settings name; nothing for `auto`.
    pub(crate) fn named_backend(&self, overrides: &Overrides) -> Result<Option<String>, Error> {
        if let Some(asked) = &overrides.backend {
            return Ok(Some(asked.clone()).filter(|asked| asked != BackendChoice::Auto.as_str()));
        }
        Ok(self.settings.get(&keys::BACKEND)?.value.named().map(str::to_owned))
    }

    /// Returns the backend for a sandbox that is about to be made: the one
    /// named, or for `auto` the best one that works here. Only what this machine
    /// lacks, or what a setting asks of containers, leads to the next one: a wrong
    /// setting is an error, and so is a setting that asks for isolation where
    /// nothing is left that isolates.
    pub(crate) async fn choose_backend(
        &self,
        task: &Task,
        overrides: &Overrides,
    ) -> Result<Arc<dyn Backend>, Error> {
        if let Some(name) = self.named_backend(overrides)? {
            return self.backend(task, &name).cloned();
        }
        let isolating = self.settings.isolating()?;
        let mut reasons = Vec::new();
        for backend in self.backends.iter().filter(|backend| suits(&***backend, overrides)) {
            if backend.confinement() == Confinement::None && !isolating.is_empty() {
                return Err(Error::NotIsolated { task: task.to_string(), isolating, reasons });
            }
            if !backend.takes_images()
                && let Some((setting, kind)) =
                    isolating.iter().find_map(|own| Some((own, own.only_in?)))
            {
                reasons.push(format!("{}: only {kind} have {setting}", backend.name()));
                continue;
            }
            // Images are fetched for those who ask for a container, not for
            // those who ask for anything that works.
            if backend.takes_images() && asks_for_system(overrides) {
                return Ok(Arc::clone(backend));
            }
            match backend.probe().await {
                Availability::Works { .. } => return Ok(Arc::clone(backend)),
                Availability::Missing { reason, advice } => {
                    reasons.push(format!("{}: {reason} ({advice})", backend.name()));
                }
                Availability::Misconfigured { problem, advice } => {
                    let source = BackendError::Advised { problem, advice };
                    return Err(Error::backend(backend.name())(source));
                }
            }
        }
        Err(Error::NoBackend { reasons })
    }

    /// Refuses to use a sandbox on another backend than the one asked for, and
    /// one without walls that `auto` chose before a setting asked for isolation.
    pub(crate) fn check_backend(
        &self,
        task: &Task,
        overrides: &Overrides,
        recorded: &str,
    ) -> Result<(), Error> {
        match self.named_backend(overrides)? {
            Some(name) if name != recorded => Err(Error::BackendChanged {
                task: task.to_string(),
                was: recorded.to_owned(),
                now: name,
            }),
            None if self.is_unconfined(recorded) => match self.settings.isolating()? {
                isolating if isolating.is_empty() => Ok(()),
                isolating => Err(Error::NotIsolated {
                    task: task.to_string(),
                    isolating,
                    reasons: vec![format!("it was made on the backend {recorded}")],
                }),
            },
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns whether a backend can give what is asked for one sandbox. Whoever
/// asks for an image or a mounted workspace asks for a system of its own, and
/// must not be given less than that.
fn suits(backend: &dyn Backend, asked: &Overrides) -> bool {
    let mounts = backend.declaration().mounts_host_directories();
    (asked.image.is_none() || backend.takes_images()) && (asked.mount.is_none() || mounts)
}

fn asks_for_system(asked: &Overrides) -> bool {
    asked.image.is_some() || asked.mount.is_some()
}

/// What separates a task's name from the directory mounted in its sandbox.
const AT: &str = "@/";

/// Longest task name that carries its directory as it is.
const LONGEST: usize = 180;

impl Engine {
    /// Returns the task whose sandbox a caller means: the one named or, when
    /// the directory it was started in is to be mounted, the one of that
    /// directory. So no project is ever handed another one's files.
    pub fn scoped(&self, task: &Task) -> Result<Task, Error> {
        Ok(self.inner.scope(task, &Overrides::default())?.0)
    }

    /// Returns the task of a directory that is mounted in its sandbox.
    pub fn task_with_mount(&self, task: &Task, dir: &Path) -> Result<Task, Error> {
        let overrides = Overrides { mount: Some(dir.to_owned()), ..Overrides::default() };
        Ok(self.inner.scope(task, &overrides)?.0)
    }
}

impl Inner {
    /// Resolves the directory to mount, if any, and the task it belongs to.
    pub(super) fn scope(
        &self,
        task: &Task,
        overrides: &Overrides,
    ) -> Result<(Task, Overrides), Error> {
        let mut overrides = overrides.clone();
        overrides.binds = binds::resolve(&overrides.binds)?;
        if overrides.mount.is_none() && self.mounts_launch_dir(&overrides)? {
            let launch_dir = std::env::current_dir()
                .map_err(|error| StoreError::io("find", "the current directory", error))?;
            overrides.mount = Some(launch_dir);
        }
        // A task that names its directory has it on record, or gets it now.
        if let Some(at) = task.as_str().find(AT) {
            let dir = Path::new(&task.as_str()[at + 1..]);
            let known = self.dir(&self.key(task)).exists();
            let unconfined = self.names_unconfined(&overrides)?;
            overrides.mount = (!known && !unconfined && dir.is_dir()).then(|| dir.to_owned());
            return Ok((task.clone(), overrides));
        }
        let Some(mount) = &overrides.mount else {
            return Ok((task.clone(), overrides));
        };
        self.refuse_planted_links(mount)?;
        let mount =
            std::fs::canonicalize(mount).map_err(|error| StoreError::io("mount", mount, error))?;
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
fn at_directory(task: &Task, dir: &Path) -> Result<Task, Error> {
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
