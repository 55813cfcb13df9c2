//! Exchanging the instance or the files of a sandbox in steps that can be undone, so that a crash
//! leaves the old ones or the new ones.

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::create::{self, new_instance_id};
use super::lock::{self, LockedSandbox};
use super::quiesce::is_dir;
use super::relocate::Relocation;
use super::{Inner, remove};
use crate::backend::{Base, CopyTotals, Instance, KeptVolumes};
use crate::store::{
    Intent, NewInstance, ReplacedTree, SandboxChange, SandboxDir, SandboxRecord, StoreError,
};
use crate::{Error, ProgressSink, TaskName, failpoint};

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
    pub(super) change: SandboxChange,
    /// The record that is to be.
    record: SandboxRecord,
    /// How the files get to where the new instance is.
    pub(super) relocation: Option<Relocation>,
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

/// Finishes a change that is settled, and undoes one that is not.
pub(super) async fn finish_change(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    change: SandboxChange,
) -> Result<(), Error> {
    let SandboxChange { was, instance, trees, shown_by, now } = change;
    let backend = Arc::clone(engine.backend(task, &was.backend)?);
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
            let backend = Arc::clone(engine.backend(task, &backend)?);
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
        remove::delete_with_any_backend(engine, &path).await?;
    }
    Ok(())
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
