//! SIGKILL of the supervisor at every step, and two supervisors at once.

use rustix::process::Signal;
use vestal_supervisor::{
    BootRule, Desired, EndedLeftover, FoundSlot, Slot, SlotName, SlotService, SlotState,
    SlotStatus, SupervisorRequest, ask, end_leftovers, failpoint, list_offline, read_desired,
    stop_offline,
};
use vestal_testkit::TEST_TIMEOUT;

use crate::fixture::{Supervised, SupervisorFixture, send};

/// Starts and stops the slot until the supervisor dies at its failpoint.
async fn use_until_death(fixture: &SupervisorFixture, supervisor: &mut Supervised) {
    let slots = || Some(vec!["work".to_owned()]);
    for request in
        [SupervisorRequest::Start { slots: slots() }, SupervisorRequest::Stop { slots: slots() }]
    {
        // The answer is lost with the supervisor.
        ask(&fixture.run_dir(), &request, TEST_TIMEOUT).await.ok();
    }
    supervisor.finished();
}

#[tokio::test]
async fn killed_at_any_step_nothing_runs_twice_and_nothing_is_lost() {
    for name in failpoint::NAMES {
        let fixture = SupervisorFixture::new();
        fixture.profile("work", "");
        let mut command = fixture.command();
        let mut supervisor = Supervised::spawn({
            command.env("VESTAL_FAILPOINT", name);
            command
        });
        supervisor.is_ready();
        use_until_death(&fixture, &mut supervisor).await;

        let desired = read_desired(&fixture.dir("work").join("desired.json")).unwrap();
        let mut next = fixture.supervise();
        if desired == Some(Desired::Running) {
            fixture.until_state("work", SlotState::Running).await;
            assert_eq!(fixture.children().len(), 1, "{name}");
        } else {
            assert_eq!(fixture.status("work").await.state, SlotState::Stopped, "{name}");
            assert_eq!(fixture.children(), Vec::<u32>::new(), "{name}");
        }
        fixture.start("work").await;
        assert_eq!(fixture.children().len(), 1, "{name}");
        fixture.stop("work").await;
        assert_eq!(fixture.children(), Vec::<u32>::new(), "{name}");
        assert!(!fixture.dir("work").join("doubled").exists(), "{name}");
        assert!(next.terminate().success(), "{name}");
    }
}

#[tokio::test]
async fn what_a_killed_supervisor_left_is_ended_before_anything_is_started() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    fixture.profile("deleted", "");
    let mut first = fixture.supervise();
    fixture.start("work").await;
    fixture.start("deleted").await;
    first.kill();
    let left = fixture.children();
    assert_eq!(left.len(), 2);
    // A stop needs no supervisor to end what is left.
    std::fs::rename(fixture.dir("deleted"), fixture.root().join("elsewhere")).unwrap();
    let mut second = fixture.supervise();
    fixture.until_state("work", SlotState::Running).await;
    assert!(left.iter().all(|pid| !vestal_testkit::is_alive(*pid)));
    assert_eq!(fixture.children().len(), 1);
    assert!(!fixture.dir("work").join("doubled").exists());
    let log = fixture.log("work").join("\n");
    assert!(log.contains("left by an earlier supervisor"), "{log}");
    second.kill();
    assert_eq!(fixture.children().len(), 1);
    let source = vec![slot_of(&fixture)];
    let outcomes = stop_offline(&fixture.run_dir(), &source).await.unwrap();
    assert_eq!(outcomes[0].error, None);
    assert_eq!(fixture.children(), Vec::<u32>::new());
    let mut third = fixture.supervise();
    assert_eq!(fixture.status("work").await.state, SlotState::Stopped);
    assert!(third.terminate().success());
}

#[tokio::test]
async fn killed_together_with_its_children_the_next_one_starts_what_was_wanted() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    fixture.profile("idle", "");
    let mut first = fixture.supervise();
    fixture.start("work").await;
    first.kill();
    for pid in fixture.children() {
        send(pid, Signal::KILL);
    }
    fixture.until_no_child().await;
    let mut second = fixture.supervise();
    fixture.until_state("work", SlotState::Running).await;
    assert_eq!(fixture.status("idle").await.state, SlotState::Stopped);
    assert_eq!(fixture.children().len(), 1);
    assert!(second.terminate().success());
    fixture.until_no_child().await;
}

/// Returns the slot as far as a stop needs it.
fn slot_of(fixture: &SupervisorFixture) -> Slot {
    let dir = fixture.dir("work");
    let service = SlotService {
        argv: Vec::new(),
        env: std::collections::BTreeMap::new(),
        desired: dir.join("desired.json"),
        actual: dir.join("gateway_state.json"),
        log_dir: dir.join("log"),
        boot: BootRule::AsBefore,
        dir,
        stop_within: TEST_TIMEOUT,
        ready_within: TEST_TIMEOUT,
    };
    Slot { name: SlotName::new("work").unwrap(), service }
}

