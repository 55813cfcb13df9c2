//! Copies the output of a job to this process's output as it comes.

use std::future::Future;

use tokio::time::timeout;
use vestal_runtime::{Termination, Terminations};
use vestal_sandbox::job::{JobEvent, JobStream};
use vestal_sandbox::{CLOSE_WITHIN, Cause, JobId, JobInfo, JobState, Sandbox, Stream};

use crate::console::{Console, Sink, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Where a job's output goes.
#[derive(Debug)]
pub(crate) struct JobOutlet {
    stdout: Option<Sink>,
    stderr: Option<Sink>,
    console: Console,
}

/// How following ended.
#[derive(Debug)]
pub(crate) enum Followed {
    /// The job has ended, or all of its output has been printed.
    Done(Box<JobInfo>),
    /// The reader of this process's output is gone.
    NoReader,
    /// A signal asks this process to end.
    Terminated(Termination),
}

impl JobOutlet {
    /// Returns an outlet to this process's standard output and standard error.
    pub(crate) fn both(console: Console) -> Result<Self, CommandFailure> {
        Self::new(console, OutputStreams::Both)
    }

    pub(crate) fn new(console: Console, wanted: OutputStreams) -> Result<Self, CommandFailure> {
        let open =
            |sink: std::io::Result<Sink>| sink.map_err(|error| CommandFailure::output(&error));
        let stdout = (wanted != OutputStreams::Stderr).then(Sink::stdout).map(open).transpose()?;
        let stderr = (wanted != OutputStreams::Stdout).then(Sink::stderr).map(open).transpose()?;
        Ok(Self { stdout, stderr, console })
    }

    /// Prints one event. Returns whether the output still has a reader.
    pub(crate) async fn pass(&self, event: JobEvent) -> Result<bool, CommandFailure> {
        let (sink, bytes) = match event {
            JobEvent::Stdout(bytes) => (&self.stdout, bytes),
            JobEvent::Stderr(bytes) => (&self.stderr, bytes),
            JobEvent::Gap { stream, bytes } => {
                self.print_gap(stream, bytes);
                return Ok(true);
            }
            JobEvent::Started { .. } | JobEvent::Ended(_) => return Ok(true),
        };
        let Some(sink) = sink else { return Ok(true) };
        match sink.write(bytes).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(CommandFailure::output(&error)),
        }
    }

    fn print_gap(&self, stream: Stream, bytes: u64) {
        let (sink, name) = match stream {
            Stream::Stderr => (&self.stderr, "standard error"),
            _ => (&self.stdout, "standard output"),
        };
        if sink.is_some() {
            self.console.note(&format!("{} of {name} left out here", text::count(bytes, "byte")));
        }
    }
}

/// Which streams to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputStreams {
    Both,
    Stdout,
    Stderr,
}

/// Prints the output of a job until the job ends, the reader is gone, or a signal comes.
pub(crate) async fn follow(
    job: JobStream,
    outlet: &JobOutlet,
    signals: &mut Terminations,
) -> Result<Followed, CommandFailure> {
    match unless_terminated(signals, pass_on(job, outlet)).await {
        Ok(followed) => followed,
        Err(signal) => Ok(Followed::Terminated(signal)),
    }
}

/// Prints the output of a job until the job ends or the reader is gone. It continues after
/// a lost connection; the command is never run a second time.
pub(crate) async fn pass_on(
    mut job: JobStream,
    outlet: &JobOutlet,
) -> Result<Followed, CommandFailure> {
    while let Some(event) = job.next().await? {
        if !outlet.pass(event).await? {
            return Ok(Followed::NoReader);
        }
    }
    Ok(Followed::Done(Box::new(job.finish().await?.into_info()?)))
}

/// Waits for a future, or for a signal that asks this process to end.
pub(crate) async fn unless_terminated<T>(
    signals: &mut Terminations,
    work: impl Future<Output = T>,
) -> Result<T, Termination> {
    tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        done = work => Ok(done),
    }
}

/// Kills a job because this process is about to end. A second signal ends the
/// waiting, not the killing, which is the guest's.
pub(crate) async fn kill_before_exit(
    console: Console,
    sandbox: &Sandbox,
    job: &JobId,
    signals: &mut Terminations,
) {
    let kill = timeout(CLOSE_WITHIN, Box::pin(sandbox.kill(job)));
    match unless_terminated(signals, kill).await {
        Ok(Ok(Ok(_))) | Err(_) => {}
        Ok(Ok(Err(error))) => {
            tracing::debug!(%error, "the job was not killed: it had ended or never started");
        }
        Ok(Err(_)) => {
            console.warn(&format!(
                "job {job} is still being killed; vestal wait {job} tells when it is gone"
            ));
        }
    }
}

/// Returns the exit of this program for the exit of a job.
pub(crate) fn exit_of(info: &JobInfo) -> Result<Exit, CommandFailure> {
    let JobState::Ended(exit) = info.state else {
        return Err(CommandFailure::new(format!("job {} has not ended", info.id)));
    };
    match (exit.cause, exit.code) {
        (Cause::TimedOut, _) => Ok(Exit::TimedOut),
        (Cause::Lost, _) | (_, None) => Err(CommandFailure::new(format!(
            "the sandbox ended while job {} ran; its exit code is not known",
            info.id
        ))
        .advise(format!("what it printed until then: vestal logs {}", info.id))),
        (Cause::Exited | Cause::Signaled(_) | Cause::Killed, Some(code)) => Ok(Exit::Command(code)),
    }
}
