//! What the settings say of a sandbox: its backend, its spec, where its commands start, and the
//! environment of its jobs.

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use vestal_config::{AnyKey as _, EnvName, ValueSource};
use vestal_wire::EnvVar;

use super::{Engine, Inner};
use crate::backend::{Availability, Backend, BackendError, Confinement, JobEnvironment, Locator};
use crate::settings::{BackendChoice, OnConfigChange, SandboxSettings as _, StartDir, keys};
use crate::spec::{Spec, Tightening};
use crate::store::make_private_dir;
use crate::{Error, Key, Overrides, TaskName};

/// Shortest lifetime that the orphan reaper uses.
const SHORTEST_LIFETIME: Duration = Duration::from_mins(1);

/// Whose a directory of the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirOwner {
    /// It is there, or the user's to make.
    User,
    /// It is made when it is needed.
    Sandbox,
}

/// Reads settings. Each method reads only the key it needs, so that a wrong value of
/// another key does no harm.
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

    /// Returns how long an instance may idle, or nothing if there is no limit.
    pub(crate) fn retention(&self) -> Result<Option<Duration>, Error> {
        Ok(self.settings.get(&keys::RETENTION_SECONDS)?.value.duration())
    }

    /// Returns the age from which an ended instance that is no longer needed is removed.
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

    /// Returns the image that the command line sets for all sandboxes of a backend.
    pub(crate) fn image_on_command_line(
        &self,
        backend: &dyn Backend,
    ) -> Result<Option<String>, Error> {
        let Some(setting) = backend.declaration().image_setting else { return Ok(None) };
        let image = self.settings.get_by_name(setting)?;
        let is_set = matches!(image.source, ValueSource::CommandLine { .. });
        Ok(is_set.then(|| image.value.to_string()))
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
    /// this sandbox, else the configured one, else where the program was started
    /// ([`super::EngineOptions`]), or its workspace: for a sandbox with a system of
    /// its own, where a directory of the host means nothing, and for a program that
    /// nobody started in a directory.
    pub(crate) fn start_dir(
        &self,
        key: &Key,
        backend: &dyn Backend,
        locator: &Locator,
        asked: Option<&Path>,
    ) -> Result<PathBuf, Error> {
        let configured = self.settings.get(&keys::CWD)?.value;
        let home = self.settings.environment().user_home();
        if let Some(asked) = asked {
            return Ok(asked.to_owned());
        }
        if backend.job_environment() == JobEnvironment::Guests {
            let means_something = |path: &Path| {
                path.is_absolute() && home.as_deref().is_none_or(|home| !path.starts_with(home))
            };
            return Ok(match configured {
                StartDir::At(path) if means_something(&path) => path,
                StartDir::At(_) | StartDir::Launch => (backend.declaration().workspace)(locator),
            });
        }
        let (dir, own) = self.host_dir(key, &configured);
        if own == DirOwner::Sandbox && !dir.exists() {
            make_private_dir(&dir)?;
        }
        Ok(dir)
    }

    /// Returns the directory of the host that the configured one stands for, and whose it is.
    fn host_dir(&self, key: &Key, configured: &StartDir) -> (PathBuf, DirOwner) {
        if (&self.launch_dir, configured) == (&None, &StartDir::Launch) {
            return (self.dir(key).workspace(), DirOwner::Sandbox);
        }
        let home = self.settings.environment().user_home();
        let base = self.launch_dir.clone().or_else(|| home.clone());
        let base = base.unwrap_or_else(|| PathBuf::from("/"));
        (configured.resolve(&base, home.as_deref()), DirOwner::User)
    }

    /// Returns the backend the settings name; nothing for `auto`.
    pub(crate) fn named_backend(&self, overrides: &Overrides) -> Result<Option<String>, Error> {
        let named = match &overrides.backend {
            Some(asked) if asked == BackendChoice::Auto.as_str() => None,
            Some(asked) => Some(asked.clone()),
            None => self.settings.get(&keys::BACKEND)?.value.named().map(str::to_owned),
        };
        let declared = named.as_deref().and_then(|name| self.declaration(name));
        let instead =
            declared.map(|declared| (declared.replaced_by)(&self.settings)).transpose()?;
        Ok(instead.flatten().map(str::to_owned).or(named))
    }

    /// Returns the backend for a sandbox that is about to be made: the one
    /// named, or for `auto` the best one that works here. Only what this machine
    /// lacks, or what a setting asks of containers, leads to the next one: a wrong
    /// setting is an error, and so is a setting that asks for isolation where
    /// nothing is left that isolates.
    pub(crate) async fn choose_backend(
        &self,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<Arc<dyn Backend>, Error> {
        if let Some(name) = self.named_backend(overrides)? {
            self.check_permitted(task, overrides, &name)?;
            return self.backend(task, &name).cloned();
        }
        let isolating = self.settings.isolating()?;
        let mut reasons = Vec::new();
        for backend in self.backends.unasked().filter(|backend| suits(&***backend, overrides)) {
            if backend.confinement() == Confinement::None && !isolating.is_empty() {
                return Err(Error::NotIsolated { task: task.to_string(), isolating, reasons });
            }
            self.check_confined(task, backend.name())?;
            if !backend.takes_images()
                && let Some((setting, kind)) =
                    isolating.iter().find_map(|own| Some((own, own.only_in?)))
            {
                reasons.push(format!("{}: only {kind} have {setting}", backend.name()));
                continue;
            }
            // An image is pulled only for a caller who asked for a container.
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

    /// Refuses a sandbox that has no isolation because somebody wished so, where that is not permitted
    /// ([`Engine::permit_unconfined`]).
    pub(crate) fn check_permitted(
        &self,
        task: &TaskName,
        overrides: &Overrides,
        backend: &str,
    ) -> Result<(), Error> {
        self.check_confined(task, backend)?;
        let Some(permitted) = self.permitted.get() else { return Ok(()) };
        let is_wished = overrides.backend.as_deref() == Some(backend);
        if is_wished && self.is_unconfined(backend) && !permitted.iter().any(|name| name == backend)
        {
            let (task, backend) = (task.to_string(), backend.to_owned());
            return Err(Error::NotPermitted { task, backend });
        }
        Ok(())
    }

    /// Refuses a sandbox without isolation, whoever chose it, where every one has to be isolated
    /// ([`Engine::require_confinement`]).
    fn check_confined(&self, task: &TaskName, backend: &str) -> Result<(), Error> {
        if self.confined.get().is_none() || !self.is_unconfined(backend) {
            return Ok(());
        }
        Err(Error::NotConfined { task: task.to_string(), backend: backend.to_owned() })
    }

    /// Refuses to use a sandbox on another backend than the one asked for, and
    /// one without isolation that `auto` chose before a setting asked for isolation.
    pub(crate) fn check_backend(
        &self,
        task: &TaskName,
        overrides: &Overrides,
        recorded: &str,
    ) -> Result<(), Error> {
        self.check_permitted(task, overrides, recorded)?;
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

/// Returns whether a backend can give what is asked for one sandbox. An image or a
/// mounted workspace takes a backend with a system of its own.
fn suits(backend: &dyn Backend, asked: &Overrides) -> bool {
    let mounts = backend.declaration().takes_host_directory();
    (asked.image.is_none() || backend.takes_images()) && (asked.mount.is_none() || mounts)
}

fn asks_for_system(asked: &Overrides) -> bool {
    asked.image.is_some() || asked.mount.is_some()
}

impl Engine {
    /// Returns the directory of the host in which commands of a task start, where the settings or
    /// `overrides` name a backend that confines nothing. It is made when the first one does.
    pub fn host_start_dir(
        &self,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<Option<PathBuf>, Error> {
        let named = self.inner.named_backend(overrides)?;
        if !named.is_some_and(|name| self.inner.is_unconfined(&name)) {
            return Ok(None);
        }
        if let Some(asked) = &overrides.cwd {
            return Ok(Some(asked.clone()));
        }
        let configured = self.inner.settings.get(&keys::CWD)?.value;
        let (dir, _) = self.inner.host_dir(&self.inner.key(task), &configured);
        Ok(Some(dir))
    }
}

impl Engine {
    /// Gives these variables to every job from now on, in place of those that
    /// were asked for before: from the environment, else from `.env`, as far as
    /// they are set and may be handed on ([`vestal_config::Settings::handing`]).
    ///
    /// They go with each job as `terminal.docker_forward_env` does: they are in
    /// no instance, no label and no saved session, a sandbox that is there gets
    /// them as it is, and what the settings say of the same name wins.
    pub fn forward<'a>(&self, names: impl IntoIterator<Item = &'a EnvName>) {
        let handed = self.inner.settings.handed(names);
        let asked: Arc<[EnvVar]> = handed
            .into_iter()
            .map(|(name, value)| EnvVar {
                name: name.as_str().as_bytes().to_vec().into(),
                value: value.as_bytes().to_vec().into(),
            })
            .collect();
        *self.inner.forwarded.write().unwrap_or_else(PoisonError::into_inner) = asked;
    }
}

/// Returns the environment for jobs: this process's, without secrets, and
/// the pairs of `terminal.env`.
pub(crate) fn base_environment(engine: &Inner) -> Result<Vec<EnvVar>, Error> {
    if let Some(known) = engine.base_environment.get() {
        return Ok(known.clone());
    }
    let variables = engine.settings.job_environment()?.variables;
    let variables = variables.into_iter().map(variable).collect();
    Ok(engine.base_environment.get_or_init(|| variables).clone())
}

/// Returns what the settings add to the environment of jobs that start
/// with the instance's own. It may hold secrets, so it goes with each job
/// and is neither in the instance nor saved by a session.
pub(crate) fn container_environment(engine: &Inner) -> Result<Vec<EnvVar>, Error> {
    if let Some(known) = engine.container_environment.get() {
        return Ok(known.clone());
    }
    let variables = engine.settings.container_environment()?.variables;
    let variables = variables.into_iter().map(variable).collect();
    Ok(engine.container_environment.get_or_init(|| variables).clone())
}

/// Returns the variables that were asked for and that jobs do not have
/// anyway.
pub(crate) fn forwarded_environment(
    engine: &Inner,
    environment: JobEnvironment,
) -> Result<Vec<EnvVar>, Error> {
    let asked = Arc::clone(&engine.forwarded.read().unwrap_or_else(PoisonError::into_inner));
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let there = match environment {
        JobEnvironment::Callers => base_environment(engine)?,
        JobEnvironment::Guests => container_environment(engine)?,
    };
    let is_there = |own: &&EnvVar| !there.iter().any(|other| other.name == own.name);
    Ok(asked.iter().filter(is_there).cloned().collect())
}

fn variable((name, value): (OsString, OsString)) -> EnvVar {
    EnvVar { name: name.as_bytes().to_vec().into(), value: value.as_bytes().to_vec().into() }
}
