//! A program beside the slots, for which a container was started.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;
use vestal_supervisor::SlotState;
use vestal_testkit::{processes_with, until};

use crate::fixture::{Supervised, SupervisorFixture, send};

fn with_main(fixture: &SupervisorFixture, shell: &str) -> Supervised {
    let mut command = fixture.command();
    command.args(["/bin/sh", "-c", shell]).stdin(Stdio::piped());
    Supervised::spawn(command)
}

#[tokio::test]
async fn the_supervisor_ends_with_the_program_and_its_code_and_takes_the_slots_along() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let mut supervisor = with_main(&fixture, "read line; echo \"got $line\"; exit 7");
    assert!(supervisor.is_ready(), "it ended at once");
    fixture.start("work").await;
    fixture.until_state("work", SlotState::Running).await;
    supervisor.input().write_all(b"hello\n").unwrap();
    assert_eq!(supervisor.finished().0.code(), Some(7));
    let printed = String::from_utf8(supervisor.printed()).unwrap();
    assert!(printed.lines().any(|line| line == "got hello"), "{printed}");
    assert_eq!(fixture.children(), Vec::<u32>::new());
    // What was wanted is wanted still.
    let mut again = fixture.supervise();
    fixture.until_state("work", SlotState::Running).await;
    assert!(again.terminate().success());
}

#[tokio::test]
async fn a_signal_to_the_supervisor_reaches_the_program_as_it_is() {
    let fixture = SupervisorFixture::new();
    let mark = vestal_testkit::marker();
    let shell = format!("trap 'exit 42' INT; touch started; : {mark}; while :; do sleep 0.1; done");
    let mut command = fixture.command();
    command.args(["/bin/sh", "-c", &shell]).current_dir(fixture.root());
    let mut supervisor = Supervised::spawn(command);
    assert!(supervisor.is_ready(), "it ended at once");
    until("the program runs", || fixture.root().join("started").exists()).await;
    send(supervisor.pid(), Signal::INT);
    assert_eq!(supervisor.finished().0.code(), Some(42));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_program_that_does_not_exist_ends_the_supervisor_with_a_reason() {
    let fixture = SupervisorFixture::new();
    let mut command = fixture.command();
    command.arg("/nowhere/at-all");
    let mut supervisor = Supervised::spawn(command);
    assert!(supervisor.is_ready(), "it ended at once");
    let (status, output) = supervisor.finished();
    assert_eq!(status.code(), Some(127));
    assert_eq!(output, ["cannot run /nowhere/at-all: No such file or directory (os error 2)"]);
}

#[tokio::test]
async fn a_program_does_not_outlive_a_supervisor_that_is_killed() {
    let fixture = SupervisorFixture::new();
    let mark = vestal_testkit::marker();
    let mut command = fixture.command();
    let shell = format!("touch started; exec sleep {mark}");
    command.args(["/bin/sh", "-c", &shell]).current_dir(fixture.root());
    let mut supervisor = Supervised::spawn(command);
    assert!(supervisor.is_ready(), "it ended at once");
    until("the program runs", || fixture.root().join("started").exists()).await;
    send(supervisor.pid(), Signal::KILL);
    supervisor.finished();
    until("it is gone", || processes_with(&mark).is_empty()).await;
}
