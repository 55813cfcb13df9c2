//! The orphan reaper.

use std::path::Path;
use std::time::{Duration, SystemTime};

use vestal_sandbox::{Engine, ReapReason, StateBefore, SummaryState, TaskName};

use crate::support::{BackendFixture, Kind, until};

/// Makes a directory and what is in it look as old as that.
fn age(path: &Path, by: Duration) {
    let then = SystemTime::now() - by;
    let file = std::fs::File::open(path).unwrap();
    file.set_modified(then).unwrap();
}

/// Makes a stopped sandbox look unused for that long.
fn age_sandbox(fixture: &BackendFixture, task: &str, by: Duration) {
    if *fixture.kind() == Kind::Kubernetes {
        // The cluster says since when, whatever files say.
        return;
    }
    age(&fixture.files_dir(task).join("state/journal"), by);
    for instance in fixture.instances_of(task) {
        age(&fixture.socket_dir(task, &instance), by);
    }
}

/// Makes stopped sandboxes unused for longer than the retention, and returns the
/// settings of the engines for which they are.
async fn expire(fixture: &BackendFixture, names: &[&str]) -> Vec<&'static str> {
    if !fixture.is_contained() {
        for name in names {
            age_sandbox(fixture, name, 8 * DAY);
        }
        return Vec::new();
    }
    // When a container ended is for its engine to say: the time since then
    // cannot be made longer, but the retention shorter.
    let settings = vec!["terminal.retention_seconds=1"];
    let engine = fixture.engine_with(&settings);
    until("they have expired", || async {
        let found = engine.prune(true).await.unwrap();
        names.iter().all(|name| found.iter().any(|found| found.task == *name))
    })
    .await;
    settings
}

async fn stopped(fixture: &BackendFixture, name: &str) {
    let task: TaskName = name.parse().unwrap();
    // Its own sweep could come late, and upon what is aged next.
    let engine = fixture.engine_with(&["terminal.orphan_reaper=false"]);
    engine.sandbox(&task).await.unwrap();
    engine.stop(&task).await.unwrap();
}

/// Returns the tasks whose sandboxes have an instance.
async fn tasks(engine: &Engine) -> Vec<String> {
    let listed = engine.list().await.unwrap();
    let there = listed.into_iter().filter(|summary| summary.state != SummaryState::Absent);
    there.map(|summary| summary.task).collect()
}

const DAY: Duration = Duration::from_hours(24);

pub(crate) async fn a_stopped_sandbox_past_its_retention_is_removed(fixture: &BackendFixture) {
    stopped(fixture, "old").await;
    let settings = expire(fixture, &["old"]).await;
    let engine = fixture.engine_with(&settings);
    let reaped = engine.prune(false).await.unwrap();
    assert_eq!(reaped.len(), 1);
    assert_eq!((&*reaped[0].task, reaped[0].reason), ("old", ReapReason::Expired));
    assert_eq!(tasks(&engine).await, Vec::<String>::new());
    if fixture.is_contained() {
        assert_eq!(fixture.own_containers(), Vec::<serde_json::Value>::new());
        for kept in ["home", "workspace"] {
            assert!(fixture.files_dir("old").join(kept).is_dir(), "{kept}");
        }
    } else {
        assert!(!fixture.sandbox_dir("old").exists());
    }
}

pub(crate) async fn a_stopped_sandbox_within_its_retention_stays(fixture: &BackendFixture) {
    stopped(fixture, "recent").await;
    expire(fixture, &["recent"]).await;
    if !fixture.is_contained() {
        age_sandbox(fixture, "recent", 6 * DAY);
    }
    assert_eq!(fixture.engine().prune(false).await.unwrap(), []);
    let forever = fixture.engine_with(&["terminal.retention_seconds=0"]);
    if !fixture.is_contained() {
        age_sandbox(fixture, "recent", 9999 * DAY);
    }
    assert_eq!(forever.prune(false).await.unwrap(), []);
    assert_eq!(tasks(&forever).await, ["recent"]);
}

