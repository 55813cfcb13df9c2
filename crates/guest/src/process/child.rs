//! The start of a program: a job's, or a supervisor.

#![expect(unsafe_code, reason = "clone, execve and signal dispositions")]

use std::convert::Infallible;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;

use rustix::process::{Pid, Resource, setrlimit};

use super::launch::ChildEnds;
use super::report::FailedStep;
use super::standing::Standing;
use crate::user::Credentials;

/// A program ready to be executed.
#[derive(Debug)]
pub(super) struct Program<'a> {
    /// Files to try, in this order.
    pub(super) candidates: Vec<CString>,
    /// Its arguments, its name first.
    pub(super) argv: Vec<CString>,
    /// Its environment; absent: this process's.
    pub(super) env: Option<Vec<CString>>,
    /// What it is in the end.
    pub(super) role: Role<'a>,
}

/// What a program is started as.
#[derive(Debug)]
pub(super) enum Role<'a> {
    /// A job's: in a session of its own, with the limits and rights of this process.
    Job {
        /// Where it starts.
        cwd: CString,
        /// Whether its standard input is a terminal it is to control.
        pty: bool,
    },
    /// A supervisor: where this process is, with the standing of jobs.
    Supervisor(&'a Standing),
}

/// Why a program was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    /// What failed.
    pub(super) step: FailedStep,
    /// The operating system's error number.
    pub(super) errno: i32,
}

impl Failure {
    pub(super) fn setup(error: &io::Error) -> Self {
        Self { step: FailedStep::Setup, errno: error.raw_os_error().unwrap_or(libc::EINVAL) }
    }
}

/// Room for the calls the child makes before it executes its program.
const STACK: usize = 256 << 10;

/// What the child works with, and what it leaves when it fails.
struct Errand<'a> {
    program: &'a Program<'a>,
    ends: &'a ChildEnds,
    argv: Vec<*const c_char>,
    env: Option<Vec<*const c_char>>,
    script_argv: Vec<*const c_char>,
    failure: Option<Failure>,
}

/// Starts `program` and returns its process id once it is executed.
///
/// The child borrows this process's memory until then, as `posix_spawn` does
/// it: there is nothing to copy, and a failure is simply written down.
pub(super) fn start(program: &Program<'_>, ends: &ChildEnds) -> Result<Pid, Failure> {
    let mut errand = Errand {
        program,
        ends,
        argv: pointers(&program.argv),
        env: program.env.as_deref().map(pointers),
        script_argv: script_argv(&program.argv),
        failure: None,
    };
    let mut stack: Vec<u128> = vec![0; STACK / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: the child runs `run_errand` on a stack of its own, which grows
    // down from its aligned end, and with a valid argument. CLONE_VFORK keeps
    // this thread from running until the child has executed another program or
    // has ended, so that neither sees the other change anything; other threads
    // know nothing of what the child touches. No signal has a handler here that
    // could run in the child.
    let pid = unsafe {
        libc::clone(
            run_errand,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut errand).cast(),
        )
    };
    if pid < 0 {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN);
        return Err(Failure { step: FailedStep::Fork, errno });
    }
    match (errand.failure, Pid::from_raw(pid)) {
        (None, Some(pid)) => Ok(pid),
        (Some(failure), _) => Err(failure),
        (None, None) => Err(Failure { step: FailedStep::Fork, errno: libc::EAGAIN }),
    }
}

/// The child's part. Returns only when it failed.
extern "C" fn run_errand(errand: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its errand and does not touch it
    // until this process is gone.
    let errand = unsafe { &mut *errand.cast::<Errand<'_>>() };
    let Err(failure) = become_program(errand);
    errand.failure = Some(failure);
    127
}

fn become_program(errand: &mut Errand<'_>) -> Result<Infallible, Failure> {
    let setup =
        |errno: rustix::io::Errno| Failure { step: FailedStep::Setup, errno: errno.raw_os_error() };
    let Errand { program, ends, argv, env, script_argv, .. } = errand;
    if let Role::Job { pty, .. } = program.role {
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
        Role::Job { cwd, .. } => rustix::process::chdir(cwd.as_c_str())
            .map_err(|errno| Failure { step: FailedStep::Chdir, errno: errno.raw_os_error() })?,
        Role::Supervisor(standing) => take(standing).map_err(setup)?,
    }
    // SAFETY: nothing in this program changes the environment.
    let env = env.as_ref().map_or(unsafe { environ }, Vec::as_ptr);
    let errno = execute(&program.candidates, argv, env, script_argv);
    Err(Failure { step: FailedStep::Exec, errno })
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Takes on the limits and rights of jobs. Both are this process's own already.
fn take(standing: &Standing) -> Result<(), rustix::io::Errno> {
    if let Some(limit) = standing.files {
        setrlimit(Resource::Nofile, limit)?;
    }
    standing.credentials.as_ref().map_or(Ok(()), Credentials::assume)
}

/// Gives a new program what every program may expect: nothing blocked, nothing
/// ignored. Only for a process that is about to execute one.
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

/// Tries the candidates as `execvpe` would. Returns the error that counts.
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
                // A script without an interpreter line is the shell's.
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

/// Arguments for the shell to run a script: its name, room for the script's
/// path, then the script's own arguments.
fn script_argv(argv: &[CString]) -> Vec<*const c_char> {
    let mut script = pointers(argv);
    script.insert(0, SHELL.as_ptr());
    script
}
