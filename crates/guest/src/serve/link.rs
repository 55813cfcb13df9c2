//! The bridge between a file operation on its thread and its channel in the loop.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vestal_wire::limits::{MAX_DATA, WINDOW};
use vestal_wire::{Fault, FaultCode, FileReply};

use super::conn::QUEUE_OUTPUT;
use super::ids::Address;
use super::workers::{Letter, Mailbox};
use crate::files::ContentSink;

/// How long a host may neither send nor take anything before its operation is
/// given up: it holds a thread that others may need.
const STALL: Duration = Duration::from_mins(1);

/// One file operation's two streams and its result.
#[derive(Debug)]
pub(super) struct Link {
    at: Address,
    mailbox: Arc<Mailbox>,
    state: Mutex<State>,
    changed: Condvar,
    cancelled: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// Bytes from the host that the operation has not read.
    input: VecDeque<Vec<u8>>,
    input_ended: bool,
    /// Bytes the operation has read that the host has not been told of.
    taken: usize,
    /// Bytes the host takes.
    credit: u64,
    /// Bytes for the host.
    output: VecDeque<Vec<u8>>,
    output_bytes: usize,
    result: Option<Result<FileReply, Fault>>,
    /// The loop has been told and has not looked yet.
    posted: bool,
}

/// What the loop takes from a link.
#[derive(Debug)]
pub(super) struct Progress {
    /// Bytes of input taken.
    pub(super) taken: usize,
    /// The next piece of output.
    pub(super) output: Option<Vec<u8>>,
    /// The result, after all output.
    pub(super) result: Option<Result<FileReply, Fault>>,
}

impl Link {
    pub(super) fn new(at: Address, mailbox: Arc<Mailbox>) -> Self {
        let state = State {
            input: VecDeque::new(),
            input_ended: false,
            taken: 0,
            credit: u64::from(WINDOW),
            output: VecDeque::new(),
            output_bytes: 0,
            result: None,
            posted: false,
        };
        Self {
            at,
            mailbox,
            state: Mutex::new(state),
            changed: Condvar::new(),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Hands bytes from the host to the operation.
    pub(super) fn feed(&self, bytes: &[u8]) {
        self.lock().input.push_back(bytes.to_vec());
        self.changed.notify_one();
    }

    /// Tells the operation that its input is complete.
    pub(super) fn end_input(&self) {
        self.lock().input_ended = true;
        self.changed.notify_one();
    }

    /// Notes that the host takes more.
    pub(super) fn add_credit(&self, bytes: u32) {
        let mut state = self.lock();
        state.credit = state.credit.saturating_add(bytes.into());
        self.changed.notify_one();
    }

    /// Has the operation stop.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        // Taking the lock orders this before the next wait of the operation.
        drop(self.lock());
        self.changed.notify_one();
    }

    /// Returns the flag that tells the operation to stop.
    pub(super) const fn cancelled(&self) -> &AtomicBool {
        &self.cancelled
    }

    /// Takes what the operation has done so far. Called by the loop.
    pub(super) fn progress(&self) -> Progress {
        let mut state = self.lock();
        state.posted = false;
        let output = state.output.pop_front();
        if let Some(output) = &output {
            state.output_bytes -= output.len();
            self.changed.notify_one();
        }
        let result = if output.is_none() { state.result.take() } else { None };
        Progress { taken: std::mem::take(&mut state.taken), output, result }
    }

    /// Hands over the operation's result.
    pub(super) fn finish(&self, result: Result<FileReply, Fault>) {
        let mut state = self.lock();
        state.result = Some(result);
        self.post(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, state: &mut State) {
        if !std::mem::replace(&mut state.posted, true) {
            self.mailbox.post(Letter::Link(self.at));
        }
    }

    /// Waits until `ready`, the operation is cancelled, or the host stalls.
    fn wait_until(
        &self,
        ready: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'_, State>, &'static str> {
        let waiting = |state: &mut State| !ready(state) && !self.is_cancelled();
        let (state, wait) = self
            .changed
            .wait_timeout_while(self.lock(), STALL, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_cancelled() {
            return Err("the call was cancelled");
        }
        if wait.timed_out() && !ready(&state) {
            return Err("the caller stalled");
        }
        Ok(state)
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// The operation's input: blocks until the host sends.
#[derive(Debug)]
pub(super) struct LinkInput {
    link: Arc<Link>,
    piece: Vec<u8>,
    read: usize,
}

impl LinkInput {
    pub(super) const fn new(link: Arc<Link>) -> Self {
        Self { link, piece: Vec::new(), read: 0 }
    }
}

impl Read for LinkInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            let mut state = self
                .link
                .wait_until(|state| !state.input.is_empty() || state.input_ended)
                .map_err(|why| io::Error::new(io::ErrorKind::ConnectionAborted, why))?;
            let Some(piece) = state.input.pop_front() else {
                return Ok(0);
            };
            state.taken += piece.len();
            self.link.post(&mut state);
            drop(state);
            self.piece = piece;
            self.read = 0;
        }
        let len = buf.len().min(self.piece.len() - self.read);
        buf[..len].copy_from_slice(&self.piece[self.read..self.read + len]);
        self.read += len;
        Ok(len)
    }
}

/// The operation's output: blocks until the host takes it.
#[derive(Debug)]
pub(super) struct LinkOutput(pub(super) Arc<Link>);

impl ContentSink for LinkOutput {
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let mut state = self
                .0
                .wait_until(|state| state.credit > 0 && state.output_bytes < QUEUE_OUTPUT)
                .map_err(|why| Fault::new(FaultCode::Cancelled, why))?;
            let credit = usize::try_from(state.credit).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(bytes.len().min(MAX_DATA).min(credit));
            state.credit -= piece.len() as u64;
            state.output_bytes += piece.len();
            state.output.push_back(piece.to_vec());
            self.0.post(&mut state);
            bytes = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::ConnId;
    use super::*;

    fn link() -> Arc<Link> {
        let at = Address { conn: ConnId(1), channel: 2 };
        Arc::new(Link::new(at, Arc::new(Mailbox::new().unwrap())))
    }

    #[test]
    fn input_is_read_to_its_end_and_counted() {
        let link = link();
        link.feed(b"one");
        link.feed(b"two");
        link.end_input();
        let mut all = String::new();
        LinkInput::new(Arc::clone(&link)).read_to_string(&mut all).unwrap();
        assert_eq!((all.as_str(), link.progress().taken), ("onetwo", 6));
    }

    #[test]
    fn output_waits_for_credit_and_a_cancelled_one_stops() {
        let link = link();
        let sender = {
            let link = Arc::clone(&link);
            std::thread::spawn(move || LinkOutput(link).send(&vec![7; WINDOW as usize + 1]))
        };
        let mut received = 0;
        while received < WINDOW as usize {
            received += link.progress().output.map_or(0, |piece| piece.len());
        }
        assert_eq!(link.progress().output, None);
        link.cancel();
        assert_eq!(sender.join().unwrap().unwrap_err().code, FaultCode::Cancelled);
    }
}
