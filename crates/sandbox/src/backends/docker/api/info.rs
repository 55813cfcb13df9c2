//! What an engine says of itself.

use bollard::models::{SystemInfo, SystemVersion};

use super::error::one_line;

/// Whose engine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::docker) enum Flavour {
    /// Docker, or what behaves like it.
    Docker,
    /// Podman.
    Podman,
}

impl Flavour {
    /// Returns the name people know it by.
    pub(in crate::backends::docker) fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        }
    }

    /// Returns whose engine says this of its parts.
    pub(super) fn of(version: &SystemVersion) -> Self {
        let mut components = version.components.iter().flatten();
        if components.any(|component| component.name.contains("Podman")) {
            Self::Podman
        } else {
            Self::Docker
        }
    }
}

/// What an engine says of itself. What it does not say is empty, or no.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the engine answers so many questions")]
pub(in crate::backends::docker) struct EngineInfo {
    /// Tells one engine from another, as far as it can be told.
    pub(in crate::backends::docker) id: String,
    /// Whose it is.
    pub(in crate::backends::docker) flavour: Flavour,
    /// Its version.
    pub(in crate::backends::docker) version: String,
    /// Version of the API in use.
    pub(in crate::backends::docker) api_version: String,
    /// Whether it runs without root's rights.
    pub(in crate::backends::docker) rootless: bool,
    /// Whether root in a container is somebody else outside.
    pub(in crate::backends::docker) userns_remap: bool,
    /// How layers are stored.
    pub(in crate::backends::docker) storage_driver: String,
    /// The filesystem below.
    pub(in crate::backends::docker) backing_filesystem: String,
    /// Version of the cgroups.
    pub(in crate::backends::docker) cgroup_version: String,
    /// Who manages them.
    pub(in crate::backends::docker) cgroup_driver: String,
    /// Whether memory can be limited.
    pub(in crate::backends::docker) can_limit_memory: bool,
    /// Whether processor time can be limited.
    pub(in crate::backends::docker) can_limit_cpu: bool,
    /// Whether the number of processes can be limited.
    pub(in crate::backends::docker) can_limit_pids: bool,
    /// Whether a container's own filesystem can be limited. On XFS this still
    /// depends on a mount option that the engine does not tell of.
    pub(in crate::backends::docker) can_limit_disk: bool,
    /// Whether containers live on while the engine restarts.
    pub(in crate::backends::docker) live_restore: bool,
    /// Whether system calls are filtered.
    pub(in crate::backends::docker) seccomp: bool,
    /// The architecture of its machine, in the engine's word for it.
    pub(in crate::backends::docker) architecture: String,
    /// The system it runs on.
    pub(in crate::backends::docker) operating_system: String,
    /// What runs containers.
    pub(in crate::backends::docker) default_runtime: String,
}

impl EngineInfo {
    /// Returns the same of an engine that is known to run without root's
    /// rights, which Podman does not say in so many words.
    pub(super) fn without_root(mut self) -> Self {
        self.rootless = true;
        if self.flavour == Flavour::Podman && self.cgroup_version == "1" {
            self.can_limit_memory = false;
            self.can_limit_cpu = false;
            self.can_limit_pids = false;
        }
        self
    }

    /// Returns whether root of containers is somebody who has no rights to what
    /// this program's user has made, unless a container goes without that.
    pub(in crate::backends::docker) fn maps_root_away(&self) -> bool {
        self.flavour == Flavour::Docker && self.userns_remap && !self.rootless
    }

    /// Reads what the engine said, which need not be complete.
    pub(super) fn new(info: SystemInfo, flavour: Flavour, api_version: String) -> Self {
        let text = |value: Option<String>| value.as_deref().map(one_line).unwrap_or_default();
        let options = info.security_options.unwrap_or_default();
        let status = info.driver_status.unwrap_or_default();
        let storage_driver = text(info.driver);
        let backing_filesystem = backing_filesystem(&status);
        let rootless = has_option(&options, "rootless");
        let cgroup_version = info.cgroup_version.map(|v| v.to_string()).unwrap_or_default();
        let cgroup_driver = info.cgroup_driver.map(|d| d.to_string()).unwrap_or_default();
        // Without a manager nothing is limited, whatever the kernel could do;
        // and Podman without root's rights drops limits on the old cgroups
        // without a word.
        let limits = cgroup_driver != "none"
            && !(flavour == Flavour::Podman && rootless && cgroup_version == "1");
        let root = text(info.docker_root_dir);
        let name = text(info.name);
        Self {
            id: match flavour {
                Flavour::Docker => text(info.id),
                // Podman makes up a new id for every answer.
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
    // Long ago an option was its bare name.
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
        // These use the project quotas of the filesystem below.
        "overlay" | "overlay2" | "vfs" => backing == "xfs",
        _ => false,
    }
}

#[cfg(test)]
#[path = "info_tests.rs"]
mod tests;
