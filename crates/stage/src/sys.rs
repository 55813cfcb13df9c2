//! System calls for which `rustix` has no safe form.

#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::ffi::{CString, c_char};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::{io, ptr};

use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

/// The first Landlock version with scopes.
const SCOPES: i64 = 6;

const CREATE_VERSION: libc::c_uint = 1;
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 2;

/// Size of an instruction in bytes.
const INSTRUCTION: usize = size_of::<libc::sock_filter>();

/// Which of two processes this is.
#[derive(Debug)]
pub(crate) enum Cloned {
    /// The new process.
    Child,
    /// The process that created it.
    Parent(Child),
}

/// A child process.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its pid, as this process sees it.
    pub(crate) pid: Pid,
    /// Its pidfd.
    pub(crate) handle: OwnedFd,
}

/// Clones this process into new namespaces.
///
/// Works like `fork`: this process must have only one thread.
pub(crate) fn clone(namespaces: i32) -> io::Result<Cloned> {
    let mut handle: RawFd = -1;
    let flags = libc::c_long::from(namespaces | libc::CLONE_PIDFD | libc::SIGCHLD);
    // SAFETY: without a stack and without shared memory the copy continues with a
    // copy of everything this process has, which is a single thread. The kernel
    // writes a descriptor to `handle`, which outlives the call. The first three
    // arguments are in this order on every architecture that there are guests
    // for, and the others are zero.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, flags, 0_usize, &raw mut handle, 0_usize, 0_usize)
    };
    match i32::try_from(pid) {
        Ok(0) => Ok(Cloned::Child),
        Ok(pid) => match Pid::from_raw(pid).filter(|pid| pid.as_raw_nonzero().get() > 0) {
            Some(pid) => {
                // SAFETY: the kernel has just made this descriptor for us.
                let handle = unsafe { OwnedFd::from_raw_fd(handle) };
                Ok(Cloned::Parent(Child { pid, handle }))
            }
            None => Err(io::Error::last_os_error()),
        },
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Lets other processes of the same user inspect this one.
pub(crate) fn set_dumpable() -> io::Result<()> {
    // SAFETY: it changes a flag of this process and touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Exits at once.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it does not return, and nothing of this process is to be done.
    unsafe { libc::_exit(code) }
}

/// Runs a function with another user as the owner of new files, and with all
/// current rights.
pub(crate) fn as_file_owner<T>(uid: u32, gid: u32, work: impl FnOnce() -> T) -> io::Result<T> {
    let before = capabilities(None)?;
    // SAFETY: these change ids of this process, which has one thread. They return
    // the previous id and no success; a failure shows when the rights are
    // restored below.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
    // The kernel drops the rights over files with the change of user.
    let done = set_capabilities(None, before).map(|()| work());
    // SAFETY: as above. The ids are restored.
    unsafe {
        libc::setfsuid(libc::geteuid());
        libc::setfsgid(libc::getegid());
    }
    set_capabilities(None, before)?;
    Ok(done?)
}

/// The number of the user and group to which nothing belongs.
const NOBODY: u32 = 65534;

/// Runs a function with no more rights over files than everyone has, and still with
/// the right to mount.
pub(crate) fn as_everyone<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let before = capabilities(None)?;
    let groups = getgroups()?;
    set_thread_groups(&[])?;
    let done = as_nobody(before, work);
    set_capabilities(None, before)?;
    set_thread_groups(&groups)?;
    Ok(done?)
}

fn as_nobody<T>(all: CapabilitySets, work: impl FnOnce() -> T) -> rustix::io::Result<T> {
    // SAFETY: these change ids of this process, which has one thread. They return
    // the previous id and no success, so the second call of each tells whether the
    // first one had an effect.
    let is_nobody = unsafe {
        libc::setfsgid(NOBODY);
        libc::setfsuid(NOBODY);
        [libc::setfsgid(NOBODY), libc::setfsuid(NOBODY)] == [NOBODY.cast_signed(); 2]
    };
    let done = if is_nobody {
        let effective = CapabilitySet::SYS_ADMIN;
        set_capabilities(None, CapabilitySets { effective, ..all }).map(|()| work())
    } else {
        Err(Errno::PERM)
    };
    // SAFETY: as above. The ids are restored.
    unsafe {
        libc::setfsuid(libc::geteuid());
        libc::setfsgid(libc::getegid());
    }
    done
}

