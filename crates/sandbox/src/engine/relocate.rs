//! Moving workspace and home of a sandbox to a backend that sees none of the files where they
//! are: through the guests of both.
//!
//! The old instance stands still. One of this process's own shows its files, the new instance
//! takes them, and nothing is removed before all of them are there.

use std::path::PathBuf;
use std::sync::Arc;

use vestal_tree::OpenTree;
use vestal_wire::HostRole;

use super::attach::greet;
use super::create::new_instance_id;
use super::list::in_memory;
use super::lock::{LockedSandbox, unlocated};
use super::quiesce::{TREES, is_dir};
use super::{Inner, owned};
use crate::backend::{Backend, Confinement, CopyTotals, HostDirectories, Instance};
use crate::client::Connection;
use crate::mounts::open_synced;
use crate::sandbox::sync_rules;
use crate::store::{NewInstance, SandboxDir, SandboxRecord, StoreError};
use crate::sync::{
    AGREEMENT_FILE, SyncDirection, SyncTask, TreeEnd, copy_tree, refuse_unless_brought_back, sync,
};
use crate::{CopyError, Error, Overrides, TaskName};

/// Home of the commands of a sandbox, as its guest resolves it.
const HOME: &str = "~";

/// Returns whether the files of a sandbox have to be carried from one backend to the other.
pub(super) fn is_needed(old: &dyn Backend, new: &dyn Backend) -> bool {
    let is_remote = |backend: &dyn Backend| backend.confinement() == Confinement::Remote;
    let has_files = |backend: &dyn Backend| backend.confinement() != Confinement::None;
    old.name() != new.name()
        && (is_remote(old) || is_remote(new))
        && has_files(old)
        && has_files(new)
}

/// Refuses a place where something of the sandbox is from before: what is there and what comes
/// could not be distinguished.
pub(super) async fn refuse_occupied(
    record: &SandboxRecord,
    dir: &SandboxDir,
    new: &dyn Backend,
) -> Result<(), Error> {
    let occupied = if new.confinement() == Confinement::Remote {
        new.volumes(&record.key).await.map_err(Error::backend(new.name()))?
    } else {
        let trees = TREES.iter().map(|name| dir.path().join(name));
        trees.filter(|path| is_dir(path)).map(|path| path.display().to_string()).collect()
    };
    if occupied.is_empty() {
        return Ok(());
    }
    let (task, backend) = (record.task.clone(), new.name().to_owned());
    Err(CopyError::Occupied { task, backend, files: occupied }.into())
}

/// Refuses a sandbox whose files are not where the settings of now lead to: what would be carried
/// is not what it has.
pub(super) async fn refuse_misplaced(was: &SandboxRecord, old: &dyn Backend) -> Result<(), Error> {
    let has_files = was.instance.as_ref().is_some_and(|instance| !in_memory(&instance.spec));
    if old.confinement() != Confinement::Remote || !has_files {
        return Ok(());
    }
    let there = old.volumes(&was.key).await.map_err(Error::backend(old.name()))?;
    if there.is_empty() {
        let (task, backend) = (was.task.clone(), old.name().to_owned());
        return Err(CopyError::Misplaced { task, backend }.into());
    }
    Ok(())
}

/// The place that files come from.
#[derive(Debug)]
pub(super) struct Relocation {
    /// The record of the sandbox before.
    was: SandboxRecord,
    from: Arc<dyn Backend>,
    /// The instance that shows the files: the intent names it before it is made.
    pub(super) shown_by: NewInstance,
    /// Whether the files are on a disk. Those in memory went when the sandbox came to a stop.
    has_files: bool,
}

impl Relocation {
    /// Prepares to carry the files of a sandbox.
    pub(super) fn new(
        was: &SandboxRecord,
        from: &Arc<dyn Backend>,
        dir: &SandboxDir,
    ) -> Result<Self, Error> {
        let is_lost = was.instance.as_ref().is_some_and(|instance| in_memory(&instance.spec));
        let shown_by = NewInstance { id: new_instance_id(dir)?, backend: from.name().to_owned() };
        Ok(Self { was: was.clone(), from: Arc::clone(from), shown_by, has_files: !is_lost })
    }

