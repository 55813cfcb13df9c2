//! Creating and starting instances.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use vestal_wire::{GuestSettings, UserMapping};

use super::backend::Native;
use super::copy::LayerBase;
use super::enforce::LimitMechanism;
use super::facts::HostFacts;
use super::plan::{self, DirToMake, HostDirs, PlanInput, PlannedFor, PlannedSandbox};
use super::records::{self, NativeLabel, NativeLocator, NativeSystem};
use super::rootfs::Rootfs;
use super::settings::NativeSettings;
use super::stage::Build;
use super::tier::{self, Tier};
use super::{cache, cgroups};
use crate::backend::{self, BackendError, Instance, InstanceRequest};
use crate::backends::boot;
use crate::backends::own_system::{IO_DIR, STATE_DIR};
use crate::backends::scope::SystemdScope;
use crate::client::socket::SOCKET_NAME;
use crate::failpoint;
use crate::mounts::{self, KnownMounts, Mounts};
use crate::store::make_private_dir;

/// Descriptors of the stage, and later of the guest: where the ready line goes, and
/// the lock to hold until the guest can be found.
const READY: i32 = 1;
const HOLD: i32 = 2;

/// The failpoints of an operation.
#[derive(Debug, Clone, Copy)]
struct Failpoints {
    limited: &'static str,
    under_way: fn(),
    ready: &'static str,
}

const CREATE: Failpoints = Failpoints {
    limited: "native.create.limited",
    under_way: || failpoint::reach("native.create.under-way"),
    ready: "native.create.ready",
};

const START: Failpoints = Failpoints {
    limited: "native.start.limited",
    under_way: || failpoint::reach("native.start.under-way"),
    ready: "native.start.ready",
};

/// An instance to be launched.
#[derive(Debug)]
struct NativeLaunch<'a> {
    request: InstanceRequest,
    settings: &'a NativeSettings,
    mounts: Mounts,
    facts: &'a HostFacts,
    tier: Tier,
    rootfs: Option<Rootfs>,
    failpoints: Failpoints,
}

impl Native {
    /// Creates an instance and waits until its guest listens.
    pub(super) async fn create_instance(
        &self,
        request: InstanceRequest,
    ) -> Result<backend::StartedInstance, BackendError> {
        let settings = NativeSettings::read(&self.settings, &request.overrides)?;
        settings.user_mounts().check()?;
        let facts = HostFacts::gather();
        let tier = tier::choose(&settings, &facts);
        let users = plan::users(tier, &facts);
        tier::check_own_users(&users)?;
        make_sandbox_dir(&request.sandbox_dir)?;
        make_sandbox_dir(&request.instance.dir)?;
        let mounts = admit(&settings, &request, KnownMounts::Nothing)?;
        let rootfs = self.rootfs(&settings, &request.progress).await?;
        self.prune_once();
        failpoint::reach("native.create.prepared");
        let identity = rootfs.as_ref().map(|rootfs| rootfs.identity.clone());
        self.restore_layers(&request, &LayerBase { tier, rootfs: identity }).await?;
        failpoint::reach("native.create.filled");
        let (settings, facts) = (&settings, &facts);
        let launch =
            NativeLaunch { request, settings, mounts, facts, tier, rootfs, failpoints: CREATE };
        self.launch(launch, users).await
    }

    /// Starts a stopped instance on its existing layers and waits until its guest
    /// listens.
    pub(super) async fn start_stopped(
        &self,
        request: InstanceRequest,
    ) -> Result<backend::StartedInstance, BackendError> {
        let failed = |reason: String| BackendError::GuestFailed { reason };
        let made = system_of(&request.instance)
            .ok_or_else(|| failed("it is not recorded how it was made".to_owned()))?;
        let settings = NativeSettings::read(&self.settings, &request.overrides)?;
        settings.user_mounts().check()?;
        let facts = HostFacts::gather();
        let tier = tier::choose(&settings, &facts);
        let users = plan::users(tier, &facts);
        tier::check_own_users(&users)?;
        let rootfs = self.rootfs(&settings, &request.progress).await?;
        let identity = rootfs.as_ref().map(|rootfs| &rootfs.identity);
        if made.tier != tier || made.rootfs.as_ref() != identity {
            // Its layers only fit the system they were made on.
            return Err(BackendError::OtherSystem {
                was: describe_system(made.tier, made.rootfs.as_deref()),
                now: describe_system(tier, identity.map(|identity| &**identity)),
            });
        }
        if users.uids.first().map(|range| range.outside) != Some(made.uid) {
            return Err(failed("it belongs to another user".to_owned()));
        }
        let mounts = admit(&settings, &request, KnownMounts::Recorded)?;
        // A killed guest leaves its control groups behind. They are removed now: the
        // new label names only the new groups.
        self.end_instance(&request.instance, super::END_TIMEOUT).await?;
        failpoint::reach("native.start.prepared");
        let (settings, facts) = (&settings, &facts);
        let launch =
            NativeLaunch { request, settings, mounts, facts, tier, rootfs, failpoints: START };
        self.launch(launch, users).await
    }