/// Gives up all capabilities except those in a mask, permanently.
pub(crate) fn keep_capabilities(mask: u64) -> io::Result<()> {
    for number in 0..u64::BITS {
        if mask & (1 << number) != 0 {
            continue;
        }
        // SAFETY: it reads a set of this process and touches no memory.
        match unsafe { libc::prctl(libc::PR_CAPBSET_READ, libc::c_ulong::from(number), 0, 0, 0) } {
            // It was given up before, so nobody needs the right to do so.
            0 => continue,
            1 => {}
            _ => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    // The kernel has no more capabilities.
                    Some(libc::EINVAL) if number > 0 => break,
                    _ => return Err(error),
                }
            }
        }
        // SAFETY: it changes a set of this process and touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) } != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let held = capabilities(None)?;
    let kept = rustix::thread::CapabilitySet::from_bits_retain(mask) & held.permitted;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: rustix::thread::CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

/// Number of signals.
const SIGNALS: i32 = 64;

/// Size of a signal set in bytes.
const SIGNAL_SET: usize = 8;

/// Resets all signals to their default action, and unblocks them.
pub(crate) fn reset_signals() {
    // The C library does not change the two signals it reserves, but passes on
    // what it inherited. So this calls the kernel directly.
    let default = [0_u64; 4];
    for signal in 1..=SIGNALS {
        // SAFETY: the action is as large as any architecture's, and all zeroes
        // is the default one, which runs no code of this process. It fails for
        // the few that cannot be changed.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                SIGNAL_SET,
            );
        }
    }
    let none = 0_u64;
    // SAFETY: the set has the size that is given and outlives the call, which only
    // reads it.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            ptr::null_mut::<u64>(),
            SIGNAL_SET,
        );
    }
}

/// Executes another program. Returns only after a failure.
pub(crate) fn execute(arguments: &[Vec<u8>], environment: &[Vec<u8>]) -> io::Error {
    let texts = |list: &[Vec<u8>]| -> io::Result<Vec<CString>> {
        let texts = list.iter().map(|text| CString::new(text.as_slice()));
        texts.collect::<Result<_, _>>().map_err(|_| io::ErrorKind::InvalidInput.into())
    };
    let (arguments, environment) = match (texts(arguments), texts(environment)) {
        (Ok(arguments), Ok(environment)) => (arguments, environment),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let Some(program) = arguments.first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    // SAFETY: both lists end with a null pointer and point to texts that live
    // until the call is over.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Leaves the session keyring of the caller.
pub(crate) fn leave_session_keyring() {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for a keyring without one; no memory is touched.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, ptr::null::<c_char>()) };
}

/// Borrows an inherited descriptor. It keeps its number, and programs started
/// meanwhile do not inherit it.
pub(crate) fn inherited(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    // SAFETY: fcntl does not touch memory, and fails for a number that is no
    // open descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, was given to this process to use, and is never closed
    // while the process lives.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Redirects the standard streams that are not in `kept` to `/dev/null`.
pub(crate) fn null_std_streams(null: BorrowedFd<'_>, kept: &[RawFd]) -> io::Result<()> {
    let is_redirected = |number: RawFd| !kept.contains(&number);
    if is_redirected(0) {
        rustix::stdio::dup2_stdin(null)?;
    }
    if is_redirected(1) {
        rustix::stdio::dup2_stdout(null)?;
    }
    if is_redirected(2) {
        rustix::stdio::dup2_stderr(null)?;
    }
    Ok(())
}

/// Closes all descriptors above the standard streams except these.
pub(crate) fn close_all_except(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.into_iter().filter(|number| *number >= 3) {
        if number > first {
            close_range(first, number - 1, 0)?;
        }
        first = number.saturating_add(1);
    }
    close_range(first, u32::MAX, 0)
}

/// Marks all descriptors above the standard streams as close-on-exec.
pub(crate) fn close_all_on_exec() -> io::Result<()> {
    close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the closed descriptors were inherited unintentionally or are not
    // used any more; nothing in this process refers to them.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets a program inherit a descriptor under its number.
pub(crate) fn pass_on(number: RawFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(inherited(number)?, FdFlags::empty())?)
}

/// Whether an operation includes the mounts below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountScope {
    /// Only the mount itself.
    Single,
    /// Also all mounts below it.
    Recursive,
}

