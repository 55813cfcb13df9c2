//! Limits of processes that have to be given explicitly.

use bollard::models::ResourcesUlimits;
use rustix::process::Resource;

use super::plan::Ulimits;

/// Open files nobody needs more of.
const MOST_FILES: u64 = 1 << 20;

/// Processes nobody needs more of; the limit of the container counts first.
const MOST_PROCESSES: u64 = 30_000;

impl Ulimits {
    /// Returns limits that an engine which runs under the limits of this
    /// process can set without a privilege.
    pub(super) fn within_reach() -> Self {
        let hard = |resource, most: u64| {
            let own = rustix::process::getrlimit(resource).maximum.unwrap_or(most);
            i64::try_from(own.min(most)).unwrap_or(i64::MAX)
        };
        Self {
            nofile: hard(Resource::Nofile, MOST_FILES),
            nproc: hard(Resource::Nproc, MOST_PROCESSES),
        }
    }

    /// Returns them in the engine's terms.
    pub(super) fn to_api(self) -> Vec<ResourcesUlimits> {
        [("nofile", self.nofile), ("nproc", self.nproc)]
            .map(|(name, limit)| ResourcesUlimits {
                name: Some(name.to_owned()),
                soft: Some(limit),
                hard: Some(limit),
            })
            .into()
    }
}
