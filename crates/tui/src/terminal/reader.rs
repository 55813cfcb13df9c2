//! The thread that reads what is typed.
//!
//! A thread, because the terminal is shared with others who do not expect it to be
//! non-blocking. It reads only when there is something, so that it can be asked to
//! leave what comes to another program.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::key::{KeyDecoder, TerminalInput};
use crate::terminal::{self, size};
use crate::text::Size;

/// How long the thread may take to hear that it should not read. It is longer only
/// if another reader took what was there to be read; then the thread waits for more,
/// and so does the caller that waits for quiet.
const QUIET_TIMEOUT: Duration = Duration::from_millis(500);

/// The hand on the reading thread.
#[derive(Debug)]
pub(super) struct InputReader {
    state: Mutex<ReaderState>,
    changed: Condvar,
    wake: OwnedFd,
    terminal: OwnedFd,
}

#[derive(Debug)]
struct ReaderState {
    request: ReaderRequest,
    /// Whether the thread leaves the terminal alone.
    is_quiet: bool,
    /// Bytes that were typed before the terminal was taken. It was in its usual
    /// mode then, in which Enter comes as the end of a line.
    typed_before: usize,
}

/// What the thread should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderRequest {
    Read,
    Pause,
    End,
}

impl InputReader {
    /// Starts the thread; it does not read yet.
    pub(super) fn start(
        terminal: OwnedFd,
    ) -> io::Result<(Arc<Self>, UnboundedReceiver<TerminalInput>)> {
        let (woken, wake) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let state = Mutex::new(ReaderState {
            request: ReaderRequest::Pause,
            is_quiet: true,
            typed_before: 0,
        });
        let own = terminal.try_clone()?;
        let reader = Arc::new(Self { state, changed: Condvar::new(), wake, terminal: own });
        let (send, read) = unbounded_channel();
        let thread = ReadingThread {
            hand: Arc::clone(&reader),
            terminal,
            woken,
            decoder: KeyDecoder::default(),
            inputs: Vec::new(),
            send,
        };
        thread::Builder::new().name("keys".to_owned()).spawn(move || thread.run())?;
        Ok((reader, read))
    }

    pub(super) fn go_on(&self) {
        let mut state = self.lock();
        if state.request != ReaderRequest::End {
            state.request = ReaderRequest::Read;
            state.is_quiet = false;
            // Where it cannot be determined, nothing was.
            let typed = rustix::io::ioctl_fionread(&self.terminal).unwrap_or_default();
            state.typed_before = usize::try_from(typed).unwrap_or_default();
            self.changed.notify_all();
        }
    }

    /// Returns when nothing is read any more.
    pub(super) fn pause(&self) -> io::Result<()> {
        self.stop(ReaderRequest::Pause)
    }

    /// As [`InputReader::pause`], for ever.
    pub(super) fn end(&self) -> io::Result<()> {
        self.stop(ReaderRequest::End)
    }

