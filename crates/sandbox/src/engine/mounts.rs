//! Accepting what is mounted as it is.

use super::Engine;
use super::locking::Patience;
use crate::backend::BackendError;
use crate::{Error, Task, mounts};

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
