//! Who gets which instance.

use vestal_sandbox::{Command, Engine, Error, FilesOnRemoval, StateBefore, TaskName};

use crate::support::BackendFixture;

pub(crate) async fn every_process_gets_the_same_instance(fixture: &BackendFixture) {
    let mut first = fixture.worker(&["attach", "default"]);
    let seen = first.line().await;
    assert_eq!(seen["before"], "absent");
    first.finish().await;

    let mut second = fixture.worker(&["attach", "default"]);
    let again = second.line().await;
    assert_eq!(again["before"], "running");
    assert_eq!(again["instance"], seen["instance"]);
    assert_eq!(again["generation"], 1);
    second.finish().await;
}

pub(crate) async fn a_stampede_of_processes_gets_one_instance(fixture: &BackendFixture) {
    let mut workers: Vec<_> = (0..12).map(|_| fixture.worker(&["attach", "default"])).collect();
    let mut instances = Vec::new();
    for worker in &mut workers {
        instances.push(worker.line().await["instance"].as_str().unwrap().to_owned());
    }
    for worker in workers {
        worker.finish().await;
    }
    assert!(instances.iter().all(|instance| *instance == instances[0]), "{instances:?}");
    assert_eq!(fixture.guests().len(), 1);
}

pub(crate) async fn a_stampede_of_threads_gets_one_instance(fixture: &BackendFixture) {
    // Half of them share an engine, the others have one each.
    let shared = fixture.engine();
    let threads: Vec<_> = (0..12)
        .map(|number| {
            let engine = if number % 2 == 0 { shared.clone() } else { fixture.engine() };
            std::thread::spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
                    sandbox.instance().await
                })
            })
        })
        .collect();
    let instances: Vec<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(instances.iter().all(|instance| *instance == instances[0]), "{instances:?}");
    assert_eq!(fixture.guests().len(), 1);
}

pub(crate) async fn tasks_never_share_an_instance(fixture: &BackendFixture) {
    let engine = fixture.engine();
    let one = engine.sandbox(&"one".parse().unwrap()).await.unwrap();
    let two = engine.sandbox(&"two".parse().unwrap()).await.unwrap();
    assert_ne!(one.instance().await, two.instance().await);
    one.run(Command::shell("secret=1").session("main")).await.unwrap();
    let output = two.run(Command::shell("echo ${secret-none}").session("main")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"none\n");
}

pub(crate) async fn homes_never_share_an_instance(fixture: &BackendFixture) {
    let other = fixture.another();
    let task = TaskName::default_task();
    assert_ne!(fixture.engine().key(&task).hash(), other.engine().key(&task).hash());
    let here = fixture.sandbox().await.instance().await;
    let there = other.sandbox().await.instance().await;
    assert_ne!(here, there);
    other.finish().await;
}

pub(crate) async fn attaching_to_a_running_sandbox_needs_no_lock(fixture: &BackendFixture) {
    let first = fixture.sandbox().await.instance().await;
    let lock = std::fs::File::open(fixture.sandbox_dir("default").join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let sandbox = fixture.sandbox().await;
    assert_eq!(sandbox.instance().await, first);
    assert_eq!(sandbox.state_before(), StateBefore::Running);
}

pub(crate) async fn tasks_with_odd_names_have_sandboxes_of_their_own(fixture: &BackendFixture) {
    let names = ["../escape", "a/b", "a_b", "ünïcödé 🦀", " leading", ".", "..", &"x".repeat(200)];
    let engine = fixture.engine();
    for name in names {
        let sandbox = engine.sandbox(&name.parse().unwrap()).await.unwrap();
        let marked = format!("mark={}", name.len());
        sandbox.run(Command::shell(marked).session("main")).await.unwrap();
    }
    let mut listed: Vec<String> =
        engine.list().await.unwrap().into_iter().map(|summary| summary.task).collect();
    let mut expected: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    for name in names {
        let sandbox = engine.sandbox(&name.parse().unwrap()).await.unwrap();
        let output = sandbox.run(Command::shell("echo $mark").session("main")).await.unwrap();
        assert_eq!(output.stdout.text(), format!("{}\n", name.len()));
    }
}

pub(crate) async fn a_copied_home_leaves_the_original_alone_and_has_its_own_sandboxes(
    fixture: &BackendFixture,
) {
    let task = TaskName::default_task();
    fixture.run("echo kept > kept; mark=here").await;
    let original = fixture.sandbox().await.instance().await;
    let copy = fixture.another();
    std::fs::remove_dir_all(copy.home()).ok();
    let mut cp = std::process::Command::new("cp");
    // What users of images have written may be out of reach, and is not missed.
    cp.arg("-a").args([fixture.home(), copy.home()]).stderr(std::process::Stdio::null());
    cp.status().unwrap();

    assert_ne!(fixture.engine().key(&task).hash(), copy.engine().key(&task).hash());
    let there = copy.sandbox().await;
    assert_ne!(there.instance().await, original);
    if fixture.has_system() {
        let output = there.run(Command::shell("cat kept")).await.unwrap();
        assert_eq!(output.stdout.text(), "kept\n", "the copy has the files");
    }
    let used = there.instance().await;
    copy.engine().stop(&task).await.unwrap();
    let here = fixture.sandbox().await;
    assert_eq!(here.state_before(), StateBefore::Running, "it was not stopped");
    assert_eq!(here.instance().await, original);
    copy.engine().remove(&task, FilesOnRemoval::Remove).await.unwrap();
    let output = here.run(Command::shell("echo $mark").session("main")).await.unwrap();
    assert_eq!(output.stdout.text(), "here\n");
    assert_ne!(used, original);
    copy.finish().await;
}

pub(crate) async fn a_directory_copied_from_another_home_is_refused(fixture: &BackendFixture) {
    let other = fixture.another();
    other.run("true").await;
    other.engine().stop(&TaskName::default_task()).await.unwrap();
    let target = fixture.sandbox_dir("default");
    std::fs::create_dir_all(&target).unwrap();
    std::fs::copy(other.sandbox_dir("default").join("sandbox.json"), target.join("sandbox.json"))
        .unwrap();
    let error = Engine::sandbox(&fixture.engine(), &TaskName::default_task()).await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    std::fs::remove_dir_all(target).unwrap();
    other.finish().await;
}
