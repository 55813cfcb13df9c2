//! SIGKILL of the supervisor at every step, and two supervisors at once.

use rustix::process::Signal;
use vestal_supervisor::{Desired, Request, SlotState, ask, failpoint, read_desired, stop_offline};
use vestal_testkit::{PATIENCE, until_async};

use crate::world::{Supervised, World, send};

/// Starts and stops the slot until the supervisor dies at its failpoint.
async fn use_until_death(world: &World, supervisor: &mut Supervised) {
    let slots = || Some(vec!["work".to_owned()]);
    for request in [Request::Start { slots: slots() }, Request::Stop { slots: slots() }] {
        // The answer is lost with the supervisor.
        ask(&world.run_dir(), &request, PATIENCE).await.ok();
    }
    supervisor.said();
}

#[tokio::test]
async fn killed_at_any_step_nothing_runs_twice_and_nothing_is_lost() {
    for name in failpoint::NAMES {
        let world = World::new();
        world.profile("work", "");
        let mut command = world.command();
        let mut supervisor = Supervised::spawn({
            command.env("VESTAL_FAILPOINT", name);
            command
        });
        supervisor.is_ready();
        use_until_death(&world, &mut supervisor).await;

        let desired = read_desired(&world.dir("work").join("desired.json")).unwrap();
        let mut next = world.supervise();
        if desired == Some(Desired::Running) {
            world.until_state("work", SlotState::Running).await;
            assert_eq!(world.children().len(), 1, "{name}");
        } else {
            assert_eq!(world.status("work").await.state, SlotState::Stopped, "{name}");
            assert_eq!(world.children(), Vec::<u32>::new(), "{name}");
        }
        world.start("work").await;
        assert_eq!(world.children().len(), 1, "{name}");
        world.stop("work").await;
        assert_eq!(world.children(), Vec::<u32>::new(), "{name}");
        assert!(!world.dir("work").join("doubled").exists(), "{name}");
        assert!(next.terminate().success(), "{name}");
    }
}

#[tokio::test]
async fn what_a_killed_supervisor_left_is_ended_before_anything_is_started() {
    let world = World::new();
    world.profile("work", "");
    world.profile("deleted", "");
    let mut first = world.supervise();
    world.start("work").await;
    world.start("deleted").await;
    first.kill();
    let left = world.children();
    assert_eq!(left.len(), 2);
    // A stop needs no supervisor to end what is left.
    std::fs::rename(world.dir("deleted"), world.root().join("elsewhere")).unwrap();
    let mut second = world.supervise();
    world.until_state("work", SlotState::Running).await;
    assert!(left.iter().all(|pid| !vestal_testkit::is_alive(*pid)));
    assert_eq!(world.children().len(), 1);
    assert!(!world.dir("work").join("doubled").exists());
    let log = world.log("work").join("\n");
    assert!(log.contains("left by an earlier supervisor"), "{log}");
    second.kill();
    assert_eq!(world.children().len(), 1);
    let source = vec![slot_of(&world)];
    let outcomes = stop_offline(&world.run_dir(), &source).await.unwrap();
    assert_eq!(outcomes[0].error, None);
    assert_eq!(world.children(), Vec::<u32>::new());
    let mut third = world.supervise();
    assert_eq!(world.status("work").await.state, SlotState::Stopped);
    assert!(third.terminate().success());
}

#[tokio::test]
async fn killed_together_with_its_children_the_next_one_starts_what_was_wanted() {
    let world = World::new();
    world.profile("work", "");
    world.profile("idle", "");
    let mut first = world.supervise();
    world.start("work").await;
    first.kill();
    for pid in world.children() {
        send(pid, Signal::KILL);
    }
    world.until_no_child().await;
    let mut second = world.supervise();
    world.until_state("work", SlotState::Running).await;
    assert_eq!(world.status("idle").await.state, SlotState::Stopped);
    assert_eq!(world.children().len(), 1);
    assert!(second.terminate().success());
    world.until_no_child().await;
}

/// Returns the slot as far as a stop needs it.
fn slot_of(world: &World) -> vestal_supervisor::Slot {
    let dir = world.dir("work");
    vestal_supervisor::Slot {
        name: vestal_supervisor::SlotName::new("work").unwrap(),
        argv: Vec::new(),
        env: std::collections::BTreeMap::new(),
        desired: dir.join("desired.json"),
        actual: dir.join("gateway_state.json"),
        dir,
        stop_within: PATIENCE,
        ready_within: PATIENCE,
    }
}

#[tokio::test]
async fn a_second_supervisor_is_refused_with_the_name_of_the_first() {
    let world = World::new();
    world.profile("work", "");
    let mut first = world.supervise();
    world.start("work").await;
    let mut second = Supervised::spawn(world.command());
    let (status, said) = second.said();
    assert!(!status.success());
    let text = said.join("\n");
    assert!(text.contains(&format!("supervised already by process {} on ", first.pid())), "{text}");
    assert_eq!(world.status("work").await.state, SlotState::Running);
    assert!(first.terminate().success());
}

#[tokio::test]
async fn of_many_supervisors_that_start_at_once_one_runs() {
    let world = World::new();
    world.profile("work", "");
    world.write("work", "desired.json", r#"{"version":1,"desired":"running","updated_at":""}"#);
    let mut all: Vec<Supervised> = (0..5).map(|_| Supervised::spawn(world.command())).collect();
    let ready: Vec<bool> = all.iter().map(Supervised::is_ready).collect();
    assert_eq!(ready.iter().filter(|ready| **ready).count(), 1);
    until_async("the child runs", || async {
        world.status("work").await.state == SlotState::Running
    })
    .await;
    assert_eq!(world.children().len(), 1);
    for (supervisor, ready) in all.iter_mut().zip(ready) {
        if ready {
            assert!(supervisor.terminate().success());
        }
    }
    world.until_no_child().await;
    assert!(!world.dir("work").join("doubled").exists());
}
