//! Exchange the instance or the files of a sandbox in steps that can be undone.

#[cfg(test)]
#[path = "rebuild_tests.rs"]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;

use super::create::new_instance_id;
use super::list::in_memory;
use super::lock::LockedSandbox;
use super::quiesce::{Quiesced, is_dir};
use super::relocate::{self, Relocation};
use super::remove::kept_files;
use super::{Engine, Inner, create, lock, quiesce, remove};
use crate::backend::{Backend, Base, Confinement, CopyTotals, Instance, KeptVolumes};
use crate::store::{
    Intent, NewInstance, ReplacedTree, SandboxChange, SandboxDir, SandboxRecord, StoreError,
};
use crate::{
    CopyError, Error, Key, Overrides, ProgressSink, Rebuild, Rebuilt, TaskName, WhileBusy,
    failpoint,
};

/// Name of what a guest kept of sessions and jobs, in a sandbox whose next guest
/// could not use it.
pub(super) const UNUSABLE_STATE: &str = "unusable-state";

impl Engine {
    /// Makes a sandbox again with the settings of now, on another backend if
    /// asked. Workspace and home stay; what is in the instance's own filesystem
    /// does not. If the new instance cannot be made, the old one stays.
    ///
    /// A call that is given up leaves the sandbox as it was: see
    /// [`Engine::close`].
    #[boxed]
    pub async fn rebuild(
        &self,
        task: &TaskName,
        rebuild: &Rebuild,
        busy: WhileBusy,
    ) -> Result<Rebuilt, Error> {
        let (key, rebuild) = (self.key(task), rebuild.clone());
        let work = lock::run_watched(&self.inner, |inner, mut attended| async move {
            let dir = inner.dir(&key);
            quiesce::refuse_owned(&inner, &key)?;
            let locking = lock::lock_existing(&inner, key.task(), &dir);
            let lock = attended.or_leave(key.task(), locking).await?;
            let choosing = inner.rebuilt_record(&key, &dir, &rebuild);
            let (was, now) = attended.or_leave(key.task(), choosing).await?;
            let still = match quiesce::quiesce(&inner, &key, &dir, was.clone(), busy).await {
                // An engine that cannot look at the instance cannot end it
                // either. It makes way with what it has, for the reaper.
                Err(Error::Backend { source, .. }) if source.is_refusal() => {
                    tracing::warn!(%source, "cannot look at the instance; set aside");
                    let backend = Arc::clone(inner.backend(key.task(), &was.backend)?);
                    backend.set_aside(&key).await.map_err(Error::backend(backend.name()))?;
                    let record = SandboxRecord { instance: None, ..was };
                    Quiesced { record, backend, instance: None }
                }
                other => other?,
            };
            remove::forget_handle(&inner, &key);
            let locked = LockedSandbox { key: &key, dir: &dir, lock: &lock };
            let building = Box::pin(inner.build_anew(locked, still, now));
            let rebuilt = attended.or_undo(&inner, key.task(), &dir, building).await?;
            drop(lock);
            Ok(rebuilt)
        });
        work.await
    }
}

impl Inner {
    /// Returns the records of a sandbox that is rebuilt, from before and
    /// after, if it can be: what cannot be made is not a reason to end what is there.
    async fn rebuilt_record(
        &self,
        key: &Key,
        dir: &SandboxDir,
        rebuild: &Rebuild,
    ) -> Result<(SandboxRecord, SandboxRecord), Error> {
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
        if relocate::is_needed(&*old, &*new) {
            relocate::refuse_misplaced(&was, &*old).await?;
            relocate::refuse_occupied(&record, dir, &*new).await?;
            if in_memory(&self.spec(&*new, &record.overrides)?.to_map()) {
                return Err(CopyError::InMemory { task: task.to_string() }.into());
            }
            record.backend = new.name().to_owned();
            self.bind_backend(&mut record)?;
        } else if new.name() != old.name() {
            let volumes = old.volumes(&record.key).await.map_err(Error::backend(old.name()))?;
            if !volumes.is_empty() {
                return Err(CopyError::InVolumes { task: task.to_string(), volumes }.into());
            }
            let files = kept_files(dir);
            if new.confinement() == Confinement::Remote && !files.is_empty() {
                let (task, backend) = (task.to_string(), new.name().to_owned());
                return Err(CopyError::FilesHere { task, backend, files }.into());
            }
            record.backend = new.name().to_owned();
            self.bind_backend(&mut record)?;
        }
        let vetted = new.vet(&record.overrides, &self.progress).await;
        vetted.map_err(Error::backend(new.name()))?;
        Ok((was, record))
    }

