//! Slots that the home has once, beside those of profiles.

use rustix::process::Signal;
use vestal_supervisor::{Desired, OrderResult, SlotState, SupervisorRequest};
use vestal_testkit::until;

use crate::world::{World, send};

#[tokio::test]
async fn a_service_of_the_home_is_registered_and_up_only_when_asked() {
    let world = World::new();
    world.profile("dashboard", "");
    world.service("dashboard", "");
    // A child that ran in a terminal before is no wish for one that runs supervised.
    world.write_service("dashboard", "gateway_state.json", r#"{"state":"running"}"#);
    let mut supervisor = world.supervise();
    assert_eq!(
        world.boot_log(),
        [
            "service=dashboard prior_state=missing action=registered",
            "profile=dashboard prior_state=missing action=registered",
        ]
    );
    // Orders to all are about profiles; the profile of the same name is another slot.
    let answer = world.ask(SupervisorRequest::Start { slots: None }).await;
    let started: Vec<&str> = answer.outcomes.iter().map(|outcome| outcome.slot.as_str()).collect();
    assert_eq!(started, ["dashboard"]);
    assert_eq!(world.status("@dashboard").await.state, SlotState::Stopped);
    assert_eq!(world.start("@dashboard").await.done, Some(OrderResult::Started));
    assert_eq!(world.children().len(), 2);
    // It is in every answer, and not among those of profiles.
    let answer = world.ask(SupervisorRequest::List { slots: None }).await;
    let names = |slots: &[vestal_supervisor::SlotStatus]| -> Vec<(String, SlotState)> {
        slots.iter().map(|slot| (slot.name.clone(), slot.state)).collect()
    };
    assert_eq!(names(&answer.slots), [("dashboard".to_owned(), SlotState::Running)]);
    assert_eq!(names(&answer.services), [("@dashboard".to_owned(), SlotState::Running)]);
    assert_eq!(world.stop("dashboard").await.done, Some(OrderResult::Stopped));
    // It has the restarts of all slots, and a log of its own.
    let pid = world.status("@dashboard").await.pid.unwrap();
    send(pid, Signal::KILL);
    until("it is started again", || world.service_starts("dashboard") == 2).await;
    world.until_state("@dashboard", SlotState::Running).await;
    let log = std::fs::read_to_string(world.root().join("logs/dashboard/current")).unwrap();
    assert!(log.contains("supervisor: ended by signal 9"), "{log}");
    assert!(supervisor.terminate().success());
    assert_eq!(world.children(), Vec::<u32>::new());
    // What was wanted is started by the next one, and what was stopped is not.
    let mut next = world.supervise();
    world.until_state("@dashboard", SlotState::Running).await;
    assert_eq!(world.status("dashboard").await.state, SlotState::Stopped);
    assert_eq!(world.stop("@dashboard").await.done, Some(OrderResult::Stopped));
    assert!(next.terminate().success());
    assert_eq!(world.children(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_service_that_the_environment_asks_for_starts_at_every_boot() {
    let world = World::new();
    world.service("dashboard", "");
    world.write_service("dashboard", "always", "");
    world.write_service(
        "dashboard",
        "desired.json",
        r#"{"version":1,"desired":"stopped","updated_at":""}"#,
    );
    for boot in 1..=2 {
        let mut supervisor = world.supervise();
        let status = world.until_state("@dashboard", SlotState::Running).await;
        assert_eq!(status.desired, Some(Desired::Running));
        assert_eq!(world.boot_log().len(), boot);
        assert_eq!(
            world.boot_log()[boot - 1],
            "service=dashboard prior_state=stopped action=started"
        );
        // A stop holds until the next boot, also when the slots are looked at again.
        assert_eq!(world.stop("@dashboard").await.done, Some(OrderResult::Stopped));
        world.ask(SupervisorRequest::Reconcile).await;
        let status = world.status("@dashboard").await;
        assert_eq!((status.state, status.desired), (SlotState::Stopped, Some(Desired::Stopped)));
        assert!(supervisor.terminate().success());
    }
    assert_eq!(world.service_starts("dashboard"), 2);
}
