//! Dying at the worst moment.
//!
//! After any crash, one later start finds at most one instance per key, no
//! process, file or socket too many, and every file that should be there.

use std::time::Duration;

use vestal_sandbox::{Command, FAILPOINTS, SummaryState, TaskName};
use vestal_testkit::random::{Random, soak};
use vestal_wire::SessionState;

use crate::support::{Kind, Worker, World, alive, marker, processes_with, until};

/// Returns the failpoints of one operation, those of the world's backend among
/// them.
fn points(world: &World, operation: &str) -> impl Iterator<Item = &'static str> {
    let of_backend = format!("{}.{operation}.", world.backend());
    let of_engine = format!("{operation}.");
    let is_one = |name: &&str| {
        name.starts_with(&of_backend) || (name.starts_with(&of_engine) && !world.own_steps_only())
    };
    let found: Vec<&str> = FAILPOINTS.iter().copied().filter(is_one).collect();
    assert!(!found.is_empty(), "{operation} has no steps");
    found.into_iter()
}

/// Lets a worker die at a failpoint; the point must be reached.
pub(super) async fn crash(world: &World, words: &[&str], point: &str) {
    let worker = world.worker_with(words, &[("VESTAL_FAILPOINT", point)]);
    assert!(worker.was_killed().await, "{point} is never reached by {words:?}");
}

