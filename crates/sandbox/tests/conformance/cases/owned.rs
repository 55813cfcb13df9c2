//! Sandboxes that end with their process.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use vestal_sandbox::files::{Links, WriteOptions};
use vestal_sandbox::{Command, Engine, ReapReason, StateBefore, TaskName};

use crate::support::{BackendFixture, Kind, alive, until};

const OWNED: &str = "terminal.persist_across_processes=false";

async fn owned(engine: &Engine) -> vestal_sandbox::Sandbox {
    engine.sandbox(&TaskName::default_task()).await.unwrap()
}

pub(crate) async fn a_process_that_does_not_persist_gets_an_instance_of_its_own(
    fixture: &BackendFixture,
) {
    let shared = fixture.sandbox().await;
    shared.run(Command::shell("x=shared").session("main")).await.unwrap();
    let engine = fixture.engine_with(&[OWNED]);
    let sandbox = owned(&engine).await;
    assert!(sandbox.is_owned());
    assert_eq!(sandbox.state_before(), StateBefore::Absent);
    assert_ne!(sandbox.instance().await, shared.instance().await);
    let output = sandbox.run(Command::shell("echo ${x-fresh}").session("main")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"fresh\n");
    let other = fixture.engine_with(&[OWNED]);
    assert_ne!(owned(&other).await.instance().await, sandbox.instance().await);
    assert_eq!(fixture.guests().len(), 3);
    for engine in [engine, other] {
        assert!(engine.close(Duration::from_mins(1)).await);
    }
    assert_eq!(fixture.guests().len(), 1);
}

pub(crate) async fn closing_removes_what_belongs_to_this_process(fixture: &BackendFixture) {
    let mut worker = fixture.worker(&["--set", OWNED, "attach", "default"]);
    worker.line().await;
    let guests = fixture.guests();
    assert_eq!(guests.len(), 1);
    worker.finish().await;
    assert!(!alive(guests[0]), "it is gone before the process is");
    fixture.assert_only_files_left();
}

pub(crate) async fn a_killed_owner_takes_its_instance_along(fixture: &BackendFixture) {
    let mut worker = fixture.worker(&["--set", OWNED, "attach", "default"]);
    worker.line().await;
    let guests = fixture.guests();
    worker.crash().await;
    until("the guest misses its owner", || async { !alive(guests[0]) }).await;
    let instances = fixture.sandbox_dir("default").join("instances");
    if fixture.is_contained() {
        if matches!(fixture.kind(), Kind::Containers(_)) {
            until("the engine has removed it", || async { fixture.own_containers().is_empty() })
                .await;
        }
        fixture.end_is_reported().await;
        // What it had on this machine is for the next sweep.
        let swept = fixture.engine().prune(false).await.unwrap();
        assert_eq!(swept.len(), 1);
        assert_eq!(swept[0].reason, ReapReason::Ownerless);
    }
    until("it has removed itself", || async {
        std::fs::read_dir(&instances).map_or(0, Iterator::count) == 0
    })
    .await;
}

pub(crate) async fn a_turn_ends_only_what_keeps_no_files(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    let lasting = fixture.engine_with(&[OWNED]);
    let sandbox = owned(&lasting).await;
    lasting.turn_ended(&task).unwrap();
    // Had a cleanup begun, it would be over then.
    assert!(sandbox.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests().len(), 1, "files are kept, so the turn's end is nothing");
    assert!(lasting.close(Duration::from_mins(1)).await);

    let fleeting = fixture.engine_with(&[OWNED, "terminal.container_persistent=false"]);
    let sandbox = owned(&fleeting).await;
    fleeting.turn_ended(&task).unwrap();
    assert!(sandbox.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());

    let shared = fixture.engine_with(&["terminal.container_persistent=false"]);
    let sandbox = shared.sandbox(&task).await.unwrap();
    shared.turn_ended(&task).unwrap();
    shared.conversation_closed(&task).unwrap();
    assert!(sandbox.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests().len(), 1, "a sandbox that outlives processes outlives turns");
}