#[tokio::test]
async fn killed_in_the_middle_of_a_stop_it_stays_stopped() {
    for both in [false, true] {
        let fixture = SupervisorFixture::new();
        fixture.profile("work", "stubborn");
        fixture.write("work", "stop_ms", "120000");
        let mut first = fixture.supervise();
        fixture.start("work").await;
        let slots = Some(vec!["work".to_owned()]);
        let run_dir = fixture.run_dir();
        let stopping = tokio::spawn(async move {
            ask(&run_dir, &SupervisorRequest::Stop { slots }, TEST_TIMEOUT)
                .await
                .map(|answer| answer.outcomes)
        });
        // It was asked, and takes no notice.
        fixture.until_state("work", SlotState::Stopping).await;
        first.kill();
        assert!(stopping.await.unwrap().is_err(), "nobody says that it is stopped");
        if both {
            fixture.children().into_iter().for_each(|pid| send(pid, Signal::KILL));
            fixture.until_no_child().await;
        }
        let statuses = offline(&fixture);
        let running = if both { SlotState::Stopped } else { SlotState::Running };
        assert_eq!((statuses[0].state, statuses[0].desired), (running, Some(Desired::Stopped)));
        // The next one has less patience with what is left.
        fixture.write("work", "stop_ms", "100");
        let mut next = fixture.supervise();
        assert_eq!(fixture.status("work").await.state, SlotState::Stopped);
        assert_eq!(fixture.children(), Vec::<u32>::new());
        assert_eq!(fixture.starts("work").len(), 1);
        assert!(next.terminate().success());
    }
}

/// Returns what is known of the slot without a supervisor.
fn offline(fixture: &SupervisorFixture) -> Vec<SlotStatus> {
    let found = vec![FoundSlot::Slot(Box::new(slot_of(fixture)))];
    list_offline(&fixture.run_dir(), &fixture.root().join("logs"), found).slots
}

#[tokio::test]
async fn what_is_wanted_and_down_is_not_shown_as_if_it_were_stopped_on_purpose() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let mut first = fixture.supervise();
    fixture.start("work").await;
    first.kill();
    let left = offline(&fixture).remove(0);
    assert_eq!((left.state, left.pid), (SlotState::Running, Some(fixture.children()[0])));
    fixture.children().into_iter().for_each(|pid| send(pid, Signal::KILL));
    fixture.until_no_child().await;
    let down = offline(&fixture).remove(0);
    assert_eq!((down.state, down.desired), (SlotState::Stopped, Some(Desired::Running)));
    assert!(down.reason.unwrap().contains("the next one starts it"));
    // What cannot be read is not taken for a wish either way.
    for file in ["desired.json", "gateway_state.json"] {
        std::fs::remove_file(fixture.dir("work").join("desired.json")).ok();
        fixture.write("work", file, "{");
        let broken = offline(&fixture).remove(0);
        assert_eq!(broken.state, SlotState::Failed, "{file}");
        assert!(broken.reason.unwrap().contains(file));
    }
    fixture.write("work", "gateway_state.json", r#"{"gateway_state":"stopped"}"#);
    let stopped = offline(&fixture).remove(0);
    assert_eq!((stopped.state, stopped.reason), (SlotState::Stopped, None));
}

#[tokio::test]
async fn what_a_killed_supervisor_left_can_be_ended_and_is_still_wanted() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let found = || [FoundSlot::Slot(Box::new(slot_of(&fixture)))];
    assert_eq!(end_leftovers(&fixture.run_dir(), &found()).await.unwrap(), []);
    let mut first = fixture.supervise();
    fixture.start("work").await;
    // A supervisor that lives is not worked around.
    let refused = end_leftovers(&fixture.run_dir(), &found()).await.unwrap_err().to_string();
    assert!(refused.contains("supervised already by process"), "{refused}");
    first.kill();
    let pid = fixture.children()[0];
    let ended = end_leftovers(&fixture.run_dir(), &found()).await.unwrap();
    assert_eq!(ended, [EndedLeftover { slot: "work".to_owned(), ended: Ok(pid) }]);
    assert_eq!(fixture.children(), Vec::<u32>::new());
    let mut next = fixture.supervise();
    fixture.until_state("work", SlotState::Running).await;
    assert!(next.terminate().success());
}

#[tokio::test]
async fn a_second_supervisor_is_refused_with_the_name_of_the_first() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let mut first = fixture.supervise();
    fixture.start("work").await;
    let mut second = Supervised::spawn(fixture.command());
    let (status, printed) = second.finished();
    assert!(!status.success());
    let text = printed.join("\n");
    assert!(text.contains(&format!("supervised already by process {} on ", first.pid())), "{text}");
    assert_eq!(fixture.status("work").await.state, SlotState::Running);
    assert!(first.terminate().success());
}

#[tokio::test]
async fn of_supervisors_that_start_at_the_same_instant_one_runs() {
    // Twenty homes at the same time: each round of its own would wait for the one that is refused.
    let homes: Vec<SupervisorFixture> = (0..20).map(|_| SupervisorFixture::new()).collect();
    for fixture in &homes {
        fixture.profile("work", "");
        let wanted = r#"{"version":1,"desired":"running","updated_at":""}"#;
        fixture.write("work", "desired.json", wanted);
    }
    let pair =
        |fixture: &SupervisorFixture| [fixture.command(), fixture.command()].map(Supervised::spawn);
    let pairs: Vec<[Supervised; 2]> = homes.iter().map(pair).collect();
    for (fixture, pair) in homes.iter().zip(pairs) {
        let ready = pair.each_ref().map(Supervised::is_ready);
        assert_eq!(ready.iter().filter(|ready| **ready).count(), 1, "{ready:?}");
        fixture.until_state("work", SlotState::Running).await;
        assert_eq!(fixture.children().len(), 1);
        for (mut supervisor, is_ready) in pair.into_iter().zip(ready) {
            if is_ready {
                assert!(supervisor.terminate().success());
            } else {
                let (status, _) = supervisor.finished();
                assert!(!status.success());
            }
        }
        fixture.until_no_child().await;
        assert_eq!(fixture.starts("work").len(), 1);
        assert!(!fixture.dir("work").join("doubled").exists());
    }
}