    /// Makes a sandbox that stands still again, under its lock.
    async fn build_anew(
        &self,
        locked: LockedSandbox<'_>,
        still: Quiesced,
        now: SandboxRecord,
    ) -> Result<Rebuilt, Error> {
        let Quiesced { record: was, backend: old, instance } = still;
        let new = Arc::clone(self.backend(locked.key.task(), &now.backend)?);
        let moves = new.name() != old.name();
        let lost = was.instance.as_ref().is_some_and(|instance| in_memory(&instance.spec));
        let carried = relocate::is_needed(&*old, &*new);
        let carried = carried.then(|| Relocation::new(&was, &old, locked.dir)).transpose()?;
        // What a guest keeps of sessions and jobs belongs to users that the
        // other backend's guest is none of.
        let trees: &[&str] = match &carried {
            // The new one's are made, and are not there if it is undone.
            Some(_) if new.confinement() != Confinement::Remote => &["state", "workspace", "home"],
            _ if moves => &["state"],
            _ => &[],
        };
        let mut spoilt = None;
        let changing = self.change_instance(locked, &was, &now, trees, Replaced::Go, carried);
        let heard = match changing.await {
            // What the guests kept is what keeps this one from starting.
            Err(Error::Backend { backend, source }) if !moves && source.is_unusable_state() => {
                lock::finish(self, locked.key.task(), locked.dir).await?;
                let kept = Replaced::StayAs(UNUSABLE_STATE);
                let again = self.change_instance(locked, &was, &now, &["state"], kept, None).await;
                spoilt = Some(source.to_string());
                again.map_err(|_| Error::Backend { backend, source })?
            }
            other => other?,
        };
        // Files in memory went with the old instance. What is on disk is what a
        // sandbox with files there left before, and stays, unseen by this one.
        let kept = if lost { Vec::new() } else { kept_files(locked.dir) };
        let mut remarks = remarks(&*old, &*new, instance.is_some(), locked.dir);
        if lost {
            remarks.push("its workspace and home were in memory and are gone".to_owned());
        }
        if let Some(reason) = spoilt {
            remarks.push(format!(
                "its shell sessions and job records start empty: what was kept of them \
                 could not be used ({reason}), and is in {}",
                locked.dir.path().join(UNUSABLE_STATE).display()
            ));
        }
        remarks.extend(heard);
        Ok(Rebuilt { was: old.name().to_owned(), now: new.name().to_owned(), kept, remarks })
    }

    /// Puts a new instance, and these trees again, in the place of what is there.
    async fn change_instance(
        &self,
        locked: LockedSandbox<'_>,
        was: &SandboxRecord,
        now: &SandboxRecord,
        trees: &[&str],
        replaced: Replaced,
        carried: Option<Relocation>,
    ) -> Result<Vec<String>, Error> {
        let mut changing =
            Changing::begin(locked, ChangeVerb::Rebuild, was.clone(), now.clone(), true)?;
        changing.change.shown_by = carried.as_ref().map(|carried| carried.shown_by.clone());
        changing.relocation = carried;
        changing.switch(trees, replaced)?;
        let (_, heard) = changing.settle(self, None, &self.progress).await?;
        Ok(heard)
    }

    /// Sees to it that a sandbox can be used on its backend although the
    /// settings name another one.
    pub(super) fn bind_backend(&self, record: &mut SandboxRecord) -> Result<(), Error> {
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
        remarks.push("its shell sessions and job records start empty".to_owned());
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

/// What the names of trees begin with that wait or are kept meanwhile. They are
/// in the directory where they belong: one that is another user's can be given
/// another name there, and not be moved elsewhere.
const BESIDE: &str = "changing-";

/// A tree that waits.
pub(super) const NEW: &str = "new";

/// One that has made way.
const OLD: &str = "old";

/// One that had to go again.
const UNDONE: &str = "undone";

/// One that was kept before, and makes way for another that is.
const FORMER: &str = "former";

/// Returns where a tree is meanwhile.
pub(super) fn beside(dir: &Path, what: &str, name: &str) -> PathBuf {
    dir.join(format!("{BESIDE}{what}-{name}"))
}

/// What becomes of trees that have made way, once it is settled that they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replaced {
    /// They go.
    Go,
    /// They stay in the sandbox's directory by this name, in place of those that
    /// stayed by it before.
    StayAs(&'static str),
}

/// Which verb changes a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeVerb {
    Restore,
    Rebuild,
}

impl ChangeVerb {
    fn intent(self, change: &SandboxChange) -> Intent {
        let change = Box::new(change.clone());
        match self {
            Self::Restore => Intent::Restore(change),
            Self::Rebuild => Intent::Rebuild(change),
        }
    }

