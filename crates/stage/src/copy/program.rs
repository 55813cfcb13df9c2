//! The command line, and what becomes of the target.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

use super::failure::Failure;
use super::progress::{failed_line, say};
use super::tree::{Side, Tree};
use super::{cancel, remove};

const USAGE: &str = "usage: vestal-stage copy FROM TO";

/// Copies a tree: `FROM` is a directory, `TO` is made.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(from), Some(to), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        complain(USAGE);
        return ExitCode::from(2);
    };
    cancel::listen();
    // Permissions are those of the original.
    rustix::process::umask(Mode::empty());
    let (failure, left) = match copy(Path::new(&from), Path::new(&to)) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failed) => failed,
    };
    complain(&format!("vestal-stage: {failure}"));
    if let Some(left) = &left {
        complain(&format!("vestal-stage: {} is left behind", left.display()));
    }
    // If nobody listens there is nobody left to tell.
    say(&failed_line(&failure, left.as_deref())).ok();
    match failure {
        Failure::Cancelled => ExitCode::from(cancel::exit_code()),
        _ => ExitCode::FAILURE,
    }
}

/// Copies, or says why not and what is left of the attempt.
fn copy(from: &Path, to: &Path) -> Result<(), (Failure, Option<PathBuf>)> {
    let nothing_left = |failure| (failure, None);
    let source = open_source(from).map_err(nothing_left)?;
    let (parent, name) = make_target(to).map_err(nothing_left)?;
    fill(source, to, parent.as_fd(), name).map_err(|failure| {
        let removed = remove::tree(parent.as_fd(), name);
        (failure, removed.is_err().then(|| to.to_owned()))
    })
}

fn open_source(path: &Path) -> Result<Side, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = open(path, flags, Mode::empty()).map_err(failed("open", path))?;
    Side::new(path, top)
}

/// Makes the target, and returns the directory it is in and its name there.
fn make_target(path: &Path) -> Result<(OwnedFd, &OsStr), Failure> {
    let name = path.file_name().ok_or(Errno::INVAL).map_err(failed("create", path))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = openat(CWD, parent, flags, Mode::empty()).map_err(failed("open", parent))?;
    mkdirat(&at, name, Mode::RWXU).map_err(failed("create", path))?;
    Ok((at, name))
}

fn fill(source: Side, to: &Path, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(parent, name, flags, Mode::empty()).map_err(failed("open", to))?;
    let tree = Tree::new(source, Side::new(to, top)?);
    tree.copy()?;
    cancel::check()?;
    // Whoever does not hear that it is whole takes it for not made.
    say(&tree.progress.done_line()).map_err(|_| {
        cancel::abandon();
        Failure::Cancelled
    })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> Failure {
    move |errno| Failure::System { action, path: path.to_owned(), errno }
}

fn complain(line: &str) {
    // If nobody listens there is nobody left to tell.
    writeln!(std::io::stderr(), "{line}").ok();
}
