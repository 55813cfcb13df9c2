use super::*;

fn log(path: &Path, bytes: u64, backups: u32) -> TaskLog {
    let redactor = Arc::new(Redactor::new(["hunter2-hunter2".to_owned()]));
    TaskLog::open(path, LogPolicy { rotate_at: bytes, backups }, redactor).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_log_never_grows_beyond_its_bound_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.log");
    let log = log(&path, 1000, 2);
    for number in 0..200 {
        log.write(&format!("line {number}"));
    }
    assert_eq!(names(dir.path()), ["t.log", "t.log.1", "t.log.2"]);
    for name in names(dir.path()) {
        assert!(fs::metadata(dir.path().join(name)).unwrap().len() <= 1000);
    }
    // The newest is in the log itself, and nothing between it and the oldest is lost.
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let all = [read("t.log.2"), read("t.log.1"), read("t.log")].concat();
    let numbers: Vec<u32> =
        all.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    let expected: Vec<u32> = (200 - u32::try_from(numbers.len()).unwrap()..200).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn without_backups_only_the_newest_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.log");
    let log = log(&path, 200, 0);
    (0..50).for_each(|number| log.write(&format!("line {number}")));
    assert_eq!(names(dir.path()), ["t.log"]);
}

#[test]
fn two_workers_of_a_task_write_to_the_same_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.log");
    let (one, other) = (log(&path, 300, 100), log(&path, 300, 100));
    for number in 0..20 {
        one.write(&format!("one {number}"));
        other.write(&format!("other {number}"));
    }
    let all: String = names(dir.path())
        .iter()
        .map(|name| fs::read_to_string(dir.path().join(name)).unwrap())
        .collect();
    assert_eq!(all.lines().count(), 40, "{all}");
}

#[test]
fn neither_secrets_nor_commands_to_a_terminal_are_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.log");
    log(&path, 1 << 20, 1).write("the password is hunter2-hunter2 \x1b[2Jcleared\nsecond line");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2-hunter2") && !text.contains('\x1b'), "{text}");
    let second = text.lines().nth(1).unwrap();
    assert!(second.starts_with("                     second"), "{text}");
}

#[test]
fn a_secret_that_is_cut_off_is_masked_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.log");
    let words = format!("{}hunter2-hunter2", "x".repeat(LONGEST - 8));
    log(&path, 1 << 20, 1).write(&words);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{}", &text[text.len() - 40..]);
}

#[test]
fn only_the_user_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("logs/t.log");
    log(&path, 1 << 20, 1).write("words");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
