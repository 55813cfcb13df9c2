//! What the user tells the engine beyond the settings. It comes last, so that
//! it can take back what is done for safety.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, DeviceRequest, HostConfig, PortBinding, PortMap,
    ResourcesUlimits,
};

use super::blueprint::{Blueprint, Ulimits};
use crate::backend::BackendError;
use crate::backends::docker::api::{EngineInfo, Flavour};
use crate::settings::{ExtraArgs, Gpus, HostPath, Seccomp, SecurityOption};

/// Largest filter for system calls that is read.
const MAX_PROFILE: u64 = 4 << 20;

/// Puts the arguments into a container. Capabilities, security options, labels
/// and mounts are put together with ours elsewhere.
pub(super) fn apply(
    extra: &ExtraArgs,
    blueprint: &Blueprint<'_>,
    body: &mut ContainerCreateBody,
    host: &mut HostConfig,
) {
    body.hostname.clone_from(&extra.hostname);
    network(extra, body, host);
    memory_and_processors(extra, host);
    namespaces(extra, host);
    host.devices = list(extra.devices.iter().map(|device| DeviceMapping {
        path_on_host: Some(device.host.clone()),
        path_in_container: Some(device.container.clone()),
        cgroup_permissions: Some(device.permissions.clone()),
    }));
    host.device_requests = extra.gpus.as_ref().map(|gpus| vec![graphics(gpus)]);
    host.group_add = list(extra.group_add.iter().cloned());
    host.ulimits = ulimits(extra, blueprint);
    host.sysctls = map(&extra.sysctls);
    host.runtime.clone_from(&extra.runtime);
    host.shm_size = extra.shm_size;
    host.oom_score_adj = extra.oom_score_adj;
    host.privileged = extra.privileged.then_some(true);
    host.readonly_rootfs = extra.read_only.then_some(true);
    if blueprint.info.flavour == Flavour::Docker && shows_system_paths(extra) {
        host.masked_paths = Some(Vec::new());
        host.readonly_paths = Some(Vec::new());
    }
}

