//! Attach under the lock: find out which instance is the sandbox's, and start or
//! make one.

use std::sync::Arc;

use jiff::Timestamp;

use super::attach::{Attached, GREETING_AT_ONCE, GREETING_WITHIN, GreetOutcome, StateBefore};
use super::lock::{LockedSandbox, unlocated};
use super::remove::{END_TIMEOUT, StopScope};
use super::{Inner, attach, create, forget, remove};
use crate::backend::{
    Backend, BackendError, FoundInstance, Instance, InstanceFilter, InstanceState,
};
use crate::key::quoted;
use crate::notice::Notice;
use crate::spec::UNKNOWN_SETTINGS;
use crate::store::{InstanceRecord, KeyLock, SandboxDir, SandboxRecord};
use crate::{Error, Key, Overrides, TaskName};

/// Attaches under the lock, whatever it takes.
pub(super) async fn attach_locked(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    lock: &KeyLock,
    overrides: &Overrides,
) -> Result<Attached, Error> {
    // The process that held the lock before may have started it.
    if let Some(attached) =
        attach::attach_running(engine, key, dir, overrides, GREETING_AT_ONCE).await?
    {
        return Ok(attached);
    }
    let locked = LockedSandbox { key, dir, lock };
    let mut record = match dir.record_of(key)? {
        Some(record) => {
            let wanted = overrides.clone().or(&record.overrides);
            engine.check_backend(key.task(), &wanted, &record.backend)?;
            record
        }
        None => {
            let backend = engine.choose_backend(key.task(), overrides).await?;
            SandboxRecord::new(key, backend.name(), overrides.clone(), Timestamp::now())
        }
    };
    let backend = Arc::clone(engine.backend(key.task(), &record.backend)?);
    let mut found = find_instance(engine, locked, &*backend, &mut record).await;
    if matches!(&found, Err(Error::Backend { source, .. }) if source.is_refusal()) {
        // A guest that greets need not be inspected.
        if let Some(attached) =
            attach::attach_running(engine, key, dir, overrides, GREETING_WITHIN).await?
        {
            return Ok(attached);
        }
        // The engine may recover; its error says nothing about the instance.
        found = find_instance(engine, locked, &*backend, &mut record).await;
    }
    let found = found.map_err(|error| with_rebuild_advice(key.task(), error))?;
    let mut attached = bring_up(engine, locked, overrides, &backend, record, found.state).await?;
    attached.notices.extend(found.notices);
    Ok(attached)
}

/// Makes a guest greet, from whatever state its instance is in.
async fn bring_up(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    asked: &Overrides,
    backend: &Arc<dyn Backend>,
    mut record: SandboxRecord,
    state: InstanceState,
) -> Result<Attached, Error> {
    let failed = || Error::backend(backend.name());
    let Some(mut instance) = record.instance(locked.dir) else {
        return create::create(engine, locked, asked, record).await;
    };
    match state {
        InstanceState::Absent => create::create(engine, locked, asked, record).await,
        InstanceState::Broken { .. } => {
            backend.remove(&instance).await.map_err(failed())?;
            record.instance = None;
            create::create(engine, locked, asked, record).await
        }
        InstanceState::Stopped { .. } => {
            create::start(engine, locked, asked, record, StateBefore::Stopped).await
        }
        InstanceState::Running | InstanceState::Paused => {
            // Another program may have restarted or paused it.
            let locator = backend.locate(&instance).await.map_err(failed())?;
            if let Some(recorded) = &mut record.instance
                && recorded.locator != locator
            {
                recorded.locator = locator.clone();
                instance.locator = locator;
                locked.dir.write_record(&record)?;
            }
            let greeting =
                attach::greet_recorded(engine, locked.key, locked.dir, asked, GREETING_WITHIN);
            match greeting.await? {
                GreetOutcome::Attached(attached) => return Ok(*attached),
                GreetOutcome::Failed(error)
                    if error.leaves_guest_unknown(&**backend, &instance) =>
                {
                    return Err(error.into_error(
                        locked.key.task().as_str(),
                        &**backend,
                        &instance,
                    ));
                }
                GreetOutcome::Failed(_) | GreetOutcome::NoInstance => {}
            }
            // It runs and does not greet: the guest is dead or stuck, and the
            // instance is treated as stopped.
            tracing::warn!(instance = instance.id, "the guest does not answer; restarting it");
            backend.end(&instance, GREETING_WITHIN).await.map_err(failed())?;
            create::start(engine, locked, asked, record, StateBefore::Stopped).await
        }
    }
}

