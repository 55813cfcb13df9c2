//! Where commands run, as far as it matters to what they can harm.

use std::path::Path;

use vestal_sandbox::{Opening, Reach};

use super::policy::Policy;

/// Where commands run: which paths mean what there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ground {
    /// The user's home, if commands see it.
    pub(super) user_home: Option<String>,
    /// The directory of Vestal's own files on the host.
    pub(super) vestal_home: Option<String>,
    /// What of the host is mounted where: (in the sandbox, on the host). None
    /// where paths are the host's own.
    pub(super) mounts: Option<Vec<(String, String)>>,
}

impl Ground {
    /// Returns the ground of a sandbox.
    pub(super) fn new(policy: &Policy, reach: &Reach) -> Self {
        let text = |path: &Option<std::path::PathBuf>| {
            path.as_deref().map(Path::to_string_lossy).map(std::borrow::Cow::into_owned)
        };
        let vestal_home = text(&policy.vestal_home);
        let user_home = text(&policy.user_home).filter(|home| home.len() > 1);
        let Reach::Mounts(openings) = reach else {
            return Self { user_home, vestal_home, mounts: None };
        };
        let mount = |opening: &Opening| match opening {
            Opening::Mount { host, target, read_only: false } => {
                Some((target.to_string_lossy().into_owned(), host.to_string_lossy().into_owned()))
            }
            Opening::Mount { .. } | Opening::Weakness(_) => None,
        };
        // Homes are compared on the host's side, after translation.
        let mounts = Some(openings.iter().filter_map(mount).collect());
        Self { user_home, vestal_home, mounts }
    }

    /// Returns where a path of the sandbox is on the host; nothing if it is only in the sandbox.
    pub(super) fn on_host(&self, path: &str) -> Option<String> {
        let Some(mounts) = &self.mounts else {
            return Some(path.to_owned());
        };
        let below = |(target, host): &(String, String)| {
            let rest = path.strip_prefix(target.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| (target.len(), format!("{}{rest}", host.trim_end_matches('/'))))
        };
        mounts.iter().filter_map(below).max().map(|(_, host)| host)
    }
}
