//! Dying at the worst moment.
//!
//! After any crash, one later start finds at most one instance per key, no
//! process, file or socket too many, and every file that should be there.

use std::time::Duration;

use vestal_sandbox::{Command, FAILPOINTS, SummaryState, TaskName};
use vestal_testkit::random::{Random, soak};
use vestal_wire::SessionState;

use crate::support::{BackendFixture, Worker, alive, marker, processes_with, until};

/// Returns the failpoints of one operation, those of the fixture's backend among
/// them.
fn points(fixture: &BackendFixture, operation: &str) -> impl Iterator<Item = &'static str> {
    let of_backend = format!("{}.{operation}.", fixture.backend());
    let of_engine = format!("{operation}.");
    let is_one = |name: &&str| {
        name.starts_with(&of_backend) || (name.starts_with(&of_engine) && !fixture.own_steps_only())
    };
    let found: Vec<&str> = FAILPOINTS.iter().copied().filter(is_one).collect();
    assert!(!found.is_empty(), "{operation} has no steps");
    found.into_iter()
}

/// Lets a worker die at a failpoint; the point must be reached.
pub(crate) async fn crash(fixture: &BackendFixture, words: &[&str], point: &str) {
    let worker = fixture.worker_with(words, &[("VESTAL_FAILPOINT", point)]);
    assert!(worker.was_killed().await, "{point} is never reached by {words:?}");
}

