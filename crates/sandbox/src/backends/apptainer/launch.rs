//! Creating and starting instances.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use minicbor::bytes::ByteVec;
use serde::Deserialize;
use vestal_wire::{GuestSettings, HostRole, RuntimeLaunch};

use super::backend::Apptainer;
use super::copy::{OverlayBase, make_layers};
use super::image::{self, LocalImage};
use super::plan::{self, ApptainerContainer, CONFINEMENT, ContainerPlanInput, EMPTY};
use super::program::{ApptainerProgram, MountRights};
use super::records::{self, ApptainerLabel, ApptainerLocator, ApptainerSystem, LaunchRecord};
use super::settings::ApptainerSettings;
use crate::backend::{BackendError, Instance, InstanceRequest, StartedInstance};
use crate::backends::boot;
use crate::backends::guest_process::{Detached, nameless_file};
use crate::backends::native::{Enforced, HostDirs, LimitMechanism, filters, join_file};
use crate::backends::own_system::{IO_DIR, LimitKind, STATE_DIR};
use crate::backends::scope::SystemdScope;
use crate::client::Connection;
use crate::client::socket::{PeerExpectation, SOCKET_NAME, connect};
use crate::failpoint;
use crate::files::{Files, Links};
use crate::mounts::{self, KnownMounts, Mounts};
use crate::store::make_private_dir;

/// Command line of `launch`, with the descriptors of the standard streams.
const LAUNCH: [&str; 7] = ["launch", "--plan-fd", "0", "--ready-fd", "1", "--hold-fd", "2"];

/// Milliseconds that a guest may take to listen. Less than the stage may take for it.
const READY_WITHIN_MS: u64 = 50_000;

/// Longest time for an answer of a guest that listens.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The failpoints of an operation.
#[derive(Debug, Clone, Copy)]
struct Failpoints {
    limited: &'static str,
    under_way: fn(),
    ready: &'static str,
}

const CREATE: Failpoints = Failpoints {
    limited: "apptainer.create.limited",
    under_way: || failpoint::reach("apptainer.create.under-way"),
    ready: "apptainer.create.ready",
};

const START: Failpoints = Failpoints {
    limited: "apptainer.start.limited",
    under_way: || failpoint::reach("apptainer.start.under-way"),
    ready: "apptainer.start.ready",
};

/// An instance to be launched.
#[derive(Debug)]
struct ContainerLaunch<'a> {
    request: InstanceRequest,
    program: &'a ApptainerProgram,
    settings: &'a ApptainerSettings,
    mounts: Mounts,
    image: LocalImage,
    failpoints: Failpoints,
}

impl Apptainer {
    /// Creates an instance and waits until its guest listens.
    pub(super) async fn create_instance(
        &self,
        request: InstanceRequest,
    ) -> Result<StartedInstance, BackendError> {
        let settings = ApptainerSettings::read(&self.settings, &request.overrides)?;
        settings.user_mounts().check()?;
        let program = self.program().await?;
        let image =
            image::find_or_fetch(program, &self.settings, &settings.image, &request.progress)
                .await?;
        make_sandbox_dir(&request.sandbox_dir)?;
        make_sandbox_dir(&request.instance.dir)?;
        let mounts = admit(&settings, &request, KnownMounts::Nothing)?;
        failpoint::reach("apptainer.create.prepared");
        let base = OverlayBase {
            uid: rustix::process::geteuid().as_raw(),
            image: settings.image.as_str().to_owned(),
            image_id: image.identity.clone(),
        };
        self.restore_overlay(&request, &base).await?;
        failpoint::reach("apptainer.create.filled");
        let settings = &settings;
        let launch =
            ContainerLaunch { request, program, settings, mounts, image, failpoints: CREATE };
        self.launch(launch).await
    }

    /// Starts a stopped instance on its own files and waits until its guest listens.
    pub(super) async fn start_stopped(
        &self,
        request: InstanceRequest,
    ) -> Result<StartedInstance, BackendError> {
        let failed = |reason: &str| BackendError::GuestFailed { reason: reason.to_owned() };
        let made = records::system_of(&request.instance)
            .ok_or_else(|| failed("it is not recorded how it was made"))?;
        let settings = ApptainerSettings::read(&self.settings, &request.overrides)?;
        settings.user_mounts().check()?;
        let program = self.program().await?;
        let image =
            image::find_or_fetch(program, &self.settings, &settings.image, &request.progress)
                .await?;
        if made.image_id != image.identity {
            // Its own files are changes to that image, and to no other.
            return Err(BackendError::OtherSystem {
                was: format!("the image {} ({})", made.image, made.image_id),
                now: format!("{} ({})", settings.image.as_str(), image.identity),
            });
        }
        if made.uid != rustix::process::geteuid().as_raw() {
            return Err(failed("it belongs to another user"));
        }
        let mounts = admit(&settings, &request, KnownMounts::Recorded)?;
        // What a killed guest has left: programs behind fuse mounts, control groups.
        self.end_instance(&request.instance, super::END_TIMEOUT).await?;
        failpoint::reach("apptainer.start.prepared");
        let settings = &settings;
        let launch =
            ContainerLaunch { request, program, settings, mounts, image, failpoints: START };
        self.launch(launch).await
    }