fn network(extra: &ExtraArgs, body: &mut ContainerCreateBody, host: &mut HostConfig) {
    if let Some(network) = &extra.network {
        host.network_mode = Some(network.clone());
    }
    host.extra_hosts = list(extra.add_hosts.iter().cloned());
    host.dns = list(extra.dns.iter().cloned());
    host.dns_options = list(extra.dns_options.iter().cloned());
    host.dns_search = list(extra.dns_search.iter().cloned());
    let mut bindings = PortMap::new();
    let mut ports = Vec::new();
    for mapping in &extra.publish {
        let port = format!("{}/{}", mapping.container_port, mapping.protocol.as_str());
        let binding = PortBinding {
            host_ip: mapping.host_ip.map(|ip| ip.to_string()),
            host_port: Some(mapping.host_port.clone()),
        };
        bindings.entry(port.clone()).or_default().get_or_insert_default().push(binding);
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    host.port_bindings = (!bindings.is_empty()).then_some(bindings);
    body.exposed_ports = list(ports);
}

fn memory_and_processors(extra: &ExtraArgs, host: &mut HostConfig) {
    host.memory_reservation = extra.memory_reservation;
    host.memory_swap = extra.memory_swap;
    host.memory_swappiness = extra.memory_swappiness;
    host.cpu_shares = extra.cpu_shares;
    host.cpuset_cpus.clone_from(&extra.cpuset_cpus);
    host.cpuset_mems.clone_from(&extra.cpuset_mems);
}

fn namespaces(extra: &ExtraArgs, host: &mut HostConfig) {
    host.pid_mode.clone_from(&extra.pid);
    host.uts_mode.clone_from(&extra.uts);
    host.ipc_mode.clone_from(&extra.ipc);
    if let Some(mode) = &extra.userns {
        host.userns_mode = Some(mode.clone());
    }
}

fn graphics(gpus: &Gpus) -> DeviceRequest {
    let (count, device_ids) = match gpus {
        Gpus::All => (Some(-1), None),
        Gpus::Count(count) => (Some(i64::from(*count)), None),
        Gpus::Devices(ids) => (None, Some(ids.clone())),
    };
    DeviceRequest {
        count,
        device_ids,
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..DeviceRequest::default()
    }
}

fn ulimits(extra: &ExtraArgs, blueprint: &Blueprint<'_>) -> Option<Vec<ResourcesUlimits>> {
    let asked = |own: &ResourcesUlimits| {
        extra.ulimits.iter().any(|asked| Some(&asked.name) == own.name.as_ref())
    };
    let own = blueprint.ulimits.map(Ulimits::to_api).unwrap_or_default();
    let asked_for = extra.ulimits.iter().map(|asked| ResourcesUlimits {
        name: Some(asked.name.clone()),
        soft: Some(asked.soft),
        hard: Some(asked.hard),
    });
    list(own.into_iter().filter(|own| !asked(own)).chain(asked_for))
}

/// Returns the security options: ours, unless the user takes them back, and the
/// user's.
pub(super) fn security(
    extra: &ExtraArgs,
    info: &EngineInfo,
    home: Option<&Path>,
) -> Result<Vec<String>, BackendError> {
    let podman = info.flavour == Flavour::Podman;
    let kept = |option: &SecurityOption| match option {
        SecurityOption::NoNewPrivileges(on) => Some(*on),
        _ => None,
    };
    let no_new_privileges = extra.security_opt.iter().rev().find_map(kept).unwrap_or(true);
    let mut options = Vec::new();
    if no_new_privileges {
        options.push("no-new-privileges".to_owned());
    } else if !podman {
        // An engine may be configured to set it everywhere; Podman has no such
        // default, and no word for `false`.
        options.push("no-new-privileges=false".to_owned());
    }
    for option in &extra.security_opt {
        match option {
            SecurityOption::SystemPathsUnconfined if podman => {
                options.push("unmask=ALL".to_owned());
            }
            SecurityOption::NoNewPrivileges(_) | SecurityOption::SystemPathsUnconfined => {}
            // Podman and older engines have no word for what they do anyway.
            SecurityOption::Seccomp(Seccomp::Builtin) if podman || is_older(info) => {}
            SecurityOption::Seccomp(Seccomp::File(path)) => {
                options.push(format!("seccomp={}", profile(path, home, info.flavour)?));
            }
            SecurityOption::Seccomp(Seccomp::Unconfined | Seccomp::Builtin)
            | SecurityOption::AppArmor(_)
            | SecurityOption::Label(_) => options.push(option.to_string()),
        }
    }
    Ok(options)
}

/// Returns whether an engine is older than the word `builtin`.
fn is_older(info: &EngineInfo) -> bool {
    let minor = info.api_version.strip_prefix("1.").and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor < 42)
}

fn shows_system_paths(extra: &ExtraArgs) -> bool {
    extra.security_opt.contains(&SecurityOption::SystemPathsUnconfined)
}

/// Returns a filter for system calls as the engine takes it: Docker wants its
/// text, Podman the name of its file.
fn profile(path: &HostPath, home: Option<&Path>, flavour: Flavour) -> Result<String, BackendError> {
    let unreadable = |reason: String| BackendError::Advised {
        problem: format!("the seccomp profile {} cannot be read: {reason}", path.as_str()),
        advice: "mend --security-opt in terminal.docker_extra_args".to_owned(),
    };
    let path = path.resolve(home).ok_or_else(|| unreadable("your home is not known".to_owned()))?;
    if flavour == Flavour::Podman {
        return Ok(path);
    }
    let read = || {
        let mut text = String::new();
        File::open(&path)?.take(MAX_PROFILE + 1).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    let text = read().map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > MAX_PROFILE {
        return Err(unreadable("it is too large".to_owned()));
    }
    Ok(text)
}

/// Returns a list, or nothing instead of an empty one.
fn list<T>(items: impl IntoIterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.into_iter().collect();
    (!items.is_empty()).then_some(items)
}

fn map(pairs: &BTreeMap<String, String>) -> Option<HashMap<String, String>> {
    let owned = |(name, value): (&String, &String)| (name.clone(), value.clone());
    (!pairs.is_empty()).then(|| pairs.iter().map(owned).collect())
}