/// Checks that the sandbox is whole: one guest, which works, and no rubbish.
async fn assert_whole(fixture: &BackendFixture, point: &str) {
    let output = fixture.run("echo works").await;
    assert_eq!(output.stdout.bytes(), b"works\n", "{point}");
    assert_eq!(fixture.guests().len(), 1, "{point}: {:?}", fixture.guests());
    until(&format!("{point}: no stray is left"), || async { fixture.strays().is_empty() }).await;
    let instances = fixture.sandbox_dir("default").join("instances");
    assert_eq!(std::fs::read_dir(instances).unwrap().count(), 1, "{point}");
    let mut expected = vec!["instances", "lock", "sandbox.json"];
    if !fixture.is_elsewhere() {
        expected.push("state");
    }
    if fixture.has_system() {
        expected.insert(0, "home");
        expected.push("workspace");
    }
    if fixture.is_contained() {
        let containers = fixture.own_containers();
        assert_eq!(containers.len(), 1, "{point}: {containers:?}");
    }
    assert_eq!(fixture.left_of("default"), expected, "{point}");
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_creation(fixture: &BackendFixture) {
    for point in points(fixture, "create") {
        crash(fixture, &["attach", "default"], point).await;
        assert_whole(fixture, point).await;
        fixture
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_start(fixture: &BackendFixture) {
    fixture.run("kept=1").await;
    for point in points(fixture, "start") {
        fixture.engine().stop(&TaskName::default_task()).await.unwrap();
        crash(fixture, &["attach", "default"], point).await;
        assert_whole(fixture, point).await;
        assert_eq!(fixture.run("echo $kept").await.stdout.bytes(), b"1\n", "{point}");
    }
    assert_eq!(fixture.sandbox().await.generation().await, 1, "none of it took a new instance");
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_stop(fixture: &BackendFixture) {
    fixture.run("kept=1").await;
    for point in points(fixture, "stop") {
        let mark = marker();
        let job = Command::shell(format!("sleep {mark}"));
        fixture.sandbox().await.spawn(job).await.unwrap();
        crash(fixture, &["stop", "default"], point).await;
        assert_whole(fixture, point).await;
        assert_eq!(
            processes_with(&mark),
            Vec::<u32>::new(),
            "{point}: a stop that was begun is finished"
        );
        assert_eq!(fixture.run("echo $kept").await.stdout.bytes(), b"1\n", "{point}");
    }
}

pub(crate) async fn a_process_may_die_at_any_step_of_a_removal(fixture: &BackendFixture) {
    for point in points(fixture, "remove") {
        let keeps_files = point == "remove.record-written";
        fixture.run("removed=1").await;
        let file = fixture.files_dir("default").join("workspace/file");
        if keeps_files || fixture.is_contained() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
        }
        let words: &[&str] =
            if keeps_files { &["remove", "default"] } else { &["remove", "default", "--files"] };
        crash(fixture, words, point).await;
        if keeps_files && !fixture.is_contained() {
            assert!(file.exists());
            std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
        }
        assert_whole(fixture, point).await;
        if fixture.is_contained() {
            assert_eq!(file.exists(), keeps_files, "{point}");
        }
        assert_eq!(
            fixture.run("echo ${removed-gone}").await.stdout.bytes(),
            b"gone\n",
            "{point}: a removal that was begun is finished"
        );
        fixture
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

pub(crate) async fn a_guest_may_die_at_any_step(fixture: &BackendFixture) {
    for point in GUEST_FAILPOINTS {
        if SERVING.iter().any(|begin| point.starts_with(begin)) {
            die_while_serving(fixture, point).await;
        } else {
            die_while_starting(fixture, point).await;
        }
        // A guest that is to die at this point again and again was started by a
        // worker; one that this process starts is not.
        fixture.engine().stop(&TaskName::default_task()).await.ok();
        assert_whole(fixture, point).await;
        fixture
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

/// Failpoints of a guest that can be talked to.
const SERVING: [&str; 2] = ["guest.job.", "guest.shutdown."];

async fn die_while_starting(fixture: &BackendFixture, point: &str) {
    let extra = [("VESTAL_GUEST_FAILPOINT", point)];
    let worker = fixture.worker_with(&["attach", "default"], &extra);
    let printed = last_word(worker, point).await;
    assert_eq!(printed, None, "{point} is never reached");
}

async fn die_while_serving(fixture: &BackendFixture, point: &str) {
    let extra = [("VESTAL_GUEST_FAILPOINT", point)];
    let mut worker = fixture.worker_with(&["attach", "default"], &extra);
    let attached = worker.line().await;
    worker.finish().await;
    let guest = fixture.guests()[0];
    let mark = marker();
    let text = format!("setsid sleep 1000 & echo ran >> ~/{mark}; x={mark}; echo out");
    let worker = fixture.worker_with(&["run", "default", &text], &extra);
    // The worker may see its command through, or learn that it cannot be determined;
    // what it never does is run it twice, or hang.
    let printed = last_word(worker, point).await;
    let runs = std::fs::read_to_string(fixture.home_files().join(&mark)).unwrap_or_default();
    let heard_of_its_end = printed.as_ref().is_some_and(|printed| printed["code"].is_number());
    let right = if heard_of_its_end { 1..=1 } else { 0..=1 };
    assert!(
        right.contains(&runs.lines().count()),
        "{point}: the command ran {} times, and its caller heard {printed:?}",
        runs.lines().count()
    );
    if point.starts_with("guest.job.") {
        let reached = format!("{point} is reached");
        until(&reached, || async { !alive(guest) }).await;
        return;
    }
    assert!(alive(guest), "{point} is none of a command's");
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    // Only a guest that dies before it has tidied up leaves its name behind.
    let instance = attached["instance"].as_str().unwrap();
    let left = fixture.socket_dir("default", instance).join("guest.json");
    let untidy = ["guest.shutdown.begin", "guest.shutdown.after-kill"].contains(&point);
    assert_eq!(left.exists(), untidy, "{point} is never reached");
}

/// Waits for a worker's end, which must come.
async fn last_word(worker: Worker, point: &str) -> Option<serde_json::Value> {
    tokio::time::timeout(Duration::from_mins(2), worker.last_word()).await.expect(point)
}

pub(crate) async fn a_stage_may_die_at_any_step(fixture: &BackendFixture) {
    for point in vestal_stage::failpoint::NAMES {
        let extra = [("VESTAL_STAGE_FAILPOINT", point)];
        let worker = fixture.worker_with(&["attach", "default"], &extra);
        let printed = last_word(worker, point).await;
        // Once the sandbox stands nothing hangs on it. Until then the first process
        // ends with it, unless that is faster.
        match point {
            "stage.enclose.before-leaving" => assert!(printed.is_some(), "{point}"),
            "stage.enclose.after-go" => {}
            _ => assert_eq!(printed, None, "{point}"),
        }
        if printed.is_none() {
            assert_eq!(fixture.guests(), Vec::<u32>::new(), "{point}");
            assert_eq!(fixture.own_containers(), Vec::<serde_json::Value>::new(), "{point}");
        }
        assert_whole(fixture, point).await;
        fixture
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

pub(crate) async fn a_launch_may_die_at_any_step(fixture: &BackendFixture) {
    for point in vestal_stage::failpoint::LAUNCH_NAMES {
        let extra = [("VESTAL_STAGE_FAILPOINT", point)];
        let worker = fixture.worker_with(&["attach", "default"], &extra);
        assert_eq!(last_word(worker, point).await, None, "{point}");
        assert_eq!(fixture.guests(), Vec::<u32>::new(), "{point}");
        assert_eq!(fixture.own_containers(), Vec::<serde_json::Value>::new(), "{point}");
        assert_whole(fixture, point).await;
        fixture
            .engine()
            .remove(&TaskName::default_task(), vestal_sandbox::FilesOnRemoval::Remove)
            .await
            .unwrap();
    }
}

/// The guest's own failpoints.
const GUEST_FAILPOINTS: &[&str] = &vestal_guest::failpoint::NAMES;

pub(crate) async fn what_a_crash_left_half_written_is_swept(fixture: &BackendFixture) {
    fixture.run("true").await;
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let dir = fixture.sandbox_dir("default");
    std::fs::write(dir.join("sandbox.0123456789ab.tmp"), "{").unwrap();
    let trash = dir.with_file_name(".trash-0123456789ab");
    std::fs::create_dir_all(trash.join("instances/0123456789abcdef/io")).unwrap();
    assert_whole(fixture, "half a record").await;
    assert_eq!(fixture.engine().list().await.unwrap().len(), 1);
    assert!(!trash.exists(), "a removal that was cut short is finished");
}

pub(crate) async fn attaching_stopping_and_removing_at_once_leaves_one_sandbox(
    fixture: &BackendFixture,
) {
    for round in 0..4 {
        let start = |words: &[&str]| fixture.worker(words);
        let disturbing: Vec<Worker> = ["stop", "remove", "stop", "remove"]
            .iter()
            .map(|verb| start(&[verb, "default"]))
            .collect();
        let attaching: Vec<Worker> = (0..4).map(|_| start(&["attach", "default"])).collect();
        let running: Vec<Worker> =
            (0..2).map(|_| start(&["run", "default", "sleep 0.01"])).collect();
        for worker in attaching {
            let printed = last_word(worker, "the end of an attach").await;
            assert!(printed.is_some(), "round {round}: an attach found no sandbox");
        }
        for worker in disturbing.into_iter().chain(running) {
            // There may be nothing to stop, and a command may be stopped.
            last_word(worker, "a worker's end").await;
        }
        assert_whole(fixture, &format!("round {round}")).await;
    }
}

pub(crate) async fn a_soak_of_random_kills_loses_nothing_and_leaves_nothing(
    fixture: &BackendFixture,
) {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 20);
    let mut random = Random::from_environment();
    fixture.run("kept=yes; count=0").await;
    let mut saved = 0;
    for round in 0..rounds {
        let (file, there) = fixture.meeting_place(&format!("round-{round}"));
        let text = format!(
            "count=$((count + 1)); setsid sleep 1000 & echo {round} >> {}; sleep 0.0{}; echo $count",
            there.display(),
            random.below(90)
        );
        let mut worker = fixture.worker(&["run", "default", &text]);
        // Half of the blows fall at any time, the others while the command runs.
        if random.below(2) == 0 {
            until("the command runs", || async { file.exists() }).await;
        }
        tokio::time::sleep(Duration::from_micros(random.below(40_000))).await;
        match random.below(3) {
            0 => drop(worker.child.start_kill()),
            1 => {
                super::survival::kill_guest(fixture);
            }
            _ => {
                super::survival::kill_guest(fixture);
                drop(worker.child.start_kill());
            }
        }
        last_word(worker, &format!("round {round}")).await;
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(lines.lines().count() <= 1, "round {round} ran twice");
        assert_whole(fixture, &format!("round {round}")).await;
        let count = count(fixture).await;
        assert!(
            (saved..=round + 1).contains(&count),
            "round {round}: {saved} were saved, and now {count} are"
        );
        saved = count;
    }
    let summary = &fixture.engine().list().await.unwrap()[0];
    assert_eq!(summary.state, SummaryState::Running);
}

pub(crate) async fn a_soak_of_killed_creations_leaves_one_sandbox_each(fixture: &BackendFixture) {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 20) / 4;
    let mut random = Random::from_environment();
    let task = TaskName::default_task();
    fixture.run("true").await;
    for round in 0..rounds {
        let remove = || async {
            fixture.engine().remove(&task, vestal_sandbox::FilesOnRemoval::Keep).await.unwrap()
        };
        // How long a creation takes changes with what else the machine does.
        remove().await;
        let begun = tokio::time::Instant::now();
        let mut undisturbed = fixture.worker(&["attach", "default"]);
        undisturbed.line().await;
        let took = begun.elapsed();
        undisturbed.finish().await;
        remove().await;
        let mut worker = fixture.worker(&["attach", "default"]);
        let when = took.mul_f64(f64::from(u32::try_from(random.below(1000)).unwrap()) / 1000.0);
        tokio::time::sleep(when).await;
        drop(worker.child.start_kill());
        last_word(worker, &format!("round {round}")).await;
        assert_whole(fixture, &format!("round {round}")).await;
    }
}

/// Returns how many commands the session knows of, which are then saved.
async fn count(fixture: &BackendFixture) -> u64 {
    let output = fixture.run("echo $kept $count").await;
    assert_eq!(output.session_state, SessionState::Saved);
    let text = output.stdout.text();
    let count = text.trim().strip_prefix("yes ");
    count.expect("the session is kept").parse().unwrap()
}
