//! The settings that only containers have, and which are right each by itself but not
//! together.

use vestal_config::{
    AnyKey as _, ConfigError, Group, Protection, Resolved, Setting, SettingFinding, SettingKey,
    Settings, Severity, Variable, VariableScope,
};

use super::extra_args::ExtraArgs;
use super::image::{DockerBinary, ImageName};
use crate::settings::{keys, weakening};

vestal_config::choices! {
    /// How the guest in a container is reached.
    DockerTransport, "known transport", {
        /// By the socket when host and container share it, else by the engine.
        Auto = "auto",
        /// By a socket in a directory that host and container share.
        Socket = "socket",
        /// By a stream that the engine carries.
        Exec = "exec",
    }
}

vestal_config::keys! {
    /// Image that containers are made of.
    DOCKER_IMAGE: ImageName = "terminal.docker_image" {
        default: ImageName::declared("nikolaik/python-nodejs:python3.11-nodejs20"),
        limits: (),
        env: ["TERMINAL_DOCKER_IMAGE"],
        protection: Protection::Isolates,
    }

    /// More flags for containers, as words of `docker run`; what follows a flag may be in the same
    /// word after `=` or in the next. Of flags that hold one value the last counts. `--init` has no
    /// effect: the guest is the first process and reaps. Flags that weaken isolation are taken, and
    /// `vestal inspect` names them.
    DOCKER_EXTRA_ARGS: ExtraArgs = "terminal.docker_extra_args" {
        default: ExtraArgs::EMPTY,
        limits: (),
        env: ["TERMINAL_DOCKER_EXTRA_ARGS"],
        protection: Protection::IsolatesIn("containers"),
    }

    /// Whether commands in containers run as you instead of as the image's user.
    DOCKER_RUN_AS_HOST_USER: bool = "terminal.docker_run_as_host_user" {
        default: false,
        limits: (),
        env: ["TERMINAL_DOCKER_RUN_AS_HOST_USER"],
        protection: Protection::IsolatesIn("containers"),
    }

    /// Whether the image's own `ENTRYPOINT` is kept, as images with an init of their own need it.
    DOCKER_KEEP_ENTRYPOINT: bool = "terminal.docker_keep_entrypoint" {
        default: false,
        limits: (),
        env: ["TERMINAL_DOCKER_KEEP_ENTRYPOINT"],
    }

    /// How the guest in a container is reached: by a socket in a shared directory, by a stream of
    /// the engine, or by the first of them that works.
    DOCKER_TRANSPORT: DockerTransport = "terminal.docker_transport" {
        default: DockerTransport::Auto,
        limits: (),
        env: ["TERMINAL_DOCKER_TRANSPORT"],
    }

    /// Program of the container engine, which decides between Docker and Podman.
    DOCKER_BINARY: DockerBinary = "terminal.docker_binary" {
        default: DockerBinary::Found,
        limits: (),
        env: ["VESTAL_DOCKER_BINARY", "TERMINAL_DOCKER_BINARY"],
    }
}

/// The settings of this owner.
pub(crate) static GROUP: Group =
    Group { variables: ENGINE_VARIABLES, prefixes: &["docker_"], check, ..Group::of(KEYS) };

/// Variables that decide which container engine is used. They are read from the
/// environment only, as the engines' own programs do; in a `.env` they are
/// variables like any other.
pub const ENGINE_VARIABLES: &[Variable] = &[
    Variable {
        name: "DOCKER_HOST",
        doc: "Address of the container engine: `unix://`, `tcp://` or `ssh://`. Default: found by itself.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "DOCKER_CONTEXT",
        doc: "Context of Docker's configuration to take the address from when `DOCKER_HOST` is not set.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "DOCKER_CONFIG",
        doc: "Directory of Docker's configuration. Default: `~/.docker`.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "DOCKER_CERT_PATH",
        doc: "Directory of the certificates for an engine reached by TLS. Default: that of `DOCKER_CONFIG`.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "DOCKER_TLS_VERIFY",
        doc: "Whether a `tcp://` engine is reached by TLS: yes, when it is not empty.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "CONTAINER_HOST",
        doc: "Address of Podman's service, when `DOCKER_HOST` is not set.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "XDG_RUNTIME_DIR",
        doc: "Where the sockets of engines that run as you are.",
        scope: VariableScope::Environment,
    },
];

/// Finds what containers cannot be made with, and what makes them less safe.
fn check(settings: &Settings) -> Vec<SettingFinding> {
    let error =
        |message| SettingFinding { severity: Severity::Error, name: None, place: None, message };
    // Keys without a value were found before.
    let mut findings: Vec<SettingFinding> =
        contradictions(settings).unwrap_or_default().into_iter().map(error).collect();
    if let Ok(extra) = settings.get(&DOCKER_EXTRA_ARGS) {
        let weakens = extra.value.weakens();
        findings.extend(weakening(DOCKER_EXTRA_ARGS.name(), &extra.source, weakens));
    }
    findings
}

