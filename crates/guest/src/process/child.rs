//! Starts programs: jobs, on a terminal or not, and supervisors.

#![expect(unsafe_code, reason = "clone, execve and signal dispositions")]

use std::convert::Infallible;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Resource, Rlimit, setrlimit};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use vestal_wire::WindowSize;

use super::protocol::{ChildEnds, FailedStep};
use crate::user::Credentials;

/// A program ready to be executed.
#[derive(Debug)]
pub(super) struct ExecProgram<'a> {
    /// Files to try, in this order.
    pub(super) candidates: Vec<CString>,
    /// Its arguments, its name first.
    pub(super) argv: Vec<CString>,
    /// Its environment; absent: this process's.
    pub(super) env: Option<Vec<CString>>,
    /// How it is started.
    pub(super) role: ProgramRole<'a>,
}

/// How a program is started.
#[derive(Debug)]
pub(super) enum ProgramRole<'a> {
    /// A job: in a new session, with the limits and rights of this process.
    Job {
        /// Where it starts.
        cwd: CString,
        /// Whether its standard input becomes its controlling terminal.
        pty: bool,
    },
    /// A supervisor: starts in the directory of this process, with the rights of jobs.
    Supervisor(&'a JobRights),
}

/// Why a program was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StartFailure {
    /// What failed.
    pub(super) step: FailedStep,
    /// The operating system's error number.
    pub(super) errno: i32,
}

impl StartFailure {
    pub(super) fn setup(error: &io::Error) -> Self {
        Self { step: FailedStep::Setup, errno: error.raw_os_error().unwrap_or(libc::EINVAL) }
    }
}

/// Stack size for the child until it executes its program.
const STACK: usize = 256 << 10;

/// Input and result of the child.
struct ChildContext<'a> {
    program: &'a ExecProgram<'a>,
    ends: &'a ChildEnds,
    argv: Vec<*const c_char>,
    env: Option<Vec<*const c_char>>,
    script_argv: Vec<*const c_char>,
    failure: Option<StartFailure>,
}

/// Starts `program` and returns its process id once it is executed.
///
/// Until then the child shares this process's memory, as with `posix_spawn`:
/// nothing is copied, and a failure is simply stored.
pub(super) fn start(program: &ExecProgram<'_>, ends: &ChildEnds) -> Result<Pid, StartFailure> {
    let mut context = ChildContext {
        program,
        ends,
        argv: pointers(&program.argv),
        env: program.env.as_deref().map(pointers),
        script_argv: script_argv(&program.argv),
        failure: None,
    };
    let mut stack: Vec<u128> = vec![0; STACK / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: the child runs `run_child` on a stack of its own, which grows
    // down from its aligned end, and with a valid argument. CLONE_VFORK keeps
    // this thread from running until the child has executed another program or
    // has ended, so that neither sees the other change anything; other threads
    // know nothing of what the child touches. No signal has a handler here that
    // could run in the child.
    let pid = unsafe {
        libc::clone(
            run_child,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut context).cast(),
        )
    };
    if pid < 0 {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN);
        return Err(StartFailure { step: FailedStep::Fork, errno });
    }
    match (context.failure, Pid::from_raw(pid)) {
        (None, Some(pid)) => Ok(pid),
        (Some(failure), _) => Err(failure),
        (None, None) => Err(StartFailure { step: FailedStep::Fork, errno: libc::EAGAIN }),
    }
}

