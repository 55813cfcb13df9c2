//! Making and starting instances.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use vestal_wire::{GuestSettings, Users};

use super::backend::Native;
use super::copy::Ground;
use super::enforce::Means;
use super::facts::Facts;
use super::plan::{self, DirToMake, HostDirs, PlanInput, Planned};
use super::records::{self, Label, NativeLocator, NativeSystem};
use super::rootfs::Rootfs;
use super::settings::NativeSettings;
use super::stage::Build;
use super::tier::{self, Tier};
use super::{cache, cgroups};
use crate::backend::{self, BackendError, Instance, InstanceRequest};
use crate::backends::boot;
use crate::backends::layout::{IO_DIR, STATE_DIR};
use crate::backends::scope::Scope;
use crate::client::socket::SOCKET_NAME;
use crate::failpoint;
use crate::mounts::{self, Before, Mounts};
use crate::store::make_private_dir;

/// Descriptors by which the stage, and the guest after it, say that they are
/// ready, and keep the lock.
const READY: i32 = 1;
const HOLD: i32 = 2;

/// The steps of an operation at which a test may kill this process.
#[derive(Debug, Clone, Copy)]
struct Points {
    limited: &'static str,
    under_way: fn(),
    ready: &'static str,
}

const CREATE: Points = Points {
    limited: "native.create.limited",
    under_way: || failpoint::reach("native.create.under-way"),
    ready: "native.create.ready",
};

const START: Points = Points {
    limited: "native.start.limited",
    under_way: || failpoint::reach("native.start.under-way"),
    ready: "native.start.ready",
};

/// An instance to be launched.
#[derive(Debug)]
struct Launch<'a> {
    request: InstanceRequest,
    settings: &'a NativeSettings,
    mounts: Mounts,
    facts: &'a Facts,
    tier: Tier,
    rootfs: Option<Rootfs>,
    points: Points,
}

impl Native {
    /// Makes an instance and waits until its guest listens.
    pub(super) async fn make(
        &self,
        request: InstanceRequest,
    ) -> Result<backend::StartedInstance, BackendError> {
        let settings = NativeSettings::read(&self.settings, &request.overrides)?;
        plan::check_sources(&settings)?;
        let facts = Facts::gather();
        let tier = tier::choose(&settings, &facts);
        let users = plan::users(tier, &facts);
        tier::check_users(&users)?;
        make_private(&request.sandbox_dir)?;
        make_private(&request.instance.dir)?;
        let mounts = admit(&settings, &request, Before::Nothing)?;
        let rootfs = self.rootfs(&settings, &request.progress).await?;
        self.tidy_once();
        failpoint::reach("native.create.prepared");
        let identity = rootfs.as_ref().map(|rootfs| rootfs.identity.clone());
        self.fill(&request, &Ground { tier, rootfs: identity }).await?;
        failpoint::reach("native.create.filled");
        let (settings, facts) = (&settings, &facts);
        let launch = Launch { request, settings, mounts, facts, tier, rootfs, points: CREATE };
        self.launch(launch, users).await
    }

    /// Starts an instance that has stopped, on the layers it has, and waits
    /// until its guest listens.
    pub(super) async fn start_again(
        &self,
        request: InstanceRequest,
    ) -> Result<backend::StartedInstance, BackendError> {
        let failed = |reason: String| BackendError::GuestFailed { reason };
        let made = made_of(&request.instance)
            .ok_or_else(|| failed("nothing is known of how it was made".to_owned()))?;
        let settings = NativeSettings::read(&self.settings, &request.overrides)?;
        plan::check_sources(&settings)?;
        let facts = Facts::gather();
        let tier = tier::choose(&settings, &facts);
        let users = plan::users(tier, &facts);
        tier::check_users(&users)?;
        let rootfs = self.rootfs(&settings, &request.progress).await?;
        let identity = rootfs.as_ref().map(|rootfs| &rootfs.identity);
        if made.tier != tier || made.rootfs.as_ref() != identity {
            // Its layers are changes to something else.
            return Err(BackendError::OtherSystem {
                was: described(made.tier, made.rootfs.as_deref()),
                now: described(tier, identity.map(|identity| &**identity)),
            });
        }
        if users.uids.first().map(|range| range.outside) != Some(made.uid) {
            return Err(failed("it belongs to another user".to_owned()));
        }
        let mounts = admit(&settings, &request, Before::Recorded)?;
        // A guest that was killed leaves its groups, wherever they were then:
        // the new ones have limits of their own, and nobody knows the old ones
        // once the new ones are written down.
        self.end_all(&request.instance, super::END_PATIENCE).await?;
        failpoint::reach("native.start.prepared");
        let (settings, facts) = (&settings, &facts);
        let launch = Launch { request, settings, mounts, facts, tier, rootfs, points: START };
        self.launch(launch, users).await
    }

