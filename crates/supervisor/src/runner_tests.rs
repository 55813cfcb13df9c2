//! The pauses between starts.

use std::collections::BTreeMap;

use super::*;
use crate::log::RawOutput;
use crate::slot::{BootRule, SlotName, SlotService};

/// Only the clock of the runtime moves here: the clock of the wall stands still, which is a jump back
/// by as much as passes otherwise.
#[tokio::test(start_paused = true)]
async fn pauses_do_not_depend_on_the_clock_of_the_wall() {
    let dir = tempfile::tempdir().unwrap();
    let name = SlotName::new("work").unwrap();
    let service = SlotService {
        argv: vec![dir.path().join("none").into()],
        env: BTreeMap::new(),
        dir: dir.path().into(),
        desired: dir.path().join("desired.json"),
        actual: dir.path().join("state.json"),
        log_dir: dir.path().join("log"),
        boot: BootRule::AsBefore,
        stop_within: Duration::ZERO,
        ready_within: Duration::ZERO,
    };
    let raw = RawOutput::start(Box::new(std::io::sink())).unwrap();
    let log = SlotLog::new(&service.log_dir, raw);
    let records = Records::new(dir.path());
    let (runner, orders, mut status) = SlotRunner::new(Slot { name, service }, records, log);
    let (wall, begun) = (std::time::SystemTime::now(), Instant::now());
    let (started, first) = oneshot::channel();
    let running = tokio::spawn(runner.run(Some(started)));
    assert!(first.await.unwrap().is_err());
    let mut pauses = Vec::new();
    let mut last = begun;
    while pauses.len() < 7 {
        status.wait_for(|status| status.next_start_at.is_some()).await.unwrap();
        status.mark_unchanged();
        status.changed().await.unwrap();
        pauses.push(last.elapsed().as_secs());
        last = Instant::now();
    }
    // Five pauses of the beginning, then those of a storm.
    assert_eq!(pauses, [1, 2, 4, 5, 5, 5, 10]);
    let passed = wall.elapsed().unwrap();
    assert!(passed < begun.elapsed() / 2, "{passed:?}");
    drop(orders);
    running.await.unwrap();
}
