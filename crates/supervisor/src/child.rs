//! A running child: its start, its readiness, its output and its end.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use tokio::io::AsyncReadExt as _;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use vestal_logs::LineBuffer;
use vestal_process::{ProcessId, ProcessSession};

use crate::failpoint;
use crate::log::SlotLog;
use crate::policy::ChildEnd;
use crate::record::{self, ChildRecord, LeftoverError, PlannedAction, RUN_VARIABLE, Records};
use crate::slot::Slot;
use crate::state::StateFileError;

/// The descriptor on which a child writes one byte when it is ready.
pub const READY_VARIABLE: &str = "VESTAL_READY_FD";
/// The file that tells a child whether SIGTERM is a planned stop.
pub const PLANNED_STOP_VARIABLE: &str = "VESTAL_PLANNED_STOP_FILE";

/// Variables of systemd that are meant for the supervisor alone.
pub(crate) const NOT_INHERITED: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// How long output may still come after the child and its group have ended: another process may
/// hold the pipe.
const QUIET: Duration = Duration::from_millis(100);
const LAST_OUTPUT: Duration = Duration::from_secs(5);

/// The children of this process that were not reaped yet. Held while a descriptor that a child
/// inherits is open, so that no other child does.
static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Locks the children of this process.
pub(crate) fn children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("cannot start {} in {}: {source}", program.display(), dir.display())]
    Program { program: PathBuf, dir: PathBuf, source: io::Error },
    #[error("the slot has no command")]
    NoCommand,
    #[error(transparent)]
    State(#[from] StateFileError),
    #[error("cannot prepare the start: {0}")]
    Io(#[from] io::Error),
}

/// A child that was started and not waited for yet.
#[derive(Debug)]
pub(crate) struct LiveChild {
    child: Child,
    pub(crate) process: ProcessId,
    session: ProcessSession,
    pidfd: AsyncFd<OwnedFd>,
    ready: Option<Receiver>,
    output: ChildOutput,
}

#[derive(Debug)]
struct ChildOutput {
    ended: oneshot::Sender<()>,
    pump: JoinHandle<()>,
}

impl LiveChild {
    /// Starts the child of a slot. The intent is on disk before, and the process right after.
    pub(crate) fn spawn(slot: &Slot, records: &Records, log: &SlotLog) -> Result<Self, SpawnError> {
        let mut record = ChildRecord::intended(slot)?;
        records.write(&record)?;
        failpoint::reach("start.intent-written");
        let started = Started::new(slot, &record, records)?;
        failpoint::reach("start.spawned");
        record.process = Some(started.process.clone());
        if let Err(error) = records.write(&record) {
            // A process that no record names must not run.
            started.end();
            return Err(error.into());
        }
        failpoint::reach("start.recorded");
        started.watch(&record, log)
    }

    /// Waits until the child is ready, which it is once, or has ended.
    pub(crate) async fn event(&mut self) -> ChildEvent {
        let Self { pidfd, ready, .. } = self;
        tokio::select! {
            () = announced(ready) => ChildEvent::Ready,
            _ = pidfd.readable() => ChildEvent::Ended,
        }
    }

    /// Waits until the child has ended. It is not reaped yet: its pid stays its own.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        self.pidfd.readable().await.map(|_| ())
    }

    /// Sends the child a signal.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        record::send(&self.process, signal)
    }

    /// Asks the child to end, waits for as long as its slot allows, kills what is left, and returns
    /// when all of it is gone.
    pub(crate) async fn stop(
        self,
        slot: &Slot,
        records: &Records,
        plan: Option<PlannedAction>,
    ) -> Result<ChildEnd, (ChildEnd, LeftoverError)> {
        if let Some(action) = plan
            // The child takes the end for an unplanned one, and ends all the same.
            && let Err(error) = records.write_note(&slot.name, &self.process, action)
        {
            tracing::warn!(%error, slot = %slot.name, "cannot write the note of a planned stop");
        }
        failpoint::reach("stop.note-written");
        for signal in [Signal::TERM, Signal::CONT] {
            if let Err(error) = self.signal(signal) {
                tracing::warn!(%error, slot = %slot.name, "cannot signal the child");
            }
        }
        failpoint::reach("stop.signalled");
        tokio::select! {
            _ = self.ended() => {}
            () = sleep(slot.service.stop_within) => {}
        }
        let ended = self.collect().await;
        failpoint::reach("stop.ended");
        ended
    }

    /// Kills what is left of the child's group, reaps it, and takes in its last output.
    pub(crate) async fn collect(mut self) -> Result<ChildEnd, (ChildEnd, LeftoverError)> {
        // The child is at most a zombie, so its number still names its group.
        let killed = record::kill_all(&self.session).await;
        let ended = match self.child.try_wait() {
            Ok(Some(status)) => {
                children().remove(&self.child.id());
                how(status)
            }
            Ok(None) | Err(_) => ChildEnd::Signal(Signal::KILL.as_raw()),
        };
        // Only if the pump is gone has nobody use for it.
        self.output.ended.send(()).ok();
        if let Err(error) = self.output.pump.await {
            tracing::warn!(%error, "the output of a child was not taken in");
        }
        killed.map(|()| ended).map_err(|error| (ended, error))
    }
}

/// What a running child did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildEvent {
    Ready,
    Ended,
}

