//! Start, readiness, restart and stop.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use vestal_supervisor::{
    ChildEnd, Desired, OrderResult, SlotState, SupervisorRequest, read_desired,
};
use vestal_testkit::{marker, processes_with, until};

use crate::fixture::{SupervisorFixture, send};

#[tokio::test]
async fn a_slot_is_started_until_ready_and_stopped_until_gone() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let mut supervisor = fixture.supervise();
    assert_eq!(fixture.status("work").await.state, SlotState::Stopped);
    assert_eq!(fixture.start("work").await.done, Some(OrderResult::Started));
    let status = fixture.status("work").await;
    assert_eq!((status.state, status.actual.as_deref()), (SlotState::Running, Some("running")));
    assert_eq!(status.pid.map(|pid| vec![pid]), Some(fixture.children()));
    assert_eq!(status.desired, Some(Desired::Running));
    assert_eq!(fixture.start("work").await.done, Some(OrderResult::WasRunning));
    assert_eq!(fixture.stop("work").await.done, Some(OrderResult::Stopped));
    assert_eq!(fixture.children(), Vec::<u32>::new());
    let status = fixture.status("work").await;
    assert_eq!((status.state, status.actual.as_deref()), (SlotState::Stopped, Some("stopped")));
    assert_eq!(status.last_exit.unwrap().ended, ChildEnd::Code(0));
    assert_eq!(fixture.stop("work").await.done, Some(OrderResult::WasStopped));
    let desired = read_desired(&fixture.dir("work").join("desired.json")).unwrap();
    assert_eq!(desired, Some(Desired::Stopped));
    let unknown = fixture.start("other").await;
    assert_eq!((unknown.done, unknown.error.unwrap()), (None, "there is no slot \"other\"".into()));
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_killed_child_is_started_again_and_a_restart_is_another_process() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let mut supervisor = fixture.supervise();
    fixture.start("work").await;
    send(fixture.starts("work")[0], Signal::KILL);
    until("it is started again", || fixture.starts("work").len() == 2).await;
    let status = fixture.until_state("work", SlotState::Running).await;
    assert_eq!(status.restarts, 1);
    assert_eq!(status.last_exit.unwrap().ended, ChildEnd::Signal(9));
    let answer = fixture.ask(SupervisorRequest::Restart { slots: None }).await;
    assert_eq!(answer.outcomes[0].done, Some(OrderResult::Started));
    assert_eq!(answer.slots[0].restarts, 1);
    // A child that asks for it is started again too.
    send(fixture.starts("work")[2], Signal::USR1);
    until("it is started again", || fixture.starts("work").len() == 4).await;
    assert_eq!(fixture.read("work", "doubled"), "");
    assert!(!fixture.dir("work").join("doubled").exists());
    // What the supervisor gets of such a signal goes to its children.
    fixture.until_state("work", SlotState::Running).await;
    send(supervisor.pid(), Signal::USR1);
    until("it is started again", || fixture.starts("work").len() == 5).await;
    fixture.until_state("work", SlotState::Running).await;
    assert!(supervisor.terminate().success());
    assert_eq!(fixture.children(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_permanent_failure_stays_down_until_it_is_started_by_hand() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "exit 78");
    let mut supervisor = fixture.supervise();
    let outcome = fixture.start("work").await;
    assert_eq!(outcome.error.as_deref(), Some("exited with code 78 before it was ready"));
    let status = fixture.status("work").await;
    assert_eq!(status.state, SlotState::Failed);
    assert_eq!(status.next_start_at, None);
    assert!(status.reason.unwrap().contains("78"));
    // What it printed says why, where its state does not.
    fixture.write("work", "behaviour", "complain 78 the-port-is-taken");
    let outcome = fixture.start("work").await;
    let why = "exited with code 78 before it was ready: the-port-is-taken";
    assert_eq!(outcome.error.as_deref(), Some(why));
    assert_eq!(fixture.status("work").await.reason.as_deref(), Some("the-port-is-taken"));
    fixture.write("work", "behaviour", "");
    assert_eq!(fixture.start("work").await.done, Some(OrderResult::Started));
    assert_eq!(fixture.starts("work").len(), 3);
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_stop_during_a_backoff_is_a_stop() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "exit 1");
    let mut supervisor = fixture.supervise();
    fixture.start("work").await;
    let waiting = fixture.until_state("work", SlotState::Backoff).await;
    assert!(waiting.next_start_at.is_some());
    assert_eq!(fixture.stop("work").await.done, Some(OrderResult::Stopped));
    let starts = fixture.starts("work").len();
    // A start of another slot that fails as often takes longer than the backoff.
    fixture.profile("clock", "exit 1");
    fixture.start("clock").await;
    until("time has passed", || fixture.starts("clock").len() == 3).await;
    assert_eq!(fixture.starts("work").len(), starts);
    assert_eq!(fixture.status("work").await.state, SlotState::Stopped);
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_stop_ends_the_whole_group_whatever_it_ignores() {
    let fixture = SupervisorFixture::new();
    let mark = marker();
    fixture.profile("work", &format!("family {mark}"));
    fixture.profile("deaf", "stubborn");
    fixture.write("deaf", "stop_ms", "100");
    let mut supervisor = fixture.supervise();
    fixture.start("work").await;
    fixture.start("deaf").await;
    until("the family is there", || processes_with(&format!("sleep\0{mark}")).len() == 2).await;
    assert_eq!(fixture.stop("work").await.done, Some(OrderResult::Stopped));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(fixture.stop("deaf").await.done, Some(OrderResult::Stopped));
    assert_eq!(fixture.status("deaf").await.last_exit.unwrap().ended, ChildEnd::Signal(9));
    // What a child that dies leaves is gone before the next one starts.
    fixture.start("work").await;
    until("the family is there", || processes_with(&format!("sleep\0{mark}")).len() == 2).await;
    let before = processes_with(&mark);
    send(*fixture.starts("work").last().unwrap(), Signal::KILL);
    until("it is started again", || fixture.starts("work").len() == 3).await;
    assert!(before.iter().all(|pid| !vestal_testkit::is_alive(*pid)));
    assert!(supervisor.terminate().success());
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_child_that_is_not_ready_in_time_is_started_again() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "silent");
    fixture.write("work", "ready_ms", "200");
    let mut supervisor = fixture.supervise();
    let outcome = fixture.start("work").await;
    assert_eq!(outcome.error.as_deref(), Some("not ready within 200ms"));
    let status = fixture.until_state("work", SlotState::Backoff).await;
    assert_eq!(status.last_exit.unwrap().ended, ChildEnd::NotReady);
    until("it is started again", || fixture.starts("work").len() >= 2).await;
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_thousand_garbage_connections_keep_nobody_out() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let mut supervisor = fixture.supervise();
    let socket = fixture.run_dir().join("supervisor.sock");
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut silent = Vec::new();
    for n in 0..1000 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        match n % 4 {
            // Says nothing, and stays.
            0 => silent.push(stream),
            1 => stream.write_all(&vec![b'x'; 100 << 10]).unwrap_or_default(),
            2 => stream.write_all(b"{\"command\":\"format\"}\n\0\0").unwrap_or_default(),
            // Half a request, and gone.
            _ => stream.write_all(b"{\"command\":").unwrap_or_default(),
        }
    }
    assert_eq!(fixture.start("work").await.done, Some(OrderResult::Started));
    assert_eq!(fixture.status("work").await.state, SlotState::Running);
    drop(silent);
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_with_a_reason() {
    let fixture = SupervisorFixture::new();
    let mut supervisor = fixture.supervise();
    let mut stream = UnixStream::connect(fixture.run_dir().join("supervisor.sock")).unwrap();
    stream.write_all(b"{\"command\":\"format\"}\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("unknown variant `format`"), "{text}");
    assert_eq!(fixture.ask(SupervisorRequest::List { slots: None }).await.slots, []);
    assert!(supervisor.terminate().success());
}
