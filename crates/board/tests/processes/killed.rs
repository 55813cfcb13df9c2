//! Processes that are killed.

use std::collections::BTreeSet;
use std::process::Child;

use crate::{assert_whole, lines, worker};

const WRITERS: usize = 8;
const CREATES: u64 = 200;

/// Numbers that look random and are the same each time for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[expect(clippy::disallowed_methods, reason = "how much is soaked is no setting")]
fn soak(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// Lets a writer acknowledge so many tasks, then kills it, and returns what it
/// had acknowledged by then.
fn kill_after(mut writer: Child, tasks: u64) -> Vec<String> {
    let mut output = lines(&mut writer);
    let most = usize::try_from(tasks).unwrap();
    let mut said: Vec<String> = output.by_ref().take(most).map(Result::unwrap).collect();
    writer.kill().unwrap();
    // What was said until the kill took effect counts as well.
    said.extend(output.map(Result::unwrap));
    writer.wait().unwrap();
    said
}

#[tokio::test]
async fn soak_no_task_that_a_killed_process_acknowledged_is_lost() {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 2);
    let mut random = Random(soak("VESTAL_SOAK_SEED", 20_260_101));
    println!("seed {}", random.0);
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for _ in 0..rounds {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let writer = worker(dir.path(), &["create", &CREATES.to_string()]).spawn().unwrap();
                // Some come to their end.
                let tasks = random.below(CREATES + CREATES / 4);
                std::thread::spawn(move || kill_after(writer, tasks))
            })
            .collect();
        for writer in writers {
            for id in writer.join().unwrap() {
                // The last line may have been cut by the kill.
                if id.len() == "t_000000000000".len() {
                    assert!(acknowledged.insert(id), "a name was given twice");
                }
            }
        }
    }
    assert_whole(dir.path(), &acknowledged).await;
}

#[tokio::test]
async fn a_writer_that_is_stopped_in_its_transaction_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut frozen = worker(dir.path(), &["freeze"]);
    let mut frozen = frozen.stdin(std::process::Stdio::piped()).spawn().unwrap();
    assert_eq!(lines(&mut frozen).next().unwrap().unwrap(), "writing");
    let path = vestal_board::testing::file(dir.path());
    let mut patience = vestal_database::Patience::new(&path);
    patience.pause().await.unwrap();
    let pid = rustix::process::Pid::from_child(&frozen);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    until_stopped(frozen.id()).await;
    let error = patience.pause().await.unwrap_err();
    let is_it = matches!(error, vestal_database::Error::Stopped { pid, .. } if pid == frozen.id());
    assert!(is_it, "{error}");
    frozen.kill().unwrap();
    frozen.wait().unwrap();
    patience.pause().await.unwrap();
}

async fn until_stopped(pid: u32) {
    while !vestal_process::is_stopped(pid) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_writer_that_is_killed_in_its_transaction_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut frozen = worker(dir.path(), &["freeze"]);
    let mut frozen = frozen.stdin(std::process::Stdio::piped()).spawn().unwrap();
    assert_eq!(lines(&mut frozen).next().unwrap().unwrap(), "writing");
    let mut waiting = worker(dir.path(), &["create", "1"]).spawn().unwrap();
    frozen.kill().unwrap();
    frozen.wait().unwrap();
    let id = lines(&mut waiting).next().unwrap().unwrap();
    assert!(waiting.wait().unwrap().success());
    assert_whole(dir.path(), &BTreeSet::from([id])).await;
}
