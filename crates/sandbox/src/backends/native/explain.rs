//! What the stage could not do, in words that help.
//!
//! The stage says at which step the kernel refused, and with which number. What
//! that means depends on the machine: which switch forbids it, which
//! filesystem cannot do it. All of those words are here.

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

/// What the stage says of a step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Failure {
    /// The step.
    pub(super) step: String,
    /// What it was done to.
    pub(super) target: Option<String>,
    /// The kernel's number.
    pub(super) errno: Option<i32>,
    /// The kernel's words, or the stage's.
    pub(super) message: String,
}

/// What of the machine may be why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ground {
    /// Switches of the kernel, by name, with their values.
    pub(super) switches: Vec<(&'static str, String)>,
    /// Where the layers are, or would be.
    pub(super) layers: PathBuf,
    /// The kind of filesystem that is on, where that matters.
    pub(super) filesystem: Option<&'static str>,
    /// Whether this is root.
    pub(super) is_root: bool,
}

/// Whether ordinary users may make user namespaces, on some distributions.
const CLONE: &str = "kernel.unprivileged_userns_clone";
/// Whether `AppArmor` takes the rights away that come with one.
const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";
/// How many there may be.
const MOST: &str = "user.max_user_namespaces";

/// The switches that forbid sandboxes, and the value at which they do.
const SWITCHES: [(&str, &str); 3] = [(CLONE, "0"), (APPARMOR, "1"), (MOST, "0")];

