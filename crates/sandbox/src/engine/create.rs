//! Make and start instances.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use minicbor::bytes::ByteVec;
use vestal_wire::{GuestSettings, HostRole};

use super::attach::{Attached, StateBefore, greet};
use super::lock::LockedSandbox;
use super::remove::{self, kept_files};
use super::{Inner, policy};
use crate::backend::{
    Backend, BackendError, Base, Confinement, Instance, InstanceRequest, JobEnvironment, Owner,
    Remedy,
};
use crate::key::random_hex;
use crate::notice::Notice;
use crate::settings::{OnConfigChange, keys};
use crate::store::{
    InstanceMark, InstanceRecord, Intent, KeyLock, RecordedHome, SandboxDir, SandboxRecord,
    StoreError, make_private_dir,
};
use crate::{Error, Key, Overrides, ProgressSink, failpoint, publish};

/// Makes the next generation of a sandbox's instance.
pub(super) async fn create(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    asked: &Overrides,
    mut record: SandboxRecord,
) -> Result<Attached, Error> {
    failpoint::reach("create.locked");
    let LockedSandbox { key, dir, .. } = locked;
    let backend = Arc::clone(engine.backend(key.task(), &record.backend)?);
    record.overrides = asked.clone().or(&record.overrides);
    let first = record.generation == 0;
    let is_new = dir.read_record()?.is_none()
        && dir.instance_ids()?.is_empty()
        && kept_files(dir).is_empty();
    let id = new_instance_id(dir)?;
    let reserve = engine.disk_reserve();
    reserve.release_if_full();
    record.generation += 1;
    dir.write_intent(Intent::Create {
        instance: id.clone(),
        generation: record.generation,
        backend: backend.name().to_owned(),
    })?;
    failpoint::reach("create.intent-written");
    let remarks = match make(engine, locked, &mut record, id, None, &engine.progress).await {
        Ok(remarks) => remarks,
        Err(CreateFailure { error, left }) => {
            // If something is left, the intent stays, and the next process removes it.
            if !left {
                dir.clear_intent()?;
                if is_new {
                    forget_unmade(engine, dir).await;
                }
            }
            return Err(error);
        }
    };
    failpoint::reach("create.guest-started");
    dir.write_record(&record)?;
    failpoint::reach("create.record-written");
    dir.clear_intent()?;
    failpoint::reach("create.intent-cleared");
    reserve.keep();
    let instance =
        record.instance(dir).ok_or_else(|| Error::NoSandbox { task: record.task.clone() })?;

    let mut notices: Vec<Notice> = remarks.into_iter().map(Notice::Remark).collect();
    if first && backend.confinement() == Confinement::None {
        notices.push(Notice::NoIsolation);
    }
    greet_new(asked, backend, instance, record, StateBefore::Absent, notices).await
}

/// Makes an instance that an intent names already, and enters it in the
/// record, which the caller writes. Returns what its users should hear.
pub(super) async fn make(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    record: &mut SandboxRecord,
    id: String,
    base: Option<Base>,
    progress: &ProgressSink,
) -> Result<Vec<String>, CreateFailure> {
    let LockedSandbox { key, dir, lock } = locked;
    let whole = |error| CreateFailure { error, left: false };
    let backend = Arc::clone(engine.backend(key.task(), &record.backend).map_err(whole)?);
    let instance = Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null };
    let prepare = || -> Result<InstanceRequest, Error> {
        if backend.confinement() != Confinement::None {
            make_private_dir(&instance.dir)?;
            let mark = InstanceMark::new(backend.name(), None);
            mark.write(&instance.dir, backend.confinement())?;
        }
        let lifespan = Lifespan::Retained { retention: engine.retention()? };
        let wanted = InstanceSource { key, backend: &*backend, overrides: &record.overrides };
        instance_request(engine, wanted, &instance, record.generation, lifespan, lock)
    };
    let made = match prepare() {
        Ok(request) => {
            let request = InstanceRequest { base, progress: progress.clone(), ..request };
            let about = request.record(Timestamp::now());
            let made = backend.create(request).await;
            made.map(|made| (made, about)).map_err(Error::backend(backend.name()))
        }
        Err(error) => Err(error),
    };
    match made {
        Ok((made, about)) => {
            let up = Instance { locator: made.locator.clone(), ..instance };
            publish::publish_again(dir, &*backend, &up).await;
            record.instance = Some(InstanceRecord { locator: made.locator, ..about });
            record.home = RecordedHome::of(key.home(), dir);
            Ok(made.warnings)
        }
        Err(error) => {
            // Nothing can have run in it: what there is of it goes.
            let removed = backend.remove(&instance).await;
            if let Err(left) = &removed {
                tracing::warn!(instance = instance.id, %left, "left for later");
            }
            Err(CreateFailure { error, left: removed.is_err() })
        }
    }
}

