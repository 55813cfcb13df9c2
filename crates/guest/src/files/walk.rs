//! Walks a tree in the order of paths, and skips hidden and ignored files.

use std::ffi::{CStr, CString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::vec;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstatfs, openat, statat};
use rustix::io::Errno;
use vestal_wire::Fault;

use super::paths::MAX_PATH;
use super::perform::{OpError, check};
use super::tree::{TreeCursor, each_entry, type_of};
use vestal_tree::{IgnoreDecision, IgnoreRules};

/// What a walk includes.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkScope {
    /// Includes hidden files.
    pub(super) hidden: bool,
    /// Includes ignored files.
    pub(super) ignored: bool,
}

/// A file found by the walk: anything except a directory.
#[derive(Debug)]
pub(super) struct WalkEntry<'w> {
    pub(super) directory: BorrowedFd<'w>,
    pub(super) name: &'w CStr,
    /// Its path below the root.
    pub(super) path: &'w [u8],
    /// Its type; links are not followed.
    pub(super) file_type: FileType,
}

/// Walks everything below `root`, which is at `path`, in the byte order of paths.
/// Returns the number of unreadable directories.
pub(super) fn walk(
    root: OwnedFd,
    path: &Path,
    scope: WalkScope,
    cancelled: &AtomicBool,
    visit: &mut dyn FnMut(&WalkEntry<'_>) -> Result<ControlFlow<()>, Fault>,
) -> Result<u64, OpError> {
    let mut walk = TreeWalk {
        cursor: TreeCursor::new(root)?,
        path: Vec::new(),
        root: 0,
        levels: Vec::new(),
        scope,
        cancelled,
        unreadable: 0,
    };
    if !scope.ignored {
        walk.load_rules_above(path);
    }
    walk.run(visit)?;
    Ok(walk.unreadable)
}

/// Rules for a directory and everything below it.
struct IgnoreLevel {
    /// Length of the directory's path, with its slash.
    base: usize,
    rules: IgnoreRules,
    /// Whether a repository starts here, in which case rules from above do not
    /// apply.
    repository: bool,
}

struct TreeWalk<'a> {
    cursor: TreeCursor,
    /// Path of the current directory with a trailing slash, from the topmost
    /// directory whose rules apply.
    path: Vec<u8>,
    /// Start of the part below the root.
    root: usize,
    levels: Vec<IgnoreLevel>,
    scope: WalkScope,
    cancelled: &'a AtomicBool,
    unreadable: u64,
}

/// An entry of a directory, in the order of its path among all paths.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WalkItem {
    /// The name, with a trailing slash for a directory.
    key: Vec<u8>,
    raw_type: u32,
}

/// A directory being walked.
struct WalkFrame {
    items: vec::IntoIter<WalkItem>,
    /// Length of the parent's path.
    above: usize,
    /// Number of rule levels above.
    levels: usize,
}