impl Ground {
    /// Looks at this machine, for sandboxes whose layers are in a directory.
    pub(super) fn look(layers: &Path) -> Self {
        let read = |name: &'static str| {
            let path = Path::new("/proc/sys").join(name.replace('.', "/"));
            let value = std::fs::read_to_string(path).ok()?;
            Some((name, value.trim().to_owned()))
        };
        let existing = layers.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
        let filesystem = rustix::fs::statfs(existing).ok();
        Self {
            switches: SWITCHES.into_iter().filter_map(|(name, _)| read(name)).collect(),
            layers: layers.to_owned(),
            filesystem: filesystem.and_then(|found| unfit(found.f_type)),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Returns the switch that forbids sandboxes to an ordinary user; of root's
    /// the number of namespaces alone.
    fn forbidding(&self) -> Option<(&'static str, &str)> {
        SWITCHES.into_iter().filter(|(name, _)| !self.is_root || *name == MOST).find_map(
            |(name, forbids)| {
                let found = self.switches.iter().find(|(known, _)| *known == name)?;
                (found.1 == forbids).then_some((name, &*found.1))
            },
        )
    }
}

/// Returns the name of a filesystem that cannot hold layers, by the magic
/// number of `statfs`.
fn unfit(magic: impl TryInto<i64>) -> Option<&'static str> {
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

/// Returns what a failure of the stage means on this machine.
pub(super) fn explain(failure: &Failure, ground: &Ground) -> BackendError {
    let Failure { step, errno, .. } = failure;
    let errno = errno.unwrap_or(0);
    let denied = matches!(errno, EPERM | EACCES);
    match &**step {
        "user-namespace" | "namespaces" => no_namespaces(failure, ground),
        "source" if errno == ENOENT => advised(
            format!("{} does not exist", target(failure)),
            "make it, or mend the setting that names it",
        ),
        _ if matches!(errno, ENOSPC | EDQUOT) => advised(
            format!("there is no space left: {}", told(failure)),
            &format!("free some on the filesystem of {}", ground.layers.display()),
        ),
        "map-users" => map_refused(failure, ground),
        "mount-layers" | "mount-root" if errno == EBUSY => advised(
            format!(
                "the layers in {} are in use by another sandbox: two homes, or a copy of one, \
                 share the directory",
                ground.layers.display()
            ),
            "stop the other sandbox, or give each home a terminal.sandbox_dir of its own",
        ),
        "mount-layers" | "mount-root" if ground.filesystem.is_some() => {
            let kind = ground.filesystem.unwrap_or_default();
            unfit_for_layers(kind, failure, ground)
        }
        step if step.starts_with("mount-") || step == "private-mounts" || step == "pivot" => {
            if denied {
                mounts_denied(failure, ground)
            } else if matches!(errno, EINVAL | ENOSYS | EOPNOTSUPP) {
                cannot_mount(failure, ground)
            } else {
                failed(failure)
            }
        }
        _ => failed(failure),
    }
}

fn no_namespaces(failure: &Failure, ground: &Ground) -> BackendError {
    if let Some((name, value)) = ground.forbidding() {
        return switched_off(name, value, "make user namespaces");
    }
    match failure.errno {
        Some(ENOSPC | EUSERS) => advised(
            format!(
                "there are as many namespaces as this machine allows{}",
                ground
                    .switches
                    .iter()
                    .find(|(name, _)| *name == MOST)
                    .map(|(name, value)| format!(" ({name} is {value})"))
                    .unwrap_or_default()
            ),
            &format!("stop sandboxes that are not needed, or: sudo sysctl -w {MOST}=65536"),
        ),
        Some(EINVAL | ENOSYS) => advised(
            format!("this kernel has no namespaces for sandboxes: {}", told(failure)),
            "use a kernel with CONFIG_USER_NS, or the backend docker or local",
        ),
        _ => advised(
            format!("this process may make no namespaces: {}", told(failure)),
            "a container's seccomp filter or a service's RestrictNamespaces forbids it: allow it \
             there, or use the backend docker or local",
        ),
    }
}

fn map_refused(failure: &Failure, ground: &Ground) -> BackendError {
    if let Some((name, value)) = ground.forbidding() {
        return switched_off(name, value, "use user namespaces");
    }
    advised(
        format!("the users of the sandbox cannot be mapped: {}", told(failure)),
        "see whether /etc/subuid and /etc/subgid give you at least 65536 numbers, and newuidmap \
         and newgidmap may use them",
    )
}

fn mounts_denied(failure: &Failure, ground: &Ground) -> BackendError {
    if let Some((name, value)) = ground.forbidding() {
        return switched_off(name, value, "mount anything in a user namespace");
    }
    if failure.step == "mount-proc" {
        return advised(
            format!(
                "a /proc of its own is denied to the sandbox: the one here is covered in part, as \
                 it is in containers ({})",
                told(failure)
            ),
            "run the outer container with an uncovered /proc (docker run --security-opt \
             systempaths=unconfined), or use the backend local",
        );
    }
    advised(
        format!("mounts are denied to the sandbox: {}", told(failure)),
        "AppArmor, SELinux or the container around this process forbids it: allow it there, or \
         use the backend docker or local",
    )
}

fn cannot_mount(failure: &Failure, ground: &Ground) -> BackendError {
    let advice = match &*failure.step {
        "mount-layers" | "mount-root" => format!(
            "layers need Linux 5.19 or newer and a filesystem like ext4, XFS or Btrfs below {}; \
             set terminal.sandbox_dir to a directory on one, or use the backend docker",
            ground.layers.display()
        ),
        "mount-bind" if ground.is_root => "directories of the host need Linux 5.12 or newer and a \
                                           filesystem that can show other owners (idmapped \
                                           mounts), like ext4, XFS or Btrfs; use another \
                                           directory, or the backend docker"
            .to_owned(),
        _ => {
            "native sandboxes need Linux 5.12 or newer; use the backend docker or local".to_owned()
        }
    };
    advised(format!("this kernel, or the filesystem, cannot do it: {}", told(failure)), &advice)
}

fn unfit_for_layers(kind: &str, failure: &Failure, ground: &Ground) -> BackendError {
    let what = match kind {
        "overlay" => "is itself on an overlay, as in a container, and layers cannot be laid on \
                      layers"
            .to_owned(),
        kind => format!("is on {kind}, which cannot hold layers"),
    };
    advised(
        format!("{} {what} ({})", ground.layers.display(), told(failure)),
        "set terminal.sandbox_dir to a directory on a local filesystem like ext4, XFS or Btrfs",
    )
}

fn switched_off(name: &str, value: &str, what: &str) -> BackendError {
    let (on, whom) = match name {
        CLONE => ("1", "this machine does not let ordinary users"),
        APPARMOR => ("0", "AppArmor does not let ordinary users"),
        _ => ("15000", "this machine lets nobody"),
    };
    advised(
        format!("{whom} {what}: {name} is {value}"),
        &format!(
            "sudo sysctl -w {name}={on} (in a file of /etc/sysctl.d it stays so), or use the \
             backend docker"
        ),
    )
}

fn advised(problem: String, advice: &str) -> BackendError {
    BackendError::Advised { problem, advice: advice.to_owned() }
}

/// A failure that is the instance's own, so that another one may fare better.
fn failed(failure: &Failure) -> BackendError {
    BackendError::GuestFailed { reason: told(failure) }
}

fn target(failure: &Failure) -> &str {
    failure.target.as_deref().unwrap_or("what is to be mounted")
}

fn told(failure: &Failure) -> String {
    match &failure.target {
        Some(target) => format!("{} of {target}: {}", failure.step, failure.message),
        None => format!("{}: {}", failure.step, failure.message),
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
