//! The settings that only containers have.

use vestal_config::{
    AnyKey as _, Finding, Group, Protection, Settings, Severity, Variable, VariableScope,
};

use super::contradictions::contradictions;
use super::extra_args::ExtraArgs;
use super::image::{DockerBinary, ImageName};
use crate::settings::weakening;

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
fn check(settings: &Settings) -> Vec<Finding> {
    let error = |message| Finding { severity: Severity::Error, name: None, place: None, message };
    // Keys without a value were found before.
    let mut findings: Vec<Finding> =
        contradictions(settings).unwrap_or_default().into_iter().map(error).collect();
    if let Ok(extra) = settings.get(&DOCKER_EXTRA_ARGS) {
        let weakens = extra.value.weakens();
        findings.extend(weakening(DOCKER_EXTRA_ARGS.name(), &extra.source, weakens));
    }
    findings
}
