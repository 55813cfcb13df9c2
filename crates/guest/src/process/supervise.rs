//! The supervisor program: one process per running job.
//!
//! It forks the job's shell and, as a child subreaper, becomes the parent of
//! every orphan the job leaves. It reports over the control socket, which is its
//! standard input. When that closes, the guest is gone, and the supervisor kills
//! the job.

#![expect(unsafe_code, reason = "signal masks and signalfd have no safe wrapper here")]

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{DumpableBehavior, Pid};

use super::child::{self, StartFailure};
use super::invocation::{ProgramInvocation, Shell, prepare_invocation};
use super::protocol::{
    self, ChildEnds, Launch, OnFull, SupervisorCommand, SupervisorReport, WaitStatus,
};
use super::tree::{self, ReapedChild, Remaining};
use crate::session::{Dump, SavedSession};

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
/// A second argument of the program, after `supervise`, names the shell to use.
#[expect(clippy::needless_pass_by_value, reason = "the socket is to close when this ends")]
pub fn main(control: OwnedFd) -> ExitCode {
    let shell = std::env::args_os().nth(2).map(Shell::at);
    let served = prepare(&control).and_then(|children| serve(&control, &children, shell));
    if served.is_ok() {
        return ExitCode::SUCCESS;
    }
    // The guest sees the socket close. The job must not outlive its supervisor.
    tree::kill_all();
    ExitCode::FAILURE
}

fn prepare(control: &OwnedFd) -> io::Result<OwnedFd> {
    // Otherwise process listings would show the name of /proc/self/exe.
    rustix::thread::set_name(c"vestal-job")?;
    // A separate process group keeps signals for the guest's group away.
    rustix::process::setpgid(None, None)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The shell opens its scripts as /proc/<supervisor>/fd/N, which the kernel
    // only allows for a dumpable process. A program file without read permission
    // makes its process undumpable.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    close_others(control.as_raw_fd());
    watch_children()
}

