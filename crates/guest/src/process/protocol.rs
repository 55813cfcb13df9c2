//! What the guest and a supervisor send each other.
//!
//! The two share a `SOCK_SEQPACKET` pair: one packet is one message, and files
//! travel beside it. Both ends are the same program, so there is no version.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use vestal_wire::EnvVar;

use super::child::{self, ExecProgram, JobRights, ProgramRole};
use crate::session::SavedSession;

/// Files that may travel with one packet.
const MAX_FILES: usize = 4;

/// Maximum size of a packet; longer data is sent in a file.
const MAX_PACKET: usize = 256;

/// A command from the guest to a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum SupervisorCommand {
    /// Runs the launch in the first file, with the other three as standard
    /// streams.
    #[n(0)]
    Launch,
    /// Ends every process of the job: asks all of them with SIGTERM, and kills what is left after
    /// so many milliseconds. With none, and when it is sent again, kills at once.
    #[n(1)]
    Kill(#[n(0)] u64),
    /// Sends a signal to the job.
    #[n(2)]
    Signal(#[n(0)] i32),
}

/// What to do when the other side cannot accept a packet yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFull {
    /// Fail with [`io::ErrorKind::WouldBlock`].
    Fail,
    /// Wait.
    Wait,
}

/// Sends one packet.
pub(crate) fn send<T: Encode<()>>(
    socket: BorrowedFd<'_>,
    message: &T,
    files: &[BorrowedFd<'_>],
    on_full: OnFull,
) -> io::Result<()> {
    let bytes = minicbor::to_vec(message).map_err(io::Error::other)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = match on_full {
        OnFull::Fail => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        OnFull::Wait => SendFlags::NOSIGNAL,
    };
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags)
    })?;
    Ok(())
}

/// Receives one packet without waiting. Returns `None` if there is none yet, and
/// [`io::ErrorKind::UnexpectedEof`] if the other side is gone.
pub(crate) fn receive<T: for<'b> Decode<'b, ()>>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = [0; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)
    });
    let received = match received {
        Ok(received) => received,
        Err(rustix::io::Errno::AGAIN) => return Ok(None),
        Err(rustix::io::Errno::CONNRESET) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Err(errno) => return Err(errno.into()),
    };
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let message = minicbor::decode(&bytes[..received.bytes])
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some((message, files)))
}

/// What a launch runs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LaunchCommand {
    /// Text for the shell, of any length.
    #[n(0)]
    Shell(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// A program with its arguments; in a session also a function or builtin.
    #[n(1)]
    Argv(#[n(0)] Vec<ByteVec>),
}

/// A command with everything it needs to start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Launch {
    /// What to run.
    #[n(0)]
    pub command: LaunchCommand,
    /// The session state to start from. Absent: a plain shell or program that
    /// restores and saves nothing.
    #[n(1)]
    pub session: Option<SavedSession>,
    /// Whether to save the state at the end of the shell.
    #[n(2)]
    pub save: bool,
    /// The base environment, to which the session's changes are applied.
    #[n(3)]
    pub env: Vec<EnvVar>,
    /// Environment of this launch only; it overrides `env` and the session.
    #[n(4)]
    pub job_env: Vec<EnvVar>,
    /// The directory to start in.
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub cwd: Vec<u8>,
    /// Whether the standard streams are a terminal for the shell to control.
    #[n(6)]
    pub pty: bool,
}

/// The standard streams of a command. For a terminal: its slave side, three
/// times.
#[derive(Debug)]
pub struct ChildEnds {
    /// Standard input.
    pub stdin: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
}

/// A step of starting a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FailedStep {
    /// Changing to the start directory.
    #[n(0)]
    Chdir,
    /// Executing the program or shell.
    #[n(1)]
    Exec,
    /// Forking.
    #[n(2)]
    Fork,
    /// Anything earlier.
    #[n(3)]
    Setup,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum WaitStatus {
    /// By itself, with this code.
    #[n(0)]
    Exited(#[n(0)] u8),
    /// By this signal.
    #[n(1)]
    Signaled(#[n(0)] i32),
}

/// Reports of a launch, in this order: `Started`, `Ended`, `Left` (zero or more
/// times), `Empty`; or `Failed`, `Empty`.
#[derive(Debug, Encode, Decode)]
pub enum SupervisorReport {
    /// The program runs.
    #[n(0)]
    Started {
        /// Its process id.
        #[n(0)]
        pid: u32,
        /// Its start time in clock ticks since boot.
        #[n(1)]
        pid_start: u64,
    },
    /// The program could not be started.
    #[n(1)]
    Failed {
        /// What failed.
        #[n(0)]
        step: FailedStep,
        /// The operating system's error number.
        #[n(1)]
        errno: i32,
    },
    /// The shell or program has ended.
    #[n(2)]
    Ended {
        /// How.
        #[n(0)]
        status: WaitStatus,
        /// The complete dump of the shell's state, for
        /// [`crate::session::SavedSession::from_dump`], with the offset at its
        /// start. Absent if none was requested, or if the shell was killed or
        /// replaced by `exec`; the session is then unchanged. The exit code is
        /// not reported earlier, because a shell that dies of a signal runs its
        /// EXIT trap first and would report the code of a previous command.
        #[cbor(skip)]
        state: Option<OwnedFd>,
    },
    /// The shell has ended, and this many of its processes are still alive.
    #[n(3)]
    Left {
        /// Number of processes.
        #[n(0)]
        processes: u32,
    },
    /// No process of the job is left. The supervisor is ready for another launch.
    #[n(4)]
    Empty,
}

/// Creates an anonymous file with `content` and its offset at the start.
pub(crate) fn memory_file(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    if !content.is_empty() {
        file.write_all(content)?;
        file.rewind()?;
    }
    Ok(file.into())
}

/// Reads an anonymous file from start to end.
pub(crate) fn read_memory_file(file: OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(file);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

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
        let file = memory_file("vestal-launch", &encoded)?;
        let ChildEnds { stdin, stdout, stderr } = ends;
        let files = [file.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        send(self.control(), &SupervisorCommand::Launch, &files, OnFull::Fail)
    }

    /// Asks the supervisor to end all processes of the job: with SIGTERM, and what is left after
    /// `grace` with SIGKILL. A second call does not wait any longer.
    pub fn kill(&mut self, grace: Duration) -> io::Result<()> {
        let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        send(self.control(), &SupervisorCommand::Kill(grace), &[], OnFull::Fail)
    }

    /// Asks the supervisor to send a signal: to the process group of the shell
    /// while it lives, then to each remaining process.
    pub fn signal(&mut self, signal: i32) -> io::Result<()> {
        send(self.control(), &SupervisorCommand::Signal(signal), &[], OnFull::Fail)
    }

    /// Returns the next report, `None` if there is none yet, and
    /// [`io::ErrorKind::UnexpectedEof`] if the supervisor is gone.
    pub fn receive(&mut self) -> io::Result<Option<SupervisorReport>> {
        let received = receive::<SupervisorReport>(self.control.as_fd())?;
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
