//! Sandboxes that move between this machine and another one, with their workspace and home.

use std::fs;

use vestal_sandbox::{
    CopyError, Error, FAILPOINTS, FilesOnRemoval, Overrides, Rebuild, SyncError, TaskName,
    WhileBusy,
};
use vestal_testkit::engines::EngineApi;
use vestal_testkit::files::names;

use crate::cases::crashes::crash;
use crate::support::BackendFixture;

fn to(backend: &str) -> Rebuild {
    Rebuild { backend: Some(backend.to_owned()), ..Rebuild::default() }
}

/// Returns the names of what is kept of sandboxes on the other machine.
fn kept_there(fixture: &BackendFixture) -> Vec<String> {
    names(&fixture.machine().host().home().join(".vestal-ssh/sandboxes"))
}

/// Returns which trees of the sandbox are on this machine.
fn kept_here(fixture: &BackendFixture) -> Vec<String> {
    let mut kept = names(&fixture.sandbox_dir("default"));
    kept.retain(|name| ["workspace", "home"].contains(&&**name) || name.starts_with("changing-"));
    kept
}

#[tokio::test]
async fn workspace_and_home_come_along_both_ways_and_nothing_stays_behind() {
    for fixture in [BackendFixture::ssh(), BackendFixture::ssh_isolated()] {
        let (engine, task) = (fixture.engine(), TaskName::default_task());
        fixture
            .run(
                "mkdir -p d/empty ~/h; echo one > d/file; chmod 640 d/file; ln -s d/file link; \
                 printf '#!/bin/sh\\necho runs\\n' > ~/h/tool; chmod 700 ~/h/tool; \
                 touch -d @1000000000 d/file",
            )
            .await;
        let moved = engine.rebuild(&task, &to("native"), WhileBusy::Refuse).await.unwrap();
        assert_eq!((&*moved.was, &*moved.now), ("ssh", "native"));
        assert_eq!(engine.list().await.unwrap()[0].backend, "native");
        let all = "cat link; ~/h/tool; stat -c '%a %Y' d/file; ls d";
        let printed = fixture.run(all).await.stdout.text();
        assert_eq!(printed, "one\nruns\n640 1000000000\nempty\nfile\n");
        assert_eq!(kept_there(&fixture), [""; 0]);
        assert_eq!(fixture.machine().instances(), [""; 0]);

        fixture.run("echo two >> d/file; rm link; echo more > ~/h/more").await;
        let moved = engine.rebuild(&task, &to("ssh"), WhileBusy::Refuse).await.unwrap();
        assert_eq!((&*moved.was, &*moved.now), ("native", "ssh"));
        let printed = fixture.run("cat d/file ~/h/more; ls").await.stdout.text();
        assert_eq!(printed, "one\ntwo\nmore\nd\n");
        assert_eq!(engine.list().await.unwrap()[0].backend, "ssh");
        assert_eq!(kept_here(&fixture), [""; 0]);
        assert_eq!(fixture.instances_of("default").len(), 1);
        fixture.finish().await;
    }
}