/// Handles commands until the guest is gone, and then kills the job.
pub(super) fn serve(control: &OwnedFd, children: &OwnedFd, shell: Option<Shell>) -> io::Result<()> {
    let mut supervisor = JobSupervisor { control: control.as_fd(), shell, job: None };
    loop {
        let ready = wait(control, children, supervisor.next_step())?;
        supervisor.step()?;
        if ready.children {
            drain(children);
            supervisor.reap()?;
        }
        if ready.control {
            match protocol::receive::<SupervisorCommand>(supervisor.control) {
                Ok(Some((command, files))) => supervisor.handle(command, files)?,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    tree::kill_all();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What woke the supervisor.
struct Ready {
    children: bool,
    control: bool,
}

fn wait(control: &OwnedFd, children: &OwnedFd, until: Option<Instant>) -> io::Result<Ready> {
    let mut files = [PollFd::new(control, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
    rustix::io::retry_on_intr(|| {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        rustix::event::poll(&mut files, left.as_ref())
    })?;
    let [control, children] = files.map(|file| !file.revents().is_empty());
    Ok(Ready { children, control })
}

/// The supervisor's job, if there is one, and the socket to the guest.
struct JobSupervisor<'a> {
    control: BorrowedFd<'a>,
    /// The shell to use instead of the one found.
    shell: Option<Shell>,
    job: Option<SupervisedJob>,
}

/// A job that has processes left.
struct SupervisedJob {
    phase: SupervisedPhase,
    /// How its processes are being ended, if they are.
    ending: Option<Ending>,
    /// How its program ended, while that has not been reported.
    ended: Option<WaitStatus>,
    /// The state the shell started from.
    session: Option<SavedSession>,
    dump: Option<Dump>,
    /// Files the shell may still open.
    files: Vec<OwnedFd>,
}

/// How the processes of a job are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// They were asked, and have until then.
    Asked(Instant),
    /// They are killed; processes that appear later, too.
    Killed,
}

/// The phase of a job.
enum SupervisedPhase {
    /// Its program runs.
    Running(Pid),
    /// Its program has ended; other processes have not.
    Left {
        /// The count last reported to the guest.
        reported: Option<usize>,
        /// Number of children that ended since then.
        ended: usize,
    },
}

impl JobSupervisor<'_> {
    fn report(&self, report: &SupervisorReport) -> io::Result<()> {
        self.report_with(report, None)
    }

    fn report_with(&self, report: &SupervisorReport, file: Option<&OwnedFd>) -> io::Result<()> {
        let files: Vec<BorrowedFd<'_>> = file.map(|file| file.as_fd()).into_iter().collect();
        match protocol::send(self.control, report, &files, OnFull::Wait) {
            // The guest is gone; the next read of the socket shows it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    fn handle(&mut self, command: SupervisorCommand, files: Vec<OwnedFd>) -> io::Result<()> {
        match command {
            SupervisorCommand::Launch => self.launch(files),
            SupervisorCommand::Kill(grace) => self.kill(Duration::from_millis(grace)),
            SupervisorCommand::Signal(signal) => {
                self.signal(signal);
                Ok(())
            }
        }
    }

    fn launch(&mut self, files: Vec<OwnedFd>) -> io::Result<()> {
        if self.job.is_some() {
            // The guest launches one job at a time; a second launch is reported
            // as failed.
            return self
                .report(&failed(StartFailure::setup(&io::Error::from_raw_os_error(libc::EBUSY))));
        }
        match start(files, self.shell.as_ref()) {
            Ok((job, pid)) => {
                self.job = Some(job);
                let pid = pid.as_raw_nonzero().get().unsigned_abs();
                let pid_start = tree::start_time(pid).unwrap_or_default();
                self.report(&SupervisorReport::Started { pid, pid_start })
            }
            Err(failure) => {
                // The failed process must be reaped like any other child.
                tree::reap_children(|_| {});
                self.report(&failed(failure))?;
                self.report(&SupervisorReport::Empty)
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        let mut shell = ShellWatch::new(self.shell());
        let remaining = tree::reap_children(|reaped| shell.note(reaped));
        self.report_changes(&shell, remaining)?;
        if self.job.as_ref().is_some_and(|job| job.ending == Some(Ending::Killed)) {
            let mut shell = ShellWatch::new(self.shell());
            let remaining = tree::kill_round(|reaped| shell.note(reaped));
            self.report_changes(&shell, remaining)?;
        }
        Ok(())
    }

    /// Asks the processes of the job to end. Those that were asked before are killed.
    fn kill(&mut self, grace: Duration) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        let until = Instant::now().checked_add(grace).filter(|_| !grace.is_zero());
        if let (None, Some(until)) = (job.ending, until) {
            job.ending = Some(Ending::Asked(until));
            tree::ask_descendants_to_end();
            return Ok(());
        }
        job.ending = Some(Ending::Killed);
        let mut shell = ShellWatch::new(self.shell());
        let remaining = tree::kill_descendants(|reaped| shell.note(reaped));
        self.report_changes(&shell, remaining)
    }

    /// Returns when processes that were asked to end are killed.
    fn next_step(&self) -> Option<Instant> {
        match self.job.as_ref()?.ending? {
            Ending::Asked(until) => Some(until),
            Ending::Killed => None,
        }
    }

    /// Kills processes that have not ended in time.
    fn step(&mut self) -> io::Result<()> {
        match self.next_step() {
            Some(until) if until <= Instant::now() => self.kill(Duration::ZERO),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the job's main process while it lives.
    fn shell(&self) -> Option<Pid> {
        let job = self.job.as_ref()?;
        match &job.phase {
            SupervisedPhase::Running(pid) => Some(*pid).filter(|_| job.ended.is_none()),
            SupervisedPhase::Left { .. } => None,
        }
    }

    /// Reports to the guest what follows from the ended children.
    fn report_changes(&mut self, shell: &ShellWatch, remaining: Remaining) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        job.ended = job.ended.or(shell.status);
        let is_asked = matches!(job.ending, Some(Ending::Asked(_)));
        if is_asked && remaining == Remaining::Some {
            // A caller that is told that a killed command has ended relies on nothing of it being left.
            return Ok(());
        }
        if let Some(status) = job.ended.take() {
            self.end(status)?;
        }
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        if remaining == Remaining::Nothing {
            self.job = None;
            return self.report(&SupervisorReport::Empty);
        }
        let SupervisedPhase::Left { reported, ended } = &mut job.phase else {
            return Ok(());
        };
        *ended += shell.others;
        // Counting walks through /proc. The count can only have halved once
        // enough children have ended.
        if reported.is_some_and(|reported| *ended * 2 < reported) {
            return Ok(());
        }
        *ended = 0;
        let count = tree::descendants(std::process::id()).len();
        if count == 0 || reported.is_some_and(|reported| count * 2 > reported) {
            return Ok(());
        }
        *reported = Some(count);
        let processes = u32::try_from(count).unwrap_or(u32::MAX);
        self.report(&SupervisorReport::Left { processes })
    }

    /// Reports the end of the program.
    fn end(&mut self, status: WaitStatus) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        job.phase = SupervisedPhase::Left { reported: None, ended: 0 };
        job.files.clear();
        let state = match (status, job.dump.take(), job.session.take()) {
            // A shell that dies of a signal still runs its EXIT trap, but a
            // killed command must not change the session.
            (WaitStatus::Exited(_), Some(dump), Some(session)) if job.ending.is_none() => {
                dump.finish(session).unwrap_or(None)
            }
            _ => None,
        };
        self.report_with(&SupervisorReport::Ended { status, state: None }, state.as_ref())
    }

    fn signal(&self, signal: i32) {
        if let Some(shell) = self.shell() {
            // It leads its own group until it is reaped.
            signal_group(shell, signal);
        } else if self.job.is_some() {
            let left = tree::descendants(std::process::id());
            for pid in left.into_iter().filter_map(tree::to_pid) {
                send_signal(pid, signal);
            }
        }
    }
}

/// The result of reaping: the shell's status, and the number of other processes.
struct ShellWatch {
    pid: Option<Pid>,
    status: Option<WaitStatus>,
    others: usize,
}

impl ShellWatch {
    fn new(pid: Option<Pid>) -> Self {
        Self { pid, status: None, others: 0 }
    }

    fn note(&mut self, reaped: ReapedChild) {
        if self.pid == Some(reaped.pid) {
            self.status = Some(reaped.status);
        } else {
            self.others += 1;
        }
    }
}

fn failed(failure: StartFailure) -> SupervisorReport {
    SupervisorReport::Failed { step: failure.step, errno: failure.errno }
}

/// Starts the launch described by the files.
fn start(files: Vec<OwnedFd>, shell: Option<&Shell>) -> Result<(SupervisedJob, Pid), StartFailure> {
    let invalid = || StartFailure::setup(&io::Error::from_raw_os_error(libc::EINVAL));
    let [launch, stdin, stdout, stderr] = <[OwnedFd; 4]>::try_from(files).map_err(|_| invalid())?;
    let encoded =
        protocol::read_memory_file(launch).map_err(|error| StartFailure::setup(&error))?;
    let launch: Launch = minicbor::decode(&encoded).map_err(|_| invalid())?;
    let ProgramInvocation { program, files, dump } =
        prepare_invocation(&launch, shell).map_err(|error| StartFailure::setup(&error))?;
    let pid = child::start(&program, &ChildEnds { stdin, stdout, stderr })?;
    let phase = SupervisedPhase::Running(pid);
    Ok((
        SupervisedJob { phase, ending: None, ended: None, session: launch.session, dump, files },
        pid,
    ))
}

/// Blocks `SIGCHLD` and returns a descriptor that is readable when a child ended.
fn watch_children() -> io::Result<OwnedFd> {
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given a valid pointer to;
    // the later calls only read it, and a null old mask is allowed.
    let fd = unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        libc::sigaddset(mask.as_mut_ptr(), libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, mask.as_ptr(), std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, mask.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above succeeded, and nobody else knows its descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Empties the descriptor of [`watch_children`].
pub(super) fn drain(children: &OwnedFd) {
    let mut buffer = [0_u8; 128 * 8];
    while rustix::io::read(children, &mut buffer).is_ok_and(|count| count == buffer.len()) {}
}

/// Sends a signal to a process. Ignores a process that is gone and an invalid
/// signal.
fn send_signal(pid: Pid, signal: i32) {
    // SAFETY: kill only reads its numbers, and a `Pid` is positive.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
}

/// Sends a signal to the process group that `leader` leads.
fn signal_group(leader: Pid, signal: i32) {
    // SAFETY: as above.
    unsafe { libc::kill(-leader.as_raw_nonzero().get(), signal) };
}

/// Closes all inherited descriptors except the standard streams and `kept`.
fn close_others(kept: RawFd) {
    let kept = kept.unsigned_abs();
    // SAFETY: this runs before anything of this program holds a descriptor
    // above `kept` or between 3 and it.
    let closed = unsafe {
        (kept <= 3 || libc::syscall(libc::SYS_close_range, 3u32, kept - 1, 0u32) == 0)
            && libc::syscall(libc::SYS_close_range, kept.max(2) + 1, u32::MAX, 0u32) == 0
    };
    if !closed {
        close_each(kept);
    }
}

/// Closes them one by one, on kernels without `close_range`.
fn close_each(kept: u32) {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd: &i32| *fd > 2 && fd.unsigned_abs() != kept)
        .collect();
    for fd in open {
        // SAFETY: as above. The listing's own descriptor is closed already and
        // merely refused.
        unsafe { libc::close(fd) };
    }
}