    async fn launch(
        &self,
        launch: NativeLaunch<'_>,
        users: UserMapping,
    ) -> Result<backend::StartedInstance, BackendError> {
        let NativeLaunch { request, settings, mounts, facts, tier, rootfs, failpoints } = launch;
        let instance = request.instance.clone();
        let uid = users.uids.first().map_or(facts.uid, |range| range.outside);
        let owners = tier::owners(&users);
        let dirs = HostDirs::of(&request);
        let snapshot = self.etc_snapshot()?;
        let private = self.private_paths(tier, facts).await?;
        let scope = SystemdScope::detect(facts.uid);
        let mechanism = LimitMechanism::detect(scope.as_ref(), facts.uid);
        let mut label = NativeLabel::new(
            &request,
            NativeSystem {
                uid,
                tier,
                etc_snapshot: Some(snapshot.digest),
                rootfs: rootfs.as_ref().map(|rootfs| rootfs.identity.clone()),
                cgroups: mechanism.planned_groups(&settings.limits, &instance.id),
                unenforced: Vec::new(),
                weakened: Vec::new(),
                missing: tier::missing_for_next(tier, facts, &users),
            },
        );
        // What is made outside of the instance's directory is recorded first.
        write_label(&label, &instance)?;
        let enforced = mechanism.enforce(&settings.limits, &instance.id)?;
        let result = async {
            let cgroups: Vec<PathBuf> =
                enforced.dirs.iter().map(|dir| cgroups::join_file(dir)).collect();
            let planned = plan::enclosure(&PlanInput {
                machine: PlannedFor::ThisMachine,
                dirs: &dirs,
                settings,
                facts,
                tier,
                users,
                mounts: &mounts,
                private: &private,
                etc_dir: &snapshot.dir,
                rootfs: rootfs.as_ref().map(|rootfs| &*rootfs.dir),
                cgroups: &cgroups,
                max_processes: enforced.max_processes,
                purpose: plan::serve_purpose(
                    &records::init_file(&instance.dir),
                    READY,
                    HOLD,
                    owners,
                ),
            })?;
            label.system.cgroups.clone_from(&enforced.dirs);
            label.system.unenforced.clone_from(&enforced.unenforced);
            label.system.weakened.clone_from(&planned.weakened);
            write_label(&label, &instance)?;
            self.write_boot_files(&dirs, &planned, &request)?;
            failpoint::reach(failpoints.limited);
            let stage = self.stage()?;
            let place = scope.as_ref().map(|scope| scope.place(&instance.id));
            let build = Build {
                program: &stage,
                enclosure: &planned.enclosure,
                place: place.map(|place| place.with(&enforced.properties)),
                hold: request.hold,
                layers: &dirs.layers,
                under_way: failpoints.under_way,
            };
            build.run().await?;
            failpoint::reach(failpoints.ready);
            let process = records::read_init(&instance.dir)
                .map_err(BackendError::io("read the guest's process id"))?
                .ok_or_else(|| BackendError::GuestFailed {
                    reason: "the stage did not record the guest's process id".to_owned(),
                })?;
            Ok::<_, BackendError>((process, planned))
        };
        match result.await {
            Ok((process, planned)) => {
                let of_rootfs = rootfs.map(|rootfs| rootfs.remarks).unwrap_or_default();
                let unenforced = settings.limits.warning(&enforced.unenforced);
                let remarks = self.notices(&instance.id, unenforced, &planned, of_rootfs);
                let locator = NativeLocator { process, system: label.system }.to_locator();
                Ok(backend::StartedInstance { locator, warnings: remarks })
            }
            Err(error) => {
                // A failed start leaves no process and no control group.
                let left = Instance { locator: serde_json::Value::Null, ..instance };
                if let Err(error) = self.end_instance(&left, super::END_TIMEOUT).await {
                    tracing::warn!(%error, instance = left.id, "a failed start left something");
                }
                Err(error)
            }
        }
    }

    /// Writes what the guest starts from.
    fn write_boot_files(
        &self,
        dirs: &HostDirs,
        planned: &PlannedSandbox,
        request: &InstanceRequest,
    ) -> Result<(), BackendError> {
        make_dirs(&planned.dirs_to_make)?;
        let settings = guest_settings(planned, request)?;
        boot::lay_out_shared(&dirs.boot, &self.guest()?, &settings)
            .map_err(BackendError::io("write the guest's files"))?;
        records::forget_init(&dirs.instance)
            .map_err(BackendError::io(format!("clean up {}", dirs.instance.display())))?;
        // The socket of the previous guest.
        fs::remove_file(dirs.io.join(SOCKET_NAME)).ok();
        Ok(())
    }

