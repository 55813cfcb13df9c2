//! Slots that the home has once, beside those of profiles.

use rustix::process::Signal;
use vestal_supervisor::{Desired, OrderResult, SlotState, SupervisorRequest};
use vestal_testkit::until;

use crate::fixture::{SupervisorFixture, send};

#[tokio::test]
async fn a_service_of_the_home_is_registered_and_up_only_when_asked() {
    let fixture = SupervisorFixture::new();
    fixture.profile("dashboard", "");
    fixture.service("dashboard", "");
    // A child that ran in a terminal before is not a wish for one that runs supervised.
    fixture.write_service("dashboard", "gateway_state.json", r#"{"state":"running"}"#);
    let mut supervisor = fixture.supervise();
    assert_eq!(
        fixture.boot_log(),
        [
            "service=dashboard prior_state=missing action=registered",
            "profile=dashboard prior_state=missing action=registered",
        ]
    );
    // Orders to all are about profiles; the profile of the same name is another slot.
    let answer = fixture.ask(SupervisorRequest::Start { slots: None }).await;
    let started: Vec<&str> = answer.outcomes.iter().map(|outcome| outcome.slot.as_str()).collect();
    assert_eq!(started, ["dashboard"]);
    assert_eq!(fixture.status("@dashboard").await.state, SlotState::Stopped);
    assert_eq!(fixture.start("@dashboard").await.done, Some(OrderResult::Started));
    assert_eq!(fixture.children().len(), 2);
    // It is in every answer, and not among those of profiles.
    let answer = fixture.ask(SupervisorRequest::List { slots: None }).await;
    let names = |slots: &[vestal_supervisor::SlotStatus]| -> Vec<(String, SlotState)> {
        slots.iter().map(|slot| (slot.name.clone(), slot.state)).collect()
    };
    assert_eq!(names(&answer.slots), [("dashboard".to_owned(), SlotState::Running)]);
    assert_eq!(names(&answer.services), [("@dashboard".to_owned(), SlotState::Running)]);
    assert_eq!(fixture.stop("dashboard").await.done, Some(OrderResult::Stopped));
    // It has the restarts of all slots, and a log of its own.
    let pid = fixture.status("@dashboard").await.pid.unwrap();
    send(pid, Signal::KILL);
    until("it is started again", || fixture.service_starts("dashboard") == 2).await;
    fixture.until_state("@dashboard", SlotState::Running).await;
    let log = std::fs::read_to_string(fixture.root().join("logs/dashboard/current")).unwrap();
    assert!(log.contains("supervisor: ended by signal 9"), "{log}");
    assert!(supervisor.terminate().success());
    assert_eq!(fixture.children(), Vec::<u32>::new());
    // What was wanted is started by the next one, and what was stopped is not.
    let mut next = fixture.supervise();
    fixture.until_state("@dashboard", SlotState::Running).await;
    assert_eq!(fixture.status("dashboard").await.state, SlotState::Stopped);
    assert_eq!(fixture.stop("@dashboard").await.done, Some(OrderResult::Stopped));
    assert!(next.terminate().success());
    assert_eq!(fixture.children(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_service_that_the_environment_asks_for_starts_at_every_boot() {
    let fixture = SupervisorFixture::new();
    fixture.service("dashboard", "");
    fixture.write_service("dashboard", "always", "");
    fixture.write_service(
        "dashboard",
        "desired.json",
        r#"{"version":1,"desired":"stopped","updated_at":""}"#,
    );
    for boot in 1..=2 {
        let mut supervisor = fixture.supervise();
        let status = fixture.until_state("@dashboard", SlotState::Running).await;
        assert_eq!(status.desired, Some(Desired::Running));
        assert_eq!(fixture.boot_log().len(), boot);
        assert_eq!(
            fixture.boot_log()[boot - 1],
            "service=dashboard prior_state=stopped action=started"
        );
        // A stop holds until the next boot, also when the slots are looked at again.
        assert_eq!(fixture.stop("@dashboard").await.done, Some(OrderResult::Stopped));
        fixture.ask(SupervisorRequest::Reconcile).await;
        let status = fixture.status("@dashboard").await;
        assert_eq!((status.state, status.desired), (SlotState::Stopped, Some(Desired::Stopped)));
        assert!(supervisor.terminate().success());
    }
    assert_eq!(fixture.service_starts("dashboard"), 2);
}
