//! Capabilities: all dropped but a few, and what the user changes about that.

use crate::settings::ExtraArgs;

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