    async fn launch(
        &self,
        launch: Launch<'_>,
        users: Users,
    ) -> Result<backend::StartedInstance, BackendError> {
        let Launch { request, settings, mounts, facts, tier, rootfs, points } = launch;
        let instance = request.instance.clone();
        let uid = users.uids.first().map_or(facts.uid, |range| range.outside);
        let owners = tier::owners(&users);
        let dirs = HostDirs::of(&request);
        let picture = self.picture()?;
        let private = self.private(tier, facts).await?;
        let scope = Scope::detect(facts.uid);
        let means = Means::of_this_machine(scope.as_ref(), facts.uid);
        let mut label = Label::new(
            &request,
            NativeSystem {
                uid,
                tier,
                picture: Some(picture.digest),
                rootfs: rootfs.as_ref().map(|rootfs| rootfs.identity.clone()),
                cgroups: means.places(&settings.limits, &instance.id),
                unenforced: Vec::new(),
                weakened: Vec::new(),
                missing: tier::lacking(tier, facts, &users),
            },
        );
        // What is made outside of its directory is written down before.
        write_label(&label, &instance)?;
        let enforced = means.enforce(&settings.limits, &instance.id)?;
        let result = async {
            let cgroups: Vec<PathBuf> =
                enforced.dirs.iter().map(|dir| cgroups::entrance(dir)).collect();
            let planned = plan::enclosure(&PlanInput {
                dirs: &dirs,
                settings,
                facts,
                tier,
                users,
                mounts: &mounts,
                private: &private,
                etc_dir: &picture.dir,
                rootfs: rootfs.as_ref().map(|rootfs| &*rootfs.dir),
                cgroups: &cgroups,
                max_processes: enforced.max_processes,
                purpose: plan::serve(&records::init_file(&instance.dir), READY, HOLD, owners),
            })?;
            label.made.cgroups.clone_from(&enforced.dirs);
            label.made.unenforced.clone_from(&enforced.unenforced);
            label.made.weakened.clone_from(&planned.weakened);
            write_label(&label, &instance)?;
            self.lay_out(&dirs, &planned, &request)?;
            failpoint::reach(points.limited);
            let stage = self.stage()?;
            let place = scope.as_ref().map(|scope| scope.place(&instance.id));
            let build = Build {
                program: &stage,
                enclosure: &planned.enclosure,
                place: place.map(|place| place.with(&enforced.properties)),
                hold: request.hold,
                layers: &dirs.layers,
                under_way: points.under_way,
            };
            build.carry_out().await?;
            failpoint::reach(points.ready);
            let process = records::read_init(&instance.dir)
                .map_err(BackendError::io("read who the guest is"))?
                .ok_or_else(|| BackendError::GuestFailed {
                    reason: "the stage did not say who it is".to_owned(),
                })?;
            Ok::<_, BackendError>((process, planned))
        };
        match result.await {
            Ok((process, planned)) => {
                let told = rootfs.map(|rootfs| rootfs.remarks).unwrap_or_default();
                let unenforced = settings.limits.told(&enforced.unenforced);
                let remarks = self.remarks(&instance.id, unenforced, &planned, told);
                let locator = NativeLocator { process, made: label.made }.to_locator();
                Ok(backend::StartedInstance { locator, warnings: remarks })
            }
            Err(error) => {
                // No process and no group is left behind by a failed start.
                let left = Instance { locator: serde_json::Value::Null, ..instance };
                if let Err(error) = self.end_all(&left, super::END_PATIENCE).await {
                    tracing::warn!(%error, instance = left.id, "left for later");
                }
                Err(error)
            }
        }
    }