/// Where work is in a container.
const WORKSPACE: &str = "/workspace";

/// Returns what the settings of containers say that cannot be had at once,
/// each with the keys and where they are set. No container can be made as
/// long as there is any. An error is about a key that has no value at all.
pub(super) fn contradictions(settings: &Settings) -> Result<Vec<String>, ConfigError> {
    let mut found = Vec::new();
    mounts_at_one_place(settings, &mut found)?;
    networks(settings, &mut found)?;
    memory(settings, &mut found)?;
    users(settings, &mut found)?;
    Ok(found)
}

fn mounts_at_one_place(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let volumes = settings.get(&keys::DOCKER_VOLUMES)?;
    let extra = settings.get(&DOCKER_EXTRA_ARGS)?;
    let cwd = settings.get(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE)?;
    let of_volumes = named(&keys::DOCKER_VOLUMES, &volumes);
    let of_extra = named(&DOCKER_EXTRA_ARGS, &extra);
    let taken = |target: &str| volumes.value.iter().any(|volume| volume.target == target);
    for target in extra.value.targets().filter(|target| taken(target)) {
        found.push(format!(
            "{of_volumes} and {of_extra} both mount something at {target}; remove one of them"
        ));
    }
    if !cwd.value {
        return Ok(());
    }
    let of_cwd = named(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE, &cwd);
    let others =
        [(of_volumes, taken(WORKSPACE)), (of_extra, extra.value.targets().any(is_workspace))];
    for (other, _) in others.into_iter().filter(|(_, taken)| *taken) {
        found.push(format!(
            "{of_cwd} and {other} both mount something at {WORKSPACE}; remove one of them"
        ));
    }
    Ok(())
}

fn networks(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let network = settings.get(&keys::DOCKER_NETWORK)?;
    let extra = settings.get(&DOCKER_EXTRA_ARGS)?;
    let of_extra = named(&DOCKER_EXTRA_ARGS, &extra);
    let chosen = extra.value.network.as_deref();
    if let Some(name) = chosen.filter(|name| !network.value && *name != "none") {
        found.push(format!(
            "{} is false, but {of_extra} has --network {name}; remove one of them",
            named(&keys::DOCKER_NETWORK, &network)
        ));
    }
    if extra.value.publish.is_empty() {
        return Ok(());
    }
    let shared = |name: &&str| matches!(*name, "none" | "host") || name.starts_with("container:");
    if let Some(name) = chosen.filter(shared) {
        found.push(format!(
            "{of_extra} has --publish, which has no effect with --network {name}; remove it"
        ));
    } else if !network.value {
        found.push(format!(
            "{} is false, but {of_extra} has --publish; remove one of them",
            named(&keys::DOCKER_NETWORK, &network)
        ));
    }
    Ok(())
}

fn users(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let as_host = settings.get(&DOCKER_RUN_AS_HOST_USER)?;
    let extra = settings.get(&DOCKER_EXTRA_ARGS)?;
    if let Some(user) = extra.value.user.as_deref().filter(|_| as_host.value) {
        found.push(format!(
            "{} is true, but {} has --user {user}; remove one of them",
            named(&DOCKER_RUN_AS_HOST_USER, &as_host),
            named(&DOCKER_EXTRA_ARGS, &extra)
        ));
    }
    Ok(())
}

fn memory(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let memory = settings.get(&keys::CONTAINER_MEMORY)?;
    let extra = settings.get(&DOCKER_EXTRA_ARGS)?;
    let of_extra = named(&DOCKER_EXTRA_ARGS, &extra);
    let of_memory = named(&keys::CONTAINER_MEMORY, &memory);
    let limit = memory.value.bytes().and_then(|bytes| i64::try_from(bytes).ok());
    let swap = extra.value.memory_swap.filter(|swap| *swap != -1);
    match (limit, swap) {
        (None, Some(_)) => found.push(format!(
            "{of_extra} has --memory-swap, which needs a limit of memory, but {of_memory} is 0"
        )),
        (Some(limit), Some(swap)) if swap < limit => found.push(format!(
            "{of_extra} has a --memory-swap below {of_memory}, which it includes; raise it"
        )),
        _ => {}
    }
    if let (Some(limit), Some(reserved)) = (limit, extra.value.memory_reservation)
        && reserved > limit
    {
        found.push(format!("{of_extra} has a --memory-reservation above {of_memory}; lower it"));
    }
    Ok(())
}

fn is_workspace(target: &str) -> bool {
    target == WORKSPACE
}

/// Returns a key's name with where its value came from.
fn named<T: Setting>(key: &SettingKey<T>, resolved: &Resolved<T>) -> String {
    format!("{} ({})", key.name(), resolved.source)
}

#[cfg(test)]
#[path = "contradictions_tests.rs"]
mod tests;
