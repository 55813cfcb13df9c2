//! The guest's side of a supervisor.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::launch::{ChildEnds, Launch};
use super::memfile;
use super::protocol::{self, Notice, Order, Patience};
use super::report::Report;

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
    /// Starts a supervisor by executing this program again.
    pub fn spawn() -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("vestal-guest").arg("supervise");
        Self::spawn_by(command)
    }

    /// Starts a supervisor by a command that executes the guest program as one.
    pub fn spawn_by(mut command: Command) -> io::Result<Self> {
        let (control, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // The socket goes as standard input: then nothing but posix_spawn is
        // needed, and no code of ours runs between fork and exec.
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
