//! The command line of `copy`: sets up the target, reports progress, and cleans up
//! after a failure or a signal.
//!
//! Progress and results are lines of JSON on standard output.

#![expect(unsafe_code, reason = "nothing but the C library installs handlers of signals")]

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RawDir, flock, mkdirat, open, openat,
    statat,
};
use rustix::io::Errno;

use super::beneath;
use super::content::weight;
use super::tree::{CopyTree, TreeSide};
use crate::failure::quoted;

const USAGE: &str = "usage: vestal-stage copy [--with-caller] FROM TO";

/// The option of a copy that ends with the reader of its output.
const WITH_CALLER: &str = "--with-caller";

/// The signal received, or zero.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Whether the output is closed.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// Interval between two lines of progress.
const EVERY: Duration = Duration::from_millis(250);

/// Number of lines after which the total is counted.
const COUNT_AFTER: u32 = 2;

/// The total is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Copies the directory `FROM` to `TO`, which must not exist.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.peekable();
    let lifetime = match arguments.next_if(|argument| argument == WITH_CALLER) {
        Some(_) => Lifetime::WithCaller,
        None => Lifetime::Own,
    };
    let (Some(from), Some(to), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        print_error(USAGE);
        return ExitCode::from(2);
    };
    listen_for_signals();
    // Permissions are those of the original.
    rustix::process::umask(Mode::empty());
    let (failure, left) = match copy(Path::new(&from), Path::new(&to), lifetime) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failed) => failed,
    };
    print_error(&format!("vestal-stage: {failure}"));
    if let Some(left) = &left {
        print_error(&format!("vestal-stage: {} could not be removed", left.display()));
    }
    // A failure to write cannot be reported.
    print_line(&failed_line(&failure, left.as_deref())).ok();
    match failure {
        StageCopyError::Cancelled => ExitCode::from(cancelled_exit_code()),
        _ => ExitCode::FAILURE,
    }
}

/// How long a copy continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    /// Until it is done.
    Own,
    /// At most until nobody reads its output any more.
    WithCaller,
}

/// Copies, or returns the error and what is left of the attempt.
fn copy(
    from: &Path,
    to: &Path,
    lifetime: Lifetime,
) -> Result<(), (StageCopyError, Option<PathBuf>)> {
    let nothing_left = |failure| (failure, None);
    let source = open_source(from).map_err(nothing_left)?;
    let (parent, name) = open_parent(to).map_err(nothing_left)?;
    if lifetime == Lifetime::WithCaller {
        // The order matters: a process that removes what a dead caller left waits for the
        // lock, so a copy either has it before the caller dies, or sees the death
        // and makes nothing.
        lock_shared(&parent, to).map_err(nothing_left)?;
        if is_unread(Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            abandon();
            return Err(nothing_left(StageCopyError::Cancelled));
        }
        std::thread::spawn(|| {
            if is_unread(None) {
                abandon();
            }
        });
    }
    mkdirat(&parent, name, Mode::RWXU).map_err(failed("create", to)).map_err(nothing_left)?;
    fill(source, to, parent.as_fd(), name).map_err(|failure| {
        let removed = beneath::remove_tree(parent.as_fd(), name);
        (failure, removed.is_err().then(|| to.to_owned()))
    })
}

fn open_source(path: &Path) -> Result<TreeSide, StageCopyError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = open(path, flags, Mode::empty()).map_err(failed("open", path))?;
    TreeSide::new(path, top)
}

/// Holds a shared lock on the parent directory of the target until this process exits.
fn lock_shared(parent: &OwnedFd, to: &Path) -> Result<(), StageCopyError> {
    loop {
        match flock(parent, FlockOperation::LockShared) {
            // A filesystem without locks has copies all the same.
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => return Ok(()),
            Err(Errno::INTR) if !is_cancelled() => {}
            Err(Errno::INTR) => return Err(StageCopyError::Cancelled),
            Err(errno) => return Err(failed("lock the directory of", to)(errno)),
        }
    }
}

