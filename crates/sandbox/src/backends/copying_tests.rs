use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use vestal_wire::{IdRange, Mapping};

use super::*;
use crate::embedded::STAGE_PROGRAM;
use crate::store::copies_ended;

/// Root of a sandbox, out here.
const OUTSIDE: u32 = 0x7000_0000;

struct CopyFixture {
    dir: TempDir,
    stage: PathBuf,
}

impl CopyFixture {
    fn with_files(count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let stage = STAGE_PROGRAM.install(&dir.path().join("programs")).unwrap();
        let fixture = Self { dir, stage };
        for number in 0..count {
            let dir = fixture.from().join((number % 20).to_string());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(number.to_string()), "content").unwrap();
        }
        fixture
    }

    fn from(&self) -> PathBuf {
        self.dir.path().join("from")
    }

    fn to(&self) -> PathBuf {
        self.dir.path().join("to")
    }

    async fn copy(&self, how: CopyingUser) -> Result<CopyTotals, BackendError> {
        let progress = ProgressSink::default();
        copy(&self.stage, &how, &self.from(), &self.to(), "the files", &progress).await
    }
}

#[tokio::test]
async fn a_copy_is_made_and_counted() {
    let fixture = CopyFixture::with_files(50);
    assert_eq!(
        fixture.copy(CopyingUser::AsSelf).await.unwrap(),
        CopyTotals { files: 70, bytes: 350 }
    );
    assert_eq!(fs::read_to_string(fixture.to().join("3/43")).unwrap(), "content");
}

