//! What of the host's system directories is not for everyone.
//!
//! Root's sandboxes show the files of the host's root as those of their own, so
//! that packages can be installed over them, and there permissions keep nobody
//! out. So what others may not read on the host is left out of what is shown.
//!
//! To look at every file takes too long for a start. What was found is kept by
//! directory, with the times of the directory: one to which nothing was added,
//! removed or renamed is taken as it was. A file whose permissions change where
//! it is changes no directory. So directories that changed lately are looked at
//! again each time, and everything is from time to time.

mod kept;
mod look;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use self::kept::{Kept, Tree};
use super::facts::{Facts, SystemDirKind};
use crate::mounts::MACHINE_DIR;

/// Seconds after which everything is looked at again.
const WHOLE: u64 = 3600;

/// What is not shown, by the directory of the host that it is in, and relative to
/// that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::backends::native) struct Private(BTreeMap<PathBuf, Vec<PathBuf>>);

impl Private {
    /// Returns what is not shown of a directory of the host.
    pub(in crate::backends::native) fn of(&self, source: &Path) -> &[PathBuf] {
        self.0.get(source).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns one thing that is not shown in each directory, to try whether
    /// anything can be left out at all.
    pub(in crate::backends::native) fn made_up(facts: &Facts) -> Self {
        let name = || vec![PathBuf::from(".vestal-trial")];
        Self(sources(facts).into_iter().map(|source| (source, name())).collect())
    }

    #[cfg(test)]
    pub(in crate::backends::native) fn from_list(list: &[(&str, &[&str])]) -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Self(list.iter().map(|(source, list)| (source.into(), paths(list))).collect())
    }
}

/// Looks at the system directories that root's sandboxes show. What is found is
/// kept for all homes, or else in `dir`.
pub(in crate::backends::native) fn look(facts: &Facts, dir: &Path) -> io::Result<Private> {
    let machine = Path::new(MACHINE_DIR);
    let place = if kept::is_ours(machine) { machine } else { dir };
    look_at(&sources(facts), place, seconds_now())
}

/// Returns the directories of the host that layers are put over.
fn sources(facts: &Facts) -> Vec<PathBuf> {
    let kinds = facts.system.iter().map(|dir| &dir.kind);
    let kinds = kinds.chain(facts.packages.iter().map(|list| &list.kind));
    let sources = kinds.filter_map(|kind| match kind {
        SystemDirKind::Directory { source, .. } => Some(source.clone()),
        SystemDirKind::Link(_) => None,
    });
    sources.collect()
}

fn look_at(sources: &[PathBuf], place: &Path, now: u64) -> io::Result<Private> {
    let before = Kept::read(place);
    let mut after = Kept::default();
    let mut private = Private::default();
    for source in sources {
        let known = before.tree(source).filter(|tree| {
            // A clock that was set back makes nothing new.
            tree.looked <= now && now - tree.looked < WHOLE
        });
        let looked = known.map_or(now, |tree| tree.looked);
        let top = look::look(source, known.map(|tree| &tree.top), now)?;
        private.0.insert(source.clone(), look::private(&top));
        after.trees.push(Tree::new(source, looked, top));
    }
    // The sandboxes of another root on this machine have their own.
    after.keep_others(&before);
    if after != before {
        // Without it the next start takes longer.
        if let Err(error) = after.write(place) {
            tracing::debug!(%error, "what is private is not kept");
        }
    }
    Ok(private)
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
