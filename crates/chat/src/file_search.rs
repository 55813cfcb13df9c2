//! The files below a directory, to find one by a few letters of its path.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vestal_tree::{IgnoreDecision, IgnoreRules};

/// Paths that are listed at most.
const MOST_PATHS: usize = 50_000;

/// How long the walk may take: somebody is typing.
const WALK: Duration = Duration::from_millis(250);

/// How long a list is used before the files are looked at again.
const FRESH: Duration = Duration::from_secs(10);

/// Directories that are large and that nobody writes in by hand.
const SKIPPED: [&str; 3] = ["node_modules", "target", "__pycache__"];

/// The files below the directory that the user is in, listed when they are needed.
#[derive(Debug, Default)]
pub(crate) struct FileSearch {
    listed: Option<FileList>,
}

#[derive(Debug)]
struct FileList {
    root: PathBuf,
    paths: Arc<Vec<String>>,
    at: Instant,
}

impl FileSearch {
    /// Returns the paths below `root`, relative to it, directories with a `/` at their end. The
    /// disk is asked on a thread of its own and for a limited time; what was found until then
    /// is returned.
    pub(crate) async fn paths(&mut self, root: &Path) -> Arc<Vec<String>> {
        if let Some(listed) = &self.listed
            && listed.root == root
            && listed.at.elapsed() < FRESH
        {
            return Arc::clone(&listed.paths);
        }
        let below = root.to_owned();
        let walking = tokio::task::spawn_blocking(move || list(&below, Instant::now() + WALK));
        // A disk that does not answer at all finds nothing.
        let paths = match tokio::time::timeout(2 * WALK, walking).await {
            Ok(Ok(paths)) => Arc::new(paths),
            Ok(Err(_)) | Err(_) => Arc::default(),
        };
        let at = Instant::now();
        self.listed = Some(FileList { root: root.to_owned(), paths: Arc::clone(&paths), at });
        paths
    }
}

/// A directory to look at, with the rules of those above it.
struct Pending {
    dir: PathBuf,
    /// Its path from the root, with a `/` at its end.
    prefix: String,
    rules: Vec<Arc<DirectoryRules>>,
}

/// What the `.gitignore` of a directory says about what is below it.
struct DirectoryRules {
    prefix: String,
    rules: IgnoreRules,
}

impl DirectoryRules {
    fn of(dir: &Path, prefix: &str) -> Option<Self> {
        let open = File::open(dir).ok()?;
        let mut rules = IgnoreRules::default();
        rules.load(open.as_fd(), c".gitignore");
        (!rules.is_empty()).then(|| Self { prefix: prefix.to_owned(), rules })
    }
}

/// Walks level by level, so that what is near comes first where not all is listed. Hidden files
/// and what `.gitignore` names are left out; links are listed and not followed.
fn list(root: &Path, deadline: Instant) -> Vec<String> {
    let mut paths = Vec::new();
    let first = Pending { dir: root.to_owned(), prefix: String::new(), rules: Vec::new() };
    let mut pending = VecDeque::from([first]);
    while let Some(Pending { dir, prefix, mut rules }) = pending.pop_front() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        rules.extend(DirectoryRules::of(&dir, &prefix).map(Arc::new));
        for entry in entries.flatten() {
            if paths.len() >= MOST_PATHS || Instant::now() >= deadline {
                return paths;
            }
            // What is not text cannot be written into one.
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') || name.contains(char::is_control) {
                continue;
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = format!("{prefix}{name}");
            if (is_dir && SKIPPED.contains(&name.as_str()))
                || is_ignored(&rules, &path, &name, is_dir)
            {
                continue;
            }
            if is_dir {
                let prefix = format!("{path}/");
                paths.push(prefix.clone());
                pending.push_back(Pending { dir: entry.path(), prefix, rules: rules.clone() });
            } else {
                paths.push(path);
            }
        }
    }
    paths
}

/// The rules of the nearest directory that has one for the file decide.
fn is_ignored(rules: &[Arc<DirectoryRules>], path: &str, name: &str, is_dir: bool) -> bool {
    let decision = rules.iter().rev().find_map(|of| {
        let below = path.strip_prefix(&of.prefix)?;
        of.rules.decision(below.as_bytes(), name.as_bytes(), is_dir)
    });
    decision == Some(IgnoreDecision::Ignored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_mins(5)
    }

    #[test]
    fn what_is_ignored_hidden_or_generated_is_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "main.rs",
            ".env",
            ".git/config",
            "target/debug/program",
            "build/out.o",
            "sub/kept.log",
            "sub/notes.txt",
            "noise.log",
        ] {
            write(dir.path(), path, "");
        }
        write(dir.path(), ".gitignore", "*.log\n/build\n");
        write(dir.path(), "sub/.gitignore", "!kept.log\n");
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let mut paths = list(dir.path(), far());
        paths.sort_unstable();
        assert_eq!(paths, ["link", "main.rs", "sub/", "sub/kept.log", "sub/notes.txt"]);
    }

    #[test]
    fn what_is_near_comes_first_and_a_walk_ends_in_time() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a/b/deep.txt", "");
        write(dir.path(), "near.txt", "");
        let paths = list(dir.path(), far());
        assert_eq!(paths.last().map(String::as_str), Some("a/b/deep.txt"));
        assert!(list(dir.path(), Instant::now()).is_empty());
    }

    #[tokio::test]
    async fn a_list_is_used_again_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "one.txt", "");
        let mut search = FileSearch::default();
        assert_eq!(*search.paths(dir.path()).await, ["one.txt"]);
        write(dir.path(), "two.txt", "");
        assert_eq!(*search.paths(dir.path()).await, ["one.txt"]);
        let other = tempfile::tempdir().unwrap();
        assert!(search.paths(other.path()).await.is_empty());
    }
}
