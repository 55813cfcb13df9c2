//! What of the host a sandbox is given while it runs: published files, variables
//! and mounts.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use vestal_config::EnvName;
use vestal_wire::EnvVar;

use super::lock::Patience;
use super::{Engine, Inner};
use crate::backend::{Backend, BackendError, Instance, JobEnvironment};
use crate::key::random_hex;
use crate::publish::{Bundle, PublishError, PublishedName};
use crate::settings::SandboxSettings as _;
use crate::store::{SandboxDir, StoreError, make_private_dir};
use crate::{Error, Key, Task, mounts};

/// Where it is kept what a sandbox is shown: a link for each, to where the files
/// come from. Whoever makes the sandbox anew shows them again.
const DIR: &str = "published";

/// Most that is shown again.
const MOST: usize = 500;

impl Inner {
    /// Keeps where something that is shown comes from. Each has a link of its
    /// own, replaced in one step, so that this takes no lock.
    pub(crate) fn remember_published(
        &self,
        key: &Key,
        name: &PublishedName,
        source: &Path,
    ) -> Result<(), Error> {
        remember(&self.dir(key), name, source)
    }

    /// Shows a new instance what the sandbox was shown before. What is not
    /// there any more is forgotten; that something cannot be shown is no reason
    /// to have no sandbox.
    pub(super) async fn publish_again(
        &self,
        dir: &SandboxDir,
        backend: &dyn Backend,
        instance: &Instance,
    ) {
        let Some(publishing) = backend.publishing() else { return };
        for (name, link) in remembered(dir) {
            let Ok(source) = fs::read_link(&link) else { continue };
            let shown = match read(&source).await {
                Ok(bundle) => publishing.publish(instance, &name, &bundle).await.map(drop),
                Err(_) if !source.is_dir() => {
                    fs::remove_file(&link).ok();
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, %name, "not shown again");
                    continue;
                }
            };
            if let Err(error) = shown {
                tracing::warn!(%error, %name, "cannot be shown to the sandbox");
            }
        }
    }
}

/// Reads what is to be shown.
pub(crate) async fn read(source: &Path) -> Result<Bundle, Error> {
    let path = source.to_owned();
    let failed = |reason| PublishError::Source { path: source.to_owned(), reason };
    match tokio::task::spawn_blocking(move || Bundle::read(&path)).await {
        Ok(bundle) => Ok(bundle.map_err(failed)?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

fn remember(dir: &SandboxDir, name: &PublishedName, source: &Path) -> Result<(), Error> {
    let shelf = dir.path().join(DIR).join(name.shelf());
    let link = shelf.join(name.name());
    if fs::read_link(&link).is_ok_and(|known| known == source) {
        return Ok(());
    }
    make_private_dir(&shelf)?;
    let kept = random_hex::<6>().and_then(|random| {
        let new = shelf.join(format!(".{}-{random}.tmp", name.name()));
        symlink(source, &new)?;
        fs::rename(&new, &link).inspect_err(|_| {
            fs::remove_file(&new).ok();
        })
    });
    Ok(kept.map_err(|error| StoreError::io("write", link, error))?)
}

/// Returns what a sandbox is shown, and the links to where that comes from.
fn remembered(dir: &SandboxDir) -> Vec<(PublishedName, PathBuf)> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for shelf in entries(&dir.path().join(DIR)) {
        for entry in entries(&shelf.path()) {
            let (shelf, own) = (shelf.file_name(), entry.file_name());
            let name = format!("{}/{}", shelf.to_string_lossy(), own.to_string_lossy());
            if let Ok(name) = PublishedName::new(&name)
                && found.len() < MOST
            {
                found.push((name, entry.path()));
            }
        }
    }
    found.sort();
    found
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
        *self.inner.asked.write().unwrap_or_else(PoisonError::into_inner) = asked;
    }
}

impl Inner {
    /// Returns the variables that were asked for and that jobs do not have
    /// anyway.
    pub(crate) fn asked_environment(
        &self,
        environment: JobEnvironment,
    ) -> Result<Vec<EnvVar>, Error> {
        let asked = Arc::clone(&self.asked.read().unwrap_or_else(PoisonError::into_inner));
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let there = match environment {
            JobEnvironment::Callers => self.base_environment()?,
            JobEnvironment::Guests => self.container_environment()?,
        };
        let is_there = |own: &&EnvVar| !there.iter().any(|other| other.name == own.name);
        Ok(asked.iter().filter(is_there).cloned().collect())
    }
}

impl Engine {
    /// Has the next start of a sandbox take the directories that it mounts as
    /// they are at this moment: a start refuses what is not what it was when the
    /// sandbox was made, or its mounts were accepted. Returns why some of them
    /// are not accepted, as what is not there.
    pub async fn accept_mounts(&self, task: &Task) -> Result<Vec<BackendError>, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        let absent = || Error::NoSandbox { task: task.to_string() };
        if !dir.exists() {
            return Err(absent());
        }
        let lock = self.inner.acquire(task, &dir, Patience::Bounded).await?;
        let record = dir.record_of(&key)?.ok_or_else(absent)?;
        let mut not_accepted = Vec::new();
        if let Some(instance) = record.instance(&dir) {
            let ours = mounts::Ours::of(&self.inner.settings)?;
            let backend = self.inner.backend(task, &record.backend)?.name();
            not_accepted = mounts::accept(&ours, &instance.dir).map_err(Error::backend(backend))?;
        }
        drop(lock);
        Ok(not_accepted)
    }
}
