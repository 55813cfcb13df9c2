//! Error messages for failures of the stage.
//!
//! The stage reports the step and the kernel's error number. The cause depends
//! on the machine: a sysctl forbids the step, or a filesystem cannot do it. This
//! module finds the cause and the advice.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::backend::BackendError;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const ENOSYS: i32 = 38;
const EUSERS: i32 = 87;
const EOPNOTSUPP: i32 = 95;
const EDQUOT: i32 = 122;

/// A failed step, as the stage reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct StageFailure {
    pub(super) step: String,
    /// The path that the step was applied to.
    pub(super) target: Option<String>,
    pub(super) errno: Option<i32>,
    /// The kernel's text, or the stage's.
    pub(super) message: String,
}

/// The state of the machine that can explain a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostState {
    /// The sysctls of [`SYSCTLS`] that exist here, with their values.
    pub(super) sysctls: Vec<(&'static str, String)>,
    /// Where the overlay layers are, or would be.
    pub(super) layers: PathBuf,
    /// The filesystem of that directory, if it cannot hold layers.
    pub(super) filesystem: Option<&'static str>,
    pub(super) is_root: bool,
}

/// On some distributions: whether ordinary users may make user namespaces.
const USERNS_CLONE: &str = "kernel.unprivileged_userns_clone";
/// Whether `AppArmor` removes the capabilities inside of user namespaces.
const APPARMOR_USERNS: &str = "kernel.apparmor_restrict_unprivileged_userns";
/// Most user namespaces.
const MAX_USERNS: &str = "user.max_user_namespaces";

/// The sysctls that can forbid sandboxes, and the value with which they do.
const SYSCTLS: [(&str, &str); 3] = [(USERNS_CLONE, "0"), (APPARMOR_USERNS, "1"), (MAX_USERNS, "0")];

impl HostState {
    /// The names of those settings.
    pub(super) const SYSCTL_NAMES: [&str; 3] = [USERNS_CLONE, APPARMOR_USERNS, MAX_USERNS];

    /// Reads the state of this machine, for sandboxes with their layers in a directory.
    pub(super) fn read(layers: &Path) -> Self {
        let read = |name: &'static str| {
            let path = Path::new("/proc/sys").join(name.replace('.', "/"));
            let value = std::fs::read_to_string(path).ok()?;
            Some((name, value.trim().to_owned()))
        };
        let existing = layers.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
        let filesystem = rustix::fs::statfs(existing).ok();
        Self {
            sysctls: SYSCTLS.into_iter().filter_map(|(name, _)| read(name)).collect(),
            layers: layers.to_owned(),
            filesystem: filesystem.and_then(|found| unfit_filesystem(found.f_type)),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Returns the sysctl that forbids sandboxes. Only the number of namespaces
    /// applies to root.
    fn blocking_sysctl(&self) -> Option<(&'static str, &str)> {
        SYSCTLS.into_iter().filter(|(name, _)| !self.is_root || *name == MAX_USERNS).find_map(
            |(name, forbids)| {
                let found = self.sysctls.iter().find(|(known, _)| *known == name)?;
                (found.1 == forbids).then_some((name, &*found.1))
            },
        )
    }
}

/// Returns the name of a filesystem that cannot hold layers, from its `statfs`
/// magic number.
fn unfit_filesystem(magic: impl TryInto<i64>) -> Option<&'static str> {
    Some(match magic.try_into().ok()? {
        0x794c_7630 => "overlay",
        0x6969 => "NFS",
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => "SMB",
        0x0102_1997 => "9P",
        0x6573_5546 => "FUSE",
        0x4d44 => "FAT",
        0x2011_bab0 => "exFAT",
        0x5346_544e => "NTFS",
        0xf15f => "eCryptfs",
        _ => return None,
    })
}

/// Returns the error for a failure of the stage on this machine.
pub(super) fn explain(failure: &StageFailure, host: &HostState) -> BackendError {
    let StageFailure { step, errno, .. } = failure;
    let errno = errno.unwrap_or(0);
    let denied = matches!(errno, EPERM | EACCES);
    match &**step {
        "user-namespace" | "namespaces" => namespaces_refused(failure, host),
        "source" if errno == ENOENT => advised(
            format!("{} does not exist", target(failure)),
            "make it, or correct the setting that names it",
        ),
        _ if matches!(errno, ENOSPC | EDQUOT) => advised(
            format!("there is no space left: {}", step_text(failure)),
            &format!("free space on the filesystem of {}", host.layers.display()),
        ),
        "map-users" => id_map_refused(failure, host),
        "mount-layers" | "mount-root" if errno == EBUSY => advised(
            format!(
                "the layers in {} are in use by another sandbox: two homes, or a copy of one, \
                 share the directory",
                host.layers.display()
            ),
            "stop the other sandbox, or give each home a terminal.sandbox_dir of its own",
        ),
        "mount-layers" | "mount-root" if host.filesystem.is_some() => {
            let kind = host.filesystem.unwrap_or_default();
            unfit_for_layers(kind, failure, host)
        }
        step if step.starts_with("mount-") || step == "private-mounts" || step == "pivot" => {
            if denied {
                mounts_denied(failure, host)
            } else if matches!(errno, EINVAL | ENOSYS | EOPNOTSUPP) {
                mount_unsupported(failure, host)
            } else {
                failed(failure)
            }
        }
        _ => failed(failure),
    }
}

