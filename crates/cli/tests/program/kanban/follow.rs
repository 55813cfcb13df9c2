//! Watching, and requests to stop.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{create, done, kanban};
use crate::support::{ProgramFixture, RunningProgram};

fn event(watching: &mut RunningProgram) -> Value {
    serde_json::from_str(&watching.line()).unwrap()
}

/// Has something happen until a watcher reports it: nothing else shows that it
/// has begun to.
fn until_reported(fixture: &ProgramFixture, watching: &mut RunningProgram, id: &str) {
    let reported = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !reported.load(std::sync::atomic::Ordering::Relaxed) {
                done(fixture, &["comment", id, "x"]);
            }
        });
        let first = event(watching);
        reported.store(true, std::sync::atomic::Ordering::Relaxed);
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
fn events_of_every_process_are_printed_as_they_happen() {
    let fixture = ProgramFixture::new();
    let before = create(&fixture, &["before"]);
    let mut all = fixture.start(["kanban", "watch", "--json"]);
    let mut some = fixture.start(["kanban", "watch", "--json", "--kinds", "commented,completed"]);
    until_reported(&fixture, &mut all, &before);
    until_reported(&fixture, &mut some, &before);
    let id = create(&fixture, &["after"]);
    done(&fixture, &["complete", &id]);
    assert_eq!(next(&mut all), ("created".to_owned(), id.clone()));
    assert_eq!(next(&mut all), ("completed".to_owned(), id.clone()));
    assert_eq!(next(&mut some), ("completed".to_owned(), id));
    all.signal(Signal::INT);
    assert_eq!(all.end().0, 130);
    some.signal(Signal::TERM);
    assert_eq!(some.end().0, 143);
}

#[test]
fn output_for_a_person_names_the_task() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["Paint the roof"]);
    let mut watching = fixture.start(["kanban", "watch"]);
    let reported = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !reported.load(std::sync::atomic::Ordering::Relaxed) {
                done(&fixture, &["comment", &id, "x"]);
            }
        });
        let line = watching.line();
        reported.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(line.contains(&id) && line.contains("Paint the roof"), "{line}");
    });
    watching.signal(Signal::INT);
    watching.end();
}

#[test]
fn the_past_of_a_task_comes_first_and_then_what_happens_to_it() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let other = create(&fixture, &["b"]);
    done(&fixture, &["comment", &id, "x"]);
    let mut following = fixture.start(["kanban", "tail", &id]);
    assert!(following.line().contains("created"));
    assert!(following.line().contains("commented"));
    done(&fixture, &["complete", &other]);
    done(&fixture, &["complete", &id]);
    let reported = following.line();
    assert!(reported.contains("completed") && reported.contains(&id), "{reported}");
    following.signal(Signal::INT);
    assert_eq!(following.end().0, 130);
}

#[test]
fn a_board_that_is_not_there_yet_is_waited_for_and_not_made() {
    let fixture = ProgramFixture::new();
    let mut watching = fixture.start(["kanban", "watch", "--json"]);
    // What is there when it comes is the past, of which it does not tell.
    assert!(watching.error_line().contains("waiting for the first"));
    let id = create(&fixture, &["first"]);
    assert_eq!(event(&mut watching)["task_id"], json!(id));
    watching.signal(Signal::INT);
    assert_eq!(watching.end().0, 130);
}

#[test]
fn a_log_is_printed_from_where_it_is_wanted() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let none = kanban(&fixture, &["log", &id]).exits(1);
    assert!(none.stderr.contains("has no runs yet"), "{none:?}");
    let logs = fixture.home().join("kanban/boards/default/logs");
    std::fs::create_dir_all(&logs).unwrap();
    let file = logs.join(format!("{id}.log"));
    std::fs::write(&file, "first line\nsecond line\n").unwrap();
    assert_eq!(done(&fixture, &["log", &id]), "first line\nsecond line\n");
    assert_eq!(done(&fixture, &["log", &id, "--tail", "5"]), "line\n");
    let view = super::json(&fixture, &["log", &id, "--json"]);
    assert_eq!(view, json!({"task_id": id, "path": file, "exists": true, "size": 23}));
    // It is followed as long as somebody works.
    done(&fixture, &["claim", &id]);
    let mut following = fixture.start(["kanban", "log", "-f", &id]);
    assert_eq!(following.line(), "first line");
    assert_eq!(following.line(), "second line");
    let mut log = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut log, b"third line\n").unwrap();
    assert_eq!(following.line(), "third line");
    done(&fixture, &["complete", &id]);
    assert_eq!(following.end().0, 0);
}
