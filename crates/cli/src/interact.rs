//! A terminal here joined to a terminal in a sandbox.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use vestal_runtime::{Termination, Terminations};
use vestal_sandbox::job::{AfterInput, JobStream};
use vestal_sandbox::{CommandInput, JobId, JobInfo, Sandbox};

use crate::console::terminal::{self, Raw};
use crate::error::CommandFailure;
use crate::follow::{Followed, JobOutlet, pass_on, unless_terminated};

/// `Ctrl-\`: pressed twice it detaches. Alone it is what it always is.
const DETACH_KEY: u8 = 0x1c;

/// How long the second press may take.
const DETACH_WITHIN: Duration = Duration::from_millis(500);

/// Reads of the keyboard that wait until the job takes them.
const TYPED_AHEAD: usize = 16;

/// Whether the person may leave the job running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detach {
    Allowed,
    Never,
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Interacted {
    /// The job has ended.
    Ended(Box<JobInfo>),
    /// The person has left; the job runs on.
    Detached,
    /// The reader of the output is gone.
    NoReader,
    /// A signal asks this process to end.
    Terminated(Termination),
}

/// Joins the terminal to a job's until one of them ends. Our terminal is as it
/// was afterwards.
pub(crate) async fn interact(
    sandbox: &Sandbox,
    job: JobStream,
    outlet: &JobOutlet,
    signals: &mut Terminations,
    detach: Detach,
) -> Result<Interacted, CommandFailure> {
    let raw = Raw::enter().map_err(|error| CommandFailure::io("prepare the terminal", &error))?;
    let (keys, typed) = mpsc::channel(TYPED_AHEAD);
    let id = job.id().clone();
    let work = async {
        let mut output = Box::pin(pass_on(job, outlet));
        let mut keys = std::pin::pin!(pass_keys(keys, detach));
        let mut sizes = Box::pin(pass_sizes(sandbox, &id));
        let mut feed = Box::pin(feed(sandbox, &id, typed));
        let (mut typing, mut feeding) = (true, true);
        loop {
            tokio::select! {
                followed = &mut output => return followed.map(|followed| match followed {
                    Followed::Done(info) => Interacted::Ended(info),
                    Followed::NoReader => Interacted::NoReader,
                    Followed::Terminated(signal) => Interacted::Terminated(signal),
                }),
                left = &mut keys, if typing => match left {
                    Left::Detached => return Ok(Interacted::Detached),
                    Left::Ended => typing = false,
                },
                () = &mut feed, if feeding => feeding = false,
                never = &mut sizes => match never {},
            }
        }
    };
    let ended = match unless_terminated(signals, work).await {
        Ok(ended) => ended,
        Err(signal) => Ok(Interacted::Terminated(signal)),
    };
    drop(raw);
    ended
}

/// Why no more keys come.
enum Left {
    Detached,
    Ended,
}

/// Writes to the job what is typed. Each piece is a call of its own, so that it
/// goes over whichever connection there is.
async fn feed(sandbox: &Sandbox, id: &JobId, mut typed: mpsc::Receiver<Vec<u8>>) {
    while let Some(keys) = typed.recv().await {
        if let Err(error) = sandbox.write(id, CommandInput::Bytes(keys), AfterInput::KeepOpen).await
        {
            tracing::debug!(%error, "the job did not take what was typed");
        }
    }
}

/// Passes on what is typed, until the person leaves.
async fn pass_keys(to: mpsc::Sender<Vec<u8>>, detach: Detach) -> Left {
    let mut stdin = tokio::io::stdin();
    let mut filter = KeyFilter::new(detach);
    let mut buffer = vec![0; 4096];
    loop {
        let read = if filter.is_holding() {
            tokio::time::timeout(DETACH_WITHIN, stdin.read(&mut buffer)).await
        } else {
            Ok(stdin.read(&mut buffer).await)
        };
        let keys = match read {
            Ok(Ok(0) | Err(_)) => return Left::Ended,
            Ok(Ok(count)) => match filter.take(&buffer[..count]) {
                Keys::Detach => return Left::Detached,
                Keys::Typed(keys) => keys,
            },
            Err(_) => filter.release(),
        };
        if !keys.is_empty() && to.send(keys).await.is_err() {
            // The job takes no more input; leaving must still be possible.
            tracing::debug!("input after the end");
        }
    }
}

/// What was typed, as far as it is known what it means.
#[derive(Debug, PartialEq, Eq)]
enum Keys {
    Typed(Vec<u8>),
    Detach,
}

/// Watches for the detach key pressed twice.
#[derive(Debug)]
struct KeyFilter {
    detach: Detach,
    held: bool,
}

impl KeyFilter {
    const fn new(detach: Detach) -> Self {
        Self { detach, held: false }
    }

    const fn is_holding(&self) -> bool {
        self.held
    }

    fn take(&mut self, bytes: &[u8]) -> Keys {
        if self.detach == Detach::Never {
            return Keys::Typed(bytes.to_vec());
        }
        let mut typed = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            match (*byte == DETACH_KEY, self.held) {
                (true, true) => return Keys::Detach,
                (true, false) => self.held = true,
                (false, _) => {
                    typed.append(&mut self.release());
                    typed.push(*byte);
                }
            }
        }
        Keys::Typed(typed)
    }

    /// Gives back a key that was pressed only once.
    fn release(&mut self) -> Vec<u8> {
        if std::mem::take(&mut self.held) { vec![DETACH_KEY] } else { Vec::new() }
    }
}

/// Never returned: sizes are passed on for as long as there is a job.
enum Never {}

/// Passes every change of our terminal's size on.
async fn pass_sizes(sandbox: &Sandbox, id: &JobId) -> Never {
    let mut changes = match signal(SignalKind::window_change()) {
        Ok(changes) => changes,
        Err(error) => {
            tracing::warn!(%error, "changes of the terminal's size go unnoticed");
            return std::future::pending().await;
        }
    };
    loop {
        if let Some(size) = terminal::size()
            && let Err(error) = sandbox.resize(id, size).await
        {
            tracing::debug!(%error, "the size was not passed on");
        }
        changes.recv().await;
    }
}

/// Reports whether standard input is a terminal that can be joined to a job's.
pub(crate) fn is_possible() -> bool {
    io::IsTerminal::is_terminal(&io::stdin())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detach_key_detaches_only_when_pressed_twice() {
        let mut filter = KeyFilter::new(Detach::Allowed);
        assert_eq!(filter.take(b"ls\n"), Keys::Typed(b"ls\n".to_vec()));
        assert_eq!(filter.take(b"\x1c"), Keys::Typed(Vec::new()));
        assert!(filter.is_holding());
        assert_eq!(filter.take(b"x"), Keys::Typed(b"\x1cx".to_vec()));
        assert_eq!(filter.take(b"\x1c"), Keys::Typed(Vec::new()));
        assert_eq!(filter.release(), b"\x1c");
        assert!(!filter.is_holding());
        assert_eq!(filter.take(b"a\x1c\x1cb"), Keys::Detach);
        let mut filter = KeyFilter::new(Detach::Allowed);
        assert_eq!(filter.take(b"\x1c"), Keys::Typed(Vec::new()));
        assert_eq!(filter.take(b"\x1c"), Keys::Detach);
    }

    #[test]
    fn where_nobody_may_detach_every_key_is_passed_on() {
        let mut filter = KeyFilter::new(Detach::Never);
        assert_eq!(filter.take(b"\x1c\x1c"), Keys::Typed(b"\x1c\x1c".to_vec()));
    }
}
