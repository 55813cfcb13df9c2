//! Which settings ask for isolation.

use crate::error::ConfigError;
use crate::key::AnyKey;
use crate::keys;
use crate::settings::Settings;
use crate::source::Source;

#[cfg(test)]
#[path = "isolating_tests.rs"]
mod tests;

/// The table of keys that ask for isolation when they are not at their default:
/// whoever sets one wants commands kept apart from this machine, and must not
/// be given a sandbox without walls in its place.
///
/// Limits (`terminal.container_*`) are not in it: they bound what a sandbox may
/// use and separate nothing. Whoever requires them to hold is not to be given a
/// sandbox that has none.
static ISOLATING: [&dyn AnyKey; 8] = [
    &keys::NATIVE_ROOTFS,
    &keys::DOCKER_IMAGE,
    &keys::DOCKER_VOLUMES,
    &keys::DOCKER_MOUNT_CWD_TO_WORKSPACE,
    &keys::DOCKER_NETWORK,
    &keys::DOCKER_EXTRA_ARGS,
    &keys::DOCKER_RUN_AS_HOST_USER,
    &keys::REQUIRE_LIMITS,
];

/// A setting that asks for isolation, and where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolatingSetting {
    /// The key.
    pub key: &'static str,
    /// Where its value came from.
    pub source: Source,
}

impl std::fmt::Display for IsolatingSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.key, self.source)
    }
}

impl Settings {
    /// Returns the settings in effect that ask for isolation. A value that is
    /// the default asks for nothing; one that is wrong is an error.
    pub fn isolating(&self) -> Result<Vec<IsolatingSetting>, ConfigError> {
        let mut found = Vec::new();
        for key in ISOLATING {
            let resolved = key.resolve(self)?;
            if resolved.value != key.default_untyped() {
                found.push(IsolatingSetting { key: key.name(), source: resolved.source });
            }
        }
        Ok(found)
    }
}
