//! Replacing what a sandbox consists of: the common part of `restore` and
//! `rebuild`.
//!
//! What is new is made beside what is there, and what was there stays until it
//! is settled that the new takes its place. So whoever dies over it, or runs
//! into an error, leaves either the old sandbox or the new one.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Inner;
use super::create::{Ground, new_instance_id};
use super::still::is_dir;
use crate::backend::{Base, Instance};
use crate::failpoint;
use crate::store::{Change, Intent, NewInstance, Record, SandboxDir, StoreError, Tree};
use crate::{Error, ProgressSink, Task};

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
pub(super) enum Verb {
    Restore,
    Rebuild,
}

impl Verb {
    fn intent(self, change: &Change) -> Intent {
        let change = Box::new(change.clone());
        match self {
            Self::Restore => Intent::Restore(change),
            Self::Rebuild => Intent::Rebuild(change),
        }
    }

    fn reach(self, step: Step) {
        failpoint::reach(match (self, step) {
            (Self::Restore, Step::Begun) => "restore.intent-written",
            (Self::Restore, Step::Switched) => "restore.files-switched",
            (Self::Restore, Step::Made) => "restore.instance-made",
            (Self::Restore, Step::Settled) => "restore.settled",
            (Self::Rebuild, Step::Begun) => "rebuild.intent-written",
            (Self::Rebuild, Step::Switched) => "rebuild.files-switched",
            (Self::Rebuild, Step::Made) => "rebuild.instance-made",
            (Self::Rebuild, Step::Settled) => "rebuild.settled",
        });
    }
}

/// What has been done when a process may die.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begun,
    Switched,
    Made,
    Settled,
}

/// A change that has begun: its intent is on disk.
#[derive(Debug)]
pub(super) struct Changing<'a> {
    ground: Ground<'a>,
    verb: Verb,
    change: Change,
    /// The record that is to be.
    record: Record,
}

impl<'a> Changing<'a> {
    /// Begins a change from one record to another. With `fresh` the sandbox
    /// gets a new instance, else it has none afterwards.
    pub(super) fn begin(
        ground: Ground<'a>,
        verb: Verb,
        was: Record,
        record: Record,
        fresh: bool,
    ) -> Result<Self, Error> {
        let instance = if fresh {
            let (id, backend) = (new_instance_id(ground.dir)?, record.backend.clone());
            Some(NewInstance { id, backend })
        } else {
            None
        };
        let change = Change { was, instance, trees: Vec::new(), now: None };
        let changing = Self { ground, verb, change, record };
        changing.write()?;
        verb.reach(Step::Begun);
        Ok(changing)
    }

    /// Puts the trees that are beside, or none where there are none, in the
    /// place of those that are there.
    pub(super) fn switch(&mut self, names: &[&str], replaced: Replaced) -> Result<(), Error> {
        let dir = self.ground.dir.path();
        let tree = |name: &&str| Tree {
            name: (*name).to_owned(),
            was_there: is_dir(&dir.join(name)),
            stays_as: match replaced {
                Replaced::Go => None,
                Replaced::StayAs(kept) => Some(kept.to_owned()),
            },
        };
        self.change.trees = names.iter().map(tree).collect();
        self.write()?;
        for name in names {
            rename(&dir.join(name), &beside(dir, OLD, name))?;
            rename(&beside(dir, NEW, name), &dir.join(name))?;
        }
        self.verb.reach(Step::Switched);
        Ok(())
    }

    /// Makes the new instance, where there is to be one, and settles that the
    /// change is one. Returns the new record and what its users should hear.
    pub(super) async fn settle(
        mut self,
        inner: &Inner,
        base: Option<Base>,
        progress: &ProgressSink,
    ) -> Result<(Record, Vec<String>), Error> {
        self.record.instance = None;
        let mut remarks = Vec::new();
        if let Some(new) = &self.change.instance {
            self.record.generation += 1;
            if self.change.was.instance.is_some() && self.change.was.backend == new.backend {
                // Two instances of a sandbox cannot have the same name.
                let backend = inner.backend(self.ground.key.task(), &new.backend)?;
                let aside = backend.set_aside(self.ground.key).await;
                aside.map_err(Error::backend(backend.name()))?;
            }
            let made = inner.make(self.ground, &mut self.record, new.id.clone(), base, progress);
            remarks = made.await.map_err(|unmade| unmade.error)?;
            self.verb.reach(Step::Made);
        }
        self.change.now = Some(self.record.clone());
        self.write()?;
        self.verb.reach(Step::Settled);
        // The same as after a crash from here on.
        inner.finish(self.ground.key.task(), self.ground.dir).await?;
        Ok((self.record, remarks))
    }

    fn write(&self) -> Result<(), StoreError> {
        self.ground.dir.write_intent(self.verb.intent(&self.change))
    }
}

impl Inner {
    /// Finishes a change that is settled, and undoes one that is not.
    pub(super) async fn finish_change(
        &self,
        task: &Task,
        dir: &SandboxDir,
        change: Change,
    ) -> Result<(), Error> {
        let Change { was, instance, trees, now } = change;
        let backend = Arc::clone(self.backend(task, &was.backend)?);
        let failed = || Error::backend(backend.name());
        if let Some(now) = now {
            dir.write_record(&now)?;
            if let Some(old) = was.instance(dir) {
                backend.remove(&old).await.map_err(failed())?;
            }
            for tree in trees {
                keep_replaced(dir.path(), &tree)?;
            }
        } else {
            if let Some(NewInstance { id, backend }) = instance {
                let backend = Arc::clone(self.backend(task, &backend)?);
                let half_made: Instance = super::recover::unlocated(dir, id);
                backend.remove(&half_made).await.map_err(Error::backend(backend.name()))?;
            }
            for tree in trees {
                undo_switch(dir.path(), &tree)?;
            }
            dir.write_record(&was)?;
        }
        // Guests of both backends may have written there.
        for path in all_beside(dir.path())? {
            self.delete_anyhow(&path).await?;
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
fn undo_switch(dir: &Path, tree: &Tree) -> Result<(), StoreError> {
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
fn keep_replaced(dir: &Path, tree: &Tree) -> Result<(), StoreError> {
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

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
