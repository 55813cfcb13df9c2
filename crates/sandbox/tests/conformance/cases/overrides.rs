//! What is asked for one task alone, and directories that are part of a task.

use std::path::Path;

use vestal_sandbox::{
    Command, FilesOnRemoval, Overrides, Sandbox, StateBefore, SummaryState, TaskName,
};

use super::drift::drifted;
use crate::support::BackendFixture;

async fn run(sandbox: &Sandbox, text: &str) -> String {
    sandbox.run(Command::shell(text)).await.unwrap().stdout.text()
}

const PROBE: &str = "pwd; [ -e /bin/bash ] && echo base || echo busybox";

pub(crate) async fn an_image_and_a_directory_asked_for_one_task_stay_with_it(
    fixture: &BackendFixture,
) {
    let task: TaskName = "special".parse().unwrap();
    let asked = Overrides {
        image: Some("vestal-test/busybox:latest".into()),
        cwd: Some("/usr".into()),
        ..Overrides::default()
    };
    let special = fixture.engine().sandbox_with(&task, &asked).await.unwrap();
    assert_eq!(run(&special, PROBE).await, "/usr\nbusybox\n");
    let ordinary = fixture.sandbox().await;
    assert_eq!(run(&ordinary, PROBE).await, "/workspace\nbase\n");
    assert_ne!(special.instance().await, ordinary.instance().await);

    // Who asks for nothing later gets what was asked for first.
    let engine = fixture.engine();
    let again = engine.sandbox(&task).await.unwrap();
    assert_eq!(again.instance().await, special.instance().await);
    assert_eq!(drifted(again.notices()), Vec::<String>::new());
    assert_eq!(run(&again, PROBE).await, "/usr\nbusybox\n");
    let files = again.files(None).await.unwrap();
    files.stat("bin", vestal_sandbox::files::Links::Follow).await.unwrap();
    let summary = &engine.inspect(&task).await.unwrap()[0];
    assert_eq!((&summary.overrides, &summary.drift), (&asked, &Vec::new()));
    // So it does when the instance is rebuilt.
    engine.remove(&task, FilesOnRemoval::Keep).await.unwrap();
    let anew = fixture.engine().sandbox(&task).await.unwrap();
    assert_eq!(anew.state_before(), StateBefore::Absent);
    assert_eq!(run(&anew, PROBE).await, "/usr\nbusybox\n");
    // A request for something else gets an error that this is another.
    let other = Overrides { image: Some("vestal-test/base:latest".into()), ..asked };
    let drifting = fixture.engine().sandbox_with(&task, &other).await.unwrap();
    assert_eq!(drifted(drifting.notices()), ["terminal.docker_image"]);
}

pub(crate) async fn a_backend_asked_for_one_task_stays_with_it(fixture: &BackendFixture) {
    let task: TaskName = "here".parse().unwrap();
    let asked = Overrides { backend: Some("local".into()), ..Overrides::default() };
    let here = fixture.engine().sandbox_with(&task, &asked).await.unwrap();
    assert_eq!((here.backend(), fixture.sandbox().await.backend()), ("local", fixture.backend()));
    assert_eq!(run(&here, "pwd").await, format!("{}\n", fixture.user_home().display()));
    let again = fixture.engine().sandbox(&task).await.unwrap();
    assert_eq!(again.backend(), "local");
    assert_eq!(again.instance().await, here.instance().await);
    assert_eq!(fixture.own_containers().len(), 1, "none of it is a container");
}

/// Makes a directory of the user's that tells its name.
fn project(fixture: &BackendFixture, name: &str) -> std::path::PathBuf {
    let dir = fixture.scratch(name);
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("name"), format!("{name}\n")).unwrap();
    dir
}

async fn mounting(fixture: &BackendFixture, dir: &Path) -> Sandbox {
    let asked = Overrides { mount: Some(dir.into()), ..Overrides::default() };
    fixture.engine().sandbox_with(&TaskName::default_task(), &asked).await.unwrap()
}

