use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn log(dir: &Path) -> ServerLog {
    ServerLog::new(&dir.join("logs"), Redactor::new(["hunter2-secret".to_owned()]))
}

#[tokio::test]
async fn lines_are_kept_with_the_servers_name_and_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let tail = StderrTail::default();
    let printed = b"one\n\n\x1b[31mtwo\n key hunter2-secret\nlast".as_slice();
    log(dir.path()).follow("files".to_owned(), printed, tail.clone()).await;
    let path = dir.path().join("logs/mcp-stderr.log");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(lines[..2], ["[files] one", "[files] [31mtwo"]);
    assert_eq!((lines.len(), lines[3]), (4, "[files] last"));
    assert!(!text.contains("hunter2-secret"), "{text}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let redactor = Redactor::new(["hunter2-secret".to_owned()]);
    let words = tail.in_words(&redactor).unwrap();
    assert!(words.starts_with("it printed: [31mtwo / ") && words.ends_with(" / last"), "{words}");
    assert!(!words.contains("hunter2-secret"), "{words}");
}

#[tokio::test]
async fn a_flood_is_taken_and_only_its_beginning_kept() {
    let dir = tempfile::tempdir().unwrap();
    let flood = "some words of a server that does not stop\n".repeat(200_000);
    for _ in 0..3 {
        let tail = StderrTail::default();
        log(dir.path()).follow("loud".to_owned(), flood.as_bytes(), tail).await;
    }
    let size = |name: &str| std::fs::metadata(dir.path().join("logs").join(name)).unwrap().len();
    let whole = size("mcp-stderr.log") + size("mcp-stderr.log.1");
    assert!(whole < 2 * LARGEST + 4096, "{whole}");
    let files = std::fs::read_dir(dir.path().join("logs")).unwrap().count();
    assert_eq!(files, 2);
}

#[tokio::test]
async fn what_is_told_is_what_went_wrong_and_not_only_the_end_of_a_stack() {
    let node = "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n\
                Error: Cannot find module '/srv/server.js'\n    at Module._resolve (loader:1225)\n\
                {\n  requireStack: []\n}\n\nNode.js v22.4.0\n";
    let python = "Traceback (most recent call last):\n  File \"/srv/a.py\", line 1, in <module>\n\
                  import b\nModuleNotFoundError: No module named 'b'\n";
    for (printed, expected) in [
        (node, "it printed: Error: Cannot find module '/srv/server.js' / } / Node.js v22.4.0"),
        (
            python,
            "it printed: File \"/srv/a.py\", line 1, in <module> / import b / \
             ModuleNotFoundError: No module named 'b'",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let tail = StderrTail::default();
        log(dir.path()).follow("it".to_owned(), printed.as_bytes(), tail.clone()).await;
        assert_eq!(tail.in_words(&Redactor::default()).unwrap(), expected);
    }
}

#[tokio::test]
async fn what_comes_after_a_flood_is_not_kept_but_told() {
    let dir = tempfile::tempdir().unwrap();
    let tail = StderrTail::default();
    let printed = format!("{}the disk is full\n", "again\n".repeat(300_000));
    log(dir.path()).follow("loud".to_owned(), printed.as_bytes(), tail.clone()).await;
    let words = tail.in_words(&Redactor::default()).unwrap();
    assert!(words.ends_with(" / the disk is full"), "{words}");
}
