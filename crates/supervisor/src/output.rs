//! The supervisor's own output: every line of every child, with the name of its slot.
//!
//! A reader that is slow must not hold a child up, so the lines wait in a queue of limited size.
//! What does not fit is left out and counted there; the log of the slot has it.

use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::slot::SlotName;

/// Bytes that may wait for a slow reader.
const MAX_QUEUED: usize = 1 << 20;

/// Where lines go raw. Clones write to the same.
#[derive(Debug, Clone)]
pub(crate) struct RawOutput {
    queue: mpsc::Sender<Vec<u8>>,
    counts: Arc<LineCounts>,
    /// What each line begins with.
    prefix: Arc<str>,
}

#[derive(Debug, Default)]
struct LineCounts {
    queued: AtomicUsize,
    left_out: AtomicU64,
}

impl RawOutput {
    /// Starts the thread that writes.
    pub(crate) fn start(mut to: Box<dyn Write + Send>) -> std::io::Result<Self> {
        let (queue, lines) = mpsc::channel::<Vec<u8>>();
        let counts = Arc::new(LineCounts::default());
        let shared = Arc::clone(&counts);
        let write = move || {
            let mut broken = false;
            for line in lines {
                // A reader that is gone is not a reason to hold the queue.
                broken = broken || to.write_all(&line).and_then(|()| to.flush()).is_err();
                shared.queued.fetch_sub(line.len(), Ordering::AcqRel);
            }
        };
        std::thread::Builder::new().name("raw-output".to_owned()).spawn(write)?;
        Ok(Self { queue, counts, prefix: Arc::from("") })
    }

    /// Returns the output for the lines of a slot: they begin with its name.
    pub(crate) fn of(&self, slot: &SlotName) -> Self {
        Self { prefix: format!("{slot}: ").into(), ..self.clone() }
    }

    /// Passes a line on, without its newline.
    pub(crate) fn line(&self, line: &[u8]) {
        if self.counts.queued.load(Ordering::Acquire) + line.len() > MAX_QUEUED {
            self.counts.left_out.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let left_out = self.counts.left_out.swap(0, Ordering::AcqRel);
        if left_out > 0 {
            self.send(
                format!("supervisor: {left_out} lines are only in the logs: the output is read too slowly\n")
                    .into_bytes(),
            );
        }
        let mut bytes = Vec::with_capacity(self.prefix.len() + line.len() + 1);
        bytes.extend_from_slice(self.prefix.as_bytes());
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        self.send(bytes);
    }

    /// Waits until everything was written, for as long as `timeout`.
    pub(crate) async fn drain(&self, timeout: Duration) {
        let deadline = tokio::time::Instant::now() + timeout;
        while self.counts.queued.load(Ordering::Acquire) > 0
            && tokio::time::Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn send(&self, bytes: Vec<u8>) {
        self.counts.queued.fetch_add(bytes.len(), Ordering::AcqRel);
        // The thread ends with the last sender, so there is always a receiver.
        self.queue.send(bytes).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Whether it is open, and what came through.
    type State = (bool, Vec<u8>);

    #[derive(Clone, Default)]
    struct Gate(Arc<(Mutex<State>, Condvar)>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let (lock, opened) = &*self.0;
            let mut state = opened.wait_while(lock.lock().unwrap(), |state| !state.0).unwrap();
            state.1.extend_from_slice(bytes);
            opened.notify_all();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_nobody_and_gets_the_gap_reported() {
        let gate = Gate::default();
        let raw = RawOutput::start(Box::new(gate.clone())).unwrap();
        let raw = raw.of(&SlotName::new("a").unwrap());
        let long = vec![b'x'; 64 << 10];
        // Nothing is taken, and still every call returns.
        (0..100).for_each(|_| raw.line(&long));
        let (lock, opened) = &*gate.0;
        lock.lock().unwrap().0 = true;
        opened.notify_all();
        while raw.counts.queued.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        raw.line(b"after");
        let state = opened
            .wait_while(lock.lock().unwrap(), |state| !state.1.ends_with(b"\na: after\n"))
            .unwrap();
        let text = String::from_utf8(state.1.clone()).unwrap();
        let whole = text.lines().filter(|line| line.len() == "a: ".len() + long.len()).count();
        let reported = format!("supervisor: {} lines are only in the logs", 100 - whole);
        assert!((1..=16).contains(&whole), "{whole}");
        assert!(text.contains(&reported), "{reported}");
    }
}
