//! The supervisor's life: one launch after another.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;

use super::super::child::{self, Failure};
use super::super::launch::{ChildEnds, Launch};
use super::super::memfile;
use super::super::protocol::{self, Notice, Order, Patience};
use super::super::report::WaitStatus;
use super::super::tree;
use super::hunt::{self, Reaped, Remains};
use super::plan::{Plan, plan};
use super::program::Shell;
use super::signals;
use crate::session::{Dump, SavedSession};

/// Serves orders until the guest is gone, and takes the job along.
pub(super) fn serve(control: &OwnedFd, children: &OwnedFd, shell: Option<Shell>) -> io::Result<()> {
    let mut desk = Desk { control: control.as_fd(), shell, job: None };
    loop {
        let ready = wait(control, children)?;
        if ready.children {
            signals::drain(children);
            desk.reap()?;
        }
        if ready.control {
            match protocol::receive::<Order>(desk.control) {
                Ok(Some((order, files))) => desk.obey(order, files)?,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    hunt::kill_all();
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

fn wait(control: &OwnedFd, children: &OwnedFd) -> io::Result<Ready> {
    let mut files = [PollFd::new(control, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut files, None))?;
    let [control, children] = files.map(|file| !file.revents().is_empty());
    Ok(Ready { children, control })
}

/// The supervisor's one job, if there is one, and whom to tell of it.
struct Desk<'a> {
    control: BorrowedFd<'a>,
    /// A shell to use in place of the one there is.
    shell: Option<Shell>,
    job: Option<Job>,
}

/// A job with any process left.
struct Job {
    phase: Phase,
    /// Everything is to die; whoever appears is killed too.
    doomed: bool,
    /// The state the shell started from.
    session: Option<SavedSession>,
    dump: Option<Dump>,
    /// Files the shell may still open.
    files: Vec<OwnedFd>,
}

/// How far a job is.
enum Phase {
    /// Its program runs.
    Running(Pid),
    /// Its program has ended, other processes have not.
    Left {
        /// How many the guest was told of, if it was.
        told: Option<usize>,
        /// How many children ended since.
        ended: usize,
    },
}

impl Desk<'_> {
    fn tell(&self, notice: Notice) -> io::Result<()> {
        self.tell_with(notice, None)
    }

    fn tell_with(&self, notice: Notice, file: Option<&OwnedFd>) -> io::Result<()> {
        let files: Vec<BorrowedFd<'_>> = file.map(|file| file.as_fd()).into_iter().collect();
        match protocol::send(self.control, &notice, &files, Patience::Wait) {
            // The guest is gone; the socket's end says so next.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    fn obey(&mut self, order: Order, files: Vec<OwnedFd>) -> io::Result<()> {
        match order {
            Order::Launch => self.launch(files),
            Order::Kill => self.kill(),
            Order::Signal(signal) => {
                self.signal(signal);
                Ok(())
            }
        }
    }

    fn launch(&mut self, files: Vec<OwnedFd>) -> io::Result<()> {
        if self.job.is_some() {
            // The guest launches one at a time; this one is not lost in silence.
            return self.tell(failed(Failure::setup(&io::Error::from_raw_os_error(libc::EBUSY))));
        }
        match start(files, self.shell.as_ref()) {
            Ok((job, pid)) => {
                self.job = Some(job);
                let pid = pid.as_raw_nonzero().get().unsigned_abs();
                let pid_start = tree::start_time(pid).unwrap_or_default();
                self.tell(Notice::Started { pid, pid_start })
            }
            Err(failure) => {
                // The process that failed is a child like any other.
                hunt::reap(|_| {});
                self.tell(failed(failure))?;
                self.tell(Notice::Empty)
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        let mut shell = ShellWatch::new(self.shell());
        let remains = hunt::reap(|reaped| shell.note(reaped));
        self.settle(&shell, remains)?;
        if self.job.as_ref().is_some_and(|job| job.doomed) {
            let mut shell = ShellWatch::new(self.shell());
            let remains = hunt::round(|reaped| shell.note(reaped));
            self.settle(&shell, remains)?;
        }
        Ok(())
    }

    fn kill(&mut self) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        job.doomed = true;
        let mut shell = ShellWatch::new(self.shell());
        let remains = hunt::kill(|reaped| shell.note(reaped));
        self.settle(&shell, remains)
    }

    /// Returns the process that the job is about, while it lives.
    fn shell(&self) -> Option<Pid> {
        match &self.job.as_ref()?.phase {
            Phase::Running(pid) => Some(*pid),
            Phase::Left { .. } => None,
        }
    }

    /// Tells the guest what follows from the children that ended.
    fn settle(&mut self, shell: &ShellWatch, remains: Remains) -> io::Result<()> {
        if let Some(status) = shell.status {
            self.end(status)?;
        }
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        if remains == Remains::Nothing {
            self.job = None;
            return self.tell(Notice::Empty);
        }
        let Phase::Left { told, ended } = &mut job.phase else {
            return Ok(());
        };
        *ended += shell.others;
        // Counting costs a walk through /proc. Only when enough have ended for
        // half of them to be gone can there be news.
        if told.is_some_and(|told| *ended * 2 < told) {
            return Ok(());
        }
        *ended = 0;
        let count = tree::descendants(std::process::id()).len();
        if count == 0 || told.is_some_and(|told| count * 2 > told) {
            return Ok(());
        }
        *told = Some(count);
        let processes = u32::try_from(count).unwrap_or(u32::MAX);
        self.tell(Notice::Left { processes })
    }

    /// Tells of the end of the program.
    fn end(&mut self, status: WaitStatus) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        job.phase = Phase::Left { told: None, ended: 0 };
        job.files.clear();
        let state = match (status, job.dump.take(), job.session.take()) {
            // A shell that dies of a signal runs its EXIT trap all the same;
            // but a killed command is to leave no trace in the session.
            (WaitStatus::Exited(_), Some(dump), Some(session)) if !job.doomed => {
                dump.finish(session).unwrap_or(None)
            }
            _ => None,
        };
        self.tell_with(Notice::Ended { status }, state.as_ref())
    }

    fn signal(&self, signal: i32) {
        match self.job.as_ref().map(|job| &job.phase) {
            // The shell leads a group of its own until it is reaped.
            Some(Phase::Running(pid)) => signals::send_to_group(*pid, signal),
            Some(Phase::Left { .. }) => {
                let left = tree::descendants(std::process::id());
                for pid in left.into_iter().filter_map(tree::to_pid) {
                    signals::send(pid, signal);
                }
            }
            None => {}
        }
    }
}

/// What reaping tells of the shell and of the others.
struct ShellWatch {
    pid: Option<Pid>,
    status: Option<WaitStatus>,
    others: usize,
}

impl ShellWatch {
    fn new(pid: Option<Pid>) -> Self {
        Self { pid, status: None, others: 0 }
    }

    fn note(&mut self, reaped: Reaped) {
        if self.pid == Some(reaped.pid) {
            self.status = Some(reaped.status);
        } else {
            self.others += 1;
        }
    }
}

fn failed(failure: Failure) -> Notice {
    Notice::Failed { step: failure.step, errno: failure.errno }
}

/// Starts what the files of a launch describe.
fn start(files: Vec<OwnedFd>, shell: Option<&Shell>) -> Result<(Job, Pid), Failure> {
    let invalid = || Failure::setup(&io::Error::from_raw_os_error(libc::EINVAL));
    let [launch, stdin, stdout, stderr] = <[OwnedFd; 4]>::try_from(files).map_err(|_| invalid())?;
    let encoded = memfile::content(launch).map_err(|error| Failure::setup(&error))?;
    let launch: Launch = minicbor::decode(&encoded).map_err(|_| invalid())?;
    let Plan { program, files, dump } =
        plan(&launch, shell).map_err(|error| Failure::setup(&error))?;
    let pid = child::start(&program, &ChildEnds { stdin, stdout, stderr })?;
    let phase = Phase::Running(pid);
    Ok((Job { phase, doomed: false, session: launch.session, dump, files }, pid))
}
