//! Copies that only somebody else may make, and engines that die over one.

use std::path::PathBuf;

use vestal_sandbox::backend::BackendError;
use vestal_sandbox::{Error, TaskName, WhileBusy};

use crate::support::{EngineFixture, Fate, Hold, OwnEngine, Request, given};

/// Lets a user who may not read what is in a sandbox copy it all the same.
async fn copies_of_what_the_user_may_not_read(fixture: EngineFixture, id: u32, owner: &str) {
    let user = fixture.give_to(id);
    let make = "umask 077; mkdir ~/private; echo 1 > ~/private/file; echo 2 > /workspace/file; \
                ln /workspace/file /workspace/link; (echo 3 > /usr/kept) 2>/dev/null; chmod 2755 /workspace/file; \
                touch -d 2001-02-03T04:05:06Z ~/private/file 2>/dev/null || \
                touch -d '2001-02-03 04:05:06' ~/private/file";
    user.out(make).await;
    assert_ne!(user.foreign_files(), Vec::<PathBuf>::new(), "they are another's");
    let look = format!(
        "cat ~/private/file /workspace/file; cat /usr/kept 2>/dev/null; stat -c '%a %h %U' /workspace/file; \
         stat -c '%a %U' ~/private ~/private/file; date -r ~/private/file +%Y; id -un | grep -c {owner}"
    );
    let was = user.out(&look).await;
    assert!(was.starts_with("1\n2\n") && was.contains("\n2755 2 "), "{was}");
    assert_eq!(was.contains("\n3\n"), owner == "root", "only root installs: {was}");
    user.worker(&["snapshot", "default", "one"]).done().await;
    user.out("echo x > ~/private/file; rm /workspace/link; (echo y > /usr/kept) 2>/dev/null; true")
        .await;
    user.worker(&["restore", "default", "one"]).done().await;
    assert_eq!(user.out(&look).await, was);
    user.worker(&["fork", "default", "other"]).done().await;
    let forked = user.worker(&["run", "other", &look]).done().await;
    assert_eq!(forked["stdout"], was, "{forked}");
    user.worker(&["remove", "other", "--files"]).done().await;
    user.worker(&["remove", "default", "--files"]).done().await;
    assert_eq!(user.foreign_files(), Vec::<PathBuf>::new());
    fixture.is_empty().await;
}

/// A user that nobody else is.
const USER: u32 = 61_186;

pub(crate) async fn what_belongs_to_root_is_copied_for_an_ordinary_user() {
    let engine = OwnEngine::docker(&[]).await;
    engine.open_to_everyone();
    for (image, owner) in [("base", "root"), ("nonroot", "app")] {
        let fixture = EngineFixture::on(engine.host()).image(image);
        copies_of_what_the_user_may_not_read(fixture, USER, owner).await;
    }
}

pub(crate) async fn what_belongs_to_mapped_users_is_copied_for_an_ordinary_user() {
    let engine = OwnEngine::docker(&["--", "--userns-remap=default"]).await;
    engine.open_to_everyone();
    let fixture = EngineFixture::on(engine.host());
    copies_of_what_the_user_may_not_read(fixture, USER, "root").await;
}

pub(crate) async fn what_belongs_to_the_users_of_an_image_is_copied_for_the_engines_user() {
    let id = given("VESTAL_TEST_ROOTLESS_USER").parse().unwrap();
    let fixture = EngineFixture::on(&given("VESTAL_TEST_PODMAN_ROOTLESS_HOST"));
    let fixture = fixture.image("nonroot");
    copies_of_what_the_user_may_not_read(fixture, id, "app").await;
}

pub(crate) async fn an_engine_that_dies_while_a_copy_is_made_leaves_nothing_half() {
    let engine = OwnEngine::docker(&[]).await;
    let (fixture, proxy) = EngineFixture::on(engine.host()).proxied();
    fixture.out("echo kept > /usr/kept").await;
    let here: [fn(&Request) -> bool; 3] = [
        |request| request.is("POST", "/commit", ""),
        |request| request.is("POST", "/images/load", ""),
        |request| request.is("DELETE", "/images/", ".draft"),
    ];
    for is_here in here {
        let hold = Hold::new();
        let held = hold.clone();
        proxy.rule(
            move |request| {
                if is_here(request) { Fate::Hold(held.clone()) } else { Fate::Pass }
            },
        );
        let opened = fixture.engine();
        let default = TaskName::default_task();
        let saving = tokio::spawn(async move {
            opened.snapshot(&default, &"one".parse().unwrap(), None, WhileBusy::Stop).await
        });
        hold.reached().await;
        engine.kill().await;
        hold.release();
        let error = saving.await.unwrap().unwrap_err();
        let Error::Backend { source: BackendError::Unreachable { advice, .. }, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(!advice.is_empty());
        proxy.pass();
        engine.again().await;
        assert_eq!(fixture.out("cat /usr/kept").await, "kept\n");
        assert_eq!(fixture.engine().snapshots(None).await.unwrap(), []);
        assert_eq!(fixture.images(), Vec::<String>::new());
    }
    fixture.finish().await;
}