/// Waits for the byte that announces readiness. Never returns without it.
async fn announced(pipe: &mut Option<Receiver>) {
    if let Some(open) = pipe {
        let announced = matches!(open.read(&mut [0]).await, Ok(1));
        *pipe = None;
        if announced {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// A child right after its start.
struct Started {
    child: Child,
    process: ProcessId,
    ready: io::PipeReader,
    stdout: io::PipeReader,
    stderr: io::PipeReader,
}

impl Started {
    fn new(slot: &Slot, record: &ChildRecord, records: &Records) -> Result<Self, SpawnError> {
        let (program, arguments) = slot.service.argv.split_first().ok_or(SpawnError::NoCommand)?;
        let (stdout, to_stdout) = io::pipe()?;
        let (stderr, to_stderr) = io::pipe()?;
        let (ready, to_ready) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(&slot.service.env)
            .env(RUN_VARIABLE, &record.run)
            .env(READY_VARIABLE, to_ready.as_raw_fd().to_string())
            .env(PLANNED_STOP_VARIABLE, records.note_path(&slot.name))
            .current_dir(&slot.service.dir)
            .stdin(Stdio::null())
            .stdout(to_stdout)
            .stderr(to_stderr)
            // A group of its own: signals of a terminal to the supervisor do not reach it, and it is
            // ended with all in it.
            .process_group(0);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        let spawned = {
            let mut children = children();
            fcntl_setfd(&to_ready, FdFlags::empty()).map_err(io::Error::from)?;
            let spawned = command.spawn();
            drop(to_ready);
            children.extend(spawned.iter().map(Child::id));
            spawned
        };
        let failed = |source| SpawnError::Program {
            program: PathBuf::from(program),
            dir: slot.service.dir.clone(),
            source,
        };
        let mut child = spawned.map_err(failed)?;
        // It has not been waited for, so the pid is still its own, even if it ended.
        match ProcessId::of_child(child.id()) {
            Ok(Some(process)) => Ok(Self { child, process, ready, stdout, stderr }),
            other => {
                // A child that could not be identified later must not run.
                end_unknown(&mut child);
                let error = other.err().unwrap_or_else(|| io::Error::other("it is not in /proc"));
                Err(failed(error))
            }
        }
    }

    fn end(mut self) {
        end_unknown(&mut self.child);
    }

    fn watch(mut self, record: &ChildRecord, log: &SlotLog) -> Result<LiveChild, SpawnError> {
        let watched = (|| {
            let pid = Pid::from_child(&self.child);
            let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
            #[expect(deprecated, reason = "an owned descriptor stays the same one, as it has to")]
            let pidfd = AsyncFd::with_interest(pidfd, tokio::io::Interest::READABLE)?;
            let ready = Receiver::from_owned_fd(self.ready.into())?;
            let stdout = Receiver::from_owned_fd(self.stdout.into())?;
            let stderr = Receiver::from_owned_fd(self.stderr.into())?;
            Ok::<_, io::Error>((pidfd, ready, stdout, stderr))
        })();
        match watched {
            Ok((pidfd, ready, stdout, stderr)) => {
                let (ended, has_ended) = oneshot::channel();
                let pump = tokio::spawn(pump(stdout, stderr, log.clone(), has_ended));
                let session =
                    ProcessSession { leader: self.process.clone(), marks: vec![record.mark()] };
                let output = ChildOutput { ended, pump };
                let (child, process) = (self.child, self.process);
                Ok(LiveChild { child, process, session, pidfd, ready: Some(ready), output })
            }
            Err(error) => {
                end_unknown(&mut self.child);
                Err(error.into())
            }
        }
    }
}

fn end_unknown(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait().map(|_| ())) {
        tracing::warn!(%error, "cannot end a child that was not started properly");
    }
    children().remove(&child.id());
}

fn how(status: ExitStatus) -> ChildEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ChildEnd::Code(code),
        (None, signal) => ChildEnd::Signal(signal.unwrap_or_default()),
    }
}

/// Takes in the output of a child, line by line, until both streams end. Memory is bounded by two
/// lines, and a child that prints faster than its log is written has to wait.
async fn pump(
    mut stdout: Receiver,
    mut stderr: Receiver,
    log: SlotLog,
    mut ended: oneshot::Receiver<()>,
) {
    let (mut out, mut err) = (ChildStream::default(), ChildStream::default());
    let mut last = None;
    while !(out.done && err.done) {
        let quiet = last.map(|last: Instant| last.min(Instant::now() + QUIET));
        tokio::select! {
            count = stdout.read(&mut out.buffer), if !out.done => out.take(&count, &log),
            count = stderr.read(&mut err.buffer), if !err.done => err.take(&count, &log),
            _ = &mut ended, if last.is_none() => last = Some(Instant::now() + LAST_OUTPUT),
            () = sleep_until(quiet.unwrap_or_else(Instant::now)), if quiet.is_some() => break,
        }
    }
    out.lines.finish(|line| log.line(line));
    err.lines.finish(|line| log.line(line));
}

struct ChildStream {
    buffer: Box<[u8]>,
    lines: LineBuffer,
    done: bool,
}

impl Default for ChildStream {
    fn default() -> Self {
        Self { buffer: vec![0; 16 << 10].into(), lines: LineBuffer::default(), done: false }
    }
}

impl ChildStream {
    fn take(&mut self, count: &io::Result<usize>, log: &SlotLog) {
        match count {
            Ok(0) | Err(_) => self.done = true,
            Ok(count) => self.lines.push(&self.buffer[..*count], |line| log.line(line)),
        }
    }
}
