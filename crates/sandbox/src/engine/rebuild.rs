//! Rebuild: a new instance with the settings of now, and the same files.

use std::sync::Arc;

use super::change::{Changing, Replaced, Verb};
use super::create::Ground;
use super::list::in_memory;
use super::remove::kept_files;
use super::still::Still;
use super::{Engine, Inner};
use crate::backend::{Backend, Confinement};
use crate::store::{Record, SandboxDir};
use crate::{CopyError, Error, Key, Overrides, Rebuild, Rebuilt, Task, WhileBusy};

/// Name of what a guest kept of sessions and jobs, in a sandbox whose next guest
/// could not use it.
pub(super) const UNUSABLE_STATE: &str = "unusable-state";

impl Engine {
    /// Makes a sandbox anew with the settings of now, on another backend if
    /// asked. Workspace and home stay; what is in the instance's own filesystem
    /// does not. If the new instance cannot be made, the old one stays.
    ///
    /// A call that is given up leaves the sandbox as it was: see
    /// [`Engine::close`].
    pub async fn rebuild(
        &self,
        task: &Task,
        rebuild: &Rebuild,
        busy: WhileBusy,
    ) -> Result<Rebuilt, Error> {
        let (key, rebuild) = (self.key(task), rebuild.clone());
        let work = self.inner.attended(|inner, mut attended| async move {
            let dir = inner.dir(&key);
            inner.refuse_owned(&key)?;
            let locking = inner.lock_existing(key.task(), &dir);
            let lock = attended.or_leave(key.task(), locking).await?;
            let choosing = inner.rebuilt_record(&key, &dir, &rebuild);
            let (was, now) = attended.or_leave(key.task(), choosing).await?;
            let still = match inner.stand_still(&key, &dir, was.clone(), busy).await {
                // An engine that cannot look at the instance cannot end it
                // either. It makes way with what it has, for the reaper.
                Err(Error::Backend { source, .. }) if source.is_refusal() => {
                    tracing::warn!(%source, "cannot look at the instance; set aside");
                    let backend = Arc::clone(inner.backend(key.task(), &was.backend)?);
                    backend.set_aside(&key).await.map_err(Error::backend(backend.name()))?;
                    let record = Record { instance: None, ..was };
                    Still { record, backend, instance: None }
                }
                other => other?,
            };
            inner.forget_handle(&key);
            let ground = Ground { key: &key, dir: &dir, lock: &lock };
            let building = Box::pin(inner.build_anew(ground, still, now));
            let rebuilt = attended.or_undo(&inner, key.task(), &dir, building).await?;
            drop(lock);
            Ok(rebuilt)
        });
        work.await
    }
}

impl Inner {
    /// Returns the records of a sandbox that is made anew, from before and
    /// after, if it can be: what cannot be made is no reason to end what is there.
    async fn rebuilt_record(
        &self,
        key: &Key,
        dir: &SandboxDir,
        rebuild: &Rebuild,
    ) -> Result<(Record, Record), Error> {
        let task = key.task();
        let absent = || Error::NoSandbox { task: task.to_string() };
        let was = dir.record_of(key)?.ok_or_else(absent)?;
        let mut record = was.clone();
        let old = Arc::clone(self.backend(task, &record.backend)?);
        let new = match &rebuild.backend {
            Some(name) => {
                let asked = Overrides { backend: Some(name.clone()), ..Overrides::default() };
                self.choose_backend(task, &asked).await?
            }
            None => Arc::clone(&old),
        };
        if new.name() != old.name() {
            let volumes = old.volumes(&record.key).await.map_err(Error::backend(old.name()))?;
            if !volumes.is_empty() {
                return Err(CopyError::InVolumes { task: task.to_string(), volumes }.into());
            }
            record.backend = new.name().to_owned();
            self.bind_backend(&mut record)?;
        }
        let vetted = new.vet(&record.overrides, &self.progress).await;
        vetted.map_err(Error::backend(new.name()))?;
        Ok((was, record))
    }

