//! How far a sandbox is a system of its own, and who its users can be.

use std::fmt;

use serde::{Deserialize, Serialize};
use vestal_wire::{IdRange, Mapping, Users};

use super::facts::Facts;
use super::settings::NativeSettings;
use crate::backend::BackendError;

/// What the system directories of a sandbox are. Chosen when it is made, by
/// trying; a start never changes it, because what the layers hold fits no
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::backends) enum Tier {
    /// The host's, which can only be read: an ordinary user has no rights over
    /// root's files, not even over copies of them.
    ReadOnly,
    /// The host's, with what is changed kept apart.
    Overlay,
    /// Those of a root that the user provides.
    Rootfs,
}

impl Tier {
    /// Returns the tier's name, for people and programs.
    pub(in crate::backends) fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Overlay => "overlay",
            Self::Rootfs => "rootfs",
        }
    }

    /// Returns what the tier means to whoever works in such a sandbox.
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

/// Whose the files in a sandbox can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::backends) enum Owners {
    /// One user's: whoever runs the sandbox.
    One,
    /// Any user's.
    Many,
}

/// Why the files of a sandbox can be one user's only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// The user has no numbers of others.
    Subordinates,
    /// The programs that hand such numbers out are not installed.
    Helpers,
}

/// Returns what is missing for the next better tier, and how to have it.
pub(super) fn missing(tier: Tier, owners: Owners, lack: Option<Lack>, user: &str) -> Vec<String> {
    let mut missing = Vec::new();
    if tier == Tier::ReadOnly {
        missing.push(
            "packages of the system cannot be installed: set terminal.native_rootfs to a \
             directory or tar file with a Linux root, or run vestal as root"
                .to_owned(),
        );
    }
    if owners == Owners::One {
        let remedy = match lack {
            Some(Lack::Helpers) => {
                "install newuidmap and newgidmap (package uidmap or shadow-utils)".to_owned()
            }
            Some(Lack::Subordinates) | None => format!(
                "get subordinate ids: sudo usermod --add-subuids 100000-165535 --add-subgids \
                 100000-165535 {user}"
            ),
        };
        missing.push(format!(
            "there is no user but root: tar unpacks without owners, some packages cannot be \
             installed, and servers that refuse to be root, like PostgreSQL, do not run; {remedy}"
        ));
    }
    missing
}

/// Returns the tier of a new sandbox. There is one for each user and setting:
/// where it cannot be had, another one would be a surprise.
pub(super) fn choose(settings: &NativeSettings, facts: &Facts) -> Tier {
    if settings.rootfs.is_some() {
        Tier::Rootfs
    } else if facts.is_root() {
        Tier::Overlay
    } else {
        Tier::ReadOnly
    }
}

/// Returns what is missing for a better one.
pub(super) fn lacking(tier: Tier, facts: &Facts, users: &Users) -> Vec<String> {
    missing(tier, owners(users), facts.lack(), &facts.user)
}

/// Returns whose the files of a sandbox with these users can be.
pub(super) fn owners(users: &Users) -> Owners {
    let count: u64 = users.uids.iter().map(|range| u64::from(range.count)).sum();
    if count > 1 { Owners::Many } else { Owners::One }
}

/// Refuses users that only root of the whole machine could have.
pub(super) fn check_users(users: &Users) -> Result<(), BackendError> {
    if users.mapping != Mapping::Privileged {
        return Ok(());
    }
    for (file, ranges) in [("/proc/self/uid_map", &users.uids), ("/proc/self/gid_map", &users.gids)]
    {
        let map =
            std::fs::read_to_string(file).map_err(BackendError::io(format!("read {file}")))?;
        if let Some(range) = ranges.iter().find(|range| !covers(&map, **range)) {
            return Err(BackendError::Advised {
                problem: format!(
                    "this root is one of a container or user namespace that lacks the users {} to {} ({file})",
                    range.outside,
                    u64::from(range.outside) + u64::from(range.count) - 1,
                ),
                advice: "run vestal as an ordinary user there, or outside; or use the backend docker or local"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns whether a map of the kernel's gives this process all of a range.
fn covers(map: &str, range: IdRange) -> bool {
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
    fn each_tier_says_what_the_next_one_takes() {
        assert_eq!(missing(Tier::Overlay, Owners::Many, None, "ada"), Vec::<String>::new());
        assert_eq!(missing(Tier::Rootfs, Owners::Many, None, "ada"), Vec::<String>::new());
        let read_only = missing(Tier::ReadOnly, Owners::One, Some(Lack::Subordinates), "ada");
        assert_eq!(read_only.len(), 2);
        assert!(read_only[0].contains("terminal.native_rootfs"), "{read_only:?}");
        assert!(read_only[1].contains("no user but root"), "{read_only:?}");
        let one = missing(Tier::Rootfs, Owners::One, Some(Lack::Subordinates), "ada");
        assert!(one[0].ends_with("--add-subgids 100000-165535 ada"), "{one:?}");
        let helpers = missing(Tier::Rootfs, Owners::One, Some(Lack::Helpers), "ada");
        assert!(helpers[0].contains("newuidmap"), "{helpers:?}");
        let with_users = missing(Tier::ReadOnly, Owners::Many, None, "ada");
        assert_eq!(with_users, read_only[..1]);
    }

    #[test]
    fn a_tier_is_written_as_it_is_named() {
        for tier in [Tier::ReadOnly, Tier::Overlay, Tier::Rootfs] {
            assert_eq!(serde_json::to_value(tier).unwrap(), tier.as_str());
        }
    }

    const RANGE: IdRange = IdRange { inside: 0, outside: 1_879_048_192, count: 65_536 };

    #[test]
    fn root_of_the_machine_has_all_numbers_and_root_of_a_container_has_not() {
        assert!(covers("         0          0 4294967295\n", RANGE));
        for few in ["0 1000 1\n", "0 100000 65536\n", "0 0 1879113727\n", "", "garbage\n"] {
            assert!(!covers(few, RANGE), "{few:?}");
        }
    }

    #[test]
    fn who_maps_nobody_but_himself_needs_no_further_numbers() {
        let own = IdRange { inside: 0, outside: 1, count: 1 };
        let users = Users { uids: vec![own], gids: vec![own], mapping: Mapping::Own };
        assert!(check_users(&users).is_ok());
    }
}
