//! The tier of a sandbox: where its system directories come from, and which users it
//! can have.

use std::fmt;

use serde::{Deserialize, Serialize};
use vestal_wire::{IdRange, Mapping, UserMapping};

use super::facts::{HostFacts, SingleUserReason};
use super::settings::NativeSettings;
use crate::backend::BackendError;

/// The source of a sandbox's system directories. It is chosen when the sandbox is made
/// and never changed, because its layers fit no other system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::backends) enum Tier {
    /// The host's, read-only: an ordinary user cannot change root's files, not even
    /// copies of them.
    ReadOnly,
    /// The host's, with changes in overlay layers.
    Overlay,
    /// A root filesystem that the user provides.
    Rootfs,
}

impl Tier {
    /// Returns the name of the tier.
    pub(in crate::backends) fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Overlay => "overlay",
            Self::Rootfs => "rootfs",
        }
    }

    /// Returns a description for people.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::ReadOnly => "the system directories of this machine, read-only",
            Self::Overlay => "the system directories of this machine, changes kept apart",
            Self::Rootfs => "a system of its own from terminal.native_rootfs",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many users the files of a sandbox can belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::backends) enum Owners {
    /// One: the user that runs the sandbox.
    One,
    /// Any number.
    Many,
}

/// Returns what is missing for the next tier, with advice.
pub(super) fn missing(
    tier: Tier,
    owners: Owners,
    reason: Option<SingleUserReason>,
    user: &str,
) -> Vec<String> {
    let mut missing = Vec::new();
    if tier == Tier::ReadOnly {
        missing.push(
            "packages of the system cannot be installed: set terminal.native_rootfs to a \
             directory or tar file with a Linux root, or run vestal as root"
                .to_owned(),
        );
    }
    if owners == Owners::One {
        let remedy = match reason {
            Some(SingleUserReason::NoHelpers) => {
                "install newuidmap and newgidmap (package uidmap or shadow-utils)".to_owned()
            }
            Some(SingleUserReason::NoSubordinateIds) | None => format!(
                "get subordinate ids: sudo usermod --add-subuids 100000-165535 --add-subgids \
                 100000-165535 {user}"
            ),
        };
        missing.push(format!(
            "root is the only user: tar unpacks without owners, some packages cannot be \
             installed, and servers that refuse to be root, like PostgreSQL, do not run; {remedy}"
        ));
    }
    missing
}

/// Returns the tier of a new sandbox. There is no fallback to another tier, which
/// would surprise the user.
pub(super) fn choose(settings: &NativeSettings, facts: &HostFacts) -> Tier {
    if settings.rootfs.is_some() {
        Tier::Rootfs
    } else if facts.is_root() {
        Tier::Overlay
    } else {
        Tier::ReadOnly
    }
}

/// Returns what is missing for the next tier.
pub(super) fn missing_for_next(tier: Tier, facts: &HostFacts, users: &UserMapping) -> Vec<String> {
    missing(tier, owners(users), facts.single_user_reason(), &facts.user)
}

/// Returns how many users a sandbox with this mapping can have.
pub(super) fn owners(users: &UserMapping) -> Owners {
    let count: u64 = users.uids.iter().map(|range| u64::from(range.count)).sum();
    if count > 1 { Owners::Many } else { Owners::One }
}

/// Refuses an id mapping that needs root of the whole machine, if this process is only
/// root of a container or user namespace.
pub(super) fn check_own_users(users: &UserMapping) -> Result<(), BackendError> {
    if users.mapping != Mapping::Privileged {
        return Ok(());
    }
    let [uid_map, gid_map] = ["uid_map", "gid_map"].map(|name| {
        let file = format!("/proc/self/{name}");
        std::fs::read_to_string(&file).map_err(BackendError::io(format!("read {file}")))
    });
    check_users(users, &uid_map?, &gid_map?)
}

/// Does the same for a process with these id maps.
pub(super) fn check_users(
    users: &UserMapping,
    uid_map: &str,
    gid_map: &str,
) -> Result<(), BackendError> {
    if users.mapping != Mapping::Privileged {
        return Ok(());
    }
    for (file, map, ranges) in
        [("uid_map", uid_map, &users.uids), ("gid_map", gid_map, &users.gids)]
    {
        if let Some(range) = ranges.iter().find(|range| !contains_range(map, **range)) {
            return Err(BackendError::Advised {
                problem: format!(
                    "this root is inside of a container or user namespace that lacks the users \
                     {} to {} (/proc/self/{file})",
                    range.outside,
                    u64::from(range.outside) + u64::from(range.count) - 1,
                ),
                advice: "run vestal as an ordinary user there, or outside of it; or use the \
                         backend docker or local"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns whether an id map of the kernel contains a range.
fn contains_range(map: &str, range: IdRange) -> bool {
    let (first, end) =
        (u64::from(range.outside), u64::from(range.outside) + u64::from(range.count));
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(own)), Some(Ok(_)), Some(Ok(count))) => own <= first && end <= own + count,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tier_reports_what_the_next_one_needs() {
        assert_eq!(missing(Tier::Overlay, Owners::Many, None, "ada"), Vec::<String>::new());
        assert_eq!(missing(Tier::Rootfs, Owners::Many, None, "ada"), Vec::<String>::new());
        let read_only =
            missing(Tier::ReadOnly, Owners::One, Some(SingleUserReason::NoSubordinateIds), "ada");
        assert_eq!(read_only.len(), 2);
        assert!(read_only[0].contains("terminal.native_rootfs"), "{read_only:?}");
        assert!(read_only[1].contains("root is the only user"), "{read_only:?}");
        let one =
            missing(Tier::Rootfs, Owners::One, Some(SingleUserReason::NoSubordinateIds), "ada");
        assert!(one[0].ends_with("--add-subgids 100000-165535 ada"), "{one:?}");
        let helpers = missing(Tier::Rootfs, Owners::One, Some(SingleUserReason::NoHelpers), "ada");
        assert!(helpers[0].contains("newuidmap"), "{helpers:?}");
        let with_users = missing(Tier::ReadOnly, Owners::Many, None, "ada");
        assert_eq!(with_users, read_only[..1]);
    }

    #[test]
    fn a_tier_is_serialized_by_its_name() {
        for tier in [Tier::ReadOnly, Tier::Overlay, Tier::Rootfs] {
            assert_eq!(serde_json::to_value(tier).unwrap(), tier.as_str());
        }
    }

    const RANGE: IdRange = IdRange { inside: 0, outside: 1_879_048_192, count: 65_536 };

    #[test]
    fn root_of_a_container_lacks_ids() {
        assert!(contains_range("         0          0 4294967295\n", RANGE));
        for few in ["0 1000 1\n", "0 100000 65536\n", "0 0 1879113727\n", "", "garbage\n"] {
            assert!(!contains_range(few, RANGE), "{few:?}");
        }
    }

    #[test]
    fn a_mapping_of_the_own_id_is_always_allowed() {
        let own = IdRange { inside: 0, outside: 1, count: 1 };
        let users = UserMapping { uids: vec![own], gids: vec![own], mapping: Mapping::Own };
        assert!(check_own_users(&users).is_ok());
    }
}
