//! The orphan reaper.

use std::path::Path;
use std::time::{Duration, SystemTime};

use vestal_sandbox::{Engine, ReapReason, SummaryState, Task};

use crate::support::World;

/// Makes a directory and what is in it look as old as that.
fn age(path: &Path, by: Duration) {
    let then = SystemTime::now() - by;
    let file = std::fs::File::open(path).unwrap();
    file.set_modified(then).unwrap();
}

/// Makes a stopped sandbox look unused for that long.
fn age_sandbox(world: &World, task: &str, by: Duration) {
    let dir = world.sandbox_dir(task);
    age(&dir.join("state/journal"), by);
    for instance in std::fs::read_dir(dir.join("instances")).unwrap().flatten() {
        age(&instance.path().join("io"), by);
    }
}

async fn stopped(world: &World, name: &str) {
    let task: Task = name.parse().unwrap();
    let engine = world.engine();
    engine.sandbox(&task).await.unwrap();
    engine.stop(&task).await.unwrap();
}

async fn tasks(engine: &Engine) -> Vec<String> {
    engine.list().await.unwrap().into_iter().map(|summary| summary.task).collect()
}

const DAY: Duration = Duration::from_hours(24);

pub(crate) async fn a_stopped_sandbox_past_its_retention_is_removed(world: &World) {
    stopped(world, "old").await;
    age_sandbox(world, "old", 8 * DAY);
    let engine = world.engine();
    let reaped = engine.prune(false).await.unwrap();
    assert_eq!(reaped.len(), 1);
    assert_eq!((&*reaped[0].task, reaped[0].reason), ("old", ReapReason::Expired));
    assert_eq!(tasks(&engine).await, Vec::<String>::new());
}

pub(crate) async fn a_stopped_sandbox_within_its_retention_stays(world: &World) {
    stopped(world, "recent").await;
    age_sandbox(world, "recent", 6 * DAY);
    assert_eq!(world.engine().prune(false).await.unwrap(), []);
    let forever = world.engine_with(&["terminal.retention_seconds=0"]);
    age_sandbox(world, "recent", 9999 * DAY);
    assert_eq!(forever.prune(false).await.unwrap(), []);
    assert_eq!(tasks(&forever).await, ["recent"]);
}

pub(crate) async fn a_running_sandbox_is_never_reaped(world: &World) {
    world.run("true").await;
    age_sandbox(world, "default", 9999 * DAY);
    let engine = world.engine_with(&["terminal.retention_seconds=1h"]);
    assert_eq!(engine.prune(false).await.unwrap(), []);
    assert_eq!(engine.list().await.unwrap()[0].state, SummaryState::Running);
}

pub(crate) async fn the_sandbox_about_to_be_used_is_never_reaped(world: &World) {
    world.run("kept=1").await;
    let instance = world.sandbox().await.instance().await;
    world.engine().stop(&Task::default_task()).await.unwrap();
    age_sandbox(world, "default", 8 * DAY);
    let engine = world.engine();
    let sandbox = engine.sandbox(&Task::default_task()).await.unwrap();
    assert_eq!(engine.orphans_swept().await, 0);
    assert_eq!(sandbox.instance().await, instance);
    let output = world.run("echo $kept").await;
    assert_eq!(output.stdout.bytes(), b"1\n");
}

