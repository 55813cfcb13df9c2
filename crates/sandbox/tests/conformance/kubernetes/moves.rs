//! Sandboxes that move between a cluster and this machine, with their workspace and home.

use vestal_sandbox::{Rebuild, TaskName, WhileBusy};

use crate::support::BackendFixture;

fn to(backend: &str) -> Rebuild {
    Rebuild { backend: Some(backend.to_owned()), ..Rebuild::default() }
}

#[tokio::test]
async fn workspace_and_home_come_along_both_ways_and_nothing_stays_behind() {
    let fixture = BackendFixture::kubernetes();
    let (engine, task) = (fixture.engine(), TaskName::default_task());
    fixture.run("mkdir d; echo one > d/file; chmod 640 d/file; echo two > ~/home").await;
    let moved = engine.rebuild(&task, &to("native"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), ("kubernetes", "native"));
    let look = "cat d/file ~/home; stat -c %a d/file";
    assert_eq!(fixture.run(look).await.stdout.text(), "one\ntwo\n640\n");
    assert_eq!(fixture.machine().instances(), [""; 0]);
    assert_eq!(fixture.machine().namespace().claims(), Vec::<serde_json::Value>::new());

    fixture.run("echo more >> d/file").await;
    let moved = engine.rebuild(&task, &to("kubernetes"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), ("native", "kubernetes"));
    assert_eq!(fixture.run(look).await.stdout.text(), "one\nmore\ntwo\n640\n");
    assert_eq!(engine.list().await.unwrap()[0].backend, "kubernetes");
    let kept = vestal_testkit::files::names(&fixture.sandbox_dir("default"));
    assert!(!kept.iter().any(|name| name == "workspace" || name == "home"), "{kept:?}");
    drop(engine);
    fixture.finish().await;
}
