//! Copies that are cut off, and copies at the same time as anything else.

use vestal_sandbox::{CopyError, Error, FAILPOINTS, FilesOnRemoval, Rebuild, WhileBusy};

use super::crashes::crash;
use super::snapshots::{assert_reads, name, run, task, write};
use crate::support::{BackendFixture, Kind, Worker, until};

/// Returns the failpoints of a verb: the engine's, and its backend's of this
/// and of the steps that it takes.
fn points(fixture: &BackendFixture, verb: &str, steps: &[&str]) -> Vec<&'static str> {
    let own = format!("{verb}.");
    let of_backend: Vec<String> =
        steps.iter().map(|step| format!("{}.{step}.", fixture.backend())).collect();
    let is_one = |point: &&str| {
        (point.starts_with(&own) && !fixture.own_steps_only())
            || of_backend.iter().any(|begin| point.starts_with(begin))
    };
    let found: Vec<&str> = FAILPOINTS.iter().copied().filter(is_one).collect();
    assert!(!found.is_empty());
    found
}

/// Returns the names of the directories of sandboxes.
fn sandbox_dirs(fixture: &BackendFixture) -> Vec<String> {
    let entries = std::fs::read_dir(fixture.home().join("sandboxes")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks, after one later start, that there is one instance per sandbox and
/// nothing in the sandbox's directory but what belongs there.
async fn assert_tidy(fixture: &BackendFixture, tasks: &[&str], point: &str) {
    // What is of other tasks is found by the sweep. What was being made when its
    // maker died is held by those who are making it for a little longer.
    let engine = fixture.engine();
    until(&format!("{point}: only {tasks:?} are left"), || async {
        engine.prune(false).await.unwrap();
        let listed = engine.list().await.unwrap().into_iter().map(|found| found.task);
        listed.eq(tasks.iter().copied()) && sandbox_dirs(fixture) == tasks
    })
    .await;
    for of in tasks {
        run(fixture, of, "true").await;
        let mut left = fixture.left_of(of);
        left.retain(|left| left != "snapshots");
        let mut expected = vec!["home", "instances", "lock", "sandbox.json", "state", "workspace"];
        if *fixture.kind() == Kind::Kubernetes {
            // Files are on its claim, and what was last known of it is here.
            expected.retain(|name| !["home", "state", "workspace"].contains(name));
            left.retain(|name| name != "last-known.json");
        }
        assert_eq!(left, expected, "{point}: {of}");
        let instances = fixture.sandbox_dir(of).join("instances");
        assert_eq!(std::fs::read_dir(instances).unwrap().count(), 1, "{point}: {of}");
    }
    assert_eq!(fixture.own_containers().len(), tasks.len(), "{point}");
    assert_eq!(fixture.guests().len(), tasks.len(), "{point}");
    until(&format!("{point}: no stray is left"), || async { fixture.strays().is_empty() }).await;
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_snapshot(fixture: &BackendFixture) {
    let (engine, of) = (fixture.engine(), task("default"));
    write(fixture, "default", "before").await;
    for point in points(fixture, "snapshot", &["snapshot", "save"]) {
        run(fixture, "default", "true").await;
        crash(fixture, &["snapshot", "default", "one"], point).await;
        assert_reads(fixture, "default", "before").await;
        assert_tidy(fixture, &["default"], point).await;
        let whole = engine.snapshots(Some(&of)).await.unwrap().len();
        assert_eq!(whole, usize::from(point == "snapshot.record-written"), "{point}");
        let dir = fixture.sandbox_dir("default").join("snapshots");
        assert_eq!(dir.exists(), whole == 1, "{point}");
        // The name is free, or what has it can be gone back to.
        if whole == 0 {
            engine.snapshot(&of, &name("one"), None, WhileBusy::Refuse).await.unwrap();
        }
        engine.restore(&of, &name("one"), WhileBusy::Refuse).await.unwrap();
        assert_reads(fixture, "default", "before").await;
        engine.remove_snapshot(&of, &name("one")).await.unwrap();
    }
}

pub(crate) async fn a_process_may_die_at_any_step_of_the_removal_of_a_snapshot(
    fixture: &BackendFixture,
) {
    let (engine, of) = (fixture.engine(), task("default"));
    write(fixture, "default", "before").await;
    for point in points(fixture, "remove-snapshot", &[]) {
        engine.snapshot(&of, &name("one"), None, WhileBusy::Refuse).await.unwrap();
        crash(fixture, &["remove-snapshot", "default", "one"], point).await;
        assert_reads(fixture, "default", "before").await;
        assert_tidy(fixture, &["default"], point).await;
        assert_eq!(engine.snapshots(None).await.unwrap(), [], "{point}");
        assert!(!fixture.sandbox_dir("default").join("snapshots").exists(), "{point}");
    }
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_fork(fixture: &BackendFixture) {
    let engine = fixture.engine();
    write(fixture, "default", "before").await;
    for point in points(fixture, "fork", &["fork", "create"]) {
        crash(fixture, &["fork", "default", "other"], point).await;
        if point == "fork.record-written" {
            assert_tidy(fixture, &["default", "other"], point).await;
            assert_reads(fixture, "other", "before").await;
            engine.remove(&task("other"), FilesOnRemoval::Remove).await.unwrap();
        } else {
            assert_tidy(fixture, &["default"], point).await;
        }
        assert_reads(fixture, "default", "before").await;
    }
    // The one who comes next with the same wish need not wait for a sweep.
    crash(fixture, &["fork", "default", "other"], "fork.files-copied").await;
    engine.fork(&task("default"), None, &task("other"), WhileBusy::Refuse).await.unwrap();
    assert_reads(fixture, "other", "before").await;
    assert_tidy(fixture, &["default", "other"], "again").await;
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_restore(fixture: &BackendFixture) {
    let (engine, of) = (fixture.engine(), task("default"));
    write(fixture, "default", "before").await;
    engine.snapshot(&of, &name("one"), None, WhileBusy::Refuse).await.unwrap();
    for point in points(fixture, "restore", &["create"]) {
        write(fixture, "default", "after").await;
        crash(fixture, &["restore", "default", "one"], point).await;
        let settled = point == "restore.settled";
        assert_reads(fixture, "default", if settled { "before" } else { "after" }).await;
        assert_tidy(fixture, &["default"], point).await;
        engine.restore(&of, &name("one"), WhileBusy::Refuse).await.unwrap();
        assert_reads(fixture, "default", "before").await;
    }
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_rebuild(fixture: &BackendFixture) {
    run(fixture, "default", "mkdir -p ~/vestal && echo kept > ~/vestal/file && session=kept").await;
    for point in points(fixture, "rebuild", &["create"]) {
        crash(fixture, &["rebuild", "default"], point).await;
        let printed = run(fixture, "default", "cat ~/vestal/file; echo $session").await;
        assert_eq!(printed, "kept\nkept\n", "{point}");
        assert_tidy(fixture, &["default"], point).await;
    }
    // The same on the way to another backend and back.
    for point in points(fixture, "rebuild", &[]) {
        crash(fixture, &["rebuild", "default", "local"], point).await;
        let to = Rebuild { backend: Some(fixture.backend().to_owned()), ..Rebuild::default() };
        fixture.engine().rebuild(&task("default"), &to, WhileBusy::Refuse).await.unwrap();
        assert_eq!(run(fixture, "default", "cat ~/vestal/file").await, "kept\n", "{point}");
        assert_tidy(fixture, &["default"], point).await;
    }
}

/// Makes enough files for a copy to take a while.
async fn fill(fixture: &BackendFixture) {
    let text = "cd /workspace && mkdir -p many && cd many && i=0 && \
                while [ $i -lt 3000 ]; do echo $i > $i; i=$((i + 1)); done && \
                dd if=/dev/zero of=large bs=1M count=64 2>/dev/null";
    run(fixture, "default", text).await;
}

pub(crate) async fn a_copy_that_is_given_up_leaves_nothing(fixture: &BackendFixture) {
    fill(fixture).await;
    write(fixture, "default", "before").await;
    let (engine, of, other, one) = (fixture.engine(), task("default"), task("other"), name("one"));
    let (target, dir) = (fixture.sandbox_dir("other"), fixture.sandbox_dir("default"));
    let intent = |path: std::path::PathBuf| async move {
        until("it has begun", || async { path.join("intent.json").exists() }).await;
    };
    tokio::select! {
        forked = engine.fork(&of, None, &other, WhileBusy::Refuse) => panic!("{forked:?}"),
        () = intent(target.clone()) => {}
    }
    assert!(engine.close(std::time::Duration::from_mins(1)).await, "it is undone in time");
    assert!(!target.exists());
    assert_reads(fixture, "default", "before").await;
    assert_tidy(fixture, &["default"], "fork").await;
    let making = |path: std::path::PathBuf| async move {
        until("it has begun", || async { path.join("snapshots/one").exists() }).await;
    };
    let engine = fixture.engine();
    tokio::select! {
        made = engine.snapshot(&of, &one, None, WhileBusy::Refuse) => panic!("{made:?}"),
        () = making(dir.clone()) => {}
    }
    assert!(engine.close(std::time::Duration::from_mins(1)).await, "it is undone in time");
    assert!(!dir.join("snapshots").exists());
    assert_reads(fixture, "default", "before").await;
    fixture.engine().snapshot(&of, &one, None, WhileBusy::Refuse).await.unwrap();
    write(fixture, "default", "after").await;
    let engine = fixture.engine();
    let changing = |path: std::path::PathBuf| async move {
        until("it has begun", || async { path.join("changing-new-workspace").exists() }).await;
    };
    tokio::select! {
        restored = engine.restore(&of, &one, WhileBusy::Refuse) => panic!("{restored:?}"),
        () = changing(dir.clone()) => {}
    }
    assert!(engine.close(std::time::Duration::from_mins(1)).await, "it is undone in time");
    assert_reads(fixture, "default", "after").await;
    assert_tidy(fixture, &["default"], "restore").await;
}

pub(crate) async fn forks_at_once_are_all_whole_and_of_one_name_there_is_one(
    fixture: &BackendFixture,
) {
    write(fixture, "default", "before").await;
    let fork = |to: &str| fixture.worker(&["fork", "default", to]);
    let workers: Vec<Worker> = ["a", "b", "a", "b"].iter().map(|to| fork(to)).collect();
    let mut succeeded = 0;
    for worker in workers {
        succeeded += usize::from(worker.last_word().await.is_some());
    }
    assert_eq!(succeeded, 2, "of two that fork to the same task one does");
    for of in ["a", "b"] {
        assert_reads(fixture, of, "before").await;
    }
    // There and back at once: two locks are always taken in one order.
    let engine = fixture.engine();
    let (there, back) = (task("a"), task("b"));
    let (one, other) = tokio::join!(
        engine.fork(&there, None, &back, WhileBusy::Refuse),
        engine.fork(&back, None, &there, WhileBusy::Refuse),
    );
    for refused in [one, other] {
        assert!(matches!(refused, Err(Error::Copy(CopyError::SandboxExists { .. }))));
    }
    assert_tidy(fixture, &["a", "b", "default"], "forks").await;
}

pub(crate) async fn commands_and_copies_at_once_are_in_nobodys_way(fixture: &BackendFixture) {
    write(fixture, "default", "before").await;
    for round in 0..3 {
        let running: Vec<Worker> =
            (0..3).map(|_| fixture.worker(&["run", "default", "echo $((1 + 1))"])).collect();
        let engine = fixture.engine();
        let (of, to, one) = (task("default"), task("other"), name("one"));
        let (forked, made) = tokio::join!(
            engine.fork(&of, None, &to, WhileBusy::Refuse),
            engine.snapshot(&of, &one, None, WhileBusy::Refuse),
        );
        for worker in running {
            let printed = worker.last_word().await.expect("a command is not refused for a copy");
            assert_eq!(
                (&printed["code"], &printed["stdout"]),
                (&0.into(), &"2\n".into()),
                "{round}"
            );
        }
        match forked {
            Ok(_) => {
                assert_reads(fixture, "other", "before").await;
                engine.remove(&to, FilesOnRemoval::Remove).await.unwrap();
            }
            Err(error) => assert!(matches!(error, Error::Busy { .. }), "round {round}: {error}"),
        }
        match made {
            Ok(_) => drop(engine.remove_snapshot(&of, &one).await.unwrap()),
            Err(error) => assert!(matches!(error, Error::Busy { .. }), "round {round}: {error}"),
        }
        assert_reads(fixture, "default", "before").await;
        assert_tidy(fixture, &["default"], &format!("round {round}")).await;
    }
}
