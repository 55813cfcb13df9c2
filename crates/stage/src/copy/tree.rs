//! A tree that is being copied: the queue of directories and its workers.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{Mode, Stat, fchmod, fstat};
use rustix::io::Errno;

use super::beneath;
use super::content::{BUFFER, CopyMethods};
use super::entries::Directory;
use super::metadata::{self, Attributes, HardLinks};
use super::program::{self, CopyProgress, StageCopyError};

/// Number of directories copied at the same time. More than two do not help: they
/// wait for each other in the filesystem's journal.
const WORKERS: usize = 2;

/// Maximum number of directories held open to reach others from them. Without
/// them every path would start at the top, and a deep tree would take quadratic
/// time.
const MAX_ANCHORS: usize = 200;

/// Maximum length of a path shown in full.
const MAX_NAME: usize = 4000;

/// A tree being copied, shared by all workers.
#[derive(Debug)]
pub(super) struct CopyTree {
    /// The original.
    pub(super) from: TreeSide,
    /// The copy.
    pub(super) to: TreeSide,
    /// How content is copied.
    pub(super) methods: CopyMethods,
    /// The files with several names.
    pub(super) links: HardLinks,
    pub(super) progress: CopyProgress,
    /// Directories still to be filled.
    work: Mutex<WorkQueue>,
    /// Notified when there is more work or none left.
    changed: Condvar,
    /// Number of directories held open.
    anchors: Arc<AtomicUsize>,
}

/// One of the two trees.
#[derive(Debug)]
pub(super) struct TreeSide {
    /// Its path, for messages.
    pub(super) path: PathBuf,
    pub(super) top: OwnedFd,
    /// Metadata of the top.
    pub(super) stat: Stat,
}

/// An open directory in both trees.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    /// Length of its path.
    length: usize,
    /// Counter of open directories.
    count: Arc<AtomicUsize>,
}

impl Drop for Anchor {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A directory that was created and is still empty.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) path: Vec<u8>,
    /// The open directory its path starts from; absent: the top.
    pub(super) anchor: Option<Arc<Anchor>>,
}

#[derive(Debug, Default)]
struct WorkQueue {
    directories: Vec<Pending>,
    /// Number of directories being filled.
    busy: usize,
    /// Directories that become inaccessible with their final permissions.
    closed: Vec<(Vec<u8>, Mode)>,
    failure: Option<StageCopyError>,
}

/// Which of the two directories could not be opened.
#[derive(Debug)]
pub(super) enum FailedSide {
    /// The copy.
    To,
    /// The original; contains the directory of the copy.
    From(OwnedFd),
}

/// Buffers of one worker.
#[derive(Debug)]
pub(super) struct CopyBuffers {
    pub(super) buffer: Vec<u8>,
    pub(super) attributes: Attributes,
}

impl TreeSide {
    pub(super) fn new(path: &Path, top: OwnedFd) -> Result<Self, StageCopyError> {
        let stat = fstat(&top).map_err(|errno| StageCopyError::System {
            action: "look at",
            path: path.to_owned(),
            errno,
        })?;
        Ok(Self { path: path.to_owned(), top, stat })
    }

    /// Returns a function that turns an error number into an error for a file of
    /// this side.
    pub(super) fn failed(
        &self,
        action: &'static str,
        path: &[u8],
    ) -> impl FnOnce(Errno) -> StageCopyError {
        move |errno| StageCopyError::System { action, path: self.name(path), errno }
    }

    /// Returns the path of a file for messages, shortened if it is too long.
    pub(super) fn name(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() {
            return self.path.clone();
        }
        if path.len() <= MAX_NAME {
            return self.path.join(OsStr::from_bytes(path));
        }
        let (begin, end) = (&path[..MAX_NAME / 2], &path[path.len() - MAX_NAME / 2..]);
        self.path.join(OsStr::from_bytes(&[begin, "…".as_bytes(), end].concat()))
    }
}

impl CopyTree {
    pub(super) fn new(from: TreeSide, to: TreeSide) -> Self {
        let top = Pending { path: Vec::new(), anchor: None };
        let work = WorkQueue { directories: vec![top], ..WorkQueue::default() };
        Self {
            from,
            to,
            methods: CopyMethods::new(),
            links: HardLinks::default(),
            progress: CopyProgress::new(),
            work: Mutex::new(work),
            changed: Condvar::new(),
            anchors: Arc::default(),
        }
    }

