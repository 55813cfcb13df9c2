//! Users of a sandbox: which host users they map to, and what they may use.
//!
//! A plan is checked before it is carried out: user 0 of the host is never mapped.
//! What a user namespace consumes also counts against the user who created it, so
//! a sandbox gets limits of its own.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Gid, Pid, Resource, Rlimit, Uid, WaitOptions, getrlimit, setrlimit, waitpid,
};
use rustix::thread::{
    UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};
use vestal_wire::{IdRange, Mapping, UserLimits, UserMapping};

use crate::failure::{BuildStep, StepFailure, failed};
use crate::sys::{Child, Cloned, as_file_owner, clone, exit_now, set_dumpable};

/// Refuses a mapping that a sandbox must not have, such as the host's root.
pub(crate) fn check(users: &UserMapping) -> Result<(), StepFailure> {
    check_ranges("user", &users.uids)?;
    check_ranges("group", &users.gids)?;
    if users.uids.iter().any(|range| range.outside == 0) {
        return Err(refused("user 0 of the host must not be mapped into a sandbox".into()));
    }
    // The own group of some users is group 0, which gives them nothing new.
    if users.mapping != Mapping::Own && users.gids.iter().any(|range| range.outside == 0) {
        return Err(refused("group 0 of the host must not be mapped into a sandbox".into()));
    }
    Ok(())
}

fn check_ranges(what: &str, ranges: &[IdRange]) -> Result<(), StepFailure> {
    if !ranges.iter().any(|range| range.inside == 0) {
        return Err(refused(format!("the sandbox has no {what} 0")));
    }
    for range in ranges {
        let fits = |first: u32| first.checked_add(range.count).is_some();
        if range.count == 0 || !fits(range.inside) || !fits(range.outside) {
            return Err(refused(format!("{range:?} is not a valid range of {what}s")));
        }
    }
    Ok(())
}

fn refused(message: String) -> StepFailure {
    StepFailure::new(BuildStep::Plan, message)
}

/// Writes the user and group maps of a process's namespace.
pub(crate) fn write_maps(pid: Pid, users: &UserMapping) -> Result<(), StepFailure> {
    match &users.mapping {
        Mapping::Own => {
            // Leaving a group could give access to what is denied to the group.
            write_proc_file(pid, "setgroups", "deny")?;
            write_directly(pid, users)
        }
        Mapping::Privileged => write_directly(pid, users),
        Mapping::Helpers { newuidmap, newgidmap } => {
            run_helper(newuidmap, pid, &users.uids)?;
            run_helper(newgidmap, pid, &users.gids)
        }
    }
}

fn write_directly(pid: Pid, users: &UserMapping) -> Result<(), StepFailure> {
    write_proc_file(pid, "uid_map", &table(&users.uids))?;
    write_proc_file(pid, "gid_map", &table(&users.gids))
}

fn table(ranges: &[IdRange]) -> String {
    ranges.iter().fold(String::new(), |mut table, range| {
        writeln!(table, "{} {} {}", range.inside, range.outside, range.count).ok();
        table
    })
}

fn write_proc_file(pid: Pid, name: &str, content: &str) -> Result<(), StepFailure> {
    let path = format!("/proc/{}/{name}", pid.as_raw_nonzero());
    // The kernel accepts the whole text or nothing.
    let written = OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write(content.as_bytes()))
        .and_then(|count| {
            let whole = count == content.len();
            if whole { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        });
    written.map_err(|error| StepFailure::of(BuildStep::MapUsers, error).at(path.as_bytes()))
}

/// Runs a setuid helper, which knows the ranges of a user.
fn run_helper(helper: &[u8], pid: Pid, ranges: &[IdRange]) -> Result<(), StepFailure> {
    let mut command = Command::new(OsStr::from_bytes(helper));
    command.arg(pid.as_raw_nonzero().to_string());
    for range in ranges {
        command.args([range.inside, range.outside, range.count].map(|number| number.to_string()));
    }
    let output = command
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| StepFailure::of(BuildStep::MapUsers, error).at(helper))?;
    if output.status.success() {
        return Ok(());
    }
    let output_text = String::from_utf8_lossy(&output.stderr);
    Err(StepFailure::new(BuildStep::MapUsers, output_text.trim()).at(helper))
}

/// The user that is root of a sandbox, as the building process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SandboxRoot {
    /// The process itself.
    Myself,
    /// Another user.
    Other { uid: u32, gid: u32 },
}

impl SandboxRoot {
    /// Returns the user that is root of the sandbox.
    pub(crate) fn of(users: &UserMapping) -> Self {
        match users.mapping {
            Mapping::Own | Mapping::Helpers { .. } => Self::Myself,
            Mapping::Privileged => {
                // A plan without them was refused before.
                let root = |ranges| host_id(ranges, 0).unwrap_or(u32::MAX);
                Self::Other { uid: root(&users.uids), gid: root(&users.gids) }
            }
        }
    }

