//! Processes that want the same at the same moment.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::{assert_whole, lines, worker};

#[tokio::test]
async fn stampede_many_processes_make_the_board_at_once_and_all_can_use_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("boards").join("default");
    let racing: Vec<_> =
        (0..20).map(|_| worker(&home, &["create", "2"]).spawn().unwrap()).collect();
    let mut acknowledged = BTreeSet::new();
    for child in racing {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        acknowledged.extend(said.lines().map(str::to_owned));
    }
    assert_eq!(acknowledged.len(), 40);
    assert_whole(&home, &acknowledged).await;
}

#[tokio::test]
async fn stampede_of_many_processes_with_one_key_one_makes_the_task() {
    let dir = tempfile::tempdir().unwrap();
    for key in ["first", "second"] {
        let racing: Vec<_> =
            (0..8).map(|_| worker(dir.path(), &["keyed", key]).spawn().unwrap()).collect();
        let mut said: BTreeMap<bool, u32> = BTreeMap::new();
        for child in racing {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            let refused = String::from_utf8(output.stdout).unwrap() == "refused\n";
            *said.entry(refused).or_default() += 1;
        }
        assert_eq!(said, BTreeMap::from([(false, 1), (true, 7)]), "{key}");
    }
}

#[test]
fn no_file_is_open_to_others_whatever_the_mask() {
    for mask in ["000", "077", "777"] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("umask {mask}; exec \"$0\" \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &text, env!("CARGO_BIN_EXE_board-user")])
            .arg(dir.path())
            .arg("freeze")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(lines(&mut child).next().unwrap().unwrap(), "writing");
        let modes: BTreeMap<String, u32> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(Result::unwrap)
            .map(|entry| {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                (entry.file_name().into_string().unwrap(), mode)
            })
            .collect();
        let expected = ["kanban.db", "kanban.db-shm", "kanban.db-wal"];
        assert_eq!(modes, expected.map(|name| (name.to_owned(), 0o600)).into(), "umask {mask}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