pub(crate) async fn a_running_sandbox_is_never_reaped(fixture: &BackendFixture) {
    stopped(fixture, "default").await;
    let mut settings = expire(fixture, &["default"]).await;
    fixture.run("true").await;
    age_sandbox(fixture, "default", 9999 * DAY);
    if !fixture.is_contained() {
        settings.push("terminal.retention_seconds=1h");
    }
    let engine = fixture.engine_with(&settings);
    assert_eq!(engine.prune(false).await.unwrap(), []);
    assert_eq!(engine.list().await.unwrap()[0].state, SummaryState::Running);
}

pub(crate) async fn the_sandbox_about_to_be_used_is_never_reaped(fixture: &BackendFixture) {
    fixture.run("kept=1").await;
    let instance = fixture.sandbox().await.instance().await;
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let settings = expire(fixture, &["default"]).await;
    let engine = fixture.engine_with(&settings);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(engine.orphans_swept().await, 0);
    assert_eq!(sandbox.instance().await, instance);
    let output = fixture.run("echo $kept").await;
    assert_eq!(output.stdout.bytes(), b"1\n");
}

pub(crate) async fn leftovers_of_dead_owners_are_removed(fixture: &BackendFixture) {
    // A process died after naming itself owner and before making anything.
    let instance = fixture.sandbox_dir("orphan").join("instances/0123456789abcdef");
    let io = instance.join("io");
    std::fs::create_dir_all(&io).unwrap();
    let me = vestal_sandbox::ProcessId::current().unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let write_owner = |start: u64| {
        let owner = serde_json::json!({
            "version": 1, "backend": fixture.backend(), "host": host, "pid_namespace": namespace,
            "process": { "pid": me.pid, "start": start, "boot": me.boot },
        });
        // Beside the socket users of a container could write another one.
        let (path, content) = if fixture.is_contained() {
            let mark =
                serde_json::json!({ "version": 1, "backend": fixture.backend(), "owner": owner });
            (instance.join("instance.json"), mark)
        } else {
            (io.join("owner.json"), owner)
        };
        std::fs::write(path, content.to_string()).unwrap();
    };
    if !fixture.is_contained() {
        write_owner(me.start + 1);
        assert_eq!(fixture.engine().prune(false).await.unwrap(), [], "too young");
    }
    write_owner(me.start);
    age(&io, Duration::from_secs(601));
    assert_eq!(fixture.engine().prune(false).await.unwrap(), [], "its owner lives");
    write_owner(me.start + 1);
    age(&io, Duration::from_secs(601));
    let reaped = fixture.engine().prune(false).await.unwrap();
    assert_eq!(reaped.len(), 1);
    assert_eq!(reaped[0].reason, ReapReason::Ownerless);
    assert!(!fixture.sandbox_dir("orphan").exists());
}

pub(crate) async fn an_age_that_cannot_be_read_reaps_nothing(fixture: &BackendFixture) {
    stopped(fixture, "future").await;
    let settings = expire(fixture, &["future"]).await;
    let engine = fixture.engine_with(&settings);
    // What reports the last use: the journal, or where nobody sees that the end.
    let journal = if fixture.is_elsewhere() {
        fixture.socket_dir("future", &fixture.instances_of("future")[0])
    } else {
        fixture.sandbox_dir("future").join("state/journal")
    };
    let ahead = SystemTime::now() + 30 * DAY;
    std::fs::File::open(&journal).unwrap().set_modified(ahead).unwrap();
    assert_eq!(engine.prune(false).await.unwrap(), [], "the clock has jumped");
    age(&journal, 8 * DAY);
    assert_eq!(engine.prune(false).await.unwrap().len(), 1, "it would have gone");
}

pub(crate) async fn a_disabled_reaper_does_nothing(fixture: &BackendFixture) {
    stopped(fixture, "old").await;
    let settings = expire(fixture, &["old"]).await;
    let disabled = [&settings[..], &["terminal.orphan_reaper=false"]].concat();
    let quiet = fixture.engine_with(&disabled);
    quiet.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(quiet.orphans_swept().await, 0);
    // It is not to idle out and be the next to expire.
    let kept = fixture.engine_with(&["terminal.orphan_reaper=false"]);
    kept.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(tasks(&quiet).await, ["default", "old"]);
    let ordinary = fixture.engine_with(&settings);
    ordinary.sandbox(&"another".parse().unwrap()).await.unwrap();
    assert_eq!(ordinary.orphans_swept().await, 1);
    assert!(!tasks(&ordinary).await.contains(&"old".to_owned()));
    stopped(fixture, "older").await;
    expire(fixture, &["older"]).await;
    ordinary.sandbox(&"a third".parse().unwrap()).await.unwrap();
    assert_eq!(ordinary.orphans_swept().await, 0, "once is enough");
    assert!(tasks(&ordinary).await.contains(&"older".to_owned()));
}

