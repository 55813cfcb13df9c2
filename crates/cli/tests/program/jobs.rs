//! Jobs, seen from processes that did not start them.

use crate::support::{ProgramFixture, is_alive};

#[test]
fn a_background_job_is_followed_written_to_and_awaited_by_other_processes() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("echo ready; read a; echo got $a; cat >&2; exit 7");
    let mut following = fixture.start(["logs", "-f", &id]);
    assert_eq!(following.line(), "ready");
    fixture.vestal(["write", "--newline", &id, "one", "two"]).exits(0);
    assert_eq!(following.line(), "got one two");
    fixture.vestal_with(["write", "--close", &id], b"three\n").exits(0);
    let (code, stderr) = following.end();
    assert_eq!((code, stderr.as_str()), (0, "three\n"));
    fixture.vestal(["wait", &id]).exits(7);
    let logs = fixture.vestal(["logs", &id]).exits(0);
    assert_eq!((logs.text().as_str(), logs.stderr.as_str()), ("ready\ngot one two\n", "three\n"));
}

#[test]
fn a_job_is_killed_with_everything_it_started() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("setsid sleep 1000 & echo $$ $!; wait");
    let mut following = fixture.start(["logs", "-f", &id]);
    let pids = following.line();
    assert!(pids.split(' ').all(is_alive), "{pids}");
    fixture.vestal(["kill", &id]).exits(0);
    assert!(!pids.split(' ').any(is_alive), "{pids}");
    assert_eq!(following.end().0, 0);
    fixture.vestal(["wait", &id]).exits(137);
    assert!(fixture.vestal(["kill", &id]).exits(0).text().contains("had ended"));
}

#[test]
fn a_signal_is_passed_on_by_name_and_by_number() {
    let fixture = ProgramFixture::new();
    let id = fixture.background(
        "trap 'echo usr1' USR1; trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done",
    );
    let mut following = fixture.start(["logs", "-f", &id]);
    assert_eq!(following.line(), "ready");
    fixture.vestal(["kill", "--signal", "USR1", &id]).exits(0);
    assert_eq!(following.line(), "usr1");
    fixture.vestal(["kill", "--signal", "15", &id]).exits(0);
    fixture.vestal(["wait", &id]).exits(9);
    fixture.vestal(["kill", "--signal", "NOPE", &id]).exits(2);
}

#[test]
fn waiting_is_bounded_and_does_not_touch_the_job() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("sleep 1000");
    let outcome = fixture.vestal(["wait", "--timeout", "0.2", "--json", &id]).exits(124);
    assert_eq!(outcome.json()["state"], "running");
    assert_eq!(fixture.job(&id)["state"], "running");
}

#[test]
fn a_job_is_found_by_a_beginning_of_its_id_in_any_sandbox() {
    let fixture = ProgramFixture::new();
    let outcome = fixture.vestal(["run", "-t", "web", "--background", "echo hello"]).exits(0);
    let id = outcome.text().trim().to_owned();
    fixture.vestal(["wait", &id]).exits(0);
    let beginning = &id[..id.len() - 1];
    assert_eq!(fixture.vestal(["logs", beginning]).exits(0).text(), "hello\n");
    assert_eq!(fixture.vestal(["logs", "-t", "web", &id[2..]]).exits(0).text(), "hello\n");

    let other = fixture.vestal(["run", "-t", "web", "--background", "true"]).exits(0);
    let several = fixture.vestal(["logs", "j-"]).exits(125);
    assert!(several.stderr.contains("2 jobs begin with j-"), "{several:?}");
    assert!(several.stderr.contains(other.text().trim()), "{several:?}");
}

#[test]
fn an_unknown_job_is_named_with_a_way_to_the_known_ones() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    for verb in ["logs", "wait", "kill"] {
        let outcome = fixture.vestal([verb, "j-nope"]).exits(125);
        assert!(outcome.stderr.contains("j-nope"), "{outcome:?}");
        assert!(outcome.stderr.contains("vestal jobs --all"), "{outcome:?}");
    }
    fixture.vestal(["write", "j-nope", "text"]).exits(125);
    fixture.vestal(["logs", "J/../nope"]).exits(2);
}

#[test]
fn the_jobs_of_a_stopped_sandbox_are_still_on_record() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("echo kept; exit 4");
    fixture.vestal(["wait", &id]).exits(4);
    fixture.vestal(["stop"]).exits(0);
    let all = fixture.vestal(["jobs", "--all"]).exits(0);
    assert!(all.stderr.contains("vestal jobs --all -t default"), "{all:?}");
    let listed = fixture.vestal(["jobs", "--all", "-t", "default", "--json"]).exits(0).json();
    assert_eq!(listed[0]["id"], *id, "{listed}");
    fixture.vestal(["stop"]).exits(0);
    let hint = fixture.vestal(["logs", &id]).exits(125);
    assert!(hint.stderr.contains("-t default"), "{hint:?}");
    assert_eq!(fixture.vestal(["logs", "-t", "default", &id]).exits(0).text(), "kept\n");
    fixture.vestal(["wait", &id]).exits(4);
}

#[test]
fn the_end_of_a_log_is_given_in_lines_and_in_bytes() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("seq 1 20000; echo e1 >&2; echo e2 >&2");
    fixture.vestal(["wait", &id]).exits(0);
    let lines = fixture.vestal(["logs", "--tail", "2", &id]).exits(0);
    assert_eq!((lines.text().as_str(), lines.stderr.as_str()), ("19999\n20000\n", "e1\ne2\n"));
    let one = fixture.vestal(["logs", "--tail", "1", "--stderr", &id]).exits(0);
    assert_eq!((one.text().as_str(), one.stderr.as_str()), ("", "e2\n"));
    let bytes = fixture.vestal(["logs", "--tail-bytes", "3", "--stdout", &id]).exits(0);
    assert_eq!((bytes.text().as_str(), bytes.stderr.as_str()), ("00\n", ""));
    let many = fixture.vestal(["logs", "--tail", "15000", "--stdout", &id]).exits(0);
    assert_eq!(many.text().lines().next(), Some("5001"));
}

#[test]
fn a_job_in_json_has_the_promised_shape() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("cat; exit 3");
    fixture.vestal(["write", "--close", &id, "text"]).exits(0);
    fixture.vestal(["wait", &id]).exits(3);
    insta::assert_json_snapshot!(fixture.job(&id), {
        ".id" => "[id]",
        ".cwd" => "[cwd]",
        ".pid" => "[pid]",
        ".pid_start" => "[start]",
        ".started_at" => "[time]",
        ".ended_at" => "[time]",
        ".duration_ms" => "[ms]",
    });
}

#[test]
fn nothing_to_write_is_a_mistake_and_not_a_hang() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("cat");
    fixture.vestal(["write", &id]).exits(2);
    fixture.vestal(["write", "--close", &id]).exits(0);
    fixture.vestal(["wait", &id]).exits(0);
    let late = fixture.vestal(["write", &id, "late"]);
    assert_eq!(late.code, 125, "{late:?}");
}
