use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use vestal_conversations::Store;

use crate::{assert_whole, conversation, worker};

#[tokio::test]
async fn stampede_many_processes_make_the_file_at_once_and_all_can_use_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home").join("state.db");
    let racing: Vec<_> = (0..20).map(|_| worker(&path, &["open"]).spawn().unwrap()).collect();
    for child in racing {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "open\n");
        assert!(output.status.success());
    }
    assert_whole(&path).await;
    let store = Store::open(&path).await.unwrap();
    conversation(&store, "first").await;
    store.close().await.unwrap();
}

#[test]
fn no_file_is_open_to_others_whatever_the_mask() {
    for mask in ["000", "077", "777"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let text = format!("umask {mask}; exec \"$0\" \"$@\"");
        let mut child = std::process::Command::new("sh")
            .args(["-c", &text, env!("CARGO_BIN_EXE_conversations-worker")])
            .arg(&path)
            .args(["hold", "talk"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "holding\n");
        let modes: BTreeMap<String, u32> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(Result::unwrap)
            .map(|entry| {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                (entry.file_name().into_string().unwrap(), mode)
            })
            .collect();
        let expected = ["state.db", "state.db-shm", "state.db-wal"];
        assert_eq!(modes, expected.map(|name| (name.to_owned(), 0o600)).into(), "umask {mask}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