    fn stop(&self, request: ReaderRequest) -> io::Result<()> {
        let mut state = self.lock();
        if state.request == ReaderRequest::End {
            return Ok(());
        }
        state.request = request;
        self.changed.notify_all();
        match rustix::io::write(&self.wake, b"!") {
            // A pipe that is full wakes as well.
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        let until = Instant::now() + QUIET_TIMEOUT;
        while !state.is_quiet {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, ReaderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the ends of lines that were typed before the terminal was taken into
    /// what they were typed as: Enter.
    fn as_keys(&self, bytes: &mut [u8]) {
        let mut state = self.lock();
        let before = state.typed_before.min(bytes.len());
        state.typed_before -= before;
        bytes.iter_mut().take(before).filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
    }

    /// Waits, as the thread, until it should read; returns whether it ever will.
    fn may_read(&self) -> bool {
        let mut state = self.lock();
        loop {
            match state.request {
                ReaderRequest::Read => return true,
                ReaderRequest::End => return false,
                ReaderRequest::Pause => {
                    state.is_quiet = true;
                    self.changed.notify_all();
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// The thread's own.
struct ReadingThread {
    hand: Arc<InputReader>,
    terminal: OwnedFd,
    woken: OwnedFd,
    decoder: KeyDecoder,
    inputs: Vec<TerminalInput>,
    send: UnboundedSender<TerminalInput>,
}

/// Why the thread woke up.
enum Woken {
    /// There is something to read, or there never will be again.
    Ready,
    /// It should look what is wished.
    Notified,
    /// The decoder's patience has run out.
    Silence,
}

impl ReadingThread {
    fn run(mut self) {
        let mut bytes = vec![0; 16 << 10];
        while self.hand.may_read() {
            let woken = self.wait();
            match woken {
                Ok(Woken::Ready) => match rustix::io::read(&self.terminal, &mut bytes) {
                    Ok(0) => break,
                    Ok(count) => {
                        self.hand.as_keys(&mut bytes[..count]);
                        self.decoder.feed(&bytes[..count], &mut self.inputs);
                    }
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(_) => break,
                },
                Ok(Woken::Notified) => {}
                Ok(Woken::Silence) => self.decoder.silence(&mut self.inputs),
                Err(_) => break,
            }
            if self.inputs.drain(..).any(|input| self.send.send(input).is_err()) {
                break;
            }
        }
        // The words of a paste that was cut off are words all the same. If the
        // receiver is gone, nothing is lost.
        self.decoder.silence(&mut self.inputs);
        self.inputs.drain(..).for_each(|input| self.send.send(input).unwrap_or_default());
        let mut state = self.hand.lock();
        state.request = ReaderRequest::End;
        state.is_quiet = true;
        self.hand.changed.notify_all();
        // The end of the channel reports it.
    }

    fn wait(&self) -> io::Result<Woken> {
        let timeout = self.decoder.timeout().and_then(|time| Timespec::try_from(time).ok());
        let mut ready =
            [PollFd::new(&self.terminal, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(0) => Ok(Woken::Silence),
            Ok(_) if !ready[1].revents().is_empty() => {
                // However often it was woken, it looks once.
                match rustix::io::read(&self.woken, &mut [0; 64]) {
                    Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(Woken::Notified),
                    Err(error) => Err(error.into()),
                }
            }
            Ok(_) => Ok(Woken::Ready),
            Err(Errno::INTR) => Ok(Woken::Notified),
            Err(error) => Err(error.into()),
        }
    }
}

/// Input of the user and events of the terminal.
#[derive(Debug)]
pub struct Inputs {
    read: UnboundedReceiver<TerminalInput>,
    /// The terminal, to ask for its size.
    terminal: OwnedFd,
    last_size: Option<Size>,
    resized: Signal,
    continued: Signal,
}

impl Inputs {
    pub(super) fn new(
        read: UnboundedReceiver<TerminalInput>,
        terminal: OwnedFd,
    ) -> io::Result<Self> {
        let last_size = size(&terminal);
        let resized = signal(SignalKind::window_change())?;
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
        Ok(Self { read, terminal, last_size, resized, continued })
    }

    /// Waits for the next. Once the terminal is gone, that is [`TerminalInput::Closed`] for
    /// ever. What has come is not lost when this is dropped while it waits.
    pub async fn next(&mut self) -> TerminalInput {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<TerminalInput> {
        while self.continued.poll_recv(context).is_ready() {
            // Others have had the terminal: its modes and its lines may be theirs.
            terminal::reenter_after_stop();
            if let Some(size) = size(&self.terminal) {
                self.last_size = Some(size);
                return Poll::Ready(TerminalInput::Resized(size));
            }
        }
        while self.resized.poll_recv(context).is_ready() {
            let now = size(&self.terminal);
            if let Some(now) = now.filter(|now| Some(*now) != self.last_size) {
                self.last_size = Some(now);
                return Poll::Ready(TerminalInput::Resized(now));
            }
        }
        self.read.poll_recv(context).map(|input| input.unwrap_or(TerminalInput::Closed))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_a_terminal_that_is_gone() {
        // A directory is always ready, and reading it always fails.
        let (reader, mut read) = InputReader::start(File::open("/").unwrap().into()).unwrap();
        reader.go_on();
        assert_eq!(read.blocking_recv(), None);
        // Nothing waits for a thread that has ended.
        let begun = Instant::now();
        reader.pause().unwrap();
        reader.go_on();
        reader.end().unwrap();
        assert!(begun.elapsed() < QUIET_TIMEOUT, "{:?}", begun.elapsed());
    }

    #[test]
    fn what_was_pasted_before_the_terminal_went_away_is_reported() {
        let (terminal, person) = rustix::pipe::pipe().unwrap();
        let (reader, mut read) = InputReader::start(terminal).unwrap();
        rustix::io::write(&person, b"a\x1b[200~words that were cut o").unwrap();
        drop(person);
        reader.go_on();
        let inputs: Vec<_> = std::iter::from_fn(|| read.blocking_recv()).collect();
        let key = TerminalInput::Key(crate::key::KeyPress::plain(crate::key::KeyCode::Char('a')));
        assert_eq!(inputs, [key, TerminalInput::Paste("words that were cut o".to_owned())]);
    }
}
