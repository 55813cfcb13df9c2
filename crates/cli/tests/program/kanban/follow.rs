//! Watching, and being told to stop.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{create, done, kanban};
use crate::support::{RunningProgram, World};

fn event(watching: &mut RunningProgram) -> Value {
    serde_json::from_str(&watching.line()).unwrap()
}

/// Has something happen until a watcher tells of it: nothing else shows that it
/// has begun to.
fn until_told(world: &World, watching: &mut RunningProgram, id: &str) {
    let told = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !told.load(std::sync::atomic::Ordering::Relaxed) {
                done(world, &["comment", id, "x"]);
            }
        });
        let first = event(watching);
        told.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(first["task_id"], json!(id));
    });
}

/// Returns the next thing that happens beside those comments.
fn next(watching: &mut RunningProgram) -> (String, String) {
    loop {
        let event = event(watching);
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        if event["kind"] != "commented" {
            return (text("kind"), text("task_id"));
        }
    }
}

#[test]
fn what_happens_is_told_as_it_happens_whoever_does_it() {
    let world = World::new();
    let before = create(&world, &["before"]);
    let mut all = world.start(["kanban", "watch", "--json"]);
    let mut some = world.start(["kanban", "watch", "--json", "--kinds", "commented,completed"]);
    until_told(&world, &mut all, &before);
    until_told(&world, &mut some, &before);
    let id = create(&world, &["after"]);
    done(&world, &["complete", &id]);
    assert_eq!(next(&mut all), ("created".to_owned(), id.clone()));
    assert_eq!(next(&mut all), ("completed".to_owned(), id.clone()));
    assert_eq!(next(&mut some), ("completed".to_owned(), id));
    all.signal(Signal::INT);
    assert_eq!(all.end().0, 130);
    some.signal(Signal::TERM);
    assert_eq!(some.end().0, 143);
}

#[test]
fn what_is_told_to_a_person_names_the_task() {
    let world = World::new();
    let id = create(&world, &["Paint the roof"]);
    let mut watching = world.start(["kanban", "watch"]);
    let told = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !told.load(std::sync::atomic::Ordering::Relaxed) {
                done(&world, &["comment", &id, "x"]);
            }
        });
        let line = watching.line();
        told.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(line.contains(&id) && line.contains("Paint the roof"), "{line}");
    });
    watching.signal(Signal::INT);
    watching.end();
}

#[test]
fn the_past_of_a_task_comes_first_and_then_what_happens_to_it() {
    let world = World::new();
    let id = create(&world, &["a"]);
    let other = create(&world, &["b"]);
    done(&world, &["comment", &id, "x"]);
    let mut following = world.start(["kanban", "tail", &id]);
    assert!(following.line().contains("created"));
    assert!(following.line().contains("commented"));
    done(&world, &["complete", &other]);
    done(&world, &["complete", &id]);
    let told = following.line();
    assert!(told.contains("completed") && told.contains(&id), "{told}");
    following.signal(Signal::INT);
    assert_eq!(following.end().0, 130);
}

#[test]
fn a_board_that_is_not_there_yet_is_waited_for_and_not_made() {
    let world = World::new();
    let mut watching = world.start(["kanban", "watch", "--json"]);
    // What is there when it comes is the past, of which it does not tell.
    assert!(watching.error_line().contains("waiting for the first"));
    let id = create(&world, &["first"]);
    assert_eq!(event(&mut watching)["task_id"], json!(id));
    watching.signal(Signal::INT);
    assert_eq!(watching.end().0, 130);
}

#[test]
fn a_log_is_printed_from_where_it_is_wanted() {
    let world = World::new();
    let id = create(&world, &["a"]);
    let none = kanban(&world, &["log", &id]).exits(1);
    assert!(none.stderr.contains("has no runs yet"), "{none:?}");
    let logs = world.home().join("kanban/boards/default/logs");
    std::fs::create_dir_all(&logs).unwrap();
    let file = logs.join(format!("{id}.log"));
    std::fs::write(&file, "first line\nsecond line\n").unwrap();
    assert_eq!(done(&world, &["log", &id]), "first line\nsecond line\n");
    assert_eq!(done(&world, &["log", &id, "--tail", "5"]), "line\n");
    let view = super::json(&world, &["log", &id, "--json"]);
    assert_eq!(view, json!({"task_id": id, "path": file, "exists": true, "size": 23}));
    // It is followed as long as somebody works.
    done(&world, &["claim", &id]);
    let mut following = world.start(["kanban", "log", "-f", &id]);
    assert_eq!(following.line(), "first line");
    assert_eq!(following.line(), "second line");
    let mut log = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut log, b"third line\n").unwrap();
    assert_eq!(following.line(), "third line");
    done(&world, &["complete", &id]);
    assert_eq!(following.end().0, 0);
}