    /// Makes a sandbox that stands still anew, under its lock.
    async fn build_anew(
        &self,
        ground: Ground<'_>,
        still: Still,
        now: Record,
    ) -> Result<Rebuilt, Error> {
        let Still { record: was, backend: old, instance } = still;
        let new = Arc::clone(self.backend(ground.key.task(), &now.backend)?);
        let moves = new.name() != old.name();
        let lost = was.instance.as_ref().is_some_and(|instance| in_memory(&instance.spec));
        // What a guest keeps of sessions and jobs belongs to users that the
        // other backend's guest is none of.
        let trees: &[&str] = if moves { &["state"] } else { &[] };
        let mut spoilt = None;
        let heard = match self.change_instance(ground, &was, &now, trees, Replaced::Go).await {
            // What the guests kept is what keeps this one from starting.
            Err(Error::Backend { backend, source }) if !moves && source.is_unusable_state() => {
                self.finish(ground.key.task(), ground.dir).await?;
                let kept = Replaced::StayAs(UNUSABLE_STATE);
                let again = self.change_instance(ground, &was, &now, &["state"], kept).await;
                spoilt = Some(source.to_string());
                again.map_err(|_| Error::Backend { backend, source })?
            }
            other => other?,
        };
        // Files in memory went with the old instance. What is on disk is what a
        // sandbox with files there left before, and stays, unseen by this one.
        let kept = if lost { Vec::new() } else { kept_files(ground.dir) };
        let mut remarks = remarks(&*old, &*new, instance.is_some(), ground.dir);
        if lost {
            remarks.push("its workspace and home were in memory and are gone".to_owned());
        }
        if let Some(reason) = spoilt {
            remarks.push(format!(
                "its shell sessions and the records of its jobs begin anew: what was kept of them \
                 could not be used ({reason}), and is in {}",
                ground.dir.path().join(UNUSABLE_STATE).display()
            ));
        }
        remarks.extend(heard);
        Ok(Rebuilt { was: old.name().to_owned(), now: new.name().to_owned(), kept, remarks })
    }

    /// Puts a new instance, and these trees anew, in the place of what is there.
    async fn change_instance(
        &self,
        ground: Ground<'_>,
        was: &Record,
        now: &Record,
        trees: &[&str],
        replaced: Replaced,
    ) -> Result<Vec<String>, Error> {
        let mut changing = Changing::begin(ground, Verb::Rebuild, was.clone(), now.clone(), true)?;
        changing.switch(trees, replaced)?;
        let (_, heard) = changing.settle(self, None, &self.progress).await?;
        Ok(heard)
    }

    /// Sees to it that a sandbox can be used on its backend although the
    /// settings name another one.
    pub(super) fn bind_backend(&self, record: &mut Record) -> Result<(), Error> {
        let configured = self.named_backend(&Overrides::default())?;
        let suits = configured.is_none_or(|name| name == record.backend);
        record.overrides.backend = (!suits).then(|| record.backend.clone());
        Ok(())
    }
}

/// Returns what the user should know.
fn remarks(
    old: &dyn Backend,
    new: &dyn Backend,
    had_instance: bool,
    dir: &SandboxDir,
) -> Vec<String> {
    let mut remarks = Vec::new();
    let contained = |backend: &dyn Backend| backend.confinement() != Confinement::None;
    if contained(old) && had_instance {
        remarks.push(
            "its own filesystem is new: what was installed outside its workspace and home is gone"
                .to_owned(),
        );
    }
    if old.name() != new.name() {
        remarks.push("its shell sessions and the records of its jobs begin anew".to_owned());
    }
    if contained(old) && !contained(new) && !kept_files(dir).is_empty() {
        remarks.push(format!(
            "commands now run on this machine itself; its workspace and home stay in {}",
            dir.path().display()
        ));
    }
    if !contained(old) && contained(new) {
        remarks.push(
            "commands ran on this machine itself; the files they worked on are not in the new \
             sandbox unless they are mounted"
                .to_owned(),
        );
    }
    remarks
}
