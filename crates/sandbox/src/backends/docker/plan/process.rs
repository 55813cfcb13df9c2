//! The first process of a container: its program, its user, its capabilities.

use crate::settings::ExtraArgs;
use bollard::models::{ContainerCreateBody, HealthConfig};

use super::blueprint::Blueprint;
use crate::backends::docker::api::Flavour;
use crate::backends::own_system::{GUEST_FILE, SETTINGS_FILE};

/// Entrypoints that must be the first process: those of s6-overlay.
const INITS: [&str; 2] = ["/init", "/package/admin/s6-overlay/command/init"];

/// The first process of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerInit {
    /// The guest.
    Guest,
    /// The image's entrypoint, which starts the guest.
    Entrypoint,
}

impl ContainerInit {
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

const ROOT: &str = "0:0";

/// The users of the first process and of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerUsers {
    /// The user of the first process, in the engine's form.
    pub(super) first: String,
    /// The user of jobs, if it differs.
    pub(super) jobs: Option<String>,
    /// The mode of user namespaces to request.
    pub(super) userns: Option<&'static str>,
    /// Whether that mode turns off the engine's user namespaces.
    pub(super) gives_up_userns: bool,
}

impl ContainerUsers {
    pub(super) fn of(blueprint: &Blueprint<'_>, first: ContainerInit) -> Self {
        let extra = &blueprint.settings.extra_args;
        let may_switch =
            extra.privileged || Capabilities::new(Grantee::Root, extra).may_switch_user();
        let plain =
            |first: String| Self { first, jobs: None, userns: None, gives_up_userns: false };
        if let Some(host) = blueprint.settings.host_user {
            let named = format!("{}:{}", host.uid, host.gid);
            let info = blueprint.info;
            return match (info.flavour, info.rootless) {
                (Flavour::Podman, true) => Self { userns: Some("keep-id"), ..plain(named) },
                // Root in a container of a rootless engine is the user who runs the
                // engine.
                (Flavour::Docker, true) => plain(ROOT.to_owned()),
                (_, false) if info.userns_remap => {
                    Self { userns: Some("host"), gives_up_userns: true, ..plain(named) }
                }
                (_, false) => plain(named),
            };
        }
        let requested = extra.user.as_ref().or(blueprint.image.user.as_ref());
        let Some(user) = requested.filter(|_| !blueprint.user.is_root()) else {
            return plain(ROOT.to_owned());
        };
        if first == ContainerInit::Entrypoint || !may_switch {
            return plain(user.clone());
        }
        Self { jobs: Some(user.clone()), ..plain(ROOT.to_owned()) }
    }
}

impl ContainerUsers {
    /// Returns whether the first process is root.
    pub(super) fn start_as_root(&self) -> bool {
        self.first == ROOT
    }

    pub(super) fn capabilities(&self, blueprint: &Blueprint<'_>) -> Capabilities {
        let settings = blueprint.settings;
        let grantee = match (self.start_as_root(), settings.host_user) {
            (false, _) => Grantee::Others,
            (true, Some(_)) => Grantee::RootAlone,
            (true, None) => Grantee::Root,
        };
        Capabilities::new(grantee, &settings.extra_args)
    }
}