/// Returns whether nobody reads standard output any more, after waiting for that.
fn is_unread(wait: Option<&Timespec>) -> bool {
    let out = io::stdout();
    loop {
        // Errors are always reported: a pipe without a reader is one.
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        match poll(&mut watched, wait) {
            Ok(_) => return watched[0].revents().contains(PollFlags::ERR),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Opens the parent directory of the target, and returns it and the target's name.
fn open_parent(path: &Path) -> Result<(OwnedFd, &OsStr), StageCopyError> {
    let name = path.file_name().ok_or(Errno::INVAL).map_err(failed("create", path))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = openat(CWD, parent, flags, Mode::empty()).map_err(failed("open", parent))?;
    Ok((at, name))
}

fn fill(
    source: TreeSide,
    to: &Path,
    parent: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(), StageCopyError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(parent, name, flags, Mode::empty()).map_err(failed("open", to))?;
    let tree = CopyTree::new(source, TreeSide::new(to, top)?);
    tree.copy()?;
    check_cancelled()?;
    // Without this line the caller assumes that the copy failed.
    print_line(&tree.progress.done_line()).map_err(|_| {
        abandon();
        StageCopyError::Cancelled
    })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> StageCopyError {
    move |errno| StageCopyError::System { action, path: path.to_owned(), errno }
}

fn print_error(line: &str) {
    // A failure to write cannot be reported.
    writeln!(std::io::stderr(), "{line}").ok();
}

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StageCopyError {
    /// A system error.
    #[error("cannot {action} {}: {}", path.display(), std::io::Error::from(*errno))]
    System {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        errno: Errno,
    },
    /// The file changes faster than it can be read.
    #[error("{} keeps changing while it is copied", .0.display())]
    Changing(PathBuf),
    /// The target is inside the source.
    #[error("cannot copy {} into itself", .0.display())]
    IntoItself(PathBuf),
    /// A signal ended the copy, or nobody waits for it any more.
    #[error("the copy was cancelled")]
    Cancelled,
}

impl StageCopyError {
    /// Returns the file concerned.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::System { path, .. } | Self::Changing(path) | Self::IntoItself(path) => Some(path),
            Self::Cancelled => None,
        }
    }

    /// Returns the system's error number.
    pub(super) fn errno(&self) -> Option<i32> {
        match self {
            Self::System { errno, .. } => Some(errno.raw_os_error()),
            Self::Changing(_) | Self::IntoItself(_) | Self::Cancelled => None,
        }
    }

    /// Returns the action that failed.
    pub(super) fn action(&self) -> &'static str {
        match self {
            Self::System { action, .. } => action,
            Self::Changing(_) | Self::IntoItself(_) | Self::Cancelled => "copy",
        }
    }
}

/// Lets termination signals cancel the copy, so that it is removed first.
fn listen_for_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: a `sigaction` of zeros is a valid one, which the lines below
        // complete; the handler only stores to an atomic, which is allowed in
        // a handler; nothing is read back.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int) = note_signal;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn note_signal(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
}

/// Cancels the copy because nobody reads its output.
fn abandon() {
    ABANDONED.store(true, Ordering::Relaxed);
}

/// Fails if the copy was cancelled.
pub(super) fn check_cancelled() -> Result<(), StageCopyError> {
    if is_cancelled() { Err(StageCopyError::Cancelled) } else { Ok(()) }
}

/// Returns whether the copy was cancelled.
pub(super) fn is_cancelled() -> bool {
    SIGNAL.load(Ordering::Relaxed) != 0 || ABANDONED.load(Ordering::Relaxed)
}

/// Returns the exit code of a cancelled copy, as shells report it.
fn cancelled_exit_code() -> u8 {
    let signal = match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGPIPE,
        signal => signal,
    };
    128 + u8::try_from(signal).unwrap_or(0)
}

#[derive(Debug)]
pub(super) struct CopyProgress {
    files: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    total: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
}

impl CopyProgress {
    pub(super) fn new() -> Self {
        Self {
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            total: AtomicU64::new(UNKNOWN),
            over: Mutex::new(false),
            ended: Condvar::new(),
        }
    }

    /// Counts an entry.
    pub(super) fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes.
    pub(super) fn bytes(&self, count: u64) {
        self.bytes.fetch_add(count, Ordering::Relaxed);
    }

    /// Subtracts bytes that are copied again.
    pub(super) fn again(&self, count: u64) {
        self.bytes.fetch_sub(count, Ordering::Relaxed);
    }