    fn reach(self, step: RebuildStep) {
        failpoint::reach(match (self, step) {
            (Self::Restore, RebuildStep::Begun) => "restore.intent-written",
            (Self::Restore, RebuildStep::Switched) => "restore.files-switched",
            (Self::Restore, RebuildStep::Made) => "restore.instance-made",
            (Self::Restore, RebuildStep::Settled) => "restore.settled",
            (Self::Rebuild, RebuildStep::Begun) => "rebuild.intent-written",
            (Self::Rebuild, RebuildStep::Switched) => "rebuild.files-switched",
            (Self::Rebuild, RebuildStep::Made) => "rebuild.instance-made",
            (Self::Rebuild, RebuildStep::Settled) => "rebuild.settled",
        });
    }
}

/// What has been done when a process may die.
#[derive(Debug, Clone, Copy)]
enum RebuildStep {
    Begun,
    Switched,
    Made,
    Settled,
}

/// A change that has started: its intent is on disk.
#[derive(Debug)]
pub(super) struct Changing<'a> {
    locked: LockedSandbox<'a>,
    verb: ChangeVerb,
    change: SandboxChange,
    /// The record that is to be.
    record: SandboxRecord,
    /// How the files get to where the new instance is.
    relocation: Option<Relocation>,
}

impl<'a> Changing<'a> {
    /// Begins a change from one record to another. With `fresh` the sandbox
    /// gets a new instance, else it has none afterwards.
    pub(super) fn begin(
        locked: LockedSandbox<'a>,
        verb: ChangeVerb,
        was: SandboxRecord,
        record: SandboxRecord,
        fresh: bool,
    ) -> Result<Self, Error> {
        let instance = if fresh {
            let (id, backend) = (new_instance_id(locked.dir)?, record.backend.clone());
            Some(NewInstance { id, backend })
        } else {
            None
        };
        let change = SandboxChange { was, instance, trees: Vec::new(), shown_by: None, now: None };
        let changing = Self { locked, verb, change, record, relocation: None };
        changing.write()?;
        verb.reach(RebuildStep::Begun);
        Ok(changing)
    }

    /// Puts the trees that are beside, or none where there are none, in the
    /// place of those that are there.
    pub(super) fn switch(&mut self, names: &[&str], replaced: Replaced) -> Result<(), Error> {
        let dir = self.locked.dir.path();
        let tree = |name: &&str| ReplacedTree {
            name: (*name).to_owned(),
            was_there: is_dir(&dir.join(name)),
            stays_as: match replaced {
                Replaced::Go => None,
                Replaced::StayAs(kept) => Some(kept.to_owned()),
            },
        };
        self.change.trees.extend(names.iter().map(tree));
        self.write()?;
        for name in names {
            rename(&dir.join(name), &beside(dir, OLD, name))?;
            rename(&beside(dir, NEW, name), &dir.join(name))?;
        }
        self.verb.reach(RebuildStep::Switched);
        Ok(())
    }