#[tokio::test]
async fn a_copy_among_users_of_a_sandbox_keeps_their_owners() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let fixture = CopyFixture::with_files(1);
    // The sandbox's root may write here, and this file of another user of the
    // sandbox is closed to everybody else.
    for path in [fixture.dir.path().to_owned(), fixture.from()] {
        std::os::unix::fs::chown(path, Some(OUTSIDE), Some(OUTSIDE)).unwrap();
    }
    let programs = fixture.stage.parent().unwrap();
    fs::set_permissions(programs, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&fixture.stage, fs::Permissions::from_mode(0o755)).unwrap();
    let dir = fixture.from().join("0");
    for path in [dir.clone(), dir.join("0")] {
        std::os::unix::fs::chown(&path, Some(OUTSIDE + 1000), Some(OUTSIDE + 7)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let range = [IdRange { inside: 0, outside: OUTSIDE, count: 65_536 }];
    let users =
        UserMapping { uids: range.to_vec(), gids: range.to_vec(), mapping: Mapping::Privileged };
    assert_eq!(
        fixture.copy(CopyingUser::Among(users)).await.unwrap(),
        CopyTotals { files: 2, bytes: 7 }
    );
    let copy = fs::metadata(fixture.to().join("0/0")).unwrap();
    assert_eq!((copy.uid(), copy.gid()), (OUTSIDE + 1000, OUTSIDE + 7));
}

#[tokio::test]
async fn a_failure_is_explained_and_leaves_nothing() {
    let fixture = CopyFixture::with_files(1);
    fs::remove_dir_all(fixture.from()).unwrap();
    let error = fixture.copy(CopyingUser::AsSelf).await.unwrap_err();
    assert!(
        error.to_string().contains("the files") && error.to_string().contains("from"),
        "{error}"
    );
    assert!(!fixture.to().exists());
}

#[tokio::test]
async fn what_the_program_says_of_its_progress_is_passed_on() {
    let fixture = CopyFixture::with_files(0);
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&received);
    let progress = ProgressSink::new(move |step| sink.lock().unwrap().push(step));
    let script = fixture.dir.path().join("script");
    let output = r#"#!/bin/sh
echo '{"files":1,"bytes":2,"total":null}'
echo rubbish
echo '{"files":3,"bytes":4,"total":5}'
echo '{"done":true,"files":6,"bytes":7,"skipped":0}'
"#;
    fs::write(&script, output).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let (from, to) = (fixture.from(), fixture.to());
    let copied =
        copy(&script, &CopyingUser::AsSelf, &from, &to, "a home", &progress).await.unwrap();
    assert_eq!(copied, CopyTotals { files: 6, bytes: 7 });
    let step =
        |files, bytes, total| Progress::Copying { what: "a home".to_owned(), files, bytes, total };
    let expected = [step(1, 2, None), step(3, 4, Some(5)), step(6, 7, Some(7))];
    assert_eq!(*received.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_program_that_ends_without_a_word_has_made_no_copy() {
    let fixture = CopyFixture::with_files(0);
    let script = fixture.dir.path().join("script");
    fs::write(&script, "#!/bin/sh\necho it broke >&2\nexit 0\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let progress = ProgressSink::default();
    let (from, to) = (fixture.from(), fixture.to());
    let error =
        copy(&script, &CopyingUser::AsSelf, &from, &to, "a home", &progress).await.unwrap_err();
    assert!(error.to_string().contains("it broke"), "{error}");
}

/// Gives a copy up as soon as its target is there; returns whether it was in time.
async fn given_up(files: usize) -> bool {
    let fixture = CopyFixture::with_files(files);
    let appeared = async {
        while !fixture.to().exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::select! {
        biased;
        copied = fixture.copy(CopyingUser::AsSelf) => { copied.unwrap(); false }
        () = appeared => true,
    };
    assert_ne!(fixture.to().exists(), in_time);
    in_time
}

#[tokio::test]
async fn a_copy_that_nobody_waits_for_is_gone_when_the_future_is() {
    for files in [1_000, 10_000, 50_000] {
        if given_up(files).await {
            return;
        }
    }
    panic!("every copy was done before it could be given up");
}

/// Starts a copy, and closes the only reader of its output when its target is there,
/// as the death of its starter does; returns whether it was in time.
async fn orphaned(files: usize) -> bool {
    let fixture = CopyFixture::with_files(files);
    let mut command =
        command(&fixture.stage, &CopyingUser::AsSelf, &fixture.from(), &fixture.to()).unwrap();
    let mut child = command.spawn().unwrap();
    drop(command);
    while !fixture.to().exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(child.stdout.take());
    copies_ended(fixture.dir.path(), Duration::from_mins(1)).await.unwrap();
    let cancelled = !fixture.to().exists();
    fs::remove_dir_all(fixture.to()).ok();
    let status = child.wait().await.unwrap();
    assert!(!fixture.to().exists(), "nothing is written any more");
    assert_ne!(status.success(), cancelled);
    cancelled
}

#[tokio::test]
async fn a_copy_whose_starter_died_is_gone_when_its_directory_can_be_locked() {
    for files in [1_000, 10_000, 50_000] {
        if orphaned(files).await {
            return;
        }
    }
    panic!("every copy was done before its starter could die");
}

fn failure(errno: Option<i32>, message: &str) -> CopyFailure {
    CopyFailure {
        action: "write".to_owned(),
        path: Some("/home/s/to/file".to_owned()),
        errno,
        message: message.to_owned(),
        left: None,
    }
}

fn explained(failure: CopyFailure) -> (String, String) {
    let error = failure.explain("the workspace", Path::new("/home/s/to"));
    (error.to_string(), error.advice().unwrap_or_default().to_owned())
}

#[test]
fn each_line_of_the_program_is_understood() {
    let progress = CopyReport::Progress { files: 3, bytes: 4, total: None };
    assert_eq!(CopyReport::parse(r#"{"files":3,"bytes":4,"total":null}"#), Some(progress));
    let progress = CopyReport::Progress { files: 3, bytes: 4, total: Some(9) };
    assert_eq!(CopyReport::parse(r#"{"files":3,"bytes":4,"total":9}"#), Some(progress));
    let done = CopyReport::Done(CopyTotals { files: 5, bytes: 6 });
    assert_eq!(CopyReport::parse(r#"{"done":true,"files":5,"bytes":6,"skipped":1}"#), Some(done));
    let failed = CopyReport::Failed(failure(Some(28), "m"));
    let line = r#"{"error":{"action":"write","path":"/home/s/to/file","errno":28,"message":"m","left":null}}"#;
    assert_eq!(CopyReport::parse(line), Some(failed));
    for rubbish in ["", "hello", "[]", "{\"error\":3}", "{\"files\":-1}"] {
        assert_eq!(CopyReport::parse(rubbish), None, "{rubbish}");
    }
}

#[test]
fn a_full_disk_is_explained_with_what_to_do() {
    let (problem, advice) = explained(failure(Some(28), "no space"));
    assert_eq!(problem, "there is no space for a copy of the workspace in /home/s");
    assert!(advice.contains("df -h /home/s") && advice.contains("vestal snapshots"), "{advice}");
    let (problem, advice) = explained(failure(Some(122), "quota"));
    assert!(problem.contains("quota") && advice.contains("quota"), "{problem}; {advice}");
}

#[test]
fn what_may_not_be_read_or_given_away_is_named() {
    for errno in [1, 13] {
        let (problem, advice) = explained(failure(Some(errno), "cannot open /home/s/to/file: no"));
        assert!(problem.contains("/home/s/to/file"), "{problem}");
        assert!(advice.contains("/home/s/to/file"), "{advice}");
    }
}

#[test]
fn what_keeps_changing_is_named() {
    let changing = failure(None, "/home/s/to/file keeps changing while it is copied");
    let (problem, advice) = explained(changing);
    assert!(problem.contains("/home/s/to/file keeps changing"), "{problem}");
    assert!(advice.contains("/home/s/to/file"), "{advice}");
}

#[test]
fn what_is_left_behind_is_reported() {
    for errno in [Some(28), Some(5)] {
        let left = Some("/home/s/to".to_owned());
        let (problem, _) = explained(CopyFailure { left, ..failure(errno, "broken") });
        assert!(problem.contains("/home/s/to could not be removed"), "{problem}");
    }
}

#[test]
fn paths_of_a_container_become_those_of_the_host() {
    let inside = CopyFailure {
        path: Some("/.vestal/from/a".to_owned()),
        ..failure(Some(13), "cannot read /.vestal/from/a: no")
    };
    let (problem, advice) =
        explained(inside.with_host_paths("/.vestal/from", Path::new("/home/s/work")));
    assert!(problem.contains("/home/s/work/a") && !advice.contains(".vestal/"), "{advice}");
}
