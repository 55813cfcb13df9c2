//! The guest's side of a supervisor.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::child::{self, ExecProgram, JobRights, ProgramRole};
use super::protocol::{self, ChildEnds, Launch, OnFull, SupervisorCommand, SupervisorReport};

/// A supervisor process: runs one launch at a time and keeps track of all its
/// processes.
///
/// Dropping it closes the control socket. The supervisor then kills the rest of
/// its job and exits. It is a child of this process and must be reaped here.
#[derive(Debug)]
pub struct SupervisorProcess {
    pid: u32,
    control: OwnedFd,
}

impl SupervisorProcess {
    /// Starts a supervisor with these rights by executing this program again. It
    /// closes the descriptors it inherits.
    pub(crate) fn spawn(rights: &JobRights) -> io::Result<Self> {
        let (control, stdin) = control_pair()?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let program = ExecProgram {
            candidates: vec![c"/proc/self/exe".into()],
            argv: vec![c"vestal-guest".into(), c"supervise".into()],
            env: None,
            role: ProgramRole::Supervisor(rights),
        };
        let ends = ChildEnds { stdin, stdout: null.try_clone()?, stderr: null };
        let pid = child::start(&program, &ends)
            .map_err(|failure| io::Error::from_raw_os_error(failure.errno))?;
        Ok(Self { pid: pid.as_raw_nonzero().get().unsigned_abs(), control })
    }

    /// Starts a supervisor with a command that executes the guest program.
    pub fn spawn_by(mut command: Command) -> io::Result<Self> {
        let (control, theirs) = control_pair()?;
        let child = command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { pid: child.id(), control })
    }

    /// Returns the supervisor's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the socket that is readable when [`SupervisorProcess::receive`] has a
    /// report.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Sends a command to run. Only one at a time: wait for
    /// [`SupervisorReport::Empty`] before the next.
    pub fn launch(&mut self, launch: &Launch, ends: ChildEnds) -> io::Result<()> {
        let encoded = minicbor::to_vec(launch).map_err(io::Error::other)?;
        let file = protocol::memory_file("vestal-launch", &encoded)?;
        let ChildEnds { stdin, stdout, stderr } = ends;
        let files = [file.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        protocol::send(self.control(), &SupervisorCommand::Launch, &files, OnFull::Fail)
    }

    /// Asks the supervisor to end all processes of the job: with SIGTERM, and what is left after
    /// `grace` with SIGKILL. A second call does not wait any longer.
    pub fn kill(&mut self, grace: Duration) -> io::Result<()> {
        let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        protocol::send(self.control(), &SupervisorCommand::Kill(grace), &[], OnFull::Fail)
    }

    /// Asks the supervisor to send a signal: to the process group of the shell
    /// while it lives, then to each remaining process.
    pub fn signal(&mut self, signal: i32) -> io::Result<()> {
        protocol::send(self.control(), &SupervisorCommand::Signal(signal), &[], OnFull::Fail)
    }

    /// Returns the next report, `None` if there is none yet, and
    /// [`io::ErrorKind::UnexpectedEof`] if the supervisor is gone.
    pub fn receive(&mut self) -> io::Result<Option<SupervisorReport>> {
        let received = protocol::receive::<SupervisorReport>(self.control.as_fd())?;
        Ok(received.map(|(mut report, mut files)| {
            if let SupervisorReport::Ended { state, .. } = &mut report {
                *state = files.pop();
            }
            report
        }))
    }
}

/// Creates the control socket: the guest's end and the supervisor's.
fn control_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}
