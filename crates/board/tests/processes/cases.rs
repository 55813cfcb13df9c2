//! Processes that are killed, race, listen, and find a read-only disk.

use std::collections::{BTreeMap, BTreeSet};

use vestal_testkit::namespaces::in_namespace;
use vestal_testkit::programs::{kill_after, lines};
use vestal_testkit::random::{Random, soak};

use crate::{assert_whole, worker};

const WRITERS: usize = 8;
const CREATES: u64 = 200;

#[tokio::test]
async fn soak_no_task_that_a_killed_process_acknowledged_is_lost() {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 2);
    let mut random = Random::from_environment();
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for _ in 0..rounds {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let writer = worker(dir.path(), &["create", &CREATES.to_string()]).spawn().unwrap();
                // Some come to their end.
                let tasks = usize::try_from(random.below(CREATES + CREATES / 4)).unwrap();
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
async fn stampede_of_many_processes_with_one_key_one_makes_the_task() {
    let dir = tempfile::tempdir().unwrap();
    for key in ["first", "second"] {
        let racing: Vec<_> =
            (0..8).map(|_| worker(dir.path(), &["keyed", key]).spawn().unwrap()).collect();
        let mut printed: BTreeMap<bool, u32> = BTreeMap::new();
        for child in racing {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            let refused = String::from_utf8(output.stdout).unwrap() == "refused\n";
            *printed.entry(refused).or_default() += 1;
        }
        assert_eq!(printed, BTreeMap::from([(false, 1), (true, 7)]), "{key}");
    }
}

#[test]
fn a_process_hears_of_what_another_committed_at_full_durability() {
    let dir = tempfile::tempdir().unwrap();
    let mut listener = worker(dir.path(), &["listen"]).spawn().unwrap();
    let mut heard = lines(&mut listener);
    assert_eq!(heard.next().unwrap().unwrap(), "listening");
    for number in 1..=20 {
        let output = worker(dir.path(), &["create", "1"]).output().unwrap();
        assert!(output.status.success());
        // It may hear of a commit more than once, and never of none.
        let mut counts = heard.by_ref().map(|line| line.unwrap().parse::<u32>().unwrap());
        assert_eq!(counts.find(|count| *count >= number), Some(number));
    }
    listener.kill().unwrap();
    listener.wait().unwrap();
}

/// Reads a board, writes to it, and tries to create another.
const READ_ONLY: &str = "
    mount -t tmpfs none \"$1\"
    mkdir \"$1/old\" \"$1/new\"
    \"$2\" \"$1/old\" create 3 > \"$1/made\"
    mount -o remount,ro \"$1\"
    \"$2\" \"$1/old\" count
    \"$2\" \"$1/old\" create 1 && exit 1
    \"$2\" \"$1/new\" open && exit 1
    exit 0
";

#[test]
fn a_board_on_a_disk_that_cannot_be_written_can_be_read_and_a_write_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_board-user").as_ref();
    let output = in_namespace(READ_ONLY, &[dir.path().as_os_str(), program]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n");
    let lines: Vec<&str> = stderr.lines().collect();
    let [old, new] = lines.as_slice() else { panic!("{stderr}") };
    assert!(old.contains("Access") && old.contains("old/kanban.db"), "{old}");
    assert!(new.contains("Io") && new.contains("ReadOnlyFilesystem"), "{new}");
}
