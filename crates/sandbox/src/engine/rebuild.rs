//! Making a sandbox again with the settings of now.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;

use super::change::{ChangeVerb, Changing, Replaced};
use super::list::in_memory;
use super::lock::{self, LockedSandbox};
use super::quiesce::{self, Quiesced};
use super::relocate::{self, Relocation};
use super::remove::{self, kept_files};
use super::{Engine, Inner};
use crate::backend::{Backend, BackendError, Confinement};
use crate::store::{SandboxDir, SandboxRecord};
use crate::{CopyError, Error, Key, Overrides, Rebuild, Rebuilt, TaskName, WhileBusy};

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
            let choosing = rebuilt_record(&inner, &key, &dir, &rebuild);
            let (was, now) = attended.or_leave(key.task(), choosing).await?;
            let still = match quiesce::quiesce(&inner, &key, &dir, was.clone(), busy).await {
                // An engine that cannot look at the instance cannot end it
                // either. It makes way with what it has, for the reaper.
                Err(Error::Backend { source, .. }) if source.is_refusal() => {
                    tracing::warn!(%source, "cannot look at the instance; set aside");
                    let backend = Arc::clone(inner.backend(key.task(), &was.backend)?);
                    backend.set_aside(&key).await.map_err(Error::backend(backend.name()))?;
                    let record = SandboxRecord { instance: None, ..was };
                    Quiesced { record, backend, instance: None, ran: false }
                }
                other => other?,
            };
            remove::forget_handle(&inner, &key);
            let locked = LockedSandbox { key: &key, dir: &dir, lock: &lock };
            let building = Box::pin(build_anew(&inner, locked, still, now));
            let rebuilt = attended.or_undo(&inner, key.task(), &dir, building).await?;
            drop(lock);
            Ok(rebuilt)
        });
        work.await
    }
}

/// Returns the records of a sandbox that is rebuilt, from before and
/// after, if it can be: what cannot be made is not a reason to end what is there.
async fn rebuilt_record(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    rebuild: &Rebuild,
) -> Result<(SandboxRecord, SandboxRecord), Error> {
    let task = key.task();
    let absent = || Error::NoSandbox { task: task.to_string() };
    let was = dir.record_of(key)?.ok_or_else(absent)?;
    let mut record = was.clone();
    let old = Arc::clone(engine.backend(task, &record.backend)?);
    let new = match &rebuild.backend {
        Some(name) => {
            let asked = Overrides { backend: Some(name.clone()), ..Overrides::default() };
            engine.choose_backend(task, &asked).await?
        }
        None => Arc::clone(&old),
    };
    if relocate::is_needed(&*old, &*new) {
        relocate::refuse_misplaced(&was, &*old).await?;
        relocate::refuse_occupied(&record, dir, &*new).await?;
        if in_memory(&engine.spec(&*new, &record.overrides)?.to_map()) {
            return Err(CopyError::InMemory { task: task.to_string() }.into());
        }
        record.backend = new.name().to_owned();
        bind_backend(engine, &mut record)?;
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
        bind_backend(engine, &mut record)?;
    }
    if let Some(image) = &rebuild.image {
        if !new.takes_images() {
            let problem = format!("there are no images, and {image} cannot be used");
            let setting = new.declaration().system_setting;
            let advice = setting.map_or_else(
                || "name a backend that takes images, as with --backend docker".to_owned(),
                |setting| format!("use {setting} for another system"),
            );
            return Err(Error::backend(new.name())(BackendError::Advised { problem, advice }));
        }
        record.overrides.image = Some(image.clone());
    } else if record.overrides.image.is_some()
        && let Some(image) = engine.image_on_command_line(&*new)?
    {
        // Newer than what was asked for when it was made.
        record.overrides.image = Some(image);
    }
    let vetted = new.vet(&record.overrides, &engine.progress).await;
    vetted.map_err(Error::backend(new.name()))?;
    Ok((was, record))
}

/// Makes a sandbox that stands still again, under its lock.
async fn build_anew(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    still: Quiesced,
    now: SandboxRecord,
) -> Result<Rebuilt, Error> {
    let Quiesced { record: was, backend: old, instance, .. } = still;
    let new = Arc::clone(engine.backend(locked.key.task(), &now.backend)?);
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
    let changing = change_instance(engine, locked, &was, &now, trees, Replaced::Go, carried);
    let heard = match changing.await {
        // What the guests kept is what keeps this one from starting.
        Err(Error::Backend { backend, source }) if !moves && source.is_unusable_state() => {
            lock::finish(engine, locked.key.task(), locked.dir).await?;
            let kept = Replaced::StayAs(UNUSABLE_STATE);
            let again = change_instance(engine, locked, &was, &now, &["state"], kept, None).await;
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
pub(super) async fn change_instance(
    engine: &Inner,
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
    let (_, heard) = changing.settle(engine, None, &engine.progress).await?;
    Ok(heard)
}

/// Sees to it that a sandbox can be used on its backend although the
/// settings name another one.
pub(super) fn bind_backend(engine: &Inner, record: &mut SandboxRecord) -> Result<(), Error> {
    let configured = engine.named_backend(&Overrides::default())?;
    let suits = configured.is_none_or(|name| name == record.backend);
    record.overrides.backend = (!suits).then(|| record.backend.clone());
    Ok(())
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
