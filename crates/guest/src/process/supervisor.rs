//! The guest's side of a supervisor.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::child::{self, Program, Role};
use super::launch::{ChildEnds, Launch};
use super::memfile;
use super::protocol::{self, Notice, Order, Patience};
use super::report::Report;
use super::standing::Standing;

/// A supervisor process: runs one launch at a time and keeps every process of
/// it in sight.
///
/// Dropping it closes the control socket, upon which the supervisor kills what
/// is left of its job and ends. It is a child of this process; whoever reaps
/// children here meets its pid.
#[derive(Debug)]
pub struct Supervisor {
    pid: u32,
    control: OwnedFd,
}

impl Supervisor {
    /// Starts a supervisor of a standing by executing this program again. What
    /// it inherits of this process it closes itself.
    pub(crate) fn spawn(standing: &Standing) -> io::Result<Self> {
        let (control, stdin) = control_pair()?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let program = Program {
            candidates: vec![c"/proc/self/exe".into()],
            argv: vec![c"vestal-guest".into(), c"supervise".into()],
            env: None,
            role: Role::Supervisor(standing),
        };
        let ends = ChildEnds { stdin, stdout: null.try_clone()?, stderr: null };
        let pid = child::start(&program, &ends)
            .map_err(|failure| io::Error::from_raw_os_error(failure.errno))?;
        Ok(Self { pid: pid.as_raw_nonzero().get().unsigned_abs(), control })
    }

    /// Starts a supervisor by a command that executes the guest program as one.
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

    /// Returns the socket that is readable when [`Supervisor::receive`] has news.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Hands over a command to run. One at a time: wait for [`Report::Empty`]
    /// before the next.
    pub fn launch(&mut self, launch: &Launch, ends: ChildEnds) -> io::Result<()> {
        let encoded = minicbor::to_vec(launch).map_err(io::Error::other)?;
        let file = memfile::with_content("vestal-launch", &encoded)?;
        let ChildEnds { stdin, stdout, stderr } = ends;
        let files = [file.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        protocol::send(self.control(), &Order::Launch, &files, Patience::Now)
    }

    /// Asks for the end of every process of the job.
    pub fn kill(&mut self) -> io::Result<()> {
        protocol::send(self.control(), &Order::Kill, &[], Patience::Now)
    }

    /// Asks for a signal to the job: to the process group of its shell while
    /// that lives, afterwards to each process it left.
    pub fn signal(&mut self, signal: i32) -> io::Result<()> {
        protocol::send(self.control(), &Order::Signal(signal), &[], Patience::Now)
    }

    /// Returns the next report, `None` when there is none yet, and
    /// [`io::ErrorKind::UnexpectedEof`] when the supervisor is gone.
    pub fn receive(&mut self) -> io::Result<Option<Report>> {
        let Some((notice, mut files)) = protocol::receive::<Notice>(self.control.as_fd())? else {
            return Ok(None);
        };
        Ok(Some(match notice {
            Notice::Started { pid, pid_start } => Report::Started { pid, pid_start },
            Notice::Failed { step, errno } => Report::Failed { step, errno },
            Notice::Ended { status } => Report::Ended { status, state: files.pop() },
            Notice::Left { processes } => Report::Left { processes },
            Notice::Empty => Report::Empty,
        }))
    }
}

/// Makes the control socket: the guest's end and the supervisor's.
fn control_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}
