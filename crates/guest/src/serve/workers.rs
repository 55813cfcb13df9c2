//! Threads for what may block: operations on files and walks through `/proc`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::EventfdFlags;
use vestal_wire::Reply;

use super::ids::Address;
use crate::user::Credentials;

/// Threads at once; further work waits.
const MAX_THREADS: usize = 8;

/// How long an idle thread stays.
const LINGER: Duration = Duration::from_secs(10);

const STACK: usize = 1 << 20;

type Task = Box<dyn FnOnce() + Send>;

/// News from a worker for the event loop.
#[derive(Debug)]
pub(super) enum Letter {
    /// The link of the file operation on this channel has something.
    Link(Address),
    /// The answer to the call on this channel.
    Answer(Address, Box<Reply>),
    /// Orphans have been killed, but for these, which may not be.
    Buried(Vec<u32>),
}

/// Where workers leave news; readable when there is any.
#[derive(Debug)]
pub(super) struct Mailbox {
    bell: OwnedFd,
    letters: Mutex<Vec<Letter>>,
}

/// The threads.
#[derive(Debug, Clone)]
pub(super) struct Workers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// Whose rights the threads act with, where that is not the guest's user.
    credentials: Option<Credentials>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    idle: usize,
    threads: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} threads idle, {} tasks", self.idle, self.threads, self.queue.len())
    }
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self { bell: rustix::event::eventfd(0, flags)?, letters: Mutex::default() })
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn post(&self, letter: Letter) {
        let mut letters = lock(&self.letters);
        letters.push(letter);
        if letters.len() == 1 {
            // It fails only if it rings already.
            rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok();
        }
    }

    pub(super) fn take(&self) -> Vec<Letter> {
        let mut letters = lock(&self.letters);
        rustix::io::read(&self.bell, &mut [0; 8]).ok();
        std::mem::take(&mut letters)
    }
}

impl Workers {
    /// Threads that act with these rights, or with those of the guest.
    pub(super) fn new(credentials: Option<Credentials>) -> Self {
        let shared = Shared { state: Mutex::default(), work: Condvar::new(), credentials };
        Self { shared: Arc::new(shared) }
    }

    /// Has a thread do this. Fails if there is no thread and none can be made.
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

impl Shared {
    fn serve(&self) {
        if let Some(Err(error)) = self.credentials.as_ref().map(Credentials::borrow) {
            // It worked when the guest started. To go on would be to serve the
            // user's calls with the rights of root.
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn more_tasks_than_threads_are_all_done() {
        let workers = Workers::new(None);
        let (done, results) = mpsc::channel();
        for n in 0..100 {
            let done = done.clone();
            workers.run(move || done.send(n).unwrap()).unwrap();
        }
        drop(done);
        let mut all: Vec<i32> = results.iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert!(lock(&workers.shared.state).threads <= MAX_THREADS);
    }

    #[test]
    fn tasks_that_wait_for_each_other_run_at_once() {
        let workers = Workers::new(None);
        let barrier = Arc::new(std::sync::Barrier::new(MAX_THREADS + 1));
        for _ in 0..MAX_THREADS {
            let barrier = Arc::clone(&barrier);
            workers
                .run(move || {
                    barrier.wait();
                })
                .unwrap();
        }
        barrier.wait();
    }
}
