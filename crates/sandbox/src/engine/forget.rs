//! Removing the record of a sandbox whose machine is gone for good.
//!
//! Nothing of it can be ended or removed over there. So what was its instance stays on a list:
//! should the machine come back, nobody is handed that instance, and the first who meets it
//! removes it. Files over there stay in any case.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;

use super::lock::{LockWait, is_gone, unlocated};
use super::remove::{delete, forget_handle, kept_files};
use super::{Engine, Inner, lock};
use crate::backend::{Backend, Confinement, FoundInstance, Instance};
use crate::store::{ForgottenInstance, ForgottenInstances, InstanceMark, SandboxDir};
use crate::{Error, TaskName, failpoint};

/// What forgetting a sandbox leaves where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    /// What the backend's own tools know the machine by.
    pub machine: String,
    /// The directory there in which work is.
    pub workspace: String,
    /// How many instances are forgotten.
    pub instances: usize,
}

impl Engine {
    /// Returns what would be left behind if a task's sandbox were forgotten. Nobody is asked.
    #[boxed]
    pub async fn left_behind(&self, task: &TaskName) -> Result<LeftBehind, Error> {
        let inner = &self.inner;
        let key = inner.key(task);
        let dir = inner.dir(&key);
        let record = dir.record_of(&key)?;
        let record = record.ok_or_else(|| Error::NoSandbox { task: task.to_string() })?;
        let backend = inner.backend(task, &record.backend)?;
        if backend.confinement() != Confinement::Remote {
            return Err(Error::NotElsewhere { task: task.to_string(), backend: backend.name() });
        }
        let instances = dir.instance_ids()?.len();
        let instance = record.instance(&dir).unwrap_or_else(|| unlocated(&dir, String::new()));
        let name = backend.describe(&instance.locator).name;
        let workspace = (backend.declaration().workspace)(&instance.locator);
        Ok(LeftBehind {
            machine: name.unwrap_or_else(|| backend.name().to_owned()),
            workspace: workspace.display().to_string(),
            instances,
        })
    }

    /// Removes the record of a sandbox whose machine does not answer any more, and returns what
    /// is left there. One that answers is refused: it can be removed.
    #[boxed]
    pub async fn forget(&self, task: &TaskName) -> Result<LeftBehind, Error> {
        let left = self.left_behind(task).await?;
        let inner = &self.inner;
        let key = inner.key(task);
        let dir = inner.dir(&key);
        let absent = || Error::NoSandbox { task: task.to_string() };
        let lock = match lock::acquire(inner, task, &dir, LockWait::Ending).await {
            Err(error) if is_gone(&error) => return Err(absent()),
            other => other?,
        };
        // What a dead process has begun is not finished: that takes the machine.
        let mut record = dir.record_of(&key)?.ok_or_else(absent)?;
        let backend = Arc::clone(inner.backend(task, &record.backend)?);
        if let Some(instance) = record.instance(&dir)
            && backend.state(&instance).await.is_ok()
        {
            let machine = left.machine;
            return Err(Error::Answers { task: task.to_string(), machine });
        }
        forget_handle(inner, &key);
        let recorded = record.instance(&dir);
        for id in dir.instance_ids()? {
            let known = recorded.clone().filter(|recorded| recorded.id == id);
            let instance = known.unwrap_or_else(|| unlocated(&dir, id));
            let mark = InstanceMark::read(&instance.dir)?;
            let backend = mark.map_or_else(|| record.backend.clone(), |mark| mark.backend);
            let now = Timestamp::now();
            let forgotten =
                ForgottenInstance::new(task.as_str(), &record.key, &backend, instance.locator, now);
            forgotten_instances(inner).add(&instance.id, &forgotten)?;
        }
        failpoint::reach("forget.noted");
        if kept_files(&dir).is_empty() {
            if let Some(aside) = dir.move_aside()? {
                failpoint::reach("forget.moved-aside");
                delete(&*backend, &aside).await?;
            }
        } else {
            // Files and snapshots that are here are the user's.
            for id in dir.instance_ids()? {
                delete(&*backend, &dir.instance_dir(&id)).await?;
            }
            record.instance = None;
            dir.write_record(&record)?;
            dir.clear_intent()?;
        }
        drop(lock);
        Ok(left)
    }
}

/// Returns the instances that were forgotten.
pub(super) fn forgotten_instances(engine: &Inner) -> ForgottenInstances {
    ForgottenInstances::of_home(&engine.settings.home().dir())
}

/// Removes an instance that was forgotten and is met again, and its name from the list.
pub(super) async fn finish(
    engine: &Inner,
    dir: &SandboxDir,
    backend: &dyn Backend,
    found: FoundInstance,
) -> Result<(), Error> {
    let id = found.id.clone();
    let instance = Instance { locator: found.locator, ..unlocated(dir, found.id) };
    tracing::info!(instance = id, "its machine is back; it was forgotten, and is removed");
    backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
    forgotten_instances(engine).remove(&id)?;
    Ok(())
}

/// Takes those that were forgotten out of what was found, and removes them.
pub(super) async fn drop_forgotten(
    engine: &Inner,
    dir: &SandboxDir,
    backend: &dyn Backend,
    found: Vec<FoundInstance>,
) -> Result<Vec<FoundInstance>, Error> {
    let mut forgotten = forgotten_instances(engine).ids()?;
    if forgotten.is_empty() {
        return Ok(found);
    }
    // One that is on record is not forgotten yet: a process died over that.
    for id in dir.instance_ids()? {
        forgotten.remove(&id);
    }
    let (gone, rest): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| forgotten.contains(&found.id));
    for found in gone {
        finish(engine, dir, backend, found).await?;
    }
    Ok(rest)
}