    /// Creates a file that belongs to root of the sandbox.
    pub(crate) fn make<T>(self, make: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
        Ok(match self {
            Self::Myself => make()?,
            Self::Other { uid, gid } => as_file_owner(uid, gid, make)??,
        })
    }
}

/// Returns the host id for an id of the sandbox.
pub(crate) fn host_id(ranges: &[IdRange], inside: u32) -> Option<u32> {
    ranges.iter().find_map(|range| {
        let offset = inside.checked_sub(range.inside).filter(|offset| *offset < range.count)?;
        range.outside.checked_add(offset)
    })
}

/// Returns the first and the last group of a sandbox, as the building process
/// sees them.
pub(crate) fn ping_groups(users: &UserMapping) -> (u32, u32) {
    let count: u32 = users.gids.iter().map(|range| range.count).sum();
    let first = match SandboxRoot::of(users) {
        SandboxRoot::Myself => 0,
        SandboxRoot::Other { gid, .. } => gid,
    };
    (first, first.saturating_add(count.saturating_sub(1)))
}

/// Becomes root of the current user namespace.
pub(crate) fn become_root(mapping: &Mapping) -> io::Result<()> {
    match mapping {
        // A user who created the namespace may not drop groups.
        Mapping::Own => {}
        Mapping::Privileged | Mapping::Helpers { .. } => set_thread_groups(&[])?,
    }
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    Ok(())
}

/// Becomes the host user that is root of the sandbox, in a user namespace with
/// host ids.
fn become_owner(users: &UserMapping) -> io::Result<()> {
    let number = |ranges| host_id(ranges, 0).ok_or(io::ErrorKind::InvalidInput);
    let (uid, gid) = (number(&users.uids)?, number(&users.gids)?);
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Sets the limits that the kernel counts per namespace.
pub(crate) fn limit_namespace(limits: &UserLimits) -> io::Result<()> {
    let counted = [
        ("max_inotify_instances", limits.inotify_instances),
        ("max_inotify_watches", limits.inotify_watches),
    ];
    for (name, max) in counted {
        let Some(max) = max else {
            continue;
        };
        let written = OpenOptions::new()
            .write(true)
            .open(format!("/proc/sys/user/{name}"))
            .and_then(|mut file| file.write_all(max.to_string().as_bytes()));
        match written {
            // A surrounding container may mount the settings read-only, and some
            // kernels do not have them.
            Err(error) if is_out_of_reach(&error) => {}
            written => written?,
        }
    }
    Ok(())
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EROFS | libc::ENOENT | libc::EACCES))
}

/// Sets the limits that the kernel counts per process, for this process and its
/// children. They apply to all users of a later user namespace together.
pub(crate) fn limit_process(limits: &UserLimits) -> io::Result<()> {
    let counted = [
        (Resource::Sigpending, limits.pending_signals),
        (Resource::Msgqueue, limits.message_queues),
    ];
    for (resource, max) in counted {
        if let Some(max) = max {
            let hard = getrlimit(resource).maximum;
            let max = hard.map_or(max, |hard| hard.min(max));
            setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })?;
        }
    }
    Ok(())
}

/// Creates a user namespace for the users of a sandbox. It is inside another one
/// whose users have host ids. What the kernel counts for each user of the inner
/// namespace, it also counts for the user of the outer one who created it, and
/// that user is limited.
///
/// Each namespace needs a process, which only waits and is gone when this
/// returns.
pub(crate) fn make_namespace(
    users: &UserMapping,
    limits: &UserLimits,
) -> Result<OwnedFd, StepFailure> {
    let (reports, report) = pipe()?;
    let (wait, release) = pipe()?;
    let outer = match clone(libc::CLONE_NEWUSER).map_err(failed(BuildStep::UserNamespace))? {
        Cloned::Child => {
            drop((reports, release));
            exit_now(i32::from(nest(users, limits, &wait, &report).is_err()))
        }
        Cloned::Parent(outer) => outer,
    };
    drop((report, wait));
    let made = write_maps(outer.pid, &as_outside(users)).and_then(|()| {
        // It continues once the maps are written.
        rustix::io::write(&release, b"+").map_err(failed(BuildStep::UserNamespace))?;
        let mut number = [0_u8; 4];
        let read =
            rustix::io::read(&reports, &mut number).map_err(failed(BuildStep::UserNamespace))?;
        if read != number.len() {
            return Err(StepFailure::new(
                BuildStep::UserNamespace,
                "cannot create a user namespace inside another one",
            ));
        }
        let path = format!("/proc/{}/ns/user", i32::from_ne_bytes(number));
        File::open(&path)
            .map_err(|error| StepFailure::of(BuildStep::UserNamespace, error).at(path.as_bytes()))
    });
    drop(release);
    waitpid(Some(outer.pid), WaitOptions::empty()).map_err(failed(BuildStep::UserNamespace))?;
    made.map(OwnedFd::from)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), StepFailure> {
    pipe_with(PipeFlags::CLOEXEC).map_err(failed(BuildStep::UserNamespace))
}

