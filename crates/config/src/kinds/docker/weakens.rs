//! What makes a container less of a wall.

use super::extra_args::ExtraArgs;
use super::mounts::MountKind;
use super::paths::{self, HostPath};
use super::security::{Seccomp, SecurityOption};

/// Names that sockets of engines have, wherever they are.
const SOCKETS: [&str; 3] = ["docker.sock", "podman.sock", "containerd.sock"];

/// Directories that hold such a socket.
const SOCKET_DIRS: [&str; 5] =
    ["/run", "/run/user", "/run/docker", "/run/podman", "/run/containerd"];

/// Says what a path of the host gives away when it is mounted, if that is the
/// host itself or the means to control it.
pub(super) fn mounted(path: &HostPath) -> Option<String> {
    let resolved = paths::lexical(path.as_str());
    if resolved == "/" {
        return Some("the whole filesystem of the host".to_owned());
    }
    let name = resolved.rsplit('/').next().unwrap_or_default();
    if SOCKETS.contains(&name) {
        return Some("the socket of a container engine".to_owned());
    }
    // `/var/run` is a link to `/run` everywhere.
    let below_run =
        resolved.strip_prefix("/var").filter(|rest| *rest == "/run" || rest.starts_with("/run/"));
    let place = below_run.unwrap_or(&resolved);
    let users = place.strip_prefix("/run/user/").is_some_and(|rest| {
        let rest = rest.strip_suffix("/podman").unwrap_or(rest);
        rest.bytes().all(|b| b.is_ascii_digit())
    });
    (users || SOCKET_DIRS.contains(&place))
        .then(|| "a directory that holds the sockets of container engines".to_owned())
}

impl ExtraArgs {
    /// Names what of it weakens isolation, each as the flag that does.
    pub fn weakens(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.privileged {
            found.push("--privileged".to_owned());
        }
        found.extend(self.cap_add.iter().map(|name| format!("--cap-add {name}")));
        found.extend(
            self.security_opt
                .iter()
                .filter(|option| loosens(option))
                .map(|option| format!("--security-opt {option}")),
        );
        let spaces = [
            ("pid", &self.pid),
            ("ipc", &self.ipc),
            ("uts", &self.uts),
            ("userns", &self.userns),
            ("network", &self.network),
        ];
        for (flag, value) in spaces {
            let shared = |value: &&String| *value == "host" || value.starts_with("container:");
            found.extend(value.as_ref().filter(shared).map(|value| format!("--{flag} {value}")));
        }
        found.extend(self.devices.iter().map(|device| format!("--device {device}")));
        found.extend(self.gpus.as_ref().map(|gpus| format!("--gpus {gpus}")));
        for mount in &self.mounts {
            if let MountKind::Bind { source, .. } = &mount.kind
                && let Some(what) = mounted(source)
            {
                found.push(format!("--mount at {} mounts {what}", mount.target));
            }
        }
        found
    }
}

fn loosens(option: &SecurityOption) -> bool {
    match option {
        SecurityOption::NoNewPrivileges(on) => !on,
        SecurityOption::Seccomp(profile) => *profile == Seccomp::Unconfined,
        SecurityOption::AppArmor(profile) => profile == "unconfined",
        SecurityOption::Label(label) => label == "disable",
        SecurityOption::SystemPathsUnconfined => true,
    }
}
