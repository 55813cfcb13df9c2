use std::sync::mpsc;

use super::*;
use crate::serve::reactor::ConnectionId;

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

fn transfer() -> Arc<Transfer> {
    let at = ChannelId { conn: ConnectionId(1), channel: 2 };
    Arc::new(Transfer::new(at, Arc::new(Mailbox::new().unwrap())))
}

#[test]
fn input_is_read_to_its_end_and_counted() {
    let transfer = transfer();
    transfer.feed(b"one");
    transfer.feed(b"two");
    transfer.end_input();
    let mut all = String::new();
    TransferInput::new(Arc::clone(&transfer)).read_to_string(&mut all).unwrap();
    assert_eq!((all.as_str(), transfer.progress().taken), ("onetwo", 6));
}

#[test]
fn output_waits_for_credit_and_a_cancelled_one_stops() {
    let transfer = transfer();
    let sender = {
        let transfer = Arc::clone(&transfer);
        std::thread::spawn(move || TransferOutput(transfer).send(&vec![7; WINDOW as usize + 1]))
    };
    let mut received = 0;
    while received < WINDOW as usize {
        received += transfer.progress().output.map_or(0, |piece| piece.len());
    }
    assert_eq!(transfer.progress().output, None);
    transfer.cancel();
    assert_eq!(sender.join().unwrap().unwrap_err().code, FaultCode::Cancelled);
}
