//! Files that a conversation has read and written, with their versions.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vestal_sandbox::FileVersion;

/// Most pages and most files that are remembered. What is forgotten is only
/// read once more.
const MAX: usize = 2_000;

/// What one conversation has read and written. It lives as long as the words
/// it spares: when those are summarised, it is forgotten.
#[derive(Debug, Default)]
pub struct ObservedFiles(Mutex<SeenVersions>);

#[derive(Debug, Default)]
struct SeenVersions {
    pages: HashMap<FilePage, FileVersion>,
    files: HashMap<PathBuf, FileVersion>,
}

/// A part of a file, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::tools) struct FilePage {
    pub(in crate::tools) path: PathBuf,
    pub(in crate::tools) offset: usize,
    pub(in crate::tools) limit: usize,
}

impl ObservedFiles {
    /// Forgets everything: the model no longer has what was read in its context.
    pub fn clear(&self) {
        *self.seen() = SeenVersions::default();
    }

    /// Returns in which version a page was shown.
    pub(in crate::tools) fn page_version(&self, page: &FilePage) -> Option<FileVersion> {
        self.seen().pages.get(page).copied()
    }

    /// Remembers that a page was shown.
    pub(in crate::tools) fn record_page(&self, page: FilePage, version: FileVersion) {
        let mut seen = self.seen();
        let path = page.path.clone();
        put(&mut seen.pages, page, version);
        put(&mut seen.files, path, version);
    }

    /// Remembers a version of the conversation's own making.
    pub(in crate::tools) fn record_file(&self, path: &Path, version: FileVersion) {
        put(&mut self.seen().files, path.to_owned(), version);
    }

    /// Reports whether something else changed a file since it was last seen.
    pub(in crate::tools) fn is_stale(&self, path: &Path, now: FileVersion) -> bool {
        self.seen().files.get(path).is_some_and(|version| *version != now)
    }

    fn seen(&self) -> MutexGuard<'_, SeenVersions> {
        // PlainText values: a panic elsewhere leaves nothing half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put<K: Eq + Hash>(map: &mut HashMap<K, FileVersion>, key: K, version: FileVersion) {
    if map.len() >= MAX && !map.contains_key(&key) {
        map.clear();
    }
    map.insert(key, version);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: usize) -> FilePage {
        FilePage { path: "/f".into(), offset: number, limit: 1 }
    }

    fn version(size: u64) -> FileVersion {
        FileVersion { inode: 1, size, mtime_ns: 0 }
    }

    #[test]
    fn what_was_seen_is_known_until_it_is_forgotten() {
        let observed_files = ObservedFiles::default();
        observed_files.record_page(page(1), version(1));
        assert_eq!(observed_files.page_version(&page(1)), Some(version(1)));
        assert!(observed_files.is_stale(Path::new("/f"), version(2)));
        observed_files.record_file(Path::new("/f"), version(2));
        assert!(!observed_files.is_stale(Path::new("/f"), version(2)));
        observed_files.clear();
        assert_eq!(observed_files.page_version(&page(1)), None);
        assert!(!observed_files.is_stale(Path::new("/f"), version(3)));
    }

    #[test]
    fn it_never_grows_without_bound() {
        let observed_files = ObservedFiles::default();
        for number in 0..=MAX * 2 {
            observed_files.record_page(page(number), version(1));
        }
        assert!(observed_files.seen().pages.len() <= MAX);
        assert_eq!(observed_files.page_version(&page(MAX * 2)), Some(version(1)));
    }
}
