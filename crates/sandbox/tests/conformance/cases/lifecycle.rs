//! Idleness and ends.

use std::time::Duration;

use vestal_sandbox::{Cleanup, Command, Error, FilesOnRemoval, SummaryState, TaskName};
use vestal_wire::{Cause, JobExit, JobState};

use crate::support::{BackendFixture, Kind, alive, marker, processes_with, until};

pub(crate) async fn looking_is_not_using(fixture: &BackendFixture) {
    fixture.run("true").await;
    let engine = fixture.engine();
    let task = TaskName::default_task();
    let used = engine.inspect(&task).await.unwrap()[0].last_used_at.unwrap();
    for _ in 0..3 {
        let connection = engine.observe(&task).await.unwrap();
        connection.status(Duration::from_secs(10)).await.unwrap();
        let summary = &engine.list().await.unwrap()[0];
        assert_eq!(summary.state, SummaryState::Running);
        assert_eq!(summary.last_used_at.unwrap(), used, "a look moved the clock");
    }
    fixture.sandbox().await.touch().await.unwrap();
    assert!(engine.inspect(&task).await.unwrap()[0].last_used_at.unwrap() > used);
}

pub(crate) async fn an_idle_sandbox_ends_by_itself_and_a_touched_one_does_not(
    fixture: &BackendFixture,
) {
    let engine = fixture.engine_with(&["terminal.retention_seconds=4"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let guest = fixture.guests();
    // Used all the while, it lives well beyond the four seconds.
    for _ in 0..12 {
        sandbox.touch().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(fixture.guests(), guest);
    }
    until("the guest ends by itself", || async { !alive(guest[0]) }).await;
    let summary = &fixture.engine().inspect(&TaskName::default_task()).await.unwrap()[0];
    assert_eq!(summary.state, SummaryState::Stopped);
}

pub(crate) async fn a_running_job_keeps_the_sandbox_from_idling_out(fixture: &BackendFixture) {
    let engine =
        fixture.engine_with(&["terminal.retention_seconds=1", "terminal.lifetime_seconds=1"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    // Longer than the retention and the lifetime together, and nobody waits
    // for it: an open call would be use by itself.
    let job = sandbox.spawn(Command::shell("sleep 4; echo > ~/still-here")).await.unwrap();
    until("the job has come to its end", || async {
        fixture.home_files().join("still-here").exists()
    })
    .await;
    let info = sandbox.wait(&job.id, None).await.unwrap();
    assert_eq!(info.state, JobState::Ended(JobExit { code: Some(0), cause: Cause::Exited }));
}

pub(crate) async fn the_idle_reaper_lets_go_and_the_sandbox_runs_on(fixture: &BackendFixture) {
    let engine = fixture.engine();
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let instance = sandbox.instance().await;
    sandbox.run(Command::shell("kept=1").session("main")).await.unwrap();
    assert_eq!(engine.release_idle(Duration::from_hours(1)).await, 0);
    assert_eq!(engine.release_idle(Duration::ZERO).await, 1);
    assert!(sandbox.wait_for_cleanup(Duration::from_secs(30)).await);
    let again = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(again.instance().await, instance);
    let output = again.run(Command::shell("echo $kept").session("main")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"1\n");
    // A process that still holds a handle continues as if nothing had happened.
    let output = sandbox.run(Command::shell("echo $kept").session("main")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"1\n");
}

pub(crate) async fn a_removed_sandbox_leaves_nothing(fixture: &BackendFixture) {
    let mark = marker();
    fixture.run(&format!("setsid sleep {mark} & disown")).await;
    until("its process runs", || async { processes_with(&format!("sleep\0{mark}")).len() == 1 })
        .await;
    let engine = fixture.engine();
    let task = TaskName::default_task();
    let removal = engine.remove(&task, FilesOnRemoval::Keep).await.unwrap();
    assert_eq!(removal.instances, 1);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(fixture.guests(), Vec::<u32>::new());
    fixture.assert_only_files_left();
    let listed = engine.list().await.unwrap();
    if fixture.is_contained() {
        let elsewhere = match fixture.kind() {
            // Both are in one claim.
            Kind::Kubernetes => 1,
            _ if fixture.has_system() => 0,
            _ => 2,
        };
        assert_eq!(removal.kept_volumes.len(), elsewhere);
        // Its files are, and are the next instance's unless they go too.
        if fixture.has_system() {
            assert_eq!(removal.kept, [fixture.start_files(), fixture.home_files()]);
        }
        assert_eq!((listed.len(), listed[0].state), (1, SummaryState::Absent));
        engine.remove(&task, FilesOnRemoval::Remove).await.unwrap();
    } else {
        assert_eq!((removal.kept, listed), (Vec::new(), Vec::new()));
    }
    assert!(!fixture.sandbox_dir("default").exists());
    let again = engine.remove(&task, FilesOnRemoval::Remove).await.unwrap_err();
    assert!(matches!(again, Error::NoSandbox { .. }), "{again}");
    assert!(matches!(engine.stop(&task).await.unwrap_err(), Error::NoSandbox { .. }));
}

pub(crate) async fn force_removal_can_be_waited_for(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    sandbox.cleanup(Cleanup::ForceRemove);
    assert!(sandbox.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());
    fixture.assert_only_files_left();
}

pub(crate) async fn waiting_for_no_cleanup_is_instant(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    assert!(sandbox.wait_for_cleanup(Duration::ZERO).await);
    sandbox.cleanup(Cleanup::Release);
    assert!(sandbox.wait_for_cleanup(Duration::from_secs(30)).await);
    assert_eq!(fixture.guests().len(), 1, "letting go ends nothing");
}

pub(crate) async fn a_retention_that_changes_reaches_the_running_guest(fixture: &BackendFixture) {
    let first = fixture.sandbox().await;
    let instance = first.instance().await;
    let engine = fixture.engine_with(&["terminal.retention_seconds=1h"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.instance().await, instance, "no new instance is needed");
    let left = sandbox.status().await.unwrap().expires_in_ms.unwrap();
    assert!(left <= 3_600_000, "{left}");
    let engine = fixture.engine_with(&["terminal.retention_seconds=0"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.status().await.unwrap().expires_in_ms, None);
}