    /// Lays out what the guest starts from.
    fn lay_out(
        &self,
        dirs: &HostDirs,
        planned: &Planned,
        request: &InstanceRequest,
    ) -> Result<(), BackendError> {
        make_dirs(&planned.make)?;
        let settings = guest_settings(planned, request)?;
        boot::lay_out_shared(&dirs.boot, &self.guest()?, &settings)
            .map_err(BackendError::io("lay out the guest"))?;
        records::forget_init(&dirs.instance)
            .map_err(BackendError::io(format!("tidy up {}", dirs.instance.display())))?;
        // The socket of the guest before is nobody's.
        fs::remove_file(dirs.io.join(SOCKET_NAME)).ok();
        Ok(())
    }

    /// Returns what users of an instance should hear. What this machine cannot
    /// do is said once per home, and what of it the user has asked for once per
    /// instance; `inspect` and `doctor` show it any time.
    fn remarks(
        &self,
        instance: &str,
        unenforced: Option<String>,
        planned: &Planned,
        told: Vec<String>,
    ) -> Vec<String> {
        let once = |text: String| cache::is_new(&self.cache_dir(), &text).then_some(text);
        let told = told.into_iter().chain(planned.remarks.iter().cloned());
        let mut remarks: Vec<String> = told.filter_map(once).collect();
        remarks.extend(
            unenforced
                .filter(|text| cache::is_new(&self.cache_dir(), &format!("{instance} {text}"))),
        );
        if !planned.weakened.is_empty() {
            let weakened = planned.weakened.join(", ");
            remarks.push(format!("the settings weaken the isolation: {weakened}"));
        }
        remarks
    }
}

/// Looks at what of the host is to be mounted.
fn admit(
    settings: &NativeSettings,
    request: &InstanceRequest,
    before: Before,
) -> Result<Mounts, BackendError> {
    mounts::admit(&settings.ours, &plan::wanted(settings)?, request, before)
}

/// Returns what is known of how an instance was made.
pub(super) fn made_of(instance: &Instance) -> Option<NativeSystem> {
    let located = NativeLocator::of(&instance.locator).map(|locator| locator.made);
    located.or_else(|| Label::read(&instance.dir).map(|label| label.made))
}

/// Returns what the guest is told, in its binary form.
fn guest_settings(planned: &Planned, request: &InstanceRequest) -> Result<Vec<u8>, BackendError> {
    let path = |path: &Path| ByteVec::from(path.as_os_str().as_encoded_bytes().to_vec());
    let settings = GuestSettings {
        state_dir: path(Path::new(STATE_DIR)),
        socket_dir: path(Path::new(IO_DIR)),
        env: Vec::new(),
        home: path(&planned.home),
        start_dir: path(&planned.start_dir),
        // Whatever ran before has ended with its first process.
        previous_instances: Vec::new(),
        ephemeral: false,
        inherit_env: true,
        ..request.guest.clone()
    };
    vestal_wire::encode(&settings)
        .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
}

fn write_label(label: &Label, instance: &Instance) -> Result<(), BackendError> {
    label
        .write(&instance.dir)
        .map_err(BackendError::io(format!("write to {}", instance.dir.display())))
}

fn make_private(dir: &Path) -> Result<(), BackendError> {
    make_private_dir(dir).map_err(|error| BackendError::Io {
        action: "make the directories of the sandbox".to_owned(),
        source: io::Error::other(error),
    })
}

/// Says what a sandbox is made on.
fn described(tier: Tier, rootfs: Option<&str>) -> String {
    match rootfs {
        Some(rootfs) => format!("{} ({rootfs})", tier.meaning()),
        None => tier.meaning().to_owned(),
    }
}

/// Makes what is missing. Done before every start: somebody may have deleted
/// one. What is there keeps its owner and permissions, which the sandbox's own
/// users may have changed.
pub(super) fn make_dirs(wanted: &[DirToMake]) -> Result<(), BackendError> {
    for dir in wanted {
        make_one(dir).map_err(BackendError::io(format!("make {}", dir.path.display())))?;
    }
    Ok(())
}

fn make_one(dir: &DirToMake) -> io::Result<()> {
    match fs::create_dir(&dir.path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Some((uid, gid)) = dir.owner {
        chown(&dir.path, Some(uid), Some(gid))?;
    }
    // The user's mask may have taken bits away.
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
        assert_eq!(mode(), 0o700, "it is somebody's now");
        let below = DirToMake { path: path.join("a/b"), mode: 0o700, owner: None };
        assert!(make_dirs(&[below]).unwrap_err().to_string().contains("a/b"));
    }
}