/// Returns what is to be done about an instance that its engine cannot look at.
fn with_rebuild_advice(task: &TaskName, error: Error) -> Error {
    match error {
        Error::Backend { backend, source } if source.is_refusal() => {
            let advice = format!(
                "the instance is left as it is: try again; if it stays so, look at the engine, or \
                 rebuild the sandbox, which keeps workspace and home: vestal rebuild {}",
                quoted(task.as_str())
            );
            let source = BackendError::Advised { problem: source.to_string(), advice };
            Error::Backend { backend, source }
        }
        other => other,
    }
}

/// The instance that is the sandbox's.
#[derive(Debug)]
pub(super) struct InstanceLookup {
    /// State of the instance that the record now names.
    pub(super) state: InstanceState,
    /// What the caller should hear about.
    pub(super) notices: Vec<Notice>,
}

/// Looks at the recorded instance and at those that carry the sandbox's
/// mark. If another one is the sandbox's, because the record was lost or is
/// older than it, the record names that one afterwards.
pub(super) async fn find_instance(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    backend: &dyn Backend,
    record: &mut SandboxRecord,
) -> Result<InstanceLookup, Error> {
    let failed = || Error::backend(backend.name());
    let recorded = match record.instance(locked.dir) {
        Some(instance) => backend.state(&instance).await.map_err(failed())?,
        None => InstanceState::Absent,
    };
    let hash = locked.key.hash();
    let marked = backend.find(InstanceFilter::Key(&hash)).await.map_err(failed())?;
    let marked = forget::drop_forgotten(engine, locked.dir, backend, marked).await?;
    let mut marked: Vec<FoundInstance> =
        marked.into_iter().filter(|found| found.persistent).collect();
    let current = record.instance.as_ref().map(|instance| instance.id.clone());
    marked.sort_by_key(|found| {
        let is_current = current.as_deref() == Some(&*found.id);
        (runs(found.state), is_current, found.generation)
    });
    let mut state = recorded;
    let chosen = marked.pop_if(|best| {
        let is_current = current.as_deref() == Some(&*best.id);
        let is_newest = best.generation >= record.generation;
        is_current
            || recorded == InstanceState::Absent
            || (is_newest && runs(best.state) && !runs(recorded))
    });
    if let Some(chosen) = chosen
        && current.as_deref() != Some(&*chosen.id)
    {
        tracing::info!(instance = chosen.id, "found by its mark");
        state = chosen.state;
        adopt(engine, locked, backend, record, chosen)?;
    }
    let current = record.instance.as_ref().map(|instance| instance.id.clone());
    let mut notices = Vec::new();
    for other in marked {
        if current.as_deref() != Some(&*other.id) && runs(other.state) {
            notices.extend(stop_duplicate(engine, locked, backend, other).await?);
        }
    }
    Ok(InstanceLookup { state, notices })
}

/// Makes an instance that was found by its mark the recorded one.
fn adopt(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    backend: &dyn Backend,
    record: &mut SandboxRecord,
    found: FoundInstance,
) -> Result<(), Error> {
    let spec = engine.spec(backend, &record.overrides)?;
    let spec = if spec.hash() == found.spec {
        spec.to_map()
    } else {
        std::iter::once((UNKNOWN_SETTINGS.to_owned(), found.spec)).collect()
    };
    record.generation = record.generation.max(found.generation);
    record.instance = Some(InstanceRecord {
        id: found.id,
        created_at: found.created_at.unwrap_or_else(Timestamp::now),
        spec,
        // The guest gets the right one at the next drift check.
        retention_seconds: None,
        locator: found.locator,
    });
    locked.dir.write_record(record)?;
    Ok(())
}

/// Ends another instance of the same sandbox and leaves it to the reaper;
/// one with jobs is reported and left alone.
async fn stop_duplicate(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    backend: &dyn Backend,
    found: FoundInstance,
) -> Result<Option<Notice>, Error> {
    let name = backend.describe(&found.locator).name.unwrap_or_else(|| found.id.clone());
    let instance = Instance { locator: found.locator, ..unlocated(locked.dir, found.id) };
    match remove::ask_to_end(engine, locked.key.task(), backend, &instance, StopScope::Nothing)
        .await
    {
        Err(Error::Busy { .. }) => return Ok(Some(Notice::Duplicate { name })),
        other => other?,
    }
    tracing::warn!(name, "another instance of this sandbox ran idle; it is stopped");
    backend.end(&instance, END_TIMEOUT).await.map_err(Error::backend(backend.name()))?;
    Ok(None)
}

fn runs(state: InstanceState) -> bool {
    matches!(state, InstanceState::Running | InstanceState::Paused)
}
