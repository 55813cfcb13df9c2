//! How far a sandbox is a system of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

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
}