    /// Opens a directory in both trees. The error says in which one it failed.
    pub(super) fn open(&self, pending: &Pending) -> Result<Anchor, (FailedSide, Errno)> {
        let Pending { path, anchor } = pending;
        let (from, to, rest) = match anchor {
            Some(anchor) => (anchor.from.as_fd(), anchor.to.as_fd(), &path[anchor.length..]),
            None => (self.from.top.as_fd(), self.to.top.as_fd(), &path[..]),
        };
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let to = beneath::directory(to, rest).map_err(|errno| (FailedSide::To, errno))?;
        let from = match beneath::directory(from, rest) {
            Ok(from) => from,
            Err(errno) => return Err((FailedSide::From(to), errno)),
        };
        self.anchors.fetch_add(1, Ordering::Relaxed);
        Ok(Anchor { from, to, length: path.len(), count: Arc::clone(&self.anchors) })
    }

    /// Queues a directory to be filled, below an open one.
    pub(super) fn add(&self, path: Vec<u8>, directory: &Directory<'_>) {
        let begin = directory.reached_from.map_or(0, |anchor| anchor.length);
        let is_deep = directory.path.len() - begin > beneath::ANCHOR_AFTER;
        let anchor = if is_deep && self.anchors.load(Ordering::Relaxed) < MAX_ANCHORS {
            Some(&directory.open)
        } else {
            directory.reached_from
        };
        let pending = Pending { path, anchor: anchor.cloned() };
        self.lock().directories.push(pending);
        self.changed.notify_one();
    }

    /// Copies the whole tree into the new directory.
    pub(super) fn copy(&self) -> Result<(), StageCopyError> {
        let top = self.to.top.as_fd();
        // Permissions are copied, not inherited.
        fchmod(top, Mode::RWXU).map_err(self.to.failed("change", b""))?;
        metadata::remove_inherited_acls(top).map_err(self.to.failed("change", b""))?;
        thread::scope(|scope| {
            scope.spawn(|| self.progress.report_until_done(scope, || self.count()));
            for _ in 1..WORKERS.min(processors()) {
                scope.spawn(|| self.work());
            }
            self.work();
            self.progress.end();
        });
        let mut work = self.lock();
        if let Some(failure) = work.failure.take() {
            return Err(failure);
        }
        self.close(std::mem::take(&mut work.closed))
    }

    /// Fills directories until none is left or one failed.
    fn work(&self) {
        let mut buffers = CopyBuffers { buffer: vec![0; BUFFER], attributes: Attributes::new() };
        while let Some(pending) = self.take() {
            let filled =
                program::check_cancelled().and_then(|()| self.directory(&pending, &mut buffers));
            let mut work = self.lock();
            work.busy -= 1;
            if let Err(failure) = filled {
                work.failure.get_or_insert(failure);
            }
            if work.failure.is_some() || (work.busy == 0 && work.directories.is_empty()) {
                self.changed.notify_all();
            }
        }
    }

    /// Returns a directory to fill. Waits while other workers may add some.
    fn take(&self) -> Option<Pending> {
        let mut work = self.lock();
        loop {
            if work.failure.is_some() {
                return None;
            }
            if let Some(pending) = work.directories.pop() {
                work.busy += 1;
                return Some(pending);
            }
            if work.busy == 0 {
                return None;
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records the final permissions of a directory.
    pub(super) fn close_later(&self, path: &[u8], mode: Mode) {
        self.lock().closed.push((path.to_vec(), mode));
    }

    /// Sets the recorded permissions: the innermost directories first, and the
    /// top, which keeps other users out, last.
    fn close(&self, mut closed: Vec<(Vec<u8>, Mode)>) -> Result<(), StageCopyError> {
        closed.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        for (path, mode) in closed {
            let failed = |errno| self.to.failed("change", &path)(errno);
            let directory = beneath::directory(self.to.top.as_fd(), &path).map_err(failed)?;
            fchmod(directory, mode).map_err(failed)?;
        }
        Ok(())
    }

    fn count(&self) {
        let over = || {
            let work = self.lock();
            work.failure.is_some() || (work.busy == 0 && work.directories.is_empty())
        };
        if let Some(bytes) = program::count_bytes(self.from.top.as_fd(), over) {
            self.progress.total(bytes);
        }
    }

    /// Returns whether a directory of the original is the copy itself.
    pub(super) fn is_copy(&self, stat: &Stat) -> bool {
        (stat.st_dev, stat.st_ino) == (self.to.stat.st_dev, self.to.stat.st_ino)
    }

    /// Returns whether a file of the original is a mount, as far as its device
    /// shows. If the kernel refuses to cross mounts, another device is part of
    /// the same filesystem.
    pub(super) fn is_mounted(&self, stat: &Stat) -> bool {
        !beneath::notices_mounts() && stat.st_dev != self.from.stat.st_dev
    }

    fn lock(&self) -> MutexGuard<'_, WorkQueue> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the owner of a directory has all permissions.
pub(super) fn is_open(stat: &Stat) -> bool {
    metadata::mode(stat).contains(Mode::RWXU)
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
