//! Worker threads for what may block: file operations and walks through `/proc`.
//!
//! A file operation and its channel exchange bytes through a transfer, which the
//! worker waits on and the event loop never does.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::EventfdFlags;
use vestal_wire::limits::{MAX_DATA, WINDOW};
use vestal_wire::{CallReply, Fault, FaultCode, FileReply};

use super::connection::QUEUE_OUTPUT;
use super::reactor::ChannelId;
use crate::files::ContentSink;
use crate::user::Credentials;

/// Maximum number of threads; further tasks wait.
const MAX_THREADS: usize = 8;

/// How long an idle thread stays.
const LINGER: Duration = Duration::from_secs(10);

const STACK: usize = 1 << 20;
type WorkerTask = Box<dyn FnOnce() + Send>;

/// How long a host may neither send nor receive before its operation is aborted:
/// it occupies a thread.
const STALL: Duration = Duration::from_mins(1);

/// A message from a worker to the event loop.
#[derive(Debug)]
pub(super) enum WorkerMessage {
    /// The file operation on this channel has made progress.
    Transfer(ChannelId),
    /// The reply to the call on this channel.
    Reply(ChannelId, Box<CallReply>),
    /// Orphans were killed, except for these, which may not be killed.
    OrphansKilled(Vec<u32>),
}

/// Messages of workers, with a descriptor that is readable when there are any.
#[derive(Debug)]
pub(super) struct Mailbox {
    wakeup: OwnedFd,
    messages: Mutex<Vec<WorkerMessage>>,
}

/// The threads.
#[derive(Debug, Clone)]
pub(super) struct Workers {
    shared: Arc<PoolShared>,
}

#[derive(Debug)]
struct PoolShared {
    state: Mutex<PoolState>,
    work: Condvar,
    /// Credentials of the threads, if they differ from the guest's.
    credentials: Option<Credentials>,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<WorkerTask>,
    idle: usize,
    threads: usize,
}

impl std::fmt::Debug for PoolState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} threads idle, {} tasks", self.idle, self.threads, self.queue.len())
    }
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self { wakeup: rustix::event::eventfd(0, flags)?, messages: Mutex::default() })
    }

    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    pub(super) fn post(&self, message: WorkerMessage) {
        let mut messages = lock(&self.messages);
        messages.push(message);
        if messages.len() == 1 {
            // It fails only if it is already readable.
            rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes()).ok();
        }
    }

    pub(super) fn take(&self) -> Vec<WorkerMessage> {
        let mut messages = lock(&self.messages);
        rustix::io::read(&self.wakeup, &mut [0; 8]).ok();
        std::mem::take(&mut messages)
    }
}

impl Workers {
    /// Returns threads with these credentials, or with the guest's own.
    pub(super) fn new(credentials: Option<Credentials>) -> Self {
        let shared = PoolShared { state: Mutex::default(), work: Condvar::new(), credentials };
        Self { shared: Arc::new(shared) }
    }