#[tokio::test]
async fn a_move_that_cannot_take_everything_along_is_undone_as_a_whole() {
    let fixture = BackendFixture::ssh_with(&["--user", "tester"]);
    let (engine, task) = (fixture.engine(), TaskName::default_task());
    fixture.run("echo kept > file; echo x > secret; chmod 000 secret").await;
    let was = fixture.instances_of("default");
    let error = engine.rebuild(&task, &to("native"), WhileBusy::Refuse).await.unwrap_err();
    let Error::Sync(SyncError::NotCopied { failed, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(failed.len(), 1, "{error}");
    assert!(error.to_string().contains("secret"), "{error}");
    assert_eq!(kept_here(&fixture), [""; 0]);
    assert_eq!(fixture.instances_of("default"), was);
    assert_eq!(fixture.run("cat file").await.stdout.text(), "kept\n");
    assert_eq!(engine.list().await.unwrap()[0].backend, "ssh");
    // And it can be done once that is mended.
    fixture.run("chmod 600 secret").await;
    engine.rebuild(&task, &to("native"), WhileBusy::Refuse).await.unwrap();
    assert_eq!(fixture.run("cat file secret").await.stdout.text(), "kept\nx\n");
    fixture.finish().await;
}

#[tokio::test]
async fn a_process_may_die_at_any_step_of_a_move() {
    let fixture = BackendFixture::ssh();
    let task = TaskName::default_task();
    fixture.run("echo kept > file; echo kept > ~/file").await;
    let points = FAILPOINTS
        .iter()
        .filter(|point| point.starts_with("rebuild.") || point.starts_with("relocate."));
    for point in points {
        for (there, back) in [("native", "ssh"), ("ssh", "native")] {
            crash(&fixture, &["rebuild", "default", there], point).await;
            let printed = fixture.run("cat file ~/file").await.stdout.text();
            assert_eq!(printed, "kept\nkept\n", "{point} to {there}");
            let now = fixture.engine().list().await.unwrap().remove(0).backend;
            let expected = if *point == "rebuild.settled" { there } else { back };
            assert_eq!(now, expected, "{point}");
            assert_eq!(fixture.instances_of("default").len(), 1, "{point} to {there}");
            let (here, elsewhere) = (kept_here(&fixture).len(), kept_there(&fixture).len());
            let expected = if now == "ssh" { (0, 1) } else { (2, 0) };
            assert_eq!((here, elsewhere), expected, "{point} to {there}");
            if now != there {
                fixture.engine().rebuild(&task, &to(there), WhileBusy::Refuse).await.unwrap();
            }
        }
    }
    fixture.finish().await;
}

#[tokio::test]
async fn a_move_to_where_files_of_the_sandbox_are_from_before_is_refused() {
    let fixture = BackendFixture::ssh();
    let task = TaskName::default_task();
    fixture.run("echo before > file").await;
    fixture.engine().remove(&task, FilesOnRemoval::Keep).await.unwrap();
    // As when this home was lost.
    fs::remove_dir_all(fixture.sandbox_dir("default")).unwrap();
    let here = fixture.engine_with(&["terminal.backend=native"]);
    let command = vestal_sandbox::Command::shell("echo now > file");
    here.sandbox(&task).await.unwrap().run(command).await.unwrap();
    let error = here.rebuild(&task, &to("ssh"), WhileBusy::Refuse).await.unwrap_err();
    assert!(matches!(error, Error::Copy(CopyError::Occupied { .. })), "{error:?}");
    assert!(error.to_string().contains("/sandboxes/"), "{error}");
    let command = vestal_sandbox::Command::shell("cat file");
    let output = here.sandbox(&task).await.unwrap().run(command).await.unwrap();
    assert_eq!(output.stdout.text(), "now\n");
    let there = fixture.files_dir("default").join("workspace/file");
    assert_eq!(fs::read_to_string(there).unwrap(), "before\n");
    fixture.finish().await;
}

#[tokio::test]
async fn a_sandbox_is_not_moved_from_another_machine_than_the_one_it_is_on() {
    let (fixture, other) = (BackendFixture::ssh(), BackendFixture::ssh());
    let task = TaskName::default_task();
    fixture.run("echo kept > file").await;
    let config = other.machine().host().config();
    let config = format!("terminal.ssh_config={}", config.display());
    let elsewhere = fixture.engine_with(&[&config]);
    let error = elsewhere.rebuild(&task, &to("native"), WhileBusy::Refuse).await.unwrap_err();
    assert!(matches!(error, Error::Copy(CopyError::Misplaced { .. })), "{error:?}");
    assert_eq!(fixture.run("cat file").await.stdout.text(), "kept\n");
    assert_eq!(other.machine().instances(), [""; 0]);
    other.finish().await;
    fixture.finish().await;
}

#[tokio::test]
async fn a_mounted_directory_is_brought_up_to_date_before_its_sandbox_moves_here() {
    let fixture = BackendFixture::ssh();
    let (engine, here) = (fixture.engine(), fixture.scratch("project"));
    fs::create_dir(&here).unwrap();
    fs::write(here.join("name"), "project\n").unwrap();
    let task = engine.task_with_mount(&TaskName::default_task(), &here).unwrap();
    let asked = Overrides { mount: Some(here.clone()), ..Overrides::default() };
    let sandbox = engine.sandbox_with(&TaskName::default_task(), &asked).await.unwrap();
    let run = async |sandbox: &vestal_sandbox::Sandbox, text: &str| {
        let command = vestal_sandbox::Command::shell(text);
        sandbox.run(command).await.unwrap().stdout.text()
    };
    run(&sandbox, "echo home > ~/file").await;
    // Nobody has heard of it yet.
    fs::write(fixture.files_dir(task.as_str()).join("workspace/late"), "late\n").unwrap();
    drop(sandbox);
    engine.rebuild(&task, &to("native"), WhileBusy::Refuse).await.unwrap();
    assert_eq!(fs::read_to_string(here.join("late")).unwrap(), "late\n");
    let sandbox = engine.sandbox(&task).await.unwrap();
    assert_eq!(
        run(&sandbox, "cat name late ~/file; echo more > more").await,
        "project\nlate\nhome\n"
    );
    assert_eq!(fs::read_to_string(here.join("more")).unwrap(), "more\n");
    drop(sandbox);
    engine.rebuild(&task, &to("ssh"), WhileBusy::Refuse).await.unwrap();
    let sandbox = engine.sandbox(&task).await.unwrap();
    assert_eq!(run(&sandbox, "cat name late more ~/file").await, "project\nlate\nmore\nhome\n");
    assert_eq!(sandbox.take_sync_notes(), [""; 0]);
    fixture.finish().await;
}

#[tokio::test]
async fn a_sandbox_moves_between_that_machine_and_containers_of_this_one() {
    let fixture = BackendFixture::ssh();
    let (task, here) = (TaskName::default_task(), EngineApi::docker());
    let settings = ["terminal.docker_image=vestal-test/base:latest"];
    let engine = fixture.engine_in(&settings, &[("DOCKER_HOST", here.address())]);
    let run = async |text: &str| {
        let sandbox = engine.sandbox(&task).await.unwrap();
        sandbox.run(vestal_sandbox::Command::shell(text)).await.unwrap().stdout.text()
    };
    run("mkdir d; echo one > d/file; chmod 640 d/file; ln -s d/file link; echo two > ~/home").await;
    let moved = engine.rebuild(&task, &to("docker"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), ("ssh", "docker"));
    let look = "cat link ~/home; stat -c %a d/file; pwd";
    assert_eq!(run(look).await, "one\ntwo\n640\n/workspace\n");
    assert_eq!(kept_there(&fixture), [""; 0]);
    run("echo more >> d/file; touch ~/more").await;
    let moved = engine.rebuild(&task, &to("ssh"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), ("docker", "ssh"));
    assert_eq!(
        run("cat link ~/home; ls ~; stat -c %a d/file").await,
        "one\nmore\ntwo\nhome\nmore\n640\n"
    );
    assert_eq!(kept_here(&fixture), [""; 0]);
    let home: serde_json::Value =
        serde_json::from_slice(&fs::read(fixture.home().join("home.json")).unwrap()).unwrap();
    let label = format!("vestal-home={}", home["id"].as_str().unwrap());
    assert_eq!(here.names_with(&label), [""; 0]);
    drop(engine);
    fixture.finish().await;
}
