//! Notices when the directories change that decide which slots there are.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::inotify::WatchFlags;
use vestal_process::FileChanges;

/// Several changes that belong together are seen as one.
const TOGETHER: Duration = Duration::from_millis(100);

/// Watches directories.
#[derive(Debug)]
pub(crate) struct DirectoryWatch {
    changes: FileChanges,
    watched: BTreeMap<i32, PathBuf>,
}

impl DirectoryWatch {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { changes: FileChanges::new()?, watched: BTreeMap::new() })
    }

    /// Watches directories; those that do not exist are left out.
    pub(crate) fn watch(&mut self, dirs: Vec<PathBuf>) {
        let what = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        let watch = |dir: PathBuf| Some((self.changes.watch(&dir, what).ok()?, dir));
        let watched: BTreeMap<i32, PathBuf> = dirs.into_iter().filter_map(watch).collect();
        for number in self.watched.keys().filter(|number| !watched.contains_key(number)) {
            self.changes.unwatch(*number);
        }
        self.watched = watched;
    }

    /// Waits for a change.
    pub(crate) async fn next(&mut self) -> io::Result<()> {
        self.changes.next(TOGETHER, |_| {}).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_is_noticed_and_the_next_one_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut changes = DirectoryWatch::new().unwrap();
        changes.watch(vec![dir.path().join("none"), dir.path().into()]);
        assert_eq!(changes.watched.values().collect::<Vec<_>>(), [dir.path()]);
        for name in ["one", "two"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            changes.next().await.unwrap();
        }
    }
}
