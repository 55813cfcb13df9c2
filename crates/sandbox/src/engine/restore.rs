//! Restore: a sandbox is again what it was in a snapshot.

use jiff::Timestamp;

use super::change::{Changing, NEW, Replaced, Verb, beside};
use super::create::Ground;
use super::snapshot::{describe, snapshot_of};
use super::still::{Still, TREES, Tally, settle};
use super::{Engine, Inner};
use crate::backend::Base;
use crate::failpoint;
use crate::store::{Record, SnapshotRecord};
use crate::{CopyError, Error, Restored, SnapshotName, Task, WhileBusy};

impl Engine {
    /// Makes a sandbox what it was in a snapshot: workspace, home and its own
    /// filesystem. What it is now is lost once that has succeeded; until then
    /// nothing is. Sessions and jobs stay known.
    ///
    /// A call that is given up leaves the sandbox as it was: see
    /// [`Engine::close`].
    pub async fn restore(
        &self,
        task: &Task,
        name: &SnapshotName,
        busy: WhileBusy,
    ) -> Result<Restored, Error> {
        let (key, name) = (self.key(task), name.clone());
        let work = self.inner.attended(|inner, mut attended| async move {
            let dir = inner.dir(&key);
            let locking = inner.lock_existing(key.task(), &dir);
            let lock = attended.or_leave(key.task(), locking).await?;
            let snapshot = snapshot_of(&key, &dir, &name)?;
            let record = if dir.record_of(&key)?.is_some() {
                inner.copyable(&key, &dir).await?.0
            } else {
                // Only its snapshots are left, as after a profile was renamed.
                inner.refuse_owned(&key)?;
                let (backend, overrides) = (&snapshot.backend, snapshot.overrides.clone());
                Record::new(&key, backend, overrides, Timestamp::now())
            };
            if record.backend != snapshot.backend {
                return Err(CopyError::OtherBackend {
                    task: key.task().to_string(),
                    name: name.to_string(),
                    was: snapshot.backend,
                    now: record.backend,
                }
                .into());
            }
            let still = inner.stand_still(&key, &dir, record, busy).await?;
            inner.forget_handle(&key);
            let ground = Ground { key: &key, dir: &dir, lock: &lock };
            let restoring = Box::pin(inner.go_back(ground, still, &name, &snapshot));
            let remarks = attended.or_undo(&inner, key.task(), &dir, restoring).await?;
            drop(lock);
            Ok(Restored { snapshot: describe(&dir, &key, &name, snapshot), remarks })
        });
        work.await
    }
}

impl Inner {
    /// Replaces a sandbox that stands still by its snapshot, under its lock.
    async fn go_back(
        &self,
        ground: Ground<'_>,
        still: Still,
        name: &SnapshotName,
        snapshot: &SnapshotRecord,
    ) -> Result<Vec<String>, Error> {
        let Still { record, backend, .. } = still;
        let kept = ground.dir.snapshot(name);
        let base = snapshot.saved.clone().map(|saved| Base::Saved { dir: kept.system(), saved });
        let mut changing =
            Changing::begin(ground, Verb::Restore, record.clone(), record, base.is_some())?;
        let tally = Tally::default();
        let place = |name: &str| beside(ground.dir.path(), NEW, name);
        self.copy_trees_each(&*backend, kept.path(), &place, &tally).await?;
        failpoint::reach("restore.files-copied");
        // What is there goes; its successor must not be lost to a power cut.
        settle(ground.dir.path().to_owned()).await?;
        changing.switch(&TREES, Replaced::Go)?;
        let (_, remarks) = changing.settle(self, base, &self.progress).await?;
        Ok(remarks)
    }
}