/// Adds attributes to a mount. None are removed.
pub(crate) fn add_attributes(
    mount: impl AsFd,
    scope: MountScope,
    attributes: u64,
) -> io::Result<()> {
    mount_setattr(mount.as_fd(), scope, attributes, 0)
}

/// Adds attributes to a mount and idmaps it: owners of files are shown as the
/// users of the same number in a user namespace.
pub(crate) fn shift_owners(
    mount: impl AsFd,
    scope: MountScope,
    attributes: u64,
    users: BorrowedFd<'_>,
) -> io::Result<()> {
    let users = u64::try_from(users.as_raw_fd()).map_err(io::Error::other)?;
    mount_setattr(mount.as_fd(), scope, attributes | libc::MOUNT_ATTR_IDMAP, users)
}

fn mount_setattr(
    mount: BorrowedFd<'_>,
    scope: MountScope,
    attributes: u64,
    users: u64,
) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: users };
    let flags = match scope {
        MountScope::Single => libc::AT_EMPTY_PATH,
        MountScope::Recursive => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    // SAFETY: the path is an empty text and the attributes are as large as is
    // said; both outlive the call, which only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Allows groups to use `ping` in a new network namespace. The ids are those that
/// this process sees. A read-only `/proc/sys` is ignored.
pub(crate) fn allow_ping(first: u32, last: u32) {
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", format!("{first} {last}")).ok();
}

/// The flag of an interface that is up, in the type of the request.
const UP: libc::c_short = 1;

/// Brings up the loopback interface.
pub(crate) fn bring_up_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: a request may be all zeroes.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags = UP;
    // SAFETY: the request is one of an interface's flags, ends its name with a
    // zero and outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scoped: u64,
}

/// Denies this process and its children access to abstract sockets of other
/// processes, and sending them signals. Does nothing if the kernel does not
/// support it.
pub(crate) fn landlock_scope() -> io::Result<()> {
    // SAFETY: a null ruleset of no size asks for the version.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<Ruleset>(),
            0_usize,
            CREATE_VERSION,
        )
    };
    if version < SCOPES {
        return Ok(());
    }
    let ruleset = Ruleset { files: 0, network: 0, scoped: SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS };
    // SAFETY: the ruleset has the size that is given and outlives the call, which
    // only reads it.
    let made = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const ruleset,
            size_of::<Ruleset>(),
            0_u32,
        )
    };
    let made = i32::try_from(made).ok().filter(|made| *made >= 0);
    let made = made.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let made = unsafe { OwnedFd::from_raw_fd(made) };
    // SAFETY: it takes a descriptor and touches no memory.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, made.as_raw_fd(), 0_u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Installs a filter: an array of `sock_filter`.
pub(crate) fn install_filter(program: &[u8]) -> io::Result<()> {
    let (chunks, rest) = program.as_chunks::<INSTRUCTION>();
    let length = u16::try_from(chunks.len()).ok().filter(|length| *length > 0);
    let (Some(length), true) = (length, rest.is_empty()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut instructions: Vec<libc::sock_filter> = chunks
        .iter()
        .map(|[c0, c1, jt, jf, k0, k1, k2, k3]| libc::sock_filter {
            code: u16::from_ne_bytes([*c0, *c1]),
            jt: *jt,
            jf: *jf,
            k: u32::from_ne_bytes([*k0, *k1, *k2, *k3]),
        })
        .collect();
    let program = libc::sock_fprog { len: length, filter: instructions.as_mut_ptr() };
    // SAFETY: the program points to as many instructions as it says, which
    // outlive the call. The kernel checks and copies them.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