fn namespaces_refused(failure: &StageFailure, host: &HostState) -> BackendError {
    if let Some((name, value)) = host.blocking_sysctl() {
        return sysctl_forbids(name, value, "make user namespaces");
    }
    match failure.errno {
        Some(ENOSPC | EUSERS) => advised(
            format!(
                "the machine's limit of user namespaces is reached{}",
                host.sysctls
                    .iter()
                    .find(|(name, _)| *name == MAX_USERNS)
                    .map(|(name, value)| format!(" ({name} is {value})"))
                    .unwrap_or_default()
            ),
            &format!("stop sandboxes that are not needed, or: sudo sysctl -w {MAX_USERNS}=65536"),
        ),
        Some(EINVAL | ENOSYS) => advised(
            format!(
                "this kernel does not support the namespaces of sandboxes: {}",
                step_text(failure)
            ),
            "use a kernel with CONFIG_USER_NS, or the backend docker or local",
        ),
        _ => advised(
            format!("this process is not allowed to make namespaces: {}", step_text(failure)),
            "a container's seccomp filter or a service's RestrictNamespaces forbids it: allow it \
             there, or use the backend docker or local",
        ),
    }
}

fn id_map_refused(failure: &StageFailure, host: &HostState) -> BackendError {
    if let Some((name, value)) = host.blocking_sysctl() {
        return sysctl_forbids(name, value, "use user namespaces");
    }
    advised(
        format!("the users of the sandbox cannot be mapped: {}", step_text(failure)),
        "check that /etc/subuid and /etc/subgid give you at least 65536 ids, and that newuidmap \
         and newgidmap may use them",
    )
}

fn mounts_denied(failure: &StageFailure, host: &HostState) -> BackendError {
    if let Some((name, value)) = host.blocking_sysctl() {
        return sysctl_forbids(name, value, "mount anything in a user namespace");
    }
    if failure.step == "mount-proc" {
        return advised(
            format!(
                "the sandbox may not mount its own /proc: the one here is partly covered, as in \
                 containers ({})",
                step_text(failure)
            ),
            "run the outer container with an uncovered /proc (docker run --security-opt \
             systempaths=unconfined), or use the backend local",
        );
    }
    advised(
        format!("mounts are denied to the sandbox: {}", step_text(failure)),
        "AppArmor, SELinux or the container around this process forbids it: allow it there, or \
         use the backend docker or local",
    )
}

fn mount_unsupported(failure: &StageFailure, host: &HostState) -> BackendError {
    let advice = match &*failure.step {
        "mount-layers" | "mount-root" => format!(
            "layers need Linux 5.19 or newer and a filesystem like ext4, XFS or Btrfs below {}; \
             set terminal.sandbox_dir to a directory on one, or use the backend docker",
            host.layers.display()
        ),
        "mount-bind" if host.is_root => "directories of the host need Linux 5.12 or newer and a \
                                           filesystem that can show other owners (idmapped \
                                           mounts), like ext4, XFS or Btrfs; use another \
                                           directory, or the backend docker"
            .to_owned(),
        _ => {
            "native sandboxes need Linux 5.12 or newer; use the backend docker or local".to_owned()
        }
    };
    advised(
        format!("this kernel or filesystem does not support it: {}", step_text(failure)),
        &advice,
    )
}

fn unfit_for_layers(kind: &str, failure: &StageFailure, host: &HostState) -> BackendError {
    let what = match kind {
        "overlay" => {
            "is itself on an overlay, as in a container, and cannot hold layers".to_owned()
        }
        kind => format!("is on {kind}, which cannot hold layers"),
    };
    advised(
        format!("{} {what} ({})", host.layers.display(), step_text(failure)),
        "set terminal.sandbox_dir to a directory on a local filesystem like ext4, XFS or Btrfs",
    )
}

fn sysctl_forbids(name: &str, value: &str, what: &str) -> BackendError {
    let (on, subject) = match name {
        USERNS_CLONE => ("1", "this machine does not let ordinary users"),
        APPARMOR_USERNS => ("0", "AppArmor does not let ordinary users"),
        _ => ("15000", "this machine lets nobody"),
    };
    advised(
        format!("{subject} {what}: {name} is {value}"),
        &format!(
            "sudo sysctl -w {name}={on} (to keep it, add it to /etc/sysctl.d), or use the \
             backend docker"
        ),
    )
}

fn advised(problem: String, advice: &str) -> BackendError {
    BackendError::Advised { problem, advice: advice.to_owned() }
}

/// A failure of this instance, which a new one may not have.
fn failed(failure: &StageFailure) -> BackendError {
    BackendError::GuestFailed { reason: step_text(failure) }
}

fn target(failure: &StageFailure) -> &str {
    failure.target.as_deref().unwrap_or("the directory to mount")
}

fn step_text(failure: &StageFailure) -> String {
    match &failure.target {
        Some(target) => format!("{} of {target}: {}", failure.step, failure.message),
        None => format!("{}: {}", failure.step, failure.message),
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
