//! A tree that is being copied.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{Mode, Stat, fchmod, fstat};
use rustix::io::Errno;

use super::attributes::Attributes;
use super::content::{BUFFER, Means};
use super::directory::Directory;
use super::failure::Failure;
use super::hard_links::HardLinks;
use super::progress::Progress;
use super::{attributes, beneath, cancel, count, metadata};

/// How many directories are copied at the same time. More than two gain nothing:
/// they wait for each other in the filesystem's journal.
const WORKERS: usize = 2;

/// Most directories that are held open because others are reached from them.
/// Without any, the way to each directory would begin at the top, and a deep
/// tree take a time that grows with the square of its depth.
const MOST_ANCHORS: usize = 200;

/// Longest path that is said in full.
const MAX_NAME: usize = 4000;

/// A tree that is being copied, shared by all who do so.
#[derive(Debug)]
pub(super) struct Tree {
    /// The original.
    pub(super) from: Side,
    /// The copy.
    pub(super) to: Side,
    /// How content is copied.
    pub(super) means: Means,
    /// The files with several names.
    pub(super) links: HardLinks,
    /// How far it is.
    pub(super) progress: Progress,
    /// What is still to be done.
    work: Mutex<Work>,
    /// Tells of more to do, or that there is none.
    changed: Condvar,
    /// How many directories are held open.
    anchors: Arc<AtomicUsize>,
}

/// One of the two trees.
#[derive(Debug)]
pub(super) struct Side {
    /// Where it is, for people.
    pub(super) path: PathBuf,
    /// Its top.
    pub(super) top: OwnedFd,
    /// What the top was like.
    pub(super) stat: Stat,
}

/// A directory of both trees that is open.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    /// How much of a path is the way to it.
    length: usize,
    /// How many there are.
    count: Arc<AtomicUsize>,
}

impl Drop for Anchor {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A directory that is made and still empty.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) path: Vec<u8>,
    /// Where the way to it begins; absent: at the top.
    pub(super) anchor: Option<Arc<Anchor>>,
}

#[derive(Debug, Default)]
struct Work {
    directories: Vec<Pending>,
    /// Directories that are being filled.
    busy: usize,
    /// Directories that cannot be entered once they have their permissions.
    closed: Vec<(Vec<u8>, Mode)>,
    failure: Option<Failure>,
}

/// Which of the two directories could not be opened.
#[derive(Debug)]
pub(super) enum Failed {
    /// The copy's.
    To,
    /// The original's; this is the copy's.
    From(OwnedFd),
}

/// What each of those who copy has for itself.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) buffer: Vec<u8>,
    pub(super) attributes: Attributes,
}

impl Side {
    pub(super) fn new(path: &Path, top: OwnedFd) -> Result<Self, Failure> {
        let stat = fstat(&top).map_err(|errno| Failure::System {
            action: "look at",
            path: path.to_owned(),
            errno,
        })?;
        Ok(Self { path: path.to_owned(), top, stat })
    }

    /// Returns a function that says what went wrong with a file of this side.
    pub(super) fn failed(
        &self,
        action: &'static str,
        path: &[u8],
    ) -> impl FnOnce(Errno) -> Failure {
        move |errno| Failure::System { action, path: self.name(path), errno }
    }

    /// Returns the path of a file, for people, who cannot use more of one than
    /// the kernel takes.
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

impl Tree {
    pub(super) fn new(from: Side, to: Side) -> Self {
        let top = Pending { path: Vec::new(), anchor: None };
        let work = Work { directories: vec![top], ..Work::default() };
        Self {
            from,
            to,
            means: Means::new(),
            links: HardLinks::default(),
            progress: Progress::new(),
            work: Mutex::new(work),
            changed: Condvar::new(),
            anchors: Arc::default(),
        }
    }

    /// Opens a directory of both trees; says which of the two failed.
    pub(super) fn open(&self, pending: &Pending) -> Result<Anchor, (Failed, Errno)> {
        let Pending { path, anchor } = pending;
        let (from, to, rest) = match anchor {
            Some(anchor) => (anchor.from.as_fd(), anchor.to.as_fd(), &path[anchor.length..]),
            None => (self.from.top.as_fd(), self.to.top.as_fd(), &path[..]),
        };
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let to = beneath::directory(to, rest).map_err(|errno| (Failed::To, errno))?;
        let from = match beneath::directory(from, rest) {
            Ok(from) => from,
            Err(errno) => return Err((Failed::From(to), errno)),
        };
        self.anchors.fetch_add(1, Ordering::Relaxed);
        Ok(Anchor { from, to, length: path.len(), count: Arc::clone(&self.anchors) })
    }

    /// Adds a directory that is to be filled, in one that is open.
    pub(super) fn add(&self, path: Vec<u8>, directory: &Directory<'_>) {
        let begin = directory.reached_from.map_or(0, |anchor| anchor.length);
        let is_far = directory.path.len() - begin > beneath::LONG_WAY;
        let anchor = if is_far && self.anchors.load(Ordering::Relaxed) < MOST_ANCHORS {
            Some(&directory.open)
        } else {
            directory.reached_from
        };
        let pending = Pending { path, anchor: anchor.cloned() };
        self.lock().directories.push(pending);
        self.changed.notify_one();
    }

    /// Copies all of it into the new directory.
    pub(super) fn copy(&self) -> Result<(), Failure> {
        let top = self.to.top.as_fd();
        // Permissions are given, not inherited.
        fchmod(top, Mode::RWXU).map_err(self.to.failed("change", b""))?;
        attributes::disinherit(top).map_err(self.to.failed("change", b""))?;
        thread::scope(|scope| {
            scope.spawn(|| self.progress.tell_until_over(scope, || self.count()));
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

    /// Fills directories until there are none left or something went wrong.
    fn work(&self) {
        let mut scratch = Scratch { buffer: vec![0; BUFFER], attributes: Attributes::new() };
        while let Some(pending) = self.take() {
            let filled = cancel::check().and_then(|()| self.directory(&pending, &mut scratch));
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

    /// Returns a directory to fill, waiting for one while others may find some.
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

    /// Notes the permissions that a directory has in the end.
    pub(super) fn close_later(&self, path: &[u8], mode: Mode) {
        self.lock().closed.push((path.to_vec(), mode));
    }

    /// Gives directories the permissions that had to wait: the innermost first,
    /// and the top, which keeps everybody else out meanwhile, last.
    fn close(&self, mut closed: Vec<(Vec<u8>, Mode)>) -> Result<(), Failure> {
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
        if let Some(bytes) = count::bytes(self.from.top.as_fd(), over) {
            self.progress.total(bytes);
        }
    }

    /// Returns whether a directory of the original is the copy itself.
    pub(super) fn is_copy(&self, stat: &Stat) -> bool {
        (stat.st_dev, stat.st_ino) == (self.to.stat.st_dev, self.to.stat.st_ino)
    }

    /// Returns whether a file of the original is mounted there, as far as its
    /// device tells. Where the kernel itself refuses to cross into mounts, a
    /// device of its own is a part of the same filesystem.
    pub(super) fn is_mounted(&self, stat: &Stat) -> bool {
        !beneath::notices_mounts() && stat.st_dev != self.from.stat.st_dev
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the permissions of a directory that its owner can work in.
pub(super) fn is_open(stat: &Stat) -> bool {
    metadata::mode(stat).contains(Mode::RWXU)
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