    async fn launch(&self, launch: ContainerLaunch<'_>) -> Result<StartedInstance, BackendError> {
        let ContainerLaunch { request, program, settings, mounts, image, failpoints } = launch;
        let (instance, dirs) = (request.instance.clone(), HostDirs::of(&request));
        let uid = rustix::process::geteuid().as_raw();
        let scope = SystemdScope::detect(uid);
        let mechanism = LimitMechanism::detect(scope.as_ref(), uid);
        let mut label = ApptainerLabel::new(
            &request,
            ApptainerSystem {
                uid,
                image: settings.image.as_str().to_owned(),
                image_id: image.identity.clone(),
                program: program.version.clone(),
                cgroups: mechanism.planned_groups(&settings.limits, &instance.id),
                unenforced: Vec::new(),
                weakened: Vec::new(),
            },
        );
        // What is made outside of the instance's directory is recorded first.
        write_label(&label, &instance)?;
        let enforced = mechanism.enforce(&settings.limits, &instance.id)?;
        let result = async {
            let enforced = without_counting_root(enforced, program.rights, settings)?;
            let stage = self.stage()?;
            let planned = plan::plan(&ContainerPlanInput {
                settings,
                dirs: &dirs,
                rights: program.rights,
                image: &image.path,
                stage: &stage,
                mounts: &mounts,
                max_processes: enforced.max_processes,
                filters: filters()?,
                exists: |path| path.exists(),
            })?;
            label.system.cgroups.clone_from(&enforced.dirs);
            label.system.unenforced.clone_from(&enforced.unenforced);
            label.system.weakened.clone_from(&planned.weakened);
            write_label(&label, &instance)?;
            self.lay_out(&dirs, &planned, &request)?;
            failpoint::reach(failpoints.limited);
            let place = scope.as_ref().map(|scope| scope.place(&instance.id));
            let input = launch_plan(program, &planned, &dirs, &enforced)?;
            let detached = Detached {
                program: &stage,
                arguments: &LAUNCH,
                place: place.map(|place| place.with(&enforced.properties)),
                path_variable: OsStr::new("/usr/sbin:/usr/bin:/sbin:/bin"),
                // The stage records the processes that it starts.
                mark: None,
                input,
                hold: request.hold,
                started: failpoints.under_way,
            };
            check_ready(&detached.start().await?)?;
            failpoint::reach(failpoints.ready);
            let processes = records::read_launch(&dirs.instance)
                .map_err(BackendError::io("read the guest's process id"))?
                .filter(|launch| launch.guest.is_some())
                .ok_or_else(|| BackendError::GuestFailed {
                    reason: "the stage did not record the guest's process id".to_owned(),
                })?;
            confirm_mounts(&instance, &processes, &planned, &mounts, settings).await?;
            Ok::<_, BackendError>((processes, planned, enforced))
        };
        match result.await {
            Ok((processes, planned, enforced)) => {
                let mut warnings: Vec<String> =
                    settings.limits.warning(&enforced.unenforced).into_iter().collect();
                if !planned.weakened.is_empty() {
                    let weakened = planned.weakened.join(", ");
                    warnings.push(format!("the settings weaken the isolation: {weakened}"));
                }
                let locator = ApptainerLocator { processes, system: label.system }.to_locator();
                Ok(StartedInstance { locator, warnings })
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

    /// Makes the directories of an instance, and writes what the guest starts from.
    fn lay_out(
        &self,
        dirs: &HostDirs,
        planned: &ApptainerContainer,
        request: &InstanceRequest,
    ) -> Result<(), BackendError> {
        let failed = || BackendError::io(format!("write to {}", dirs.instance.display()));
        for (dir, mode) in &planned.dirs_to_make {
            boot::make_open_dir(dir, *mode).map_err(failed())?;
        }
        make_layers(dirs).map_err(failed())?;
        let guest = self.guest()?;
        let settings = guest_settings(planned, request)?;
        boot::lay_out_shared(&dirs.boot, &guest, &settings).map_err(failed())?;
        boot::make_open_dir(&dirs.boot.join(EMPTY), 0o555).map_err(failed())?;
        let confinement = encoded(&planned.confinement)?;
        fs::write(dirs.boot.join(CONFINEMENT), confinement).map_err(failed())?;
        if let Some((path, content)) = &planned.config {
            fs::write(path, content).map_err(failed())?;
        }
        records::forget_launch(&dirs.instance).map_err(failed())?;
        // The socket of the previous guest.
        fs::remove_file(dirs.io.join(SOCKET_NAME)).ok();
        Ok(())
    }
}

/// Leaves out the kernel's count of a user's processes where that user is root, who is not
/// counted.
fn without_counting_root(
    enforced: Enforced,
    rights: MountRights,
    settings: &ApptainerSettings,
) -> Result<Enforced, BackendError> {
    if rights != MountRights::Root || enforced.max_processes.is_none() {
        return Ok(enforced);
    }
    let kind = LimitKind::Pids;
    if settings.limits.requires(kind) {
        return Err(BackendError::Unenforceable {
            key: kind.key(),
            reason: "this process cannot make control groups, and root is not counted otherwise"
                .to_owned(),
            advice: format!("set {} to 0 for no limit, or use the backend native", kind.key()),
        });
    }
    let mut unenforced = enforced.unenforced;
    unenforced.push(kind.key().to_owned());
    Ok(Enforced { max_processes: None, unenforced, ..enforced })
}

/// Checks the host directories that are to be mounted.
fn admit(
    settings: &ApptainerSettings,
    request: &InstanceRequest,
    before: KnownMounts,
) -> Result<Mounts, BackendError> {
    let wanted = settings.user_mounts().requests()?;
    mounts::admit(&settings.protected, &wanted, request, before)
}

/// Returns the plan of the stage for a start.
fn launch_plan(
    program: &ApptainerProgram,
    planned: &ApptainerContainer,
    dirs: &HostDirs,
    enforced: &Enforced,
) -> Result<std::os::fd::OwnedFd, BackendError> {
    let bytes = |text: &OsStr| ByteVec::from(text.as_bytes().to_vec());
    let variable = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| {
        ByteVec::from([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let words = std::iter::once(program.path.as_os_str())
        .chain(planned.arguments.iter().map(std::ffi::OsString::as_os_str));
    let launch = RuntimeLaunch {
        arguments: words.map(bytes).collect(),
        environment: program.environment.iter().map(variable).collect(),
        record: bytes(records::launch_file(&dirs.instance).as_os_str()),
        socket_dir: bytes(dirs.io.as_os_str()),
        socket_name: SOCKET_NAME.to_owned(),
        cgroups: enforced.dirs.iter().map(|dir| bytes(join_file(dir).as_os_str())).collect(),
        // A set-uid program, Apptainer's own among them, would get no rights.
        no_new_privileges: program.rights == MountRights::Root,
        ready_within_ms: READY_WITHIN_MS,
    };
    vestal_wire::encode(&launch)
        .map_err(io::Error::other)
        .and_then(|bytes| nameless_file("vestal-launch", &bytes))
        .map_err(BackendError::io("prepare the start of the container"))
}

/// A failed step, as the stage reports it.
#[derive(Debug, Deserialize)]
struct StageFailure {
    step: String,
    message: String,
}

/// Checks the line that the stage prints when the guest listens.
fn check_ready(text: &str) -> Result<(), BackendError> {
    let failed = |reason: String| BackendError::GuestFailed { reason };
    let line = text.lines().next().unwrap_or_default();
    let Some(reason) = line.strip_prefix("error: ") else {
        return if line.is_empty() {
            Err(failed("it ended before it was ready".to_owned()))
        } else {
            Ok(())
        };
    };
    match serde_json::from_str::<StageFailure>(reason) {
        Ok(failure) if failure.step == "ended" => Err(explain(&failure.message)),
        Ok(failure) => Err(failed(format!("step {}: {}", failure.step, failure.message))),
        Err(_) => Err(failed(reason.to_owned())),
    }
}

/// What in Apptainer's output has a known cause, and what to do about it.
const CAUSES: [(&str, &str); 6] = [
    (
        "squashfuse",
        "install squashfuse, so that image files can be mounted without root, or set \
         terminal.singularity_image to a directory",
    ),
    ("fuse-overlayfs", "install fuse-overlayfs, or set terminal.singularity_image to a directory"),
    (
        "user namespace",
        "allow user namespaces (sysctl user.max_user_namespaces, \
         kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or \
         install Apptainer's set-uid part (package apptainer-suid)",
    ),
    (
        "network",
        "without a network of its own the sandbox cannot be cut off: Apptainer needs its network \
         plugins, or use the backend native or docker",
    ),
    ("exec format error", "the image is for another architecture: take one for this machine"),
    ("overlay", "the directory of the sandboxes cannot hold an overlay: set terminal.sandbox_dir"),
];

/// Returns the error for what the program printed before it ended.
fn explain(message: &str) -> BackendError {
    let printed = message.rsplit_once("the guest was ready").map_or(message, |(_, rest)| rest);
    let reason = image::reason(printed.trim_start_matches(':').as_bytes())
        .unwrap_or_else(|| message.to_owned());
    let lower = reason.to_lowercase();
    // A guest's own words are for those who know guests.
    let known =
        CAUSES.iter().find(|(word, _)| !lower.contains("vestal-guest") && lower.contains(word));
    match known {
        Some((_, advice)) => BackendError::Advised {
            problem: format!("apptainer could not build the container: {reason}"),
            advice: (*advice).to_owned(),
        },
        None => BackendError::GuestFailed { reason: format!("its container ended: {reason}") },
    }
}

/// Checks that Apptainer has mounted what was looked at: it goes by names, which somebody may
/// have given to something else meanwhile. No command has run yet, so the guest can be
/// trusted.
async fn confirm_mounts(
    instance: &Instance,
    processes: &LaunchRecord,
    planned: &ApptainerContainer,
    mounts: &Mounts,
    settings: &ApptainerSettings,
) -> Result<(), BackendError> {
    let Some(guest) = processes.guest.as_ref().filter(|_| !planned.user_mounts.is_empty()) else {
        return Ok(());
    };
    let expected = PeerExpectation::process(guest.pid);
    let stream = connect(&instance.dir.join("io"), expected).await;
    let stream = stream.map_err(|error| unverified(&error))?;
    let id = Some(instance.id.clone());
    let connection = Connection::open_within(stream, HostRole::Observer, id, ANSWER_TIMEOUT).await;
    let files = Files::new(connection.map_err(|error| unverified(&error))?);
    for mount in &planned.user_mounts {
        let found = files.stat(&mount.target, Links::Keep);
        let found = tokio::time::timeout(ANSWER_TIMEOUT, found).await;
        let found = found.map_err(|late| unverified(&late))?.map_err(|error| unverified(&error))?;
        if found.version.inode != mounts.get(&mount.asked)?.inode {
            return Err(replaced(&mount.asked));
        }
    }
    if mounts::are_unmoved(&settings.protected, mounts) {
        Ok(())
    } else {
        Err(replaced(Path::new("a mounted directory")))
    }
}

fn unverified(why: &dyn std::fmt::Display) -> BackendError {
    BackendError::GuestFailed {
        reason: format!("it did not report what is mounted in its container: {why}"),
    }
}

fn replaced(which: &Path) -> BackendError {
    BackendError::Advised {
        problem: format!("{} was replaced while the container was started", which.display()),
        advice: "find the sandbox or program that changes the directories above it, and try again"
            .to_owned(),
    }
}

/// Returns the encoded settings of the guest.
fn guest_settings(
    planned: &ApptainerContainer,
    request: &InstanceRequest,
) -> Result<Vec<u8>, BackendError> {
    let path = |path: &Path| ByteVec::from(path.as_os_str().as_encoded_bytes().to_vec());
    encoded(&GuestSettings {
        state_dir: path(Path::new(STATE_DIR)),
        socket_dir: path(Path::new(IO_DIR)),
        env: Vec::new(),
        home: path(&planned.home),
        start_dir: path(&planned.start_dir),
        // All earlier processes have ended with their first process.
        previous_instances: Vec::new(),
        ephemeral: false,
        inherit_env: true,
        ..request.guest.clone()
    })
}

fn encoded(value: &impl minicbor::Encode<()>) -> Result<Vec<u8>, BackendError> {
    vestal_wire::encode(value)
        .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
}

fn write_label(label: &ApptainerLabel, instance: &Instance) -> Result<(), BackendError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apptainer_says_becomes_the_reason_with_advice() {
        let printed = "error: {\"step\":\"ended\",\"target\":null,\"errno\":null,\"message\":\"the \
                       program ended with code 255 before the guest was ready: INFO: a\\u000aFATAL:   \
                       no squashfuse found\"}";
        let error = check_ready(printed).unwrap_err();
        assert!(error.to_string().ends_with("container: no squashfuse found"), "{error}");
        assert!(error.advice().unwrap().contains("install squashfuse"), "{error:?}");
        let guest = check_ready(
            "error: {\"step\":\"ended\",\"target\":null,\"errno\":null,\"message\":\"the program \
             ended with code 1 before the guest was ready: vestal-guest: x is not a journal\"}",
        )
        .unwrap_err();
        assert!(guest.is_unusable_state(), "{guest}");
        check_ready("{\"pid\":1}\n").unwrap();
        check_ready("").unwrap_err();
    }
}
