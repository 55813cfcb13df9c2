//! The description of an engine.

use bollard::models::{SystemInfo, SystemVersion};

use super::error::one_line;

/// The kind of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::docker) enum Flavour {
    /// Docker, or a compatible engine.
    Docker,
    /// Podman.
    Podman,
}

impl Flavour {
    /// Returns the name of the engine.
    pub(in crate::backends::docker) fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        }
    }

    /// Returns the kind of an engine with these components.
    pub(super) fn of(version: &SystemVersion) -> Self {
        let mut components = version.components.iter().flatten();
        if components.any(|component| component.name.contains("Podman")) {
            Self::Podman
        } else {
            Self::Docker
        }
    }
}

/// The description of an engine. Values that it does not report are empty or false.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the engine reports that many flags")]
pub(in crate::backends::docker) struct EngineInfo {
    /// Identifies the engine.
    pub(in crate::backends::docker) id: String,
    pub(in crate::backends::docker) flavour: Flavour,
    pub(in crate::backends::docker) version: String,
    /// Version of the API in use.
    pub(in crate::backends::docker) api_version: String,
    /// Whether it runs without root privileges.
    pub(in crate::backends::docker) rootless: bool,
    /// Whether root in a container is another user on the host.
    pub(in crate::backends::docker) userns_remap: bool,
    pub(in crate::backends::docker) storage_driver: String,
    /// The filesystem of the storage driver.
    pub(in crate::backends::docker) backing_filesystem: String,
    pub(in crate::backends::docker) cgroup_version: String,
    pub(in crate::backends::docker) cgroup_driver: String,
    /// Whether memory can be limited.
    pub(in crate::backends::docker) can_limit_memory: bool,
    /// Whether processor time can be limited.
    pub(in crate::backends::docker) can_limit_cpu: bool,
    /// Whether the number of processes can be limited.
    pub(in crate::backends::docker) can_limit_pids: bool,
    /// Whether a container's filesystem can be limited. On XFS this also depends on a
    /// mount option that the engine does not report.
    pub(in crate::backends::docker) can_limit_disk: bool,
    /// Whether containers survive a restart of the engine.
    pub(in crate::backends::docker) live_restore: bool,
    /// Whether system calls are filtered.
    pub(in crate::backends::docker) seccomp: bool,
    /// The architecture of its machine, by the engine's name.
    pub(in crate::backends::docker) architecture: String,
    pub(in crate::backends::docker) operating_system: String,
    pub(in crate::backends::docker) default_runtime: String,
}

impl EngineInfo {
    /// Returns the description of an engine that is known to be rootless, which
    /// Podman does not always report.
    pub(super) fn into_rootless(mut self) -> Self {
        self.rootless = true;
        if self.flavour == Flavour::Podman && self.cgroup_version == "1" {
            self.can_limit_memory = false;
            self.can_limit_cpu = false;
            self.can_limit_pids = false;
        }
        self
    }

    /// Returns whether root in containers is an unprivileged user of the host, who may
    /// not access the files of this user. A container can opt out.
    pub(in crate::backends::docker) fn remaps_root(&self) -> bool {
        self.flavour == Flavour::Docker && self.userns_remap && !self.rootless
    }

    /// Converts the engine's answer, which may be incomplete.
    pub(super) fn new(info: SystemInfo, flavour: Flavour, api_version: String) -> Self {
        let text = |value: Option<String>| value.as_deref().map(one_line).unwrap_or_default();
        let options = info.security_options.unwrap_or_default();
        let status = info.driver_status.unwrap_or_default();
        let storage_driver = text(info.driver);
        let backing_filesystem = backing_filesystem(&status);
        let rootless = has_option(&options, "rootless");
        let cgroup_version = info.cgroup_version.map(|v| v.to_string()).unwrap_or_default();
        let cgroup_driver = info.cgroup_driver.map(|d| d.to_string()).unwrap_or_default();
        // Without a cgroup driver nothing is limited. Rootless Podman silently drops
        // limits on cgroups v1.
        let limits = cgroup_driver != "none"
            && !(flavour == Flavour::Podman && rootless && cgroup_version == "1");
        let root = text(info.docker_root_dir);
        let name = text(info.name);
        Self {
            id: match flavour {
                Flavour::Docker => text(info.id),
                // Podman returns a new id with every answer.
                Flavour::Podman => format!("podman:{name}:{root}"),
            },
            flavour,
            version: text(info.server_version),
            api_version,
            rootless,
            userns_remap: has_option(&options, "userns"),
            can_limit_disk: can_limit_disk(&storage_driver, &backing_filesystem),
            storage_driver,
            backing_filesystem,
            cgroup_version,
            cgroup_driver,
            can_limit_memory: limits && info.memory_limit.unwrap_or_default(),
            can_limit_cpu: limits
                && info.cpu_cfs_period.unwrap_or_default()
                && info.cpu_cfs_quota.unwrap_or_default(),
            can_limit_pids: limits && info.pids_limit.unwrap_or_default(),
            live_restore: info.live_restore_enabled.unwrap_or_default(),
            seccomp: has_seccomp(&options),
            architecture: text(info.architecture),
            operating_system: text(info.operating_system),
            default_runtime: text(info.default_runtime),
        }
    }
}

/// Returns the fields of a security option such as `name=seccomp,profile=default`.
fn fields(option: &str) -> impl Iterator<Item = (&str, &str)> {
    // Old engines report the bare name.
    option.split(',').map(|field| field.split_once('=').unwrap_or(("name", field)))
}

fn has_option(options: &[String], name: &str) -> bool {
    options.iter().any(|option| fields(option).any(|field| field == ("name", name)))
}

fn has_seccomp(options: &[String]) -> bool {
    let is_on = |option: &String| {
        fields(option).any(|field| field == ("name", "seccomp"))
            && !fields(option).any(|field| field == ("profile", "unconfined"))
    };
    options.iter().any(is_on)
}

fn backing_filesystem(status: &[Vec<String>]) -> String {
    let value = status.iter().find_map(|pair| match pair.as_slice() {
        [name, value, ..] if name.eq_ignore_ascii_case("Backing Filesystem") => Some(value),
        _ => None,
    });
    value.map(|value| one_line(value)).unwrap_or_default()
}

fn can_limit_disk(driver: &str, backing: &str) -> bool {
    match driver {
        "btrfs" | "zfs" | "devicemapper" | "windowsfilter" => true,
        // These drivers use the project quotas of the filesystem.
        "overlay" | "overlay2" | "vfs" => backing == "xfs",
        _ => false,
    }
}

#[cfg(test)]
#[path = "info_tests.rs"]
mod tests;