    /// Returns the notices for the user. Each is shown once: those about the machine
    /// per home, those about limits that the user has set per instance. `inspect` and
    /// `doctor` always show them.
    fn notices(
        &self,
        instance: &str,
        unenforced: Option<String>,
        planned: &PlannedSandbox,
        of_rootfs: Vec<String>,
    ) -> Vec<String> {
        let once = |text: String| cache::is_first_notice(&self.cache_dir(), &text).then_some(text);
        let all = of_rootfs.into_iter().chain(planned.remarks.iter().cloned());
        let mut remarks: Vec<String> = all.filter_map(once).collect();
        remarks.extend(unenforced.filter(|text| {
            cache::is_first_notice(&self.cache_dir(), &format!("{instance} {text}"))
        }));
        if !planned.weakened.is_empty() {
            let weakened = planned.weakened.join(", ");
            remarks.push(format!("the settings weaken the isolation: {weakened}"));
        }
        remarks
    }
}

/// Checks the host directories that are to be mounted.
fn admit(
    settings: &NativeSettings,
    request: &InstanceRequest,
    before: KnownMounts,
) -> Result<Mounts, BackendError> {
    mounts::admit(&settings.protected, &settings.user_mounts().requests()?, request, before)
}

/// Returns the recorded system of an instance.
pub(super) fn system_of(instance: &Instance) -> Option<NativeSystem> {
    let located = NativeLocator::of(&instance.locator).map(|locator| locator.system);
    located.or_else(|| NativeLabel::read(&instance.dir).map(|label| label.system))
}

/// Returns the encoded settings of the guest.
fn guest_settings(
    planned: &PlannedSandbox,
    request: &InstanceRequest,
) -> Result<Vec<u8>, BackendError> {
    vestal_wire::encode(&guest_settings_of(planned, &request.guest))
        .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
}

/// Returns the settings of a guest with the paths in its sandbox.
pub(super) fn guest_settings_of(planned: &PlannedSandbox, guest: &GuestSettings) -> GuestSettings {
    let path = |path: &Path| ByteVec::from(path.as_os_str().as_encoded_bytes().to_vec());
    GuestSettings {
        state_dir: path(Path::new(STATE_DIR)),
        socket_dir: path(Path::new(IO_DIR)),
        env: Vec::new(),
        home: path(&planned.home),
        start_dir: path(&planned.start_dir),
        // All earlier processes have ended with their first process.
        previous_instances: Vec::new(),
        ephemeral: false,
        inherit_env: true,
        ..guest.clone()
    }
}

fn write_label(label: &NativeLabel, instance: &Instance) -> Result<(), BackendError> {
    label
        .write(&instance.dir)
        .map_err(BackendError::io(format!("write to {}", instance.dir.display())))
}

fn make_sandbox_dir(dir: &Path) -> Result<(), BackendError> {
    make_private_dir(dir).map_err(|error| BackendError::Io {
        action: "make the directories of the sandbox".to_owned(),
        source: io::Error::other(error),
    })
}

/// Describes the system that a sandbox is made on.
fn describe_system(tier: Tier, rootfs: Option<&str>) -> String {
    match rootfs {
        Some(rootfs) => format!("{} ({rootfs})", tier.meaning()),
        None => tier.meaning().to_owned(),
    }
}

/// Makes missing directories. This is done at every start, because one may have
/// been deleted. Existing ones keep their owner and mode, which users of the sandbox
/// may have changed.
pub(super) fn make_dirs(dirs: &[DirToMake]) -> Result<(), BackendError> {
    for dir in dirs {
        make_dir(dir).map_err(BackendError::io(format!("make {}", dir.path.display())))?;
    }
    Ok(())
}

fn make_dir(dir: &DirToMake) -> io::Result<()> {
    match fs::create_dir(&dir.path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Some((uid, gid)) = dir.owner {
        chown(&dir.path, Some(uid), Some(gid))?;
    }
    // The umask may have cleared bits.
    fs::set_permissions(&dir.path, fs::Permissions::from_mode(dir.mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gets_its_mode_once() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dir");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        let wanted = [DirToMake { path: path.clone(), mode: 0o1777, owner: None }];
        make_dirs(&wanted).unwrap();
        assert_eq!(mode(), 0o1777);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        make_dirs(&wanted).unwrap();
        assert_eq!(mode(), 0o700, "an existing directory keeps its mode");
        let below = DirToMake { path: path.join("a/b"), mode: 0o700, owner: None };
        assert!(make_dirs(&[below]).unwrap_err().to_string().contains("a/b"));
    }
}
