//! The supervisor program: one process per running job.
//!
//! It forks the job's shell and, as a child subreaper, becomes the parent of
//! every orphan the job makes. It reports over the control socket it got as
//! standard input; when that closes, the guest is gone, and so is the job.

mod hunt;
mod job;
mod plan;
mod program;
mod signals;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::process::ExitCode;

use rustix::process::DumpableBehavior;

pub(crate) use self::program::DEFAULT_PATH;
use self::program::Shell;

/// Returns the control socket a supervisor was started with.
pub fn inherited_control() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    let control = rustix::io::fcntl_dupfd_cloexec(stdin.as_fd(), 3)?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(control)
}

/// Runs the supervisor until the other end of `control` closes.
///
/// A second argument of the program, after `supervise`, names a shell to use in
/// place of the one it would find.
#[expect(clippy::needless_pass_by_value, reason = "the socket is to close when this ends")]
pub fn main(control: OwnedFd) -> ExitCode {
    let shell = std::env::args_os().nth(2).map(Shell::at);
    let served = prepare(&control).and_then(|children| job::serve(&control, &children, shell));
    if served.is_ok() {
        return ExitCode::SUCCESS;
    }
    // There is nobody to tell: the guest sees the socket close. What matters is
    // that the job does not outlive its supervisor.
    hunt::kill_all();
    ExitCode::FAILURE
}

fn prepare(control: &OwnedFd) -> io::Result<OwnedFd> {
    // In listings it would be called after /proc/self/exe.
    rustix::thread::set_name(c"vestal-job")?;
    // A process group of its own keeps signals meant for the guest's away.
    rustix::process::setpgid(None, None)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The shell opens its scripts as /proc/<supervisor>/fd/N, which the kernel
    // only allows for a dumpable process. A program file without read
    // permission would have made this one undumpable.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    signals::close_others(control.as_raw_fd());
    signals::watch_children()
}
