use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn log(dir: &Path) -> Log {
    Log::new(&dir.join("logs"), Redactor::new(["hunter2-secret".to_owned()]))
}

#[tokio::test]
async fn lines_are_kept_with_the_servers_name_and_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let tail = Tail::default();
    let printed = b"one\n\n\x1b[31mtwo\n key hunter2-secret\nlast".as_slice();
    log(dir.path()).follow("files".to_owned(), printed, tail.clone()).await;
    let path = dir.path().join("logs/mcp-stderr.log");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(lines[..2], ["[files] one", "[files] [31mtwo"]);
    assert_eq!((lines.len(), lines[3]), (4, "[files] last"));
    assert!(!text.contains("hunter2-secret"), "{text}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let words = tail.in_words().unwrap();
    assert!(words.starts_with("it printed: [31mtwo / ") && words.ends_with(" / last"), "{words}");
}

#[tokio::test]
async fn a_flood_is_taken_and_only_its_beginning_kept() {
    let dir = tempfile::tempdir().unwrap();
    let flood = "some words of a server that does not stop\n".repeat(200_000);
    for _ in 0..3 {
        let tail = Tail::default();
        log(dir.path()).follow("loud".to_owned(), flood.as_bytes(), tail).await;
    }
    let size = |name: &str| std::fs::metadata(dir.path().join("logs").join(name)).unwrap().len();
    let whole = size("mcp-stderr.log") + size("mcp-stderr.log.1");
    assert!(whole < 2 * LARGEST + 4096, "{whole}");
    let files = std::fs::read_dir(dir.path().join("logs")).unwrap().count();
    assert_eq!(files, 2);
}