    /// Makes the new instance, where there is to be one, and settles that the
    /// change is one. Returns the new record and what its users should hear.
    pub(super) async fn settle(
        mut self,
        inner: &Inner,
        base: Option<Base>,
        progress: &ProgressSink,
    ) -> Result<(SandboxRecord, Vec<String>), Error> {
        self.record.instance = None;
        let mut remarks = Vec::new();
        if let Some(new) = &self.change.instance {
            self.record.generation += 1;
            if self.change.was.instance.is_some() && self.change.was.backend == new.backend {
                // Two instances of a sandbox cannot have the same name.
                let backend = inner.backend(self.locked.key.task(), &new.backend)?;
                let aside = backend.set_aside(self.locked.key).await;
                aside.map_err(Error::backend(backend.name()))?;
            }
            let made =
                create::make(inner, self.locked, &mut self.record, new.id.clone(), base, progress);
            remarks = made.await.map_err(|unmade| unmade.error)?;
            self.verb.reach(RebuildStep::Made);
        }
        if let Some(relocation) = self.relocation.take() {
            let copied = relocation.carry(inner, self.locked, &self.record).await?;
            failpoint::reach("relocate.files-carried");
            let new = inner.backend(self.locked.key.task(), &self.record.backend)?;
            self.switch(relocation.replaced_trees(&**new), Replaced::Go)?;
            let CopyTotals { files, bytes } = copied;
            remarks.push(format!("{files} files and directories, {bytes} bytes, were copied"));
        }
        self.change.now = Some(self.record.clone());
        self.write()?;
        self.verb.reach(RebuildStep::Settled);
        // The same as after a crash from here on.
        lock::finish(inner, self.locked.key.task(), self.locked.dir).await?;
        Ok((self.record, remarks))
    }

    fn write(&self) -> Result<(), StoreError> {
        self.locked.dir.write_intent(self.verb.intent(&self.change))
    }
}

impl Inner {
    /// Finishes a change that is settled, and undoes one that is not.
    pub(super) async fn finish_change(
        &self,
        task: &TaskName,
        dir: &SandboxDir,
        change: SandboxChange,
    ) -> Result<(), Error> {
        let SandboxChange { was, instance, trees, shown_by, now } = change;
        let backend = Arc::clone(self.backend(task, &was.backend)?);
        let failed = || Error::backend(backend.name());
        let is_carried = shown_by.is_some();
        if let Some(NewInstance { id, .. }) = shown_by {
            let shown_by = super::lock::unlocated(dir, id);
            backend.remove(&shown_by).await.map_err(failed())?;
        }
        if let Some(now) = now {
            dir.write_record(&now)?;
            if let Some(old) = was.instance(dir) {
                backend.remove(&old).await.map_err(failed())?;
            }
            if is_carried {
                let removed = backend.remove_volumes(&was.key, KeptVolumes::None).await;
                removed.map_err(failed())?;
            }
            for tree in trees {
                keep_replaced(dir.path(), &tree)?;
            }
        } else {
            if let Some(NewInstance { id, backend }) = instance {
                let backend = Arc::clone(self.backend(task, &backend)?);
                let failed = || Error::backend(backend.name());
                let half_made: Instance = super::lock::unlocated(dir, id);
                backend.remove(&half_made).await.map_err(failed())?;
                if is_carried {
                    // Nothing of it was there before.
                    let removed = backend.remove_volumes(&was.key, KeptVolumes::None).await;
                    removed.map_err(failed())?;
                }
            }
            for tree in trees {
                undo_switch(dir.path(), &tree)?;
            }
            dir.write_record(&was)?;
        }
        // Guests of both backends may have written there.
        for path in all_beside(dir.path())? {
            remove::delete_with_any_backend(self, &path).await?;
        }
        Ok(())
    }
}

/// Returns all trees that are beside what a sandbox consists of.
fn all_beside(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list", dir, error)),
    };
    let is_beside = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(BESIDE))
    };
    Ok(entries.flatten().filter(is_beside).map(|entry| entry.path()).collect())
}

/// Puts a tree back that was replaced, if it was.
fn undo_switch(dir: &Path, tree: &ReplacedTree) -> Result<(), StoreError> {
    let (here, old) = (dir.join(&tree.name), beside(dir, OLD, &tree.name));
    if tree.was_there && !is_dir(&old) {
        return Ok(());
    }
    // Whatever has its place is the new one, or was made for the new instance.
    rename(&here, &beside(dir, UNDONE, &tree.name))?;
    rename(&old, &here)
}

/// Gives a tree that has made way the name by which it stays, if it does and has
/// not got it yet.
fn keep_replaced(dir: &Path, tree: &ReplacedTree) -> Result<(), StoreError> {
    let old = beside(dir, OLD, &tree.name);
    let Some(kept) = tree.stays_as.as_ref().filter(|_| is_dir(&old)) else {
        return Ok(());
    };
    rename(&dir.join(kept), &beside(dir, FORMER, kept))?;
    rename(&old, &dir.join(kept))
}

/// Moves a tree to where none is; absent is fine.
fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    match fs::rename(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("move", from, error)),
    }
}
