//! The first process of a container: what it is and whom it runs as.

use bollard::models::{ContainerCreateBody, HealthConfig};

use super::blueprint::Blueprint;
use super::capabilities::{Capabilities, For};
use crate::backends::docker::api::Flavour;
use crate::backends::layout::{GUEST_FILE, SETTINGS_FILE};

/// Entrypoints that must be the first process: s6-overlay's.
const INITS: [&str; 2] = ["/init", "/package/admin/s6-overlay/command/init"];

/// Who is the first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// The guest.
    Guest,
    /// The image's own entrypoint, which starts the guest.
    Entrypoint,
}

impl First {
    pub(super) fn of(blueprint: &Blueprint<'_>) -> Self {
        let entrypoint = &blueprint.image.entrypoint;
        let init = entrypoint.first().is_some_and(|program| INITS.contains(&program.as_str()));
        if init || (blueprint.settings.keep_entrypoint && !entrypoint.is_empty()) {
            Self::Entrypoint
        } else {
            Self::Guest
        }
    }
}

/// The user that every system has.
const ROOT: &str = "0:0";

/// Whom the first process and jobs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Users {
    /// The first process's, as the engine takes it.
    pub(super) first: String,
    /// The jobs', where it is another.
    pub(super) jobs: Option<String>,
    /// The mode of user namespaces that it takes.
    pub(super) userns: Option<&'static str>,
    /// Whether that mode gives up a wall that the engine has.
    pub(super) gives_up_userns: bool,
}

impl Users {
    pub(super) fn of(blueprint: &Blueprint<'_>, first: First) -> Self {
        let extra = &blueprint.settings.extra_args;
        let may_switch = extra.privileged || Capabilities::new(For::Root, extra).may_switch_user();
        let plain =
            |first: String| Self { first, jobs: None, userns: None, gives_up_userns: false };
        if let Some(host) = blueprint.settings.host_user {
            let named = format!("{}:{}", host.uid, host.gid);
            let info = blueprint.info;
            return match (info.flavour, info.rootless) {
                (Flavour::Podman, true) => Self { userns: Some("keep-id"), ..plain(named) },
                // The root of a rootless engine's containers is the user who
                // runs the engine.
                (Flavour::Docker, true) => plain(ROOT.to_owned()),
                (_, false) if info.userns_remap => {
                    Self { userns: Some("host"), gives_up_userns: true, ..plain(named) }
                }
                (_, false) => plain(named),
            };
        }
        let asked = extra.user.as_ref().or(blueprint.image.user.as_ref());
        let Some(user) = asked.filter(|_| !blueprint.user.is_root()) else {
            return plain(ROOT.to_owned());
        };
        if first == First::Entrypoint || !may_switch {
            return plain(user.clone());
        }
        Self { jobs: Some(user.clone()), ..plain(ROOT.to_owned()) }
    }
}

impl Users {
    /// Returns whether the first process is root.
    pub(super) fn start_as_root(&self) -> bool {
        self.first == ROOT
    }

    /// Returns the capabilities that the container has.
    pub(super) fn capabilities(&self, blueprint: &Blueprint<'_>) -> Capabilities {
        let settings = blueprint.settings;
        let whom = match (self.start_as_root(), settings.host_user) {
            (false, _) => For::Others,
            (true, Some(_)) => For::RootAlone,
            (true, None) => For::Root,
        };
        Capabilities::new(whom, &settings.extra_args)
    }
}

/// Puts the first process into a container.
pub(super) fn apply(
    blueprint: &Blueprint<'_>,
    first: First,
    users: &Users,
    body: &mut ContainerCreateBody,
) {
    let guest = || GUEST_FILE.to_owned();
    // What it has to say of its start is in the container's log.
    let serve = ["serve", "--settings", SETTINGS_FILE, "--ready-fd", "1"].map(str::to_owned);
    match first {
        First::Guest => {
            body.entrypoint = Some(vec![guest()]);
            body.cmd = Some(serve.to_vec());
            // Both are about the program that the image would have started.
            body.healthcheck = Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            });
            body.stop_signal = Some("SIGTERM".to_owned());
        }
        First::Entrypoint => {
            if blueprint.image.is_bare {
                body.entrypoint = Some(blueprint.image.entrypoint.clone());
                body.stop_signal.clone_from(&blueprint.image.stop_signal);
            }
            body.cmd = Some(std::iter::once(guest()).chain(serve).collect());
        }
    }
    if blueprint.image.is_bare {
        body.env = Some(blueprint.image.env.clone());
    }
    body.user = Some(users.first.clone());
    body.tty = Some(false);
    body.open_stdin = Some(false);
    body.attach_stdin = Some(false);
    body.attach_stdout = Some(false);
    body.attach_stderr = Some(false);
    body.stop_timeout = Some(stop_timeout(blueprint));
}

/// Returns the seconds after which the engine kills the container that it was
/// told to stop: the jobs have their time, and the guest has some more.
fn stop_timeout(blueprint: &Blueprint<'_>) -> i64 {
    const GUEST: u64 = 5;
    let seconds = blueprint.settings.stop_grace.as_secs().saturating_add(GUEST);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