    /// Carries the files to the new instance, and returns how many there were. Nothing is left
    /// of the instance that showed them.
    pub(super) async fn carry(
        &self,
        inner: &Inner,
        locked: LockedSandbox<'_>,
        now: &SandboxRecord,
    ) -> Result<CopyTotals, Error> {
        let LockedSandbox { key, dir, .. } = locked;
        let Some(new) = now.instance(dir).filter(|_| self.has_files) else {
            return Ok(CopyTotals::default());
        };
        let to = inner.backend(key.task(), &now.backend)?;
        let shown = unlocated(dir, self.shown_by.id.clone());
        let overrides = &self.was.overrides;
        let attached =
            Box::pin(owned::make_owned(inner, key, overrides, &self.from, shown)).await?;
        let from = SandboxSide {
            backend: &*self.from,
            instance: &attached.instance,
            connection: attached.connection.clone(),
        };
        let greeted = greet(&**to, &new, HostRole::User).await;
        let connection =
            greeted.map_err(|error| error.into_error(key.task().as_str(), &**to, &new))?;
        let to = SandboxSide { backend: &**to, instance: &new, connection };
        let mut copied = CopyTotals::default();
        if overrides.mount.is_some() {
            // The workspace is a directory of this machine, which is there in any case.
            bring_back(inner, key.task(), dir, overrides, &from).await?;
            forget_agreement(dir)?;
        } else {
            add(&mut copied, copy(inner, from.workspace(), to.workspace()).await?);
        }
        add(&mut copied, copy(inner, from.home(), to.home()).await?);
        let shown = attached.instance.clone();
        drop(from);
        drop(attached);
        self.from.remove(&shown).await.map_err(Error::backend(self.from.name()))?;
        Ok(copied)
    }

    /// Returns the trees on this machine that are not the sandbox's any more.
    pub(super) fn replaced_trees(&self, now: &dyn Backend) -> &'static [&'static str] {
        let is_copied = self.has_files && now.confinement() == Confinement::Remote;
        if is_copied && self.from.confinement() != Confinement::Remote { &TREES } else { &[] }
    }
}

/// One of the two instances.
struct SandboxSide<'a> {
    backend: &'a dyn Backend,
    instance: &'a Instance,
    connection: Connection,
}

impl SandboxSide<'_> {
    fn workspace(&self) -> TreeEnd {
        self.at((self.backend.declaration().workspace)(&self.instance.locator))
    }

    fn home(&self) -> TreeEnd {
        self.at(PathBuf::from(HOME))
    }

    fn at(&self, path: PathBuf) -> TreeEnd {
        use std::os::unix::ffi::OsStringExt as _;
        TreeEnd::There {
            connection: self.connection.clone(),
            path: path.into_os_string().into_vec().into(),
        }
    }
}

async fn copy(inner: &Inner, from: TreeEnd, to: TreeEnd) -> Result<CopyTotals, Error> {
    Ok(copy_tree(from, to, &inner.progress).await?)
}

fn add(to: &mut CopyTotals, more: CopyTotals) {
    to.files = to.files.saturating_add(more.files);
    to.bytes = to.bytes.saturating_add(more.bytes);
}

/// Forgets what was agreed about a copy that is given up: another one that is made of the
/// directory has lost nothing.
fn forget_agreement(dir: &SandboxDir) -> Result<(), StoreError> {
    let path = dir.path().join(AGREEMENT_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Brings back what a sandbox elsewhere has changed of the directory that its workspace is a
/// copy of.
async fn bring_back(
    inner: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    overrides: &Overrides,
    from: &SandboxSide<'_>,
) -> Result<(), Error> {
    let is_synced = from.backend.declaration().host_directories == HostDirectories::Synced;
    let was_synced = dir.path().join(AGREEMENT_FILE).exists();
    let Some(mount) = overrides.mount.as_ref().filter(|_| is_synced && was_synced) else {
        return Ok(());
    };
    let opened = open_synced(&inner.settings, mount, task);
    let root = OpenTree::of(opened.map_err(Error::backend(from.backend.name()))?, mount);
    let ignore = sync_rules(inner, &root)?;
    let report = sync(SyncTask {
        store: dir.path(),
        here: Arc::new(root),
        there: from.workspace(),
        ignore,
        direction: SyncDirection::Both,
        dry_run: false,
        says_all: true,
        known_only: true,
        progress: &inner.progress,
    })
    .await?;
    Ok(refuse_unless_brought_back(report).map(drop)?)
}
