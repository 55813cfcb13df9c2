//! Start, readiness, restart and stop.

use rustix::process::Signal;
use vestal_supervisor::{
    ChildEnd, Desired, OrderResult, SlotState, SupervisorRequest, read_desired,
};
use vestal_testkit::{marker, processes_with, until};

use crate::world::{World, send};

#[tokio::test]
async fn a_slot_is_started_until_ready_and_stopped_until_gone() {
    let world = World::new();
    world.profile("work", "");
    let mut supervisor = world.supervise();
    assert_eq!(world.status("work").await.state, SlotState::Stopped);
    assert_eq!(world.start("work").await.done, Some(OrderResult::Started));
    let status = world.status("work").await;
    assert_eq!((status.state, status.actual.as_deref()), (SlotState::Running, Some("running")));
    assert_eq!(status.pid.map(|pid| vec![pid]), Some(world.children()));
    assert_eq!(status.desired, Some(Desired::Running));
    assert_eq!(world.start("work").await.done, Some(OrderResult::WasRunning));
    assert_eq!(world.stop("work").await.done, Some(OrderResult::Stopped));
    assert_eq!(world.children(), Vec::<u32>::new());
    let status = world.status("work").await;
    assert_eq!((status.state, status.actual.as_deref()), (SlotState::Stopped, Some("stopped")));
    assert_eq!(status.last_exit.unwrap().ended, ChildEnd::Code(0));
    assert_eq!(world.stop("work").await.done, Some(OrderResult::WasStopped));
    let desired = read_desired(&world.dir("work").join("desired.json")).unwrap();
    assert_eq!(desired, Some(Desired::Stopped));
    let unknown = world.start("other").await;
    assert_eq!((unknown.done, unknown.error.unwrap()), (None, "there is no slot \"other\"".into()));
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_killed_child_is_started_again_and_a_restart_is_another_process() {
    let world = World::new();
    world.profile("work", "");
    let mut supervisor = world.supervise();
    world.start("work").await;
    send(world.starts("work")[0], Signal::KILL);
    until("it is started again", || world.starts("work").len() == 2).await;
    let status = world.until_state("work", SlotState::Running).await;
    assert_eq!(status.restarts, 1);
    assert_eq!(status.last_exit.unwrap().ended, ChildEnd::Signal(9));
    let answer = world.ask(SupervisorRequest::Restart { slots: None }).await;
    assert_eq!(answer.outcomes[0].done, Some(OrderResult::Started));
    assert_eq!(answer.slots[0].restarts, 1);
    // A child that asks for it is started again too.
    send(world.starts("work")[2], Signal::USR1);
    until("it is started again", || world.starts("work").len() == 4).await;
    assert_eq!(world.read("work", "doubled"), "");
    assert!(!world.dir("work").join("doubled").exists());
    // What the supervisor gets of such a signal goes to its children.
    world.until_state("work", SlotState::Running).await;
    send(supervisor.pid(), Signal::USR1);
    until("it is started again", || world.starts("work").len() == 5).await;
    world.until_state("work", SlotState::Running).await;
    assert!(supervisor.terminate().success());
    assert_eq!(world.children(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_permanent_failure_stays_down_until_it_is_started_by_hand() {
    let world = World::new();
    world.profile("work", "exit 78");
    let mut supervisor = world.supervise();
    let outcome = world.start("work").await;
    assert_eq!(outcome.error.as_deref(), Some("exited with code 78 before it was ready"));
    let status = world.status("work").await;
    assert_eq!(status.state, SlotState::Failed);
    assert_eq!(status.next_start_at, None);
    assert!(status.reason.unwrap().contains("78"));
    // What it printed says why, where its state does not.
    world.write("work", "behaviour", "complain 78 the-port-is-taken");
    let outcome = world.start("work").await;
    let why = "exited with code 78 before it was ready: the-port-is-taken";
    assert_eq!(outcome.error.as_deref(), Some(why));
    assert_eq!(world.status("work").await.reason.as_deref(), Some("the-port-is-taken"));
    world.write("work", "behaviour", "");
    assert_eq!(world.start("work").await.done, Some(OrderResult::Started));
    assert_eq!(world.starts("work").len(), 3);
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_stop_during_a_backoff_is_a_stop() {
    let world = World::new();
    world.profile("work", "exit 1");
    let mut supervisor = world.supervise();
    world.start("work").await;
    let waiting = world.until_state("work", SlotState::Backoff).await;
    assert!(waiting.next_start_at.is_some());
    assert_eq!(world.stop("work").await.done, Some(OrderResult::Stopped));
    let starts = world.starts("work").len();
    // A start of another slot that fails as often takes longer than the backoff.
    world.profile("clock", "exit 1");
    world.start("clock").await;
    until("time has passed", || world.starts("clock").len() == 3).await;
    assert_eq!(world.starts("work").len(), starts);
    assert_eq!(world.status("work").await.state, SlotState::Stopped);
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_stop_ends_the_whole_group_whatever_it_ignores() {
    let world = World::new();
    let mark = marker();
    world.profile("work", &format!("family {mark}"));
    world.profile("deaf", "stubborn");
    world.write("deaf", "stop_ms", "100");
    let mut supervisor = world.supervise();
    world.start("work").await;
    world.start("deaf").await;
    until("the family is there", || processes_with(&format!("sleep\0{mark}")).len() == 2).await;
    assert_eq!(world.stop("work").await.done, Some(OrderResult::Stopped));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(world.stop("deaf").await.done, Some(OrderResult::Stopped));
    assert_eq!(world.status("deaf").await.last_exit.unwrap().ended, ChildEnd::Signal(9));
    // What a child that dies leaves is gone before the next one starts.
    world.start("work").await;
    until("the family is there", || processes_with(&format!("sleep\0{mark}")).len() == 2).await;
    let before = processes_with(&mark);
    send(*world.starts("work").last().unwrap(), Signal::KILL);
    until("it is started again", || world.starts("work").len() == 3).await;
    assert!(before.iter().all(|pid| !vestal_testkit::is_alive(*pid)));
    assert!(supervisor.terminate().success());
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_child_that_is_not_ready_in_time_is_started_again() {
    let world = World::new();
    world.profile("work", "silent");
    world.write("work", "ready_ms", "200");
    let mut supervisor = world.supervise();
    let outcome = world.start("work").await;
    assert_eq!(outcome.error.as_deref(), Some("not ready within 200ms"));
    let status = world.until_state("work", SlotState::Backoff).await;
    assert_eq!(status.last_exit.unwrap().ended, ChildEnd::NotReady);
    until("it is started again", || world.starts("work").len() >= 2).await;
    assert!(supervisor.terminate().success());
}
