//! Remove a sandbox on explicit request.

use super::attach::LOCK_PATIENCE;
use super::recover::unlocated;
use super::stop::Interrupt;
use super::{Engine, Inner};
use crate::failpoint;
use crate::owner::Owner;
use crate::store::{Intent, KeyLock, LockError, SandboxDir, remove_tree};
use crate::{Error, Task};

/// What happens to a sandbox's workspace and home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They stay for the next instance.
    Keep,
    /// They go too.
    Remove,
}

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Instances removed.
    pub instances: usize,
    /// Directories of the sandbox's files that were kept.
    pub kept: Vec<std::path::PathBuf>,
}

impl Engine {
    /// Removes a sandbox's instances, and its files if asked.
    pub async fn remove(&self, task: &Task, files: Files) -> Result<Removal, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        let absent = || Error::NoSandbox { task: task.to_string() };
        if !dir.exists() {
            return Err(absent());
        }
        let lock = match KeyLock::acquire(&dir.lock_file(), LOCK_PATIENCE).await {
            Ok(lock) => lock,
            Err(LockError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(absent());
            }
            Err(error) => return Err(error.into()),
        };
        self.inner.recover(task, &dir).await?;
        if !lock.is_current(&dir.lock_file()) {
            // It was this very removal that a process died over.
            return Ok(Removal { instances: 0, kept: Vec::new() });
        }
        if dir.record_of(&key)?.is_none() && dir.instance_ids()?.is_empty() {
            dir.remove()?;
            return Err(absent());
        }
        self.inner.forget_handle(&key);
        let removal = self.inner.remove_locked(task, &dir, files).await?;
        drop(lock);
        Ok(removal)
    }
}

impl Inner {
    /// Removes all instances of a sandbox, under the lock.
    pub(super) async fn remove_locked(
        &self,
        task: &Task,
        dir: &SandboxDir,
        files: Files,
    ) -> Result<Removal, Error> {
        let instances = dir.instance_ids()?.len();
        let kept = match files {
            Files::Keep => kept_files(dir),
            Files::Remove => Vec::new(),
        };
        let record = dir.read_record()?;
        let instance = record.and_then(|record| record.instance).map(|instance| instance.id);
        dir.write_intent(Intent::Remove { instance, files: files == Files::Remove })?;
        failpoint::reach("remove.intent-written");
        self.finish_removal(task, dir, files == Files::Remove).await?;
        Ok(Removal { instances, kept })
    }

    /// Carries out a removal, from whichever step it had reached.
    pub(super) async fn finish_removal(
        &self,
        task: &Task,
        dir: &SandboxDir,
        files: bool,
    ) -> Result<(), Error> {
        let record = dir.read_record()?;
        let recorded = record.as_ref().and_then(|record| record.instance(dir));
        for id in dir.instance_ids()? {
            let instance = recorded
                .clone()
                .filter(|recorded| recorded.id == id)
                .unwrap_or_else(|| unlocated(dir, id));
            let owner = Owner::read(&instance.dir.join("io"))?;
            let backend = self.backend_for(record.as_ref(), owner.as_ref())?;
            self.ask_to_end(task, &*backend, &instance, Interrupt::Anything).await?;
            failpoint::reach("remove.ended");
            backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
        }
        remove_tree(&dir.path().join("state"))?;
        failpoint::reach("remove.instance-removed");
        if files || kept_files(dir).is_empty() {
            // The intent goes with the directory.
            dir.remove()?;
            failpoint::reach("remove.files-removed");
            return Ok(());
        }
        if let Some(mut record) = record {
            record.instance = None;
            dir.write_record(&record)?;
        }
        failpoint::reach("remove.record-written");
        dir.clear_intent()?;
        Ok(())
    }

    /// Lets go of this process's connection to a sandbox.
    pub(super) fn forget_handle(&self, key: &crate::Key) {
        self.handles().remove(key);
    }
}

/// Returns the directories of the sandbox's own files that exist.
fn kept_files(dir: &SandboxDir) -> Vec<std::path::PathBuf> {
    ["workspace", "home"]
        .iter()
        .map(|name| dir.path().join(name))
        .filter(|path| path.is_dir())
        .collect()
}
