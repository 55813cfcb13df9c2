//! Walks a tree in the order of paths, leaving out what is hidden or ignored.

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

use super::fault::{Stop, check};
use super::gitignore::{Rules, Verdict};
use super::path::MAX_PATH;
use super::tree::{Cursor, each_entry, type_of};

/// What a walk leaves out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// Looks at hidden files too.
    pub(super) hidden: bool,
    /// Looks at ignored files too.
    pub(super) ignored: bool,
}

/// A file on the way: anything but a directory.
#[derive(Debug)]
pub(super) struct Seen<'w> {
    /// The directory it is in.
    pub(super) directory: BorrowedFd<'w>,
    /// Its name there.
    pub(super) name: &'w CStr,
    /// Its path below the root.
    pub(super) path: &'w [u8],
    /// Its type; links are not followed.
    pub(super) file_type: FileType,
}

/// Walks everything below `root`, which is at `path`, in the order of the bytes
/// of paths. Returns how many directories could not be read.
pub(super) fn walk(
    root: OwnedFd,
    path: &Path,
    scope: Scope,
    cancelled: &AtomicBool,
    visit: &mut dyn FnMut(&Seen<'_>) -> Result<ControlFlow<()>, Fault>,
) -> Result<u64, Stop> {
    let mut walk = Walk {
        cursor: Cursor::new(root)?,
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

/// Rules that hold in a directory and below.
struct Level {
    /// Length of the path of the directory, with its slash.
    base: usize,
    rules: Rules,
    /// A repository starts here: rules from above end.
    repository: bool,
}

struct Walk<'a> {
    cursor: Cursor,
    /// The path of the directory the walk is in, with a slash at the end,
    /// counted from the highest directory whose rules hold.
    path: Vec<u8>,
    /// Where the part below the root starts in it.
    root: usize,
    levels: Vec<Level>,
    scope: Scope,
    cancelled: &'a AtomicBool,
    unreadable: u64,
}

/// An entry of a directory; sorts as its path does among all paths.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    /// The name, with a slash for a directory.
    key: Vec<u8>,
    raw_type: u32,
}

/// A directory on the way down.
struct Frame {
    items: vec::IntoIter<Item>,
    /// Length of the path of the directory above.
    above: usize,
    /// Rules in force above.
    levels: usize,
}

impl Walk<'_> {
    fn run(
        &mut self,
        visit: &mut dyn FnMut(&Seen<'_>) -> Result<ControlFlow<()>, Fault>,
    ) -> Result<(), Stop> {
        let mut frames = vec![self.read(self.path.len())?];
        while let Some(frame) = frames.last_mut() {
            check(self.cancelled)?;
            let Some(Item { mut key, raw_type }) = frame.items.next() else {
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
                    visit(&Seen { directory: self.cursor.here(), name, path, file_type })?
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

    /// Goes into a directory, given its name with a slash. One that cannot be
    /// read is counted and passed over.
    fn descend(&mut self, mut key: Vec<u8>) -> Result<Option<Frame>, Stop> {
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
                Err(stop @ Stop::Fault(_)) => return Err(stop),
                Err(Stop::System(_)) => {
                    self.cursor.leave()?;
                    self.unreadable += 1;
                }
            },
            // It vanished, or something else took its place.
            Ok(false) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => self.unreadable += 1,
        }
        self.path.truncate(above);
        Ok(None)
    }

    /// Enters a directory, unless it is the window of the kernel that some
    /// filesystems are, with files that never end or that act when read.
    fn enter(&mut self, name: &CStr) -> Result<bool, Errno> {
        let device = self.cursor.identity().device();
        self.cursor.enter(name)?;
        let elsewhere = self.cursor.identity().device() != device;
        if elsewhere && is_kernel_window(self.cursor.here()) {
            self.cursor.leave()?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads the directory the cursor is in.
    fn read(&mut self, above: usize) -> Result<Frame, Stop> {
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
            items.push(Item { key, raw_type: file_type.as_raw_mode() });
            Ok::<(), Stop>(())
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
        Ok(Frame { items: items.into_iter(), above, levels })
    }

    /// Tells whether the rules leave an entry of the directory `path` out.
    fn is_ignored(&self, path: &mut Vec<u8>, item: &Item) -> bool {
        let length = path.len();
        path.extend_from_slice(item.key.strip_suffix(b"/").unwrap_or(&item.key));
        let directory = item.raw_type == FileType::Directory.as_raw_mode();
        let mut verdict = None;
        for level in self.levels.iter().rev() {
            verdict = level.rules.verdict(&path[level.base..], &path[length..], directory);
            if verdict.is_some() || level.repository {
                break;
            }
        }
        path.truncate(length);
        verdict == Some(Verdict::Ignored)
    }

    /// Takes in the rules of the directories above the root, if it lies inside
    /// of a repository.
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

/// Which files with rules a directory has.
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

    /// Loads the rules, the strongest last.
    fn load(&self, directory: BorrowedFd<'_>, base: usize) -> Option<Level> {
        let mut rules = Rules::default();
        if self.repository {
            rules.load(directory, c".git/info/exclude");
        }
        if self.gitignore {
            rules.load(directory, c".gitignore");
        }
        if self.ignore {
            rules.load(directory, c".ignore");
        }
        (self.repository || !rules.is_empty()).then_some(Level {
            base,
            rules,
            repository: self.repository,
        })
    }
}

fn is_repository(start: BorrowedFd<'_>, path: &Path) -> bool {
    statat(start, path.join(".git"), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Tells whether a directory shows the kernel rather than files.
pub(super) fn is_kernel_window(directory: BorrowedFd<'_>) -> bool {
    const WINDOWS: [u32; 11] = [
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
        u32::try_from(found.f_type & 0xffff_ffff).is_ok_and(|kind| WINDOWS.contains(&kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_the_kernel_are_told_from_files() {
        let open = |path| openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        assert!(is_kernel_window(open(c"/proc").unwrap().as_fd()));
        assert!(is_kernel_window(open(c"/proc/self").unwrap().as_fd()));
        let yard = crate::files::testing::Yard::new();
        let ordinary = std::fs::File::open(yard.root()).unwrap();
        assert!(!is_kernel_window(ordinary.as_fd()));
    }
}