/// Creates the inner namespace, reports the pid in it, and waits until the other
/// end of `wait` is closed.
fn nest(
    users: &UserMapping,
    limits: &UserLimits,
    wait: &OwnedFd,
    report: &OwnedFd,
) -> Result<(), StepFailure> {
    if rustix::io::read(wait, &mut [0_u8]).map_err(failed(BuildStep::UserNamespace))? != 1 {
        return Ok(());
    }
    become_owner(users).map_err(failed(BuildStep::UserNamespace))?;
    // After a change of user the process is not dumpable, and could not access
    // its own child.
    set_dumpable().map_err(failed(BuildStep::UserNamespace))?;
    limit_namespace(limits).map_err(failed(BuildStep::UserNamespace))?;
    limit_process(limits).map_err(failed(BuildStep::UserNamespace))?;
    let (ended, end) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(BuildStep::UserNamespace))?;
    let inner: Child = match clone(libc::CLONE_NEWUSER).map_err(failed(BuildStep::UserNamespace))? {
        Cloned::Child => {
            drop(end);
            rustix::io::read(ended.as_fd(), &mut [0_u8]).ok();
            exit_now(0)
        }
        Cloned::Parent(inner) => inner,
    };
    let reports = write_maps(inner.pid, users).and_then(|()| {
        let number = pid_bytes(inner.pid);
        rustix::io::write(report, &number).map_err(failed(BuildStep::UserNamespace))?;
        rustix::io::read(wait, &mut [0_u8]).map_err(failed(BuildStep::UserNamespace))?;
        Ok(())
    });
    drop(end);
    waitpid(Some(inner.pid), WaitOptions::empty()).map_err(failed(BuildStep::UserNamespace))?;
    reports
}

fn pid_bytes(pid: Pid) -> [u8; 4] {
    pid.as_raw_nonzero().get().to_ne_bytes()
}

/// Returns the users with host ids on both sides.
fn as_outside(users: &UserMapping) -> UserMapping {
    let same = |ranges: &[IdRange]| {
        ranges.iter().map(|range| IdRange { inside: range.outside, ..*range }).collect()
    };
    UserMapping { uids: same(&users.uids), gids: same(&users.gids), mapping: Mapping::Privileged }
}

/// Returns the users with sandbox ids on both sides.
fn as_inside(users: &UserMapping) -> UserMapping {
    let same = |ranges: &[IdRange]| {
        ranges.iter().map(|range| IdRange { outside: range.inside, ..*range }).collect()
    };
    UserMapping { uids: same(&users.uids), gids: same(&users.gids), mapping: Mapping::Privileged }
}

/// Enters a user namespace inside the current one with the same users, so that
/// they are limited together. Must be called by the first process of a sandbox,
/// after `/proc` was mounted.
pub(crate) fn enter_inner_namespace(
    users: &UserMapping,
    limits: &UserLimits,
) -> Result<(), StepFailure> {
    let failed = || failed(BuildStep::UserNamespace);
    let failed_io = |error: io::Error| StepFailure::of(BuildStep::UserNamespace, error);
    limit_process(limits).map_err(failed_io)?;
    let (wait, go) = pipe()?;
    // Only a process outside the namespace can write the maps.
    let writer = match clone(0).map_err(failed_io)? {
        Cloned::Child => {
            drop(go);
            let went = rustix::io::read(&wait, &mut [0_u8]) == Ok(1)
                && write_maps(Pid::INIT, &as_inside(users)).is_ok();
            exit_now(i32::from(!went))
        }
        Cloned::Parent(writer) => writer,
    };
    drop(wait);
    let entered = unshare_users().map_err(failed()).and_then(|()| {
        set_dumpable().map_err(failed_io)?;
        rustix::io::write(&go, b"+").map_err(failed())
    });
    drop(go);
    let ended = waitpid(Some(writer.pid), WaitOptions::empty()).map_err(failed())?;
    entered?;
    if ended.is_none_or(|(_, status)| status.exit_status() != Some(0)) {
        return Err(StepFailure::new(
            BuildStep::MapUsers,
            "cannot limit the users of the sandbox together",
        ));
    }
    become_root(&Mapping::Privileged).map_err(failed_io)
}

#[expect(unsafe_code, reason = "the library holds all unsharing to be as unsafe as of descriptors")]
pub(crate) fn unshare_users() -> rustix::io::Result<()> {
    // SAFETY: descriptors stay shared; this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }
}

#[cfg(test)]
#[path = "users_tests.rs"]
mod tests;