impl TreeWalk<'_> {
    fn run(
        &mut self,
        visit: &mut dyn FnMut(&WalkEntry<'_>) -> Result<ControlFlow<()>, Fault>,
    ) -> Result<(), OpError> {
        let mut frames = vec![self.read(self.path.len())?];
        while let Some(frame) = frames.last_mut() {
            check(self.cancelled)?;
            let Some(WalkItem { mut key, raw_type }) = frame.items.next() else {
                let (above, levels) = (frame.above, frame.levels);
                frames.pop();
                self.path.truncate(above);
                self.levels.truncate(levels);
                if !frames.is_empty() {
                    self.cursor.leave()?;
                }
                continue;
            };
            let file_type = FileType::from_raw_mode(raw_type);
            if file_type == FileType::Directory {
                frames.extend(self.descend(key)?);
                continue;
            }
            let above = self.path.len();
            self.path.extend_from_slice(&key);
            key.push(0);
            let path = &self.path[self.root..];
            let flow = match CStr::from_bytes_with_nul(&key) {
                Ok(name) if path.len() <= MAX_PATH => {
                    visit(&WalkEntry { directory: self.cursor.here(), name, path, file_type })?
                }
                _ => {
                    self.unreadable += 1;
                    ControlFlow::Continue(())
                }
            };
            self.path.truncate(above);
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Enters a directory, given its name with a slash. An unreadable directory
    /// is counted and skipped.
    fn descend(&mut self, mut key: Vec<u8>) -> Result<Option<WalkFrame>, OpError> {
        let above = self.path.len();
        self.path.extend_from_slice(&key);
        key.pop();
        let entered = CString::new(key).map_err(|_| Errno::INVAL).and_then(|name| {
            if self.path.len() - self.root > MAX_PATH {
                return Err(Errno::NAMETOOLONG);
            }
            self.enter(&name)
        });
        match entered {
            Ok(true) => match self.read(above) {
                Ok(frame) => return Ok(Some(frame)),
                Err(error @ OpError::Fault(_)) => return Err(error),
                Err(OpError::System(_)) => {
                    self.cursor.leave()?;
                    self.unreadable += 1;
                }
            },
            // It vanished or was replaced.
            Ok(false) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => self.unreadable += 1,
        }
        self.path.truncate(above);
        Ok(None)
    }

    /// Enters a directory, unless it is a pseudo filesystem, whose files may be
    /// endless or act when they are read.
    fn enter(&mut self, name: &CStr) -> Result<bool, Errno> {
        let device = self.cursor.identity().device();
        self.cursor.enter(name)?;
        let elsewhere = self.cursor.identity().device() != device;
        if elsewhere && is_pseudo_filesystem(self.cursor.here()) {
            self.cursor.leave()?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads the current directory.
    fn read(&mut self, above: usize) -> Result<WalkFrame, OpError> {
        let levels = self.levels.len();
        let mut items = Vec::new();
        let mut rule_files = RuleFiles::default();
        let here = self.cursor.here();
        each_entry(here, |name, listed| {
            check(self.cancelled)?;
            rule_files.note(name);
            if !self.scope.hidden && name.to_bytes().starts_with(b".") {
                return Ok(());
            }
            let Some(file_type) = type_of(here, name, listed)? else {
                return Ok(());
            };
            let mut key = name.to_bytes().to_vec();
            if file_type == FileType::Directory {
                key.push(b'/');
            }
            items.push(WalkItem { key, raw_type: file_type.as_raw_mode() });
            Ok::<(), OpError>(())
        })?;
        if !self.scope.ignored {
            self.levels.extend(rule_files.load(here, self.path.len()));
            if !self.levels.is_empty() {
                let mut path = std::mem::take(&mut self.path);
                items.retain(|item| !self.is_ignored(&mut path, item));
                self.path = path;
            }
        }
        items.sort_unstable();
        Ok(WalkFrame { items: items.into_iter(), above, levels })
    }

    /// Returns whether the rules exclude an entry of the directory `path`.
    fn is_ignored(&self, path: &mut Vec<u8>, item: &WalkItem) -> bool {
        let length = path.len();
        path.extend_from_slice(item.key.strip_suffix(b"/").unwrap_or(&item.key));
        let directory = item.raw_type == FileType::Directory.as_raw_mode();
        let mut decision = None;
        for level in self.levels.iter().rev() {
            decision = level.rules.decision(&path[level.base..], &path[length..], directory);
            if decision.is_some() || level.repository {
                break;
            }
        }
        path.truncate(length);
        decision == Some(IgnoreDecision::Ignored)
    }

    /// Loads the rules of the directories above the root, if it is inside a
    /// repository.
    fn load_rules_above(&mut self, path: &Path) {
        let Ok(path) = path.canonicalize() else {
            return;
        };
        if is_repository(CWD, &path) {
            return;
        }
        let Some(top) = path.ancestors().skip(1).find(|above| is_repository(CWD, above)) else {
            return;
        };
        let Ok(below) = path.strip_prefix(top) else {
            return;
        };
        let between: Vec<&Path> =
            path.ancestors().skip(1).take_while(|above| above.starts_with(top)).collect();
        for above in between.into_iter().rev() {
            let base = above.strip_prefix(top).map_or(0, |below| match below.as_os_str().len() {
                0 => 0,
                length => length + 1,
            });
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            if let Ok(directory) = openat(CWD, above, flags, Mode::empty()) {
                let files = RuleFiles { repository: base == 0, gitignore: true, ignore: true };
                self.levels.extend(files.load(directory.as_fd(), base));
            }
        }
        self.path = below.as_os_str().as_bytes().to_vec();
        self.path.push(b'/');
        self.root = self.path.len();
    }
}

/// The rule files of a directory.
#[derive(Default)]
struct RuleFiles {
    repository: bool,
    gitignore: bool,
    ignore: bool,
}

impl RuleFiles {
    fn note(&mut self, name: &CStr) {
        match name.to_bytes() {
            b".git" => self.repository = true,
            b".gitignore" => self.gitignore = true,
            b".ignore" => self.ignore = true,
            _ => {}
        }
    }

    /// Loads the rules, those with the highest priority last.
    fn load(&self, directory: BorrowedFd<'_>, base: usize) -> Option<IgnoreLevel> {
        let mut rules = IgnoreRules::default();
        if self.repository {
            rules.load(directory, c".git/info/exclude");
        }
        if self.gitignore {
            rules.load(directory, c".gitignore");
        }
        if self.ignore {
            rules.load(directory, c".ignore");
        }
        (self.repository || !rules.is_empty()).then_some(IgnoreLevel {
            base,
            rules,
            repository: self.repository,
        })
    }
}

fn is_repository(start: BorrowedFd<'_>, path: &Path) -> bool {
    statat(start, path.join(".git"), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Returns whether a directory belongs to a pseudo filesystem of the kernel.
pub(super) fn is_pseudo_filesystem(directory: BorrowedFd<'_>) -> bool {
    const PSEUDO_FILESYSTEMS: [u32; 11] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x6367_7270, // cgroup2
        0x0027_e0eb, // cgroup
        0xcafe_4a11, // bpf
        0x7363_6673, // securityfs
        0x6265_6570, // configfs
        0x1cd1,      // devpts
        0x6165_676c, // pstore
    ];
    fstatfs(directory).is_ok_and(|found| {
        u32::try_from(found.f_type & 0xffff_ffff)
            .is_ok_and(|kind| PSEUDO_FILESYSTEMS.contains(&kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_the_kernel_are_distinguished_from_files() {
        let open = |path| openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        assert!(is_pseudo_filesystem(open(c"/proc").unwrap().as_fd()));
        assert!(is_pseudo_filesystem(open(c"/proc/self").unwrap().as_fd()));
        let test_dir = crate::files::testing::TestDir::new();
        let ordinary = std::fs::File::open(test_dir.root()).unwrap();
        assert!(!is_pseudo_filesystem(ordinary.as_fd()));
    }
}