    /// Runs a task on a thread. Fails if there is no thread and none can be
    /// started.
    pub(super) fn run(&self, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = lock(&self.shared.state);
        state.queue.push_back(Box::new(task));
        if state.idle >= state.queue.len() || state.threads >= MAX_THREADS {
            self.shared.work.notify_one();
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new()
            .name("files".into())
            .stack_size(STACK)
            .spawn(move || shared.serve());
        match spawned {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => self.shared.work.notify_one(),
            Err(error) => {
                state.queue.pop_back();
                return Err(error);
            }
        }
        Ok(())
    }
}

impl PoolShared {
    fn serve(&self) {
        if let Some(Err(error)) = self.credentials.as_ref().map(Credentials::borrow) {
            // It worked when the guest started. Continuing would serve the user's
            // calls with the rights of root.
            crate::diagnostics::note(&format!("a thread cannot act as the user: {error}"));
            std::process::abort();
        }
        let mut state = lock(&self.state);
        loop {
            if let Some(task) = state.queue.pop_front() {
                drop(state);
                task();
                state = lock(&self.state);
                continue;
            }
            state.idle += 1;
            let (back, wait) = self
                .work
                .wait_timeout_while(state, LINGER, |state| state.queue.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            state = back;
            state.idle -= 1;
            if wait.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The input, output and result of a file operation, or of a connection to a port.
#[derive(Debug)]
pub(super) struct Transfer {
    at: ChannelId,
    mailbox: Arc<Mailbox>,
    /// How long a host may neither send nor receive.
    stall: Option<Duration>,
    state: Mutex<TransferState>,
    changed: Condvar,
    cancelled: AtomicBool,
}

#[derive(Debug)]
struct TransferState {
    /// Bytes from the host that were not read yet.
    input: VecDeque<Vec<u8>>,
    input_ended: bool,
    /// Bytes read that were not granted again yet.
    taken: usize,
    /// Bytes the host accepts.
    credit: u64,
    /// Bytes for the host.
    output: VecDeque<Vec<u8>>,
    output_bytes: usize,
    result: Option<Result<FileReply, Fault>>,
    /// Whether there was a result.
    finished: bool,
    /// Whether the event loop was notified and has not looked yet.
    posted: bool,
}

/// Progress of a transfer, as the event loop takes it.
#[derive(Debug)]
pub(super) struct TransferProgress {
    /// Bytes of input taken.
    pub(super) taken: usize,
    /// The next piece of output.
    pub(super) output: Option<Vec<u8>>,
    /// The result, after all output.
    pub(super) result: Option<Result<FileReply, Fault>>,
}

impl Transfer {
    pub(super) fn new(at: ChannelId, mailbox: Arc<Mailbox>) -> Self {
        let state = TransferState {
            input: VecDeque::new(),
            input_ended: false,
            taken: 0,
            credit: u64::from(WINDOW),
            output: VecDeque::new(),
            output_bytes: 0,
            result: None,
            finished: false,
            posted: false,
        };
        Self {
            at,
            mailbox,
            stall: Some(STALL),
            state: Mutex::new(state),
            changed: Condvar::new(),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Returns one that waits for the host as long as it takes, in threads of its own.
    pub(super) fn unhurried(at: ChannelId, mailbox: Arc<Mailbox>) -> Self {
        Self { stall: None, ..Self::new(at, mailbox) }
    }

    /// Passes bytes from the host to the operation.
    pub(super) fn feed(&self, bytes: &[u8]) {
        self.lock().input.push_back(bytes.to_vec());
        self.changed.notify_all();
    }

    /// Marks the input as complete.
    pub(super) fn end_input(&self) {
        self.lock().input_ended = true;
        self.changed.notify_all();
    }

    /// Adds credit from the host.
    pub(super) fn add_credit(&self, bytes: u32) {
        let mut state = self.lock();
        state.credit = state.credit.saturating_add(bytes.into());
        self.changed.notify_all();
    }

    /// Cancels the operation.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        // Taking the lock orders this before the next wait of the operation.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Returns the flag that cancels the operation.
    pub(super) const fn cancelled(&self) -> &AtomicBool {
        &self.cancelled
    }

    /// Takes the progress so far. Called by the event loop.
    pub(super) fn progress(&self) -> TransferProgress {
        let mut state = self.lock();
        state.posted = false;
        let output = state.output.pop_front();
        if let Some(output) = &output {
            state.output_bytes -= output.len();
            self.changed.notify_all();
        }
        let result = if output.is_none() { state.result.take() } else { None };
        TransferProgress { taken: std::mem::take(&mut state.taken), output, result }
    }

    /// Sets the operation's result.
    pub(super) fn finish(&self, result: Result<FileReply, Fault>) {
        let mut state = self.lock();
        state.result = Some(result);
        state.finished = true;
        self.post(&mut state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, TransferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, state: &mut TransferState) {
        if !std::mem::replace(&mut state.posted, true) {
            self.mailbox.post(WorkerMessage::Transfer(self.at));
        }
    }

    /// Waits until `ready`, the operation is cancelled, or the host stalls.
    fn wait_until(
        &self,
        ready: impl Fn(&TransferState) -> bool,
    ) -> Result<MutexGuard<'_, TransferState>, &'static str> {
        let waiting = |state: &mut TransferState| !ready(state) && !self.is_cancelled();
        let state = match self.stall {
            Some(stall) => {
                let waited = self.changed.wait_timeout_while(self.lock(), stall, waiting);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.changed.wait_while(self.lock(), waiting);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        if self.is_cancelled() {
            return Err("the call was cancelled");
        }
        if !ready(&state) {
            return Err("the caller stalled");
        }
        Ok(state)
    }

    /// Waits until there is a result, or nobody listens for one.
    pub(super) fn wait_for_end(&self) {
        drop(self.wait_until(|state| state.finished));
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// The operation's input. Reading blocks until the host sends.
#[derive(Debug)]
pub(super) struct TransferInput {
    transfer: Arc<Transfer>,
    piece: Vec<u8>,
    read: usize,
}

impl TransferInput {
    pub(super) const fn new(transfer: Arc<Transfer>) -> Self {
        Self { transfer, piece: Vec::new(), read: 0 }
    }
}

impl Read for TransferInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            let mut state = self
                .transfer
                .wait_until(|state| !state.input.is_empty() || state.input_ended || state.finished)
                .map_err(|why| io::Error::new(io::ErrorKind::ConnectionAborted, why))?;
            let Some(piece) = state.input.pop_front() else {
                return Ok(0);
            };
            state.taken += piece.len();
            self.transfer.post(&mut state);
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

/// The operation's output. Sending blocks until the host accepts it.
#[derive(Debug)]
pub(super) struct TransferOutput(pub(super) Arc<Transfer>);

impl ContentSink for TransferOutput {
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
#[path = "workers_tests.rs"]
mod tests;