/// Sets the first process of a container.
pub(super) fn apply(
    blueprint: &Blueprint<'_>,
    first: ContainerInit,
    users: &ContainerUsers,
    body: &mut ContainerCreateBody,
) {
    let guest = || GUEST_FILE.to_owned();
    // The guest reports its start on standard output, which is the container's
    // log.
    let serve = ["serve", "--settings", SETTINGS_FILE, "--ready-fd", "1"].map(str::to_owned);
    match first {
        ContainerInit::Guest => {
            body.entrypoint = Some(vec![guest()]);
            body.cmd = Some(serve.to_vec());
            // The image's health check and stop signal are for its own program.
            body.healthcheck = Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            });
            body.stop_signal = Some("SIGTERM".to_owned());
        }
        ContainerInit::Entrypoint => {
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

/// Returns the seconds between the engine's stop signal and its kill: the grace of
/// jobs, and some more for the guest.
fn stop_timeout(blueprint: &Blueprint<'_>) -> i64 {
    const GUEST: u64 = 5;
    let seconds = blueprint.settings.stop_grace.as_secs().saturating_add(GUEST);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

const ALL: &str = "ALL";

/// Capabilities that file operations and package managers need.
const ALWAYS: [&str; 3] = ["DAC_OVERRIDE", "CHOWN", "FOWNER"];

/// Capabilities needed to run jobs as another user.
const SWITCH: [&str; 2] = ["SETUID", "SETGID"];

/// The user that gets the capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grantee {
    /// Root, which may switch to other users.
    Root,
    /// Root, which stays root.
    RootAlone,
    /// Another user. Docker grants none; Podman would grant all that are added, and
    /// with them access to other users' files.
    Others,
}

/// The capabilities of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Capabilities {
    pub(super) drop: Vec<String>,
    /// Added after the drop.
    pub(super) add: Vec<String>,
}

impl Capabilities {
    /// Returns the default capabilities with the user's additions and removals.
    ///
    /// No name is in both lists: engines differ in which of the two wins, and Podman
    /// refuses `ALL` in both.
    pub(super) fn new(grantee: Grantee, extra: &ExtraArgs) -> Self {
        let dropped = |name: &str| extra.cap_drop.iter().any(|drop| drop == name || drop == ALL);
        let (always, switch): (&[&str], &[&str]) = match grantee {
            Grantee::Root => (&ALWAYS, &SWITCH),
            Grantee::RootAlone => (&ALWAYS, &[]),
            Grantee::Others => (&[], &[]),
        };
        let own = always.iter().chain(switch).copied();
        let mut add: Vec<String> = own.filter(|name| !dropped(name)).map(str::to_owned).collect();
        for name in &extra.cap_add {
            if !add.contains(name) {
                add.push(name.clone());
            }
        }
        if add.iter().any(|name| name == ALL) {
            let drop = extra.cap_drop.iter().filter(|name| *name != ALL).cloned().collect();
            return Self { drop, add: vec![ALL.to_owned()] };
        }
        Self { drop: vec![ALL.to_owned()], add }
    }

    /// Returns whether root may switch to another user.
    pub(super) fn may_switch_user(&self) -> bool {
        SWITCH.iter().all(|name| {
            let has = |list: &[String], wanted: &str| list.iter().any(|own| own == wanted);
            !has(&self.drop, name) && (has(&self.add, name) || has(&self.add, ALL))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities(add: &[&str], drop: &[&str]) -> Capabilities {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut extra = ExtraArgs::EMPTY;
        extra.cap_add = owned(add);
        extra.cap_drop = owned(drop);
        Capabilities::new(Grantee::Root, &extra)
    }

    #[test]
    fn what_the_user_adds_comes_to_ours_once() {
        let made = capabilities(&["SYS_PTRACE", "CHOWN"], &[]);
        assert_eq!(made.drop, ["ALL"]);
        assert_eq!(made.add, ["DAC_OVERRIDE", "CHOWN", "FOWNER", "SETUID", "SETGID", "SYS_PTRACE"]);
        assert!(made.may_switch_user());
    }

    #[test]
    fn what_the_user_drops_is_not_added() {
        let made = capabilities(&[], &["CHOWN", "SETUID"]);
        assert_eq!(made.add, ["DAC_OVERRIDE", "FOWNER", "SETGID"]);
        assert!(!made.may_switch_user());
        let made = capabilities(&["NET_RAW"], &["ALL"]);
        assert_eq!(made, Capabilities { drop: vec!["ALL".into()], add: vec!["NET_RAW".into()] });
    }

    #[test]
    fn all_is_never_both_added_and_dropped() {
        let made = capabilities(&["ALL"], &["NET_RAW", "ALL"]);
        assert_eq!(made, Capabilities { drop: vec!["NET_RAW".into()], add: vec!["ALL".into()] });
        assert!(made.may_switch_user());
    }
}
