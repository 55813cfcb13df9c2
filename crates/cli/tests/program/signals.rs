//! What becomes of a command when `vestal` ends before it does.

use rustix::process::Signal;
use vestal_testkit::files::Fifo;

use crate::support::{ProgramFixture, is_alive};

/// Prints the pids of its shell and of a child in a session of its own.
const TREE: &str = "setsid sleep 1000 & echo $$ $!; wait";

#[test]
fn a_signal_takes_the_foreground_command_and_its_whole_tree_along() {
    let fixture = ProgramFixture::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut started = fixture.start(["run", TREE]);
        let pids = started.line();
        started.signal(signal);
        let (exit, _) = started.end();
        assert_eq!(exit, code);
        assert!(pids.split(' ').all(|pid| !is_alive(pid)), "{pids}");
    }
    assert_eq!(fixture.run("echo still here").exits(0).text(), "still here\n");
}

#[test]
fn a_signal_during_a_json_run_still_tells_what_was_printed() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let ready = Fifo::create(fixture.work().join("ready"));
    let mut started = fixture.start(["run", "--json", "echo begun; echo > ready; sleep 1000"]);
    ready.read();
    started.signal(Signal::INT);
    let json: serde_json::Value = serde_json::from_str(&started.line()).unwrap();
    assert_eq!(json["exit_code"], 130);
    assert_eq!(json["stdout"], "begun\n");
    assert_eq!(json["error"], "interrupted");
    assert_eq!(started.end().0, 130);
}

#[test]
fn a_killed_vestal_leaves_the_command_running() {
    let fixture = ProgramFixture::new();
    let mut started = fixture.start(["run", "echo $$; sleep 1000"]);
    let pid = started.line();
    started.signal(Signal::KILL);
    started.end();
    assert!(is_alive(&pid));
    let jobs = fixture.vestal(["jobs", "--json"]).exits(0).json();
    assert_eq!(jobs[0]["pid"].to_string(), pid);
    assert_eq!(jobs[0]["state"], "running");
    let id = jobs[0]["id"].as_str().unwrap();
    fixture.vestal(["kill", id]).exits(0);
    assert!(!is_alive(&pid));
}

#[test]
fn a_signal_while_nobody_reads_the_output_is_heard() {
    let fixture = ProgramFixture::new();
    let mut started = fixture.start(["run", "echo $$; yes"]);
    let pid = started.line();
    // The pipe is full, or will be in a moment; nobody reads on.
    started.signal(Signal::INT);
    assert_eq!(started.end().0, 130);
    assert!(!is_alive(&pid));
}

#[test]
fn a_sandbox_that_belongs_to_its_process_is_gone_when_the_process_is() {
    let fixture = ProgramFixture::new();
    let args = [
        "--set",
        "terminal.persist_across_processes=false",
        "run",
        "setsid sleep 1000 & echo $! $PPID",
    ];
    let outcome = fixture.vestal(args).exits(0);
    let printed = outcome.text();
    assert!(printed.trim().split(' ').all(|pid| !is_alive(pid)), "{printed}");
    assert_eq!(fixture.tasks(), [""; 0]);

    let args =
        ["--set", "terminal.persist_across_processes=false", "run", "echo $$ $PPID; sleep 1000"];
    let mut started = fixture.start(args);
    let printed = started.line();
    started.signal(Signal::TERM);
    assert_eq!(started.end().0, 143);
    assert!(printed.split(' ').all(|pid| !is_alive(pid)), "{printed}");
}

#[test]
fn a_second_signal_ends_the_waiting_at_once() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let guest = fixture.guest();
    let mut started = fixture.start(["run", TREE]);
    let pids = started.line();
    // A guest that does not move cannot kill anything.
    guest.signal(Signal::STOP);
    started.signal(Signal::INT);
    // The first signal has been heard when the request to kill has been sent,
    // which nothing shows from outside; so the second is sent until it is heard.
    while started.child.try_wait().unwrap().is_none() {
        started.signal(Signal::INT);
        std::thread::yield_now();
    }
    assert_eq!(started.end().0, 130);
    assert!(pids.split(' ').all(is_alive), "{pids}");
    guest.signal(Signal::CONT);
}

#[test]
fn a_lost_guest_is_reported_with_the_outcome_of_the_command_and_nothing_runs_twice() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let mut started = fixture.start(["run", "echo ran >> times; echo $$; sleep 1000"]);
    let pid = started.line();
    fixture.guest().signal(Signal::KILL);
    let (code, stderr) = started.end();
    assert_eq!(code, 125, "{stderr}");
    assert!(stderr.contains("its exit code is not known"), "{stderr}");
    assert!(stderr.contains("vestal logs j-"), "{stderr}");
    assert!(!is_alive(&pid));
    assert_eq!(fixture.run("cat times").exits(0).text(), "ran\n");
}

#[test]
fn a_job_that_can_no_longer_be_followed_is_named_with_what_ends_it() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let guest = fixture.guest();
    let mut started = fixture.start(["run", "echo up; sleep 1000"]);
    assert_eq!(started.line(), "up");
    // Nobody can connect again to a sandbox whose record cannot be read.
    let record = fixture.home().join("sandboxes/default/sandbox.json");
    let whole = std::fs::read(&record).unwrap();
    std::fs::write(&record, "{").unwrap();
    guest.signal(Signal::KILL);
    let (code, stderr) = started.end();
    std::fs::write(&record, whole).unwrap();
    assert_eq!(code, 125, "{stderr}");
    assert!(stderr.contains("which may still be running"), "{stderr}");
    assert!(stderr.contains("vestal kill j-"), "{stderr}");
}

#[test]
fn a_sandbox_that_does_not_answer_is_shown() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let guest = fixture.guest();
    guest.signal(Signal::STOP);
    assert_eq!(fixture.vestal(["ps", "--json"]).exits(0).json()[0]["state"], "unresponsive");
    let ill = fixture.vestal(["doctor"]).exits(1).text();
    assert!(ill.contains("sandbox default: does not answer"), "{ill}");
    // That its next use mends it is a case of the conformance suite.
    guest.signal(Signal::CONT);
    fixture.vestal(["doctor"]).exits(0);
}