pub(crate) async fn leftovers_of_dead_owners_are_removed(world: &World) {
    // A process died after naming itself owner and before making anything.
    let io = world.sandbox_dir("orphan").join("instances/0123456789abcdef/io");
    std::fs::create_dir_all(&io).unwrap();
    let me = vestal_sandbox::ProcessId::current().unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let owner = |start: u64| {
        serde_json::json!({
            "version": 1, "backend": "local", "host": host, "pid_namespace": namespace,
            "process": { "pid": me.pid, "start": start, "boot": me.boot },
        })
    };
    std::fs::write(io.join("owner.json"), owner(me.start + 1).to_string()).unwrap();
    assert_eq!(world.engine().prune(false).await.unwrap(), [], "too young");
    age(&io, Duration::from_secs(601));
    std::fs::write(io.join("owner.json"), owner(me.start).to_string()).unwrap();
    age(&io, Duration::from_secs(601));
    assert_eq!(world.engine().prune(false).await.unwrap(), [], "its owner lives");
    std::fs::write(io.join("owner.json"), owner(me.start + 1).to_string()).unwrap();
    age(&io, Duration::from_secs(601));
    let reaped = world.engine().prune(false).await.unwrap();
    assert_eq!(reaped.len(), 1);
    assert_eq!(reaped[0].reason, ReapReason::Ownerless);
    assert!(!world.sandbox_dir("orphan").exists());
}

pub(crate) async fn an_age_that_cannot_be_read_reaps_nothing(world: &World) {
    stopped(world, "future").await;
    let dir = world.sandbox_dir("future");
    let ahead = SystemTime::now() + 30 * DAY;
    std::fs::File::open(dir.join("state/journal")).unwrap().set_modified(ahead).unwrap();
    let engine = world.engine_with(&["terminal.retention_seconds=1s"]);
    assert_eq!(engine.prune(false).await.unwrap(), [], "the clock has jumped");
}

pub(crate) async fn a_disabled_reaper_does_nothing(world: &World) {
    stopped(world, "old").await;
    age_sandbox(world, "old", 8 * DAY);
    let quiet = world.engine_with(&["terminal.orphan_reaper=false"]);
    quiet.sandbox(&Task::default_task()).await.unwrap();
    assert_eq!(quiet.orphans_swept().await, 0);
    assert!(world.sandbox_dir("old").exists());
    let ordinary = world.engine();
    ordinary.sandbox(&"another".parse().unwrap()).await.unwrap();
    assert_eq!(ordinary.orphans_swept().await, 1);
    assert!(!world.sandbox_dir("old").exists());
    stopped(world, "older").await;
    age_sandbox(world, "older", 8 * DAY);
    ordinary.sandbox(&"a third".parse().unwrap()).await.unwrap();
    assert_eq!(ordinary.orphans_swept().await, 0, "once is enough");
    assert!(world.sandbox_dir("older").exists());
}

pub(crate) async fn one_failure_does_not_stop_the_sweep(world: &World) {
    for name in ["a", "b", "c"] {
        stopped(world, name).await;
    }
    for name in ["a", "b", "c"] {
        age_sandbox(world, name, 8 * DAY);
    }
    std::fs::write(world.sandbox_dir("b").join("sandbox.json"), "garbage").unwrap();
    let reaped = world.engine().prune(false).await.unwrap();
    let names: Vec<&str> = reaped.iter().map(|reaped| &*reaped.task).collect();
    assert_eq!(names, ["a", "c"]);
    std::fs::remove_dir_all(world.sandbox_dir("b")).unwrap();
}

pub(crate) async fn what_a_dead_process_left_unfinished_is_finished_by_the_sweep(world: &World) {
    let extra = [("VESTAL_FAILPOINT", "create.guest-started")];
    let worker = world.worker_with(&["attach", "unfinished"], &extra);
    assert!(worker.was_killed().await);
    assert_eq!(world.guests().len(), 1, "its guest runs, and nobody knows of it");
    let engine = world.engine();
    engine.sandbox(&Task::default_task()).await.unwrap();
    assert_eq!(engine.orphans_swept().await, 1);
    assert_eq!(world.guests().len(), 1, "only the new sandbox's");
    assert_eq!(tasks(&engine).await, ["default"]);
}

pub(crate) async fn a_dry_run_changes_nothing(world: &World) {
    stopped(world, "old").await;
    age_sandbox(world, "old", 8 * DAY);
    let engine = world.engine();
    assert_eq!(engine.prune(true).await.unwrap().len(), 1);
    assert_eq!(engine.prune(true).await.unwrap().len(), 1);
    assert_eq!(tasks(&engine).await, ["old"]);
}