/// Checks that the sandbox is whole: one guest, which works, and no rubbish.
async fn assert_whole(world: &World, point: &str) {
    let output = world.run("echo works").await;
    assert_eq!(output.stdout.bytes(), b"works\n", "{point}");
    assert_eq!(world.guests().len(), 1, "{point}: {:?}", world.guests());
    until(&format!("{point}: no stray is left"), || async { world.strays().is_empty() }).await;
    let instances = world.sandbox_dir("default").join("instances");
    assert_eq!(std::fs::read_dir(instances).unwrap().count(), 1, "{point}");
    let mut expected = vec!["instances", "lock", "sandbox.json"];
    if *world.kind() != Kind::Toy {
        expected.push("state");
    }
    if world.has_system() {
        expected.insert(0, "home");
        expected.push("workspace");
    }
    if world.is_contained() {
        let containers = world.own_containers();
        assert_eq!(containers.len(), 1, "{point}: {containers:?}");
    }
    assert_eq!(world.left_of("default"), expected, "{point}");
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_creation(world: &World) {
    for point in points(world, "create") {
        crash(world, &["attach", "default"], point).await;
        assert_whole(world, point).await;
        world
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_start(world: &World) {
    world.run("kept=1").await;
    for point in points(world, "start") {
        world.engine().stop(&TaskName::default_task()).await.unwrap();
        crash(world, &["attach", "default"], point).await;
        assert_whole(world, point).await;
        assert_eq!(world.run("echo $kept").await.stdout.bytes(), b"1\n", "{point}");
    }
    assert_eq!(world.sandbox().await.generation().await, 1, "none of it took a new instance");
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_stop(world: &World) {
    world.run("kept=1").await;
    for point in points(world, "stop") {
        let mark = marker();
        let job = Command::shell(format!("sleep {mark}"));
        world.sandbox().await.spawn(job).await.unwrap();
        crash(world, &["stop", "default"], point).await;
        assert_whole(world, point).await;
        assert_eq!(
            processes_with(&mark),
            Vec::<u32>::new(),
            "{point}: a stop that was begun is finished"
        );
        assert_eq!(world.run("echo $kept").await.stdout.bytes(), b"1\n", "{point}");
    }
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_removal(world: &World) {
    for point in points(world, "remove") {
        let keeps_files = point == "remove.record-written";
        world.run("removed=1").await;
        let file = world.files_dir("default").join("workspace/file");
        if keeps_files || world.is_contained() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
        }
        let words: &[&str] =
            if keeps_files { &["remove", "default"] } else { &["remove", "default", "--files"] };
        crash(world, words, point).await;
        if keeps_files && !world.is_contained() {
            assert!(file.exists());
            std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
        }
        assert_whole(world, point).await;
        if world.is_contained() {
            assert_eq!(file.exists(), keeps_files, "{point}");
        }
        assert_eq!(
            world.run("echo ${removed-gone}").await.stdout.bytes(),
            b"gone\n",
            "{point}: a removal that was begun is finished"
        );
        world
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

pub(crate) async fn a_guest_may_die_at_any_step(world: &World) {
    for point in GUEST_FAILPOINTS {
        if SERVING.iter().any(|begin| point.starts_with(begin)) {
            die_while_serving(world, point).await;
        } else {
            die_while_starting(world, point).await;
        }
        // A guest that is to die at this point again and again was started by a
        // worker; one that this process starts is not.
        world.engine().stop(&TaskName::default_task()).await.ok();
        assert_whole(world, point).await;
        world
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

/// Failpoints of a guest that can be talked to.
const SERVING: [&str; 2] = ["guest.job.", "guest.shutdown."];

async fn die_while_starting(world: &World, point: &str) {
    let extra = [("VESTAL_GUEST_FAILPOINT", point)];
    let worker = world.worker_with(&["attach", "default"], &extra);
    let said = last_word(worker, point).await;
    assert_eq!(said, None, "{point} is never reached");
}

async fn die_while_serving(world: &World, point: &str) {
    let extra = [("VESTAL_GUEST_FAILPOINT", point)];
    let mut worker = world.worker_with(&["attach", "default"], &extra);
    let attached = worker.line().await;
    worker.finish().await;
    let guest = world.guests()[0];
    let mark = marker();
    let text = format!("setsid sleep 1000 & echo ran >> ~/{mark}; x={mark}; echo out");
    let worker = world.worker_with(&["run", "default", &text], &extra);
    // The worker may see its command through, or learn that it cannot be told;
    // what it never does is run it twice, or hang.
    let said = last_word(worker, point).await;
    let runs = std::fs::read_to_string(world.home_files().join(&mark)).unwrap_or_default();
    let heard_of_its_end = said.as_ref().is_some_and(|said| said["code"].is_number());
    let right = if heard_of_its_end { 1..=1 } else { 0..=1 };
    assert!(
        right.contains(&runs.lines().count()),
        "{point}: the command ran {} times, and its caller heard {said:?}",
        runs.lines().count()
    );
    if point.starts_with("guest.job.") {
        let reached = format!("{point} is reached");
        until(&reached, || async { !alive(guest) }).await;
        return;
    }
    assert!(alive(guest), "{point} is none of a command's");
    world.engine().stop(&TaskName::default_task()).await.unwrap();
    // Only a guest that dies before it has tidied up leaves its name behind.
    let instance = attached["instance"].as_str().unwrap();
    let left = world.socket_dir("default", instance).join("guest.json");
    let untidy = ["guest.shutdown.begin", "guest.shutdown.after-kill"].contains(&point);
    assert_eq!(left.exists(), untidy, "{point} is never reached");
}

/// Waits for a worker's end, which must come.
async fn last_word(worker: Worker, point: &str) -> Option<serde_json::Value> {
    tokio::time::timeout(Duration::from_mins(2), worker.last_word()).await.expect(point)
}

pub(crate) async fn a_stage_may_die_at_any_step(world: &World) {
    for point in vestal_stage::failpoint::NAMES {
        let extra = [("VESTAL_STAGE_FAILPOINT", point)];
        let worker = world.worker_with(&["attach", "default"], &extra);
        let said = last_word(worker, point).await;
        // Once the sandbox stands nothing hangs on it. Until then the first process
        // ends with it, unless that is faster.
        match point {
            "stage.enclose.before-leaving" => assert!(said.is_some(), "{point}"),
            "stage.enclose.after-go" => {}
            _ => assert_eq!(said, None, "{point}"),
        }
        if said.is_none() {
            assert_eq!(world.guests(), Vec::<u32>::new(), "{point}");
            assert_eq!(world.own_containers(), Vec::<serde_json::Value>::new(), "{point}");
        }
        assert_whole(world, point).await;
        world
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

/// The guest's own failpoints.
const GUEST_FAILPOINTS: &[&str] = &vestal_guest::failpoint::NAMES;

pub(crate) async fn what_a_crash_left_half_written_is_swept(world: &World) {
    world.run("true").await;
    world.engine().stop(&TaskName::default_task()).await.unwrap();
    let dir = world.sandbox_dir("default");
    std::fs::write(dir.join("sandbox.0123456789ab.tmp"), "{").unwrap();
    let trash = dir.with_file_name(".trash-0123456789ab");
    std::fs::create_dir_all(trash.join("instances/0123456789abcdef/io")).unwrap();
    assert_whole(world, "half a record").await;
    assert_eq!(world.engine().list().await.unwrap().len(), 1);
    assert!(!trash.exists(), "a removal that was cut short is finished");
}

pub(crate) async fn attaching_stopping_and_removing_at_once_leaves_one_sandbox(world: &World) {
    for round in 0..4 {
        let start = |words: &[&str]| world.worker(words);
        let disturbing: Vec<Worker> = ["stop", "remove", "stop", "remove"]
            .iter()
            .map(|verb| start(&[verb, "default"]))
            .collect();
        let attaching: Vec<Worker> = (0..4).map(|_| start(&["attach", "default"])).collect();
        let running: Vec<Worker> =
            (0..2).map(|_| start(&["run", "default", "sleep 0.01"])).collect();
        for worker in attaching {
            let said = last_word(worker, "the end of an attach").await;
            assert!(said.is_some(), "round {round}: an attach found no sandbox");
        }
        for worker in disturbing.into_iter().chain(running) {
            // There may be nothing to stop, and a command may be stopped.
            last_word(worker, "a worker's end").await;
        }
        assert_whole(world, &format!("round {round}")).await;
    }
}

pub(crate) async fn a_soak_of_random_kills_loses_nothing_and_leaves_nothing(world: &World) {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 20);
    let mut random = Random::from_environment();
    world.run("kept=yes; count=0").await;
    let mut saved = 0;
    for round in 0..rounds {
        let file = world.user_home().join(format!("round-{round}"));
        let text = format!(
            "count=$((count + 1)); setsid sleep 1000 & echo {round} >> {}; sleep 0.0{}; echo $count",
            file.display(),
            random.below(90)
        );
        let mut worker = world.worker(&["run", "default", &text]);
        // Half of the blows fall at any time, the others while the command runs.
        if random.below(2) == 0 {
            until("the command runs", || async { file.exists() }).await;
        }
        tokio::time::sleep(Duration::from_micros(random.below(40_000))).await;
        match random.below(3) {
            0 => drop(worker.child.start_kill()),
            1 => {
                super::survival::kill_guest(world);
            }
            _ => {
                super::survival::kill_guest(world);
                drop(worker.child.start_kill());
            }
        }
        last_word(worker, &format!("round {round}")).await;
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(lines.lines().count() <= 1, "round {round} ran twice");
        assert_whole(world, &format!("round {round}")).await;
        let count = count(world).await;
        assert!(
            (saved..=round + 1).contains(&count),
            "round {round}: {saved} were saved, and now {count} are"
        );
        saved = count;
    }
    let summary = &world.engine().list().await.unwrap()[0];
    assert_eq!(summary.state, SummaryState::Running);
}

pub(crate) async fn a_soak_of_killed_creations_leaves_one_sandbox_each(world: &World) {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 20) / 4;
    let mut random = Random::from_environment();
    let task = TaskName::default_task();
    world.run("true").await;
    for round in 0..rounds {
        let remove = || async {
            world.engine().remove(&task, vestal_sandbox::FilesOnRemoval::Keep).await.unwrap()
        };
        // How long a creation takes changes with what else the machine does.
        remove().await;
        let begun = tokio::time::Instant::now();
        let mut undisturbed = world.worker(&["attach", "default"]);
        undisturbed.line().await;
        let took = begun.elapsed();
        undisturbed.finish().await;
        remove().await;
        let mut worker = world.worker(&["attach", "default"]);
        let when = took.mul_f64(f64::from(u32::try_from(random.below(1000)).unwrap()) / 1000.0);
        tokio::time::sleep(when).await;
        drop(worker.child.start_kill());
        last_word(worker, &format!("round {round}")).await;
        assert_whole(world, &format!("round {round}")).await;
    }
}

/// Returns how many commands the session knows of, which are then saved.
async fn count(world: &World) -> u64 {
    let output = world.run("echo $kept $count").await;
    assert_eq!(output.session_state, SessionState::Saved);
    let text = output.stdout.text();
    let count = text.trim().strip_prefix("yes ");
    count.expect("the session is kept").parse().unwrap()
}