    /// Counts an entry that cannot be copied and is not needed.
    pub(super) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the total number of bytes.
    pub(super) fn total(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// Prints the progress a few times per second until the copy is done. The
    /// total is only counted if the copy takes long, because it needs another
    /// walk.
    pub(super) fn report_until_done<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        count: impl FnOnce() + Send + 'scope,
    ) {
        let mut count = Some(count);
        let mut lines = 0_u32;
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            let (guard, timeout) =
                self.ended.wait_timeout(over, EVERY).unwrap_or_else(PoisonError::into_inner);
            over = guard;
            if *over || !timeout.timed_out() {
                continue;
            }
            // Nobody reads the output, so the copy is not needed any more.
            if print_line(&self.line()).is_err() {
                abandon();
            }
            lines += 1;
            if lines >= COUNT_AFTER
                && let Some(count) = count.take()
            {
                scope.spawn(count);
            }
        }
    }

    /// Ends [`CopyProgress::report_until_done`].
    pub(super) fn end(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.notify_all();
    }

    fn line(&self) -> String {
        let (files, bytes) =
            (self.files.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        match self.total.load(Ordering::Relaxed) {
            UNKNOWN => format!(r#"{{"files":{files},"bytes":{bytes},"total":null}}"#),
            // The files may have grown since they were counted.
            total => format!(r#"{{"files":{files},"bytes":{bytes},"total":{}}}"#, total.max(bytes)),
        }
    }

    /// Returns the last line of a complete copy.
    fn done_line(&self) -> String {
        format!(
            r#"{{"done":true,"files":{},"bytes":{},"skipped":{}}}"#,
            self.files.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
            self.skipped.load(Ordering::Relaxed)
        )
    }
}

/// Returns the last line of a failed copy; `left` could not be removed.
fn failed_line(failure: &StageCopyError, left: Option<&Path>) -> String {
    let path = failure.path().map(|path| path.to_string_lossy());
    let left = left.map(Path::to_string_lossy);
    let text = |text: Option<&str>| text.map_or_else(|| "null".to_owned(), quoted);
    let errno = failure.errno().map_or_else(|| "null".to_owned(), |errno| errno.to_string());
    format!(
        r#"{{"error":{{"action":{},"path":{},"errno":{errno},"message":{},"left":{}}}}}"#,
        quoted(failure.action()),
        text(path.as_deref()),
        quoted(&failure.to_string()),
        text(left.as_deref()),
    )
}

/// Writes a line to standard output.
pub(super) fn print_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Returns the approximate number of bytes in a tree, or nothing if `over`
/// returns true meanwhile.
pub(super) fn count_bytes(top: BorrowedFd<'_>, over: impl Fn() -> bool) -> Option<u64> {
    let mut buffer = Vec::with_capacity(64 << 10);
    // Directories with their path from an open one, or from the top.
    let mut directories: Vec<(Option<Rc<OwnedFd>>, Vec<u8>)> = vec![(None, Vec::new())];
    let mut linked = HashSet::new();
    let mut total = 0;
    while let Some((near, path)) = directories.pop() {
        let from = near.as_ref().map_or(top, |near| near.as_fd());
        // The copy reports unreadable directories, and mounts are not copied.
        let Ok(directory) = beneath::directory(from, &path) else {
            continue;
        };
        let directory = Rc::new(directory);
        let is_deep = path.len() > beneath::ANCHOR_AFTER;
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            if over() || is_cancelled() {
                return None;
            }
            let name = entry.file_name();
            match entry.file_type() {
                FileType::Directory if !is_dots(name.to_bytes()) => {
                    directories.push(if is_deep {
                        (Some(Rc::clone(&directory)), name.to_bytes().to_vec())
                    } else {
                        (near.clone(), beneath::join(&path, name.to_bytes()))
                    });
                }
                FileType::RegularFile => {
                    let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                        continue;
                    };
                    // Hard links are copied once.
                    if stat.st_nlink < 2 || linked.insert((stat.st_dev, stat.st_ino)) {
                        total += weight(&stat);
                    }
                }
                _ => {}
            }
        }
    }
    Some(total)
}

/// Returns whether a name is `.` or `..`.
pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
