//! What a new supervisor finds, and what changes while it runs.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use vestal_supervisor::{OrderResult, SlotState, SupervisorRequest};
use vestal_testkit::namespaces::{ORDINARY_USER, is_root};
use vestal_testkit::until;

use crate::fixture::{Supervised, SupervisorFixture};

#[tokio::test]
async fn one_broken_profile_keeps_no_other_down() {
    let fixture = SupervisorFixture::new();
    for name in ["aa", "broken-list", "broken-text", "newer", "unreadable", "zz"] {
        fixture.profile(name, "");
    }
    fixture.write("aa", "gateway_state.json", r#"{"gateway_state":"degraded"}"#);
    fixture.write("broken-list", "gateway_state.json", "[]");
    std::fs::write(fixture.dir("broken-text").join("gateway_state.json"), b"\xff\xfe").unwrap();
    fixture.write("newer", "desired.json", r#"{"version":99,"desired":"running"}"#);
    std::fs::create_dir(fixture.dir("unreadable").join("desired.json")).unwrap();
    fixture.write("zz", "desired.json", r#"{"version":1,"desired":"running","updated_at":""}"#);
    std::fs::create_dir(fixture.dir("Zed")).unwrap();
    std::fs::create_dir(
        fixture.root().join("profiles").join(std::ffi::OsStr::from_bytes(b"a\xff")),
    )
    .unwrap();
    let mut supervisor = fixture.supervise();
    for up in ["aa", "zz"] {
        fixture.until_state(up, SlotState::Running).await;
    }
    let lines = fixture.boot_log();
    let find = |name: &str| {
        let begin = format!("profile={name} ");
        lines.iter().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{lines:?}"))
    };
    assert_eq!(lines.len(), 8, "{lines:?}");
    assert_eq!(find("aa"), "profile=aa prior_state=degraded action=started");
    assert_eq!(find("zz"), "profile=zz prior_state=running action=started");
    for (name, reason) in [
        ("broken-list", "it is not an object"),
        ("broken-text", "is damaged"),
        ("newer", "has version 99"),
        ("unreadable", "cannot read"),
        ("Zed", "not a name"),
    ] {
        let line = find(name);
        assert!(line.contains(" prior_state=missing action=failed reason="), "{line}");
        assert!(line.contains(reason), "{line}");
    }
    assert!(lines.iter().any(|line| line.contains("not UTF-8")), "{lines:?}");
    // They are not reported as stopped, as if that were wanted.
    for name in ["broken-list", "broken-text", "newer", "unreadable"] {
        let status = fixture.status(name).await;
        assert_eq!(status.state, SlotState::Failed, "{name}");
        assert!(status.reason.is_some(), "{name}");
    }
    // A newer file is not touched, a damaged one gives way to what an operator wants.
    let refused = fixture.start("newer").await.error.unwrap();
    assert!(refused.contains("use the newer program"), "{refused}");
    assert_eq!(fixture.start("broken-list").await.done, Some(OrderResult::Started));
    assert!(supervisor.terminate().success());
    assert_eq!(fixture.children(), Vec::<u32>::new());
}

/// Gives a directory to a user with all in it.
fn give(path: &Path, user: u32) {
    lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

#[tokio::test]
async fn a_profile_that_an_ordinary_user_cannot_read_keeps_no_other_down() {
    let fixture = SupervisorFixture::new();
    for name in ["aa", "closed", "zz"] {
        fixture.profile(name, "");
        fixture.write(name, "desired.json", r#"{"version":1,"desired":"running","updated_at":""}"#);
    }
    let not_text = std::ffi::OsStr::from_bytes(b"m\xff");
    std::fs::create_dir(fixture.root().join("profiles").join(not_text)).unwrap();
    let mode = |mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(fixture.dir("closed"), mode).unwrap();
    };
    let mut command = fixture.command();
    // Root is kept out of nothing.
    if is_root() {
        give(fixture.root(), ORDINARY_USER);
        command.uid(ORDINARY_USER).gid(ORDINARY_USER);
    }
    mode(0);
    let mut supervisor = Supervised::spawn(command);
    assert!(supervisor.is_ready(), "it ended at once");
    for up in ["aa", "zz"] {
        fixture.until_state(up, SlotState::Running).await;
    }
    let closed = fixture.status("closed").await;
    assert_eq!((closed.state, closed.pid), (SlotState::Failed, None));
    assert!(closed.reason.unwrap().contains("Permission denied"));
    let listed = fixture.ask(SupervisorRequest::List { slots: None }).await.slots;
    let broken = listed.iter().find(|slot| slot.name.starts_with('m')).unwrap();
    assert_eq!(broken.state, SlotState::Failed);
    // An order to it fails with the reason, and is carried out once it can be read.
    let refused = fixture.start("closed").await.error.unwrap();
    assert!(refused.contains("Permission denied"), "{refused}");
    mode(0o700);
    assert_eq!(fixture.start("closed").await.done, Some(OrderResult::Started));
    assert!(supervisor.terminate().success());
    assert_eq!(fixture.children(), Vec::<u32>::new());
}

#[tokio::test]
async fn the_next_supervisor_starts_what_ran_and_leaves_what_was_stopped() {
    let fixture = SupervisorFixture::new();
    for name in ["up", "down", "never"] {
        fixture.profile(name, "");
    }
    let mut supervisor = fixture.supervise();
    fixture.start("up").await;
    fixture.start("down").await;
    fixture.stop("down").await;
    assert!(supervisor.terminate().success());
    // The child saw no plan, so that its own state says the same.
    assert!(fixture.read("up", "gateway_state.json").contains("running"));
    assert_eq!(fixture.children(), Vec::<u32>::new());
    let mut supervisor = fixture.supervise();
    fixture.until_state("up", SlotState::Running).await;
    for name in ["down", "never"] {
        assert_eq!(fixture.status(name).await.state, SlotState::Stopped);
    }
    assert_eq!(
        fixture.boot_log()[3..],
        [
            "profile=down prior_state=stopped action=registered",
            "profile=never prior_state=missing action=registered",
            "profile=up prior_state=running action=started",
        ]
    );
    let answer = fixture.ask(SupervisorRequest::Shutdown).await;
    assert_eq!(answer.error, None);
    assert!(supervisor.finished().0.success());
    assert_eq!(fixture.children(), Vec::<u32>::new());
}

#[tokio::test]
async fn slots_follow_the_directories() {
    let fixture = SupervisorFixture::new();
    fixture.profile("one", "");
    let mut supervisor = fixture.supervise();
    fixture.start("one").await;
    fixture.profile("two", "");
    // Known at once, whether or not the change was noticed.
    assert_eq!(fixture.start("two").await.done, Some(OrderResult::Started));
    std::fs::rename(fixture.dir("one"), fixture.dir("uno")).unwrap();
    vestal_testkit::until_async("the renamed one runs", || async {
        let slots = fixture.ask(SupervisorRequest::List { slots: None }).await.slots;
        let states: Vec<_> = slots.into_iter().map(|slot| (slot.name, slot.state)).collect();
        states == [("two".to_owned(), SlotState::Running), ("uno".to_owned(), SlotState::Running)]
    })
    .await;
    assert_eq!(fixture.starts("uno").len(), 2);
    // The old one had ended before: they serve the same directory.
    assert!(!fixture.dir("uno").join("doubled").exists());
    std::fs::rename(fixture.dir("two"), fixture.root().join("gone")).unwrap();
    until("the deleted one has ended", || fixture.children().len() == 1).await;
    // One of the same name is another slot, which nobody started.
    fixture.profile("two", "");
    fixture.ask(SupervisorRequest::Reconcile).await;
    fixture.until_state("two", SlotState::Stopped).await;
    assert!(supervisor.terminate().success());
}