pub(crate) async fn a_mounted_directory_is_part_of_the_task(fixture: &BackendFixture) {
    let (a, b) = (project(fixture, "a"), project(fixture, "b"));
    let first = mounting(fixture, &a).await;
    let second = mounting(fixture, &b).await;
    let plain = fixture.sandbox().await;
    assert_eq!(run(&first, "cat name; echo x > made; echo kept > ~/file").await, "a\n");
    assert_eq!(run(&second, "cat name; ls ~/file 2>/dev/null || echo none").await, "b\nnone\n");
    assert_eq!(run(&plain, "ls").await, "", "nobody else is handed either");
    assert_eq!(std::fs::read(a.join("made")).unwrap(), b"x\n");
    assert_eq!(mounting(fixture, &a).await.instance().await, first.instance().await);

    // By the name of its task it is found from anywhere.
    let engine = fixture.engine();
    let task = engine.task_with_mount(&TaskName::default_task(), &a).unwrap();
    assert_eq!(engine.sandbox(&task).await.unwrap().instance().await, first.instance().await);
    // What is the user's stays when everything of the sandbox goes.
    drop(first);
    engine.remove(&task, FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(std::fs::read(a.join("name")).unwrap(), b"a\n");
    assert_eq!(std::fs::read(a.join("made")).unwrap(), b"x\n");
    let fresh = mounting(fixture, &a).await;
    assert_eq!(run(&fresh, "cat name; ls ~/file 2>/dev/null || echo none").await, "a\nnone\n");
}

pub(crate) async fn a_directory_that_took_the_name_of_a_mounted_one_is_mounted_in_its_place(
    fixture: &BackendFixture,
) {
    // Not in the fixture's own directory, which its sandboxes can write to.
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("project");
    let replace = |by: &str| {
        std::fs::rename(&dir, root.path().join(format!("before-{by}"))).ok();
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("name"), format!("{by}\n")).unwrap();
    };
    replace("first");
    let sandbox = mounting(fixture, &dir).await;
    assert_eq!(run(&sandbox, "cat name").await, "first\n");
    drop(sandbox);
    replace("second");
    let sandbox = mounting(fixture, &dir).await;
    let printed = sandbox.notice_texts();
    assert!(
        printed.iter().any(|text| text.contains("another directory has the name")),
        "{printed:?}"
    );
    assert_eq!(run(&sandbox, "cat name").await, "second\n");
    // Nothing is ended under a job, and nobody is sent to the wrong directory.
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    replace("third");
    let asked = Overrides { mount: Some(dir.clone()), ..Overrides::default() };
    let refused =
        fixture.engine().sandbox_with(&TaskName::default_task(), &asked).await.unwrap_err();
    assert!(refused.to_string().contains("another directory has the name"), "{refused}");
    sandbox.kill(&job.id).await.unwrap();
    assert_eq!(run(&mounting(fixture, &dir).await, "cat name").await, "third\n");
    // What may not be mounted ends nothing either.
    let engine = fixture.engine();
    let task = engine.task_with_mount(&TaskName::default_task(), &dir).unwrap();
    std::fs::rename(&dir, root.path().join("before-link")).unwrap();
    std::os::unix::fs::symlink(fixture.home(), &dir).unwrap();
    let refused = engine.sandbox(&task).await.unwrap_err();
    assert!(refused.to_string().contains("is in the Vestal home"), "{refused}");
    assert_eq!(engine.inspect(&task).await.unwrap()[0].state, SummaryState::Running);
}

pub(crate) async fn the_directory_a_process_starts_in_is_mounted_on_request(
    fixture: &BackendFixture,
) {
    let text = "pwd; cat name";
    let words = ["--set", "terminal.docker_mount_cwd_to_workspace=true", "run", "default", text];
    for name in ["a", "b"] {
        let dir = project(fixture, name);
        let mut worker = fixture.worker_in(&dir, &words);
        assert_eq!(worker.line().await["stdout"], format!("/workspace\n{name}\n"));
        worker.finish().await;
    }
    assert_eq!(fixture.own_containers().len(), 2);
}
