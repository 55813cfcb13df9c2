use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn task() -> TaskId {
    "t_0123456789ab".parse().unwrap()
}

fn write(board: &Path, policy: LogPolicy, text: &str) {
    open(board, &task(), policy).unwrap().write_all(text.as_bytes()).unwrap();
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[test]
fn a_log_is_continued_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_path(dir.path(), &task());
    write(dir.path(), LogPolicy::default(), "one ");
    write(dir.path(), LogPolicy::default(), "two");
    assert_eq!(read(&path).as_deref(), Some("one two"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_large_log_is_put_aside_and_only_so_many_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_path(dir.path(), &task());
    let policy = LogPolicy { rotate_at: 3, backups: 2 };
    for text in ["one", "two", "three", "four"] {
        write(dir.path(), policy, text);
    }
    assert_eq!(read(&path).as_deref(), Some("four"));
    assert_eq!(read(&path.with_extension("log.1")).as_deref(), Some("three"));
    assert_eq!(read(&path.with_extension("log.2")).as_deref(), Some("two"));
    assert_eq!(read(&path.with_extension("log.3")), None);

    write(dir.path(), LogPolicy { rotate_at: 3, backups: 0 }, "five");
    assert_eq!(read(&path).as_deref(), Some("five"));
    assert_eq!(read(&path.with_extension("log.1")).as_deref(), Some("three"));
}

#[test]
fn a_log_that_is_a_link_or_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_path(dir.path(), &task());
    fs::create_dir(log_dir(dir.path())).unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "").unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(open(dir.path(), &task(), LogPolicy::default()).is_err());
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(open(dir.path(), &task(), LogPolicy::default()).is_err());
}