pub(crate) async fn an_idle_owned_sandbox_is_removed_unless_a_job_runs(fixture: &BackendFixture) {
    let engine = fixture.engine_with(&[OWNED]);
    let sandbox = owned(&engine).await;
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    assert_eq!(engine.release_idle(Duration::ZERO).await, 0, "a job runs");
    sandbox.kill(&job.id).await.unwrap();
    assert_eq!(engine.release_idle(Duration::ZERO).await, 1);
    assert!(sandbox.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());
}

pub(crate) async fn a_conversation_closes_only_what_nobody_else_holds(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    let engine = fixture.engine_with(&[OWNED]);
    let sandbox = owned(&engine).await;
    engine.conversation_closed(&task).unwrap();
    // Had a cleanup begun, it would be over then.
    assert!(sandbox.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests().len(), 1, "somebody still holds it");
    drop(sandbox);
    engine.conversation_closed(&task).unwrap();
    // Its removal has started, and the end of the process waits for it.
    assert!(engine.close(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());
    fixture.assert_only_files_left();
}

pub(crate) async fn an_instance_whose_maker_stopped_waiting_is_removed_at_the_end(
    fixture: &BackendFixture,
) {
    let engine = fixture.engine_with(&[OWNED]);
    let instances = fixture.sandbox_dir("default").join("instances");
    tokio::select! {
        biased;
        () = until("one is being made", || async { instances.exists() }) => {}
        made = owned(&engine) => drop(made),
    }
    assert!(engine.close(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());
    fixture.assert_only_files_left();
}

pub(crate) async fn an_idle_process_removes_what_it_owns_and_makes_it_again_when_used(
    fixture: &BackendFixture,
) {
    let engine = fixture.engine_with(&[OWNED, "terminal.lifetime_seconds=1"]);
    let sandbox = owned(&engine).await;
    let first = sandbox.instance().await;
    // Once it is removed its connection is closed, however far away it was.
    let is_gone = || fixture.guests().is_empty() && fixture.own_containers().is_empty();
    until("nobody has used it", || async { is_gone() }).await;
    // A caller that still holds it gets another one, and so does everybody else.
    let output = sandbox.run(Command::shell("echo back")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"back\n");
    let second = sandbox.instance().await;
    assert_ne!(second, first);
    assert_eq!(owned(&engine).await.instance().await, second);
    assert!(engine.close(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());
}

pub(crate) async fn a_process_that_asks_twice_at_once_closes_all_it_made(fixture: &BackendFixture) {
    let engine = fixture.engine_with(&[OWNED]);
    let (one, two) = tokio::join!(owned(&engine), owned(&engine));
    let (a, b) = (one.instance().await, two.instance().await);
    assert!(engine.close(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new(), "{a} {b}");
}

pub(crate) async fn an_idle_owned_sandbox_is_not_removed_under_an_open_call(
    fixture: &BackendFixture,
) {
    let engine = fixture.engine_with(&[OWNED]);
    let sandbox = owned(&engine).await;
    let files = sandbox.files(None).await.unwrap();
    let (mut writer, mut reader) = tokio::io::duplex(64);
    let writing = tokio::spawn(async move {
        files.write_from("~/slow", &mut reader, WriteOptions::default()).await
    });
    // More than fits between the two: some of it is on its way to the guest.
    writer.write_all(&[1; 200]).await.unwrap();
    // A call that came later was answered, so this one is open.
    let home = sandbox.files(None).await.unwrap();
    home.stat("~", Links::Follow).await.unwrap();
    let released = engine.release_idle(Duration::ZERO).await;
    sandbox.wait_for_cleanup(Duration::from_mins(1)).await;
    writer.write_all(b"two").await.unwrap();
    drop(writer);
    let written = writing.await.unwrap();
    assert!(released == 0 && written.is_ok(), "{released} {written:?}");
    assert!(engine.close(Duration::from_mins(1)).await);
}

pub(crate) async fn an_owned_sandbox_whose_guest_was_killed_leaves_nothing(
    fixture: &BackendFixture,
) {
    let engine = fixture.engine_with(&[OWNED]);
    let sandbox = owned(&engine).await;
    super::survival::kill_guest(fixture);
    until("it is back", || async { sandbox.run(Command::shell("echo back")).await.is_ok() }).await;
    assert!(engine.close(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());
    fixture.assert_only_files_left();
}