/// Removes the directory of a sandbox that could not be made. Nothing was in
/// it before and nothing can have run in it. A failure is only logged.
async fn forget_unmade(engine: &Inner, dir: &SandboxDir) {
    let removed = async {
        if let Some(aside) = dir.move_aside()? {
            remove::delete_with_any_backend(engine, &aside).await?;
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = removed.await {
        tracing::warn!(%error, dir = %dir.path().display(), "left for later");
    }
}

/// Starts the recorded instance. One that fails to start stays as it is: a
/// full disk or a slow machine passes, and what was installed in it would
/// not come back. Only one that can never be started again, or that holds
/// no files of its own, makes way for the next generation.
pub(super) async fn start(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    asked: &Overrides,
    mut record: SandboxRecord,
    before: StateBefore,
) -> Result<Attached, Error> {
    let LockedSandbox { key, dir, lock } = locked;
    let backend = Arc::clone(engine.backend(key.task(), &record.backend)?);
    let Some(instance) = record.instance(dir) else {
        return create(engine, locked, asked, record).await;
    };
    if backend.confinement() != Confinement::None && backend.remedy() == Remedy::Restart {
        // A system that is put together at each start is put together as it
        // is asked for now, and stays so.
        record.overrides = asked.clone().or(&record.overrides);
    }
    let reserve = engine.disk_reserve();
    reserve.release_if_full();
    dir.write_intent_if_room(Intent::Start { instance: instance.id.clone() })?;
    failpoint::reach("start.intent-written");

    let lifespan = Lifespan::Retained { retention: engine.retention()? };
    let wanted = InstanceSource { key, backend: &*backend, overrides: &record.overrides };
    let request = instance_request(engine, wanted, &instance, record.generation, lifespan, lock)?;
    let now = request.record(Timestamp::now());
    // One that is put together at each start takes the settings of now.
    let is_restarted = backend.remedy() == Remedy::Restart;
    let was = record.instance.as_ref().filter(|_| is_restarted).map(|record| &record.spec);
    let drift = was.map(|was| request.spec.drift_from(was, |name| backend.tightening(name)));
    let drift = drift.filter(|drift| !drift.is_empty());
    let made = match backend.start(request).await {
        Ok(made) => made,
        // The cause is not the instance, which stays as it is.
        Err(error) if error.is_final() => {
            dir.clear_intent()?;
            return Err(Error::backend(backend.name())(error));
        }
        Err(error) if !can_be_replaced(engine, &*backend, &error)? => {
            dir.clear_intent()?;
            let task = key.task().to_string();
            return Err(Error::StartFailed { task, backend: backend.name(), source: error });
        }
        Err(error) => {
            tracing::warn!(instance = instance.id, %error, "cannot start; making a new one");
            let failed = || Error::backend(backend.name());
            match backend.confinement() {
                Confinement::None => backend.remove(&instance).await.map_err(failed())?,
                // Its own filesystem may hold what the user wants back; the
                // reaper gives them time for that.
                Confinement::Contained | Confinement::Remote => {
                    backend.set_aside(key).await.map_err(failed())?;
                }
            }
            record.instance = None;
            dir.write_record(&record)?;
            let mut attached = create(engine, locked, asked, record).await?;
            attached.before = before;
            attached.notices.push(Notice::Recreated { reason: error.to_string() });
            return Ok(attached);
        }
    };
    failpoint::reach("start.guest-started");
    let instance = Instance { locator: made.locator, ..instance };
    publish::publish_again(dir, &*backend, &instance).await;
    record.home = RecordedHome::of(key.home(), dir);
    if let Some(started) = &mut record.instance {
        started.locator = instance.locator.clone();
        started.retention_seconds = now.retention_seconds;
        if is_restarted {
            started.spec = now.spec;
        }
    }
    dir.write_record(&record)?;
    failpoint::reach("start.record-written");
    dir.clear_intent()?;
    failpoint::reach("start.intent-cleared");
    reserve.keep();
    let remarks = made.warnings.into_iter().map(Notice::Remark);
    let notices = remarks.chain(drift.map(Notice::Applied)).collect();
    greet_new(asked, backend, instance, record, before, notices).await
}

/// Returns whether an instance that did not start makes way for a new one.
fn can_be_replaced(
    engine: &Inner,
    backend: &dyn Backend,
    error: &BackendError,
) -> Result<bool, Error> {
    Ok(match (backend.confinement(), error) {
        // Its files are the host's own.
        (Confinement::None, _) | (_, BackendError::Unresumable { .. }) => true,
        // The setting decides what a changed setting may cost.
        (_, BackendError::OtherSystem { .. }) => {
            engine.on_config_change()? == OnConfigChange::Recreate
        }
        _ => false,
    })
}

async fn greet_new(
    asked: &Overrides,
    backend: Arc<dyn Backend>,
    instance: Instance,
    record: SandboxRecord,
    before: StateBefore,
    notices: Vec<Notice>,
) -> Result<Attached, Error> {
    let greeted = greet(&*backend, &instance, HostRole::User).await;
    let connection =
        greeted.map_err(|error| error.into_error(&record.task, &*backend, &instance))?;
    let SandboxRecord { generation, overrides, task, instance: made, .. } = record;
    let record = made.ok_or(Error::NoSandbox { task })?;
    let overrides = asked.clone().or(&overrides);
    Ok(Attached { backend, connection, instance, generation, record, overrides, before, notices })
}

/// An instance that could not be made.
#[derive(Debug)]
pub(super) struct CreateFailure {
    /// Why.
    pub(super) error: Error,
    /// Whether something of it is left.
    pub(super) left: bool,
}

/// Returns an id that no instance had before.
pub(super) fn new_instance_id(dir: &SandboxDir) -> Result<String, StoreError> {
    random_hex::<8>().map_err(|error| StoreError::io("name an instance in", dir.path(), error))
}

/// What ends an instance by itself, and so where its guest keeps its state.
#[derive(Debug, Clone)]
pub(super) enum Lifespan {
    /// Idleness. Journal, logs and sessions are the sandbox's, and stay from
    /// instance to instance.
    Retained {
        /// How long it may idle; nothing: for ever.
        retention: Option<Duration>,
    },
    /// The end of the process that made it. All it has goes with it.
    Owned {
        /// That process.
        owner: Owner,
    },
}

/// Whose instance, and of what kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstanceSource<'a> {
    /// The sandbox.
    pub(super) key: &'a Key,
    /// What makes it.
    pub(super) backend: &'a dyn Backend,
    /// What was asked for it alone.
    pub(super) overrides: &'a Overrides,
}

/// How long an owned instance outlives its owner's connection. Long enough for
/// an owner that is busy, well within the minute that is promised.
const OWNER_GRACE: Duration = Duration::from_secs(10);

/// Returns what a backend needs to make or start an instance.
pub(super) fn instance_request(
    engine: &Inner,
    wanted: InstanceSource<'_>,
    instance: &Instance,
    generation: u64,
    lifespan: Lifespan,
    lock: &KeyLock,
) -> Result<InstanceRequest, Error> {
    let InstanceSource { key, backend, overrides } = wanted;
    let hold =
        lock.share().map_err(|error| StoreError::io("share the lock of", &instance.dir, error))?;
    let home = engine.settings.environment().user_home().unwrap_or_else(|| PathBuf::from("/"));
    let sandbox_dir = engine.dir(key).path().to_owned();
    let (state_dir, retention, owner) = match lifespan {
        Lifespan::Retained { retention } => (sandbox_dir.join("state"), retention, None),
        Lifespan::Owned { owner } => (instance.dir.join("state"), None, Some(owner)),
    };
    let guest = GuestSettings {
        instance: instance.id.clone(),
        key: key.hash(),
        generation,
        state_dir: bytes(&state_dir),
        socket_dir: bytes(&instance.dir.join("io")),
        retention_ms: retention.map(millis),
        owner_grace_ms: owner.as_ref().map(|_| millis(OWNER_GRACE)),
        env: match backend.job_environment() {
            JobEnvironment::Callers => policy::base_environment(engine)?,
            JobEnvironment::Guests => Vec::new(),
        },
        start_dir: bytes(&home),
        home: bytes(&home),
        log_bytes: engine.settings.get(&keys::JOB_LOG_BYTES)?.value.get(),
        jobs_kept: engine.settings.get(&keys::JOBS_KEPT)?.value.get(),
        // Whatever still carries this instance's mark when its guest starts
        // was left by the guest before.
        previous_instances: vec![instance.id.clone()],
        ephemeral: owner.is_some(),
        user: None,
        socket_mode: None,
        inherit_env: false,
        hand_over: Vec::new(),
    };
    Ok(InstanceRequest {
        key: key.clone(),
        generation,
        instance: instance.clone(),
        sandbox_dir,
        owner,
        overrides: overrides.clone(),
        guest,
        base: None,
        spec: engine.spec(backend, overrides)?,
        progress: engine.progress.clone(),
        hold,
    })
}

impl InstanceRequest {
    /// Returns what is written down of the instance, but for its locator.
    pub(super) fn record(&self, created_at: Timestamp) -> InstanceRecord {
        InstanceRecord {
            id: self.instance.id.clone(),
            created_at,
            spec: self.spec.to_map(),
            retention_seconds: self.guest.retention_ms.map(|millis| millis / 1000),
            locator: self.instance.locator.clone(),
        }
    }
}

/// Returns a duration as the protocol counts it.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn bytes(path: &Path) -> ByteVec {
    path.as_os_str().as_bytes().to_vec().into()
}
