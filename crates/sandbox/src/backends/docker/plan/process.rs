//! The first process of a container: what it is, whom it runs as, and which
//! capabilities there are: all dropped but a few, and what the user changes about
//! that.

use bollard::models::{ContainerCreateBody, HealthConfig};
use vestal_config::ExtraArgs;

use super::blueprint::Blueprint;
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

const ALL: &str = "ALL";

/// What file operations and package managers need.
const ALWAYS: [&str; 3] = ["DAC_OVERRIDE", "CHOWN", "FOWNER"];

/// What it takes to run jobs as somebody else.
const SWITCH: [&str; 2] = ["SETUID", "SETGID"];

/// Whom capabilities are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// Root, who may become others.
    Root,
    /// Root, who stays root.
    RootAlone,
    /// Anyone else. Docker gives them none; Podman would give them all that are
    /// added, and with them power over files that are not theirs.
    Others,
}

/// The capabilities of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// What is dropped.
    pub(super) drop: Vec<String>,
    /// What is added afterwards.
    pub(super) add: Vec<String>,
}

impl Capabilities {
    /// Returns ours with what the user adds and drops.
    ///
    /// The lists are made so that no name is in both: engines differ in which
    /// of the two wins, and Podman refuses `ALL` in both.
    pub(super) fn new(whom: For, extra: &ExtraArgs) -> Self {
        let dropped = |name: &str| extra.cap_drop.iter().any(|drop| drop == name || drop == ALL);
        let (always, switch): (&[&str], &[&str]) = match whom {
            For::Root => (&ALWAYS, &SWITCH),
            For::RootAlone => (&ALWAYS, &[]),
            For::Others => (&[], &[]),
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

    /// Returns whether root may become somebody else.
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
        Capabilities::new(For::Root, &extra)
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