pub(crate) async fn a_process_that_attaches_to_a_running_sandbox_sweeps_too(
    fixture: &BackendFixture,
) {
    let kept = ["terminal.orphan_reaper=false"];
    stopped(fixture, "old").await;
    fixture.engine_with(&kept).sandbox(&TaskName::default_task()).await.unwrap();
    let settings = expire(fixture, &["old"]).await;
    // What is wrong with the setting is in nobody's way.
    let wrong = [&settings[..], &["terminal.orphan_reaper=perhaps"]].concat();
    let engine = fixture.engine_with(&wrong);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.state_before(), StateBefore::Running);
    assert_eq!(engine.orphans_swept().await, 0, "nothing is removed on a guess");
    let none = [&settings[..], &["terminal.lifetime_seconds=0"]].concat();
    let engine = fixture.engine_with(&none);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.state_before(), StateBefore::Running);
    assert_eq!(engine.orphans_swept().await, 1);
    assert_eq!(tasks(&engine).await, ["default"]);
}

pub(crate) async fn a_short_process_leaves_the_sweep_to_others_for_a_while(
    fixture: &BackendFixture,
) {
    let kept = ["terminal.orphan_reaper=false"];
    stopped(fixture, "old").await;
    fixture.engine_with(&kept).sandbox(&TaskName::default_task()).await.unwrap();
    let settings = expire(fixture, &["old"]).await;
    let swept = fixture.home().join("run/swept");
    std::fs::write(&swept, "").unwrap();
    let engine = fixture.engine_with(&settings);
    engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(engine.finish_sweep().await, 0, "another process has just swept");
    assert_eq!(tasks(&engine).await, ["default", "old"]);
    age(&swept, DAY);
    assert_eq!(engine.finish_sweep().await, 1, "nobody else has for a day");
    assert_eq!(tasks(&engine).await, ["default"]);
}

pub(crate) async fn one_failure_does_not_stop_the_sweep(fixture: &BackendFixture) {
    for name in ["a", "b", "c"] {
        stopped(fixture, name).await;
    }
    let settings = expire(fixture, &["a", "b", "c"]).await;
    let record = fixture.sandbox_dir("b").join("sandbox.json");
    let text = std::fs::read(&record).unwrap();
    std::fs::write(&record, "garbage").unwrap();
    let reaped = fixture.engine_with(&settings).prune(false).await.unwrap();
    let names: Vec<&str> = reaped.iter().map(|reaped| &*reaped.task).collect();
    assert_eq!(names, ["a", "c"]);
    std::fs::write(&record, text).unwrap();
}

pub(crate) async fn what_a_dead_process_left_unfinished_is_finished_by_the_sweep(
    fixture: &BackendFixture,
) {
    let extra = [("VESTAL_FAILPOINT", "create.guest-started")];
    let worker = fixture.worker_with(&["attach", "unfinished"], &extra);
    assert!(worker.was_killed().await);
    assert_eq!(fixture.guests().len(), 1, "its guest runs, and nobody knows of it");
    let engine = fixture.engine();
    engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(engine.orphans_swept().await, 1);
    assert_eq!(fixture.guests().len(), 1, "only the new sandbox's");
    assert_eq!(tasks(&engine).await, ["default"]);
}

pub(crate) async fn a_dry_run_changes_nothing(fixture: &BackendFixture) {
    stopped(fixture, "old").await;
    let settings = expire(fixture, &["old"]).await;
    let engine = fixture.engine_with(&settings);
    assert_eq!(engine.prune(true).await.unwrap().len(), 1);
    assert_eq!(engine.prune(true).await.unwrap().len(), 1);
    assert_eq!(tasks(&engine).await, ["old"]);
}