/// Runs in the child. Returns only after a failure.
extern "C" fn run_child(context: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its context and does not touch it
    // until this process is gone.
    let context = unsafe { &mut *context.cast::<ChildContext<'_>>() };
    let Err(failure) = become_program(context);
    context.failure = Some(failure);
    127
}

fn become_program(context: &mut ChildContext<'_>) -> Result<Infallible, StartFailure> {
    let setup = |errno: rustix::io::Errno| StartFailure {
        step: FailedStep::Setup,
        errno: errno.raw_os_error(),
    };
    let ChildContext { program, ends, argv, env, script_argv, .. } = context;
    if let ProgramRole::Job { pty, .. } = program.role {
        rustix::process::setsid().map_err(setup)?;
        if pty {
            rustix::process::ioctl_tiocsctty(ends.stdin.as_fd()).map_err(setup)?;
        }
    }
    rustix::stdio::dup2_stdin(&ends.stdin).map_err(setup)?;
    rustix::stdio::dup2_stdout(&ends.stdout).map_err(setup)?;
    rustix::stdio::dup2_stderr(&ends.stderr).map_err(setup)?;
    reset_signals();
    match &program.role {
        ProgramRole::Job { cwd, .. } => {
            rustix::process::chdir(cwd.as_c_str()).map_err(|errno| StartFailure {
                step: FailedStep::Chdir,
                errno: errno.raw_os_error(),
            })?;
        }
        ProgramRole::Supervisor(rights) => take(rights).map_err(setup)?,
    }
    // SAFETY: nothing in this program changes the environment.
    let env = env.as_ref().map_or(unsafe { environ }, Vec::as_ptr);
    let errno = execute(&program.candidates, argv, env, script_argv);
    Err(StartFailure { step: FailedStep::Exec, errno })
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Takes on the limits and rights of jobs.
fn take(rights: &JobRights) -> Result<(), rustix::io::Errno> {
    if let Some(limit) = rights.files {
        setrlimit(Resource::Nofile, limit)?;
    }
    rights.credentials.as_ref().map_or(Ok(()), Credentials::assume)
}

/// Resets signals to what a new program expects: none blocked, none ignored. Only
/// for a process that is about to execute a program.
fn reset_signals() {
    const COUNT: libc::c_int = 64;
    // The kernel's own form of an action: default handler, no flags, no mask.
    let default = [0_u64; 4];
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: plain system calls on valid pointers; signals that cannot be
    // changed are refused without effect. The C library's own wrapper would
    // refuse two more that it uses itself, and that may be ignored here too.
    unsafe {
        for signal in 1..=COUNT {
            let size = COUNT / 8;
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), 0_usize, size);
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Tries the candidates in order, as `execvpe` does. Returns the relevant error.
fn execute(
    candidates: &[CString],
    argv: &[*const c_char],
    env: *const *const c_char,
    script_argv: &mut [*const c_char],
) -> i32 {
    let mut verdict = libc::ENOENT;
    for candidate in candidates {
        match exec(candidate, argv, env) {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => verdict = libc::EACCES,
            libc::ENOEXEC => {
                // The shell runs scripts without an interpreter line.
                if let Some(script) = script_argv.get_mut(1) {
                    *script = candidate.as_ptr();
                }
                return exec(SHELL, script_argv, env);
            }
            errno => return errno,
        }
    }
    verdict
}

const SHELL: &CStr = c"/bin/sh";

fn exec(file: &CStr, argv: &[*const c_char], env: *const *const c_char) -> i32 {
    // SAFETY: both lists end with a null pointer and point to strings that
    // outlive the call, which only returns on failure.
    unsafe { libc::execve(file.as_ptr(), argv.as_ptr(), env) };
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
    pointers.push(std::ptr::null());
    pointers
}

/// Returns the arguments for the shell to run a script: its name, a slot for the
/// script's path, then the script's own arguments.
fn script_argv(argv: &[CString]) -> Vec<*const c_char> {
    let mut script = pointers(argv);
    script.insert(0, SHELL.as_ptr());
    script
}

/// Opens a new terminal of the given size, and returns its master and slave.
pub fn open_pty(size: WindowSize) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let slave = open_slave(&master)?;
    resize(master.as_fd(), size)?;
    Ok((master, slave))
}

/// Changes a terminal's size; its foreground processes get `SIGWINCH`.
pub fn resize(master: BorrowedFd<'_>, size: WindowSize) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}

fn open_slave(master: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    // Asking the master needs no path, which may be wrong if several devpts are
    // mounted. Kernels before 4.13 only have the path.
    if let Ok(slave) = rustix::pty::ioctl_tiocgptpeer(master, flags) {
        return Ok(slave);
    }
    let name = rustix::pty::ptsname(master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name.as_c_str(), flags, Mode::empty())?)
}

/// Rights and limits of jobs, where they differ from the guest's own.
#[derive(Debug, Default)]
pub(crate) struct JobRights {
    /// The user of jobs, if it is not the guest's own.
    pub(crate) credentials: Option<Credentials>,
    /// The limit of open files, if the guest raised its own.
    pub(crate) files: Option<Rlimit>,
}
