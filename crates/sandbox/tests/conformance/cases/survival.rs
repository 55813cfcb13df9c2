//! What outlives what.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use vestal_sandbox::{
    Command, Error, FilesOnRemoval, Notice, Rebuild, StateBefore, TaskName, WhileBusy, new_job_id,
};
use vestal_wire::{Cause, JobState};

use crate::support::{BackendFixture, Gate, Kind, alive, marker, parent_of, processes_with, until};

pub(crate) async fn a_background_job_survives_its_process_and_is_found_again(
    fixture: &BackendFixture,
) {
    let gate = Gate::new(fixture);
    let text = format!("{}; sleep 1000", gate.pass());
    let mut worker = fixture.worker(&["spawn", "default", &text]);
    let spawned = worker.line().await;
    gate.reached().await;
    worker.finish().await;
    gate.open().await;

    let sandbox = fixture.sandbox().await;
    let id = spawned["job"].as_str().unwrap().parse().unwrap();
    let job = sandbox.wait(&id, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(job.state, JobState::Running);
    assert_eq!(u64::from(job.pid.unwrap()), spawned["pid"].as_u64().unwrap());
    assert_eq!(job.pid_start.unwrap(), spawned["start"].as_u64().unwrap());
    let process = fixture.process(job.pid.unwrap());
    assert!(alive(process));
    let killed = sandbox.kill(&id).await.unwrap();
    assert!(matches!(killed.state, JobState::Ended(exit) if exit.cause == Cause::Killed));
    assert!(!alive(process));
}

pub(crate) async fn a_killed_process_leaves_the_sandbox_as_it_is(fixture: &BackendFixture) {
    let mut worker = fixture.worker(&["attach", "default"]);
    let seen = worker.line().await;
    worker.crash().await;
    let sandbox = fixture.sandbox().await;
    assert_eq!(sandbox.state_before(), StateBefore::Running);
    assert_eq!(sandbox.instance().await, seen["instance"].as_str().unwrap());
}

pub(crate) async fn a_foreground_command_survives_the_loss_of_its_caller(fixture: &BackendFixture) {
    let gate = Gate::new(fixture);
    let worker = fixture.worker(&["run", "default", &gate.pass()]);
    gate.reached().await;
    worker.crash().await;
    gate.open().await;
}

pub(crate) async fn a_stopped_sandbox_is_started_with_its_files_and_sessions(
    fixture: &BackendFixture,
) {
    let first = fixture.sandbox().await;
    let mark = marker();
    fixture.run(&format!("cd /usr; keep=me; echo x > ~/file; sleep {mark} & disown")).await;
    // The shell does not wait for what it leaves behind: while that executes its program, which in a
    // container of an image file is read through fuse, it has no command line at all.
    until("what was left in the background runs", || async {
        processes_with(&format!("sleep\0{mark}")).len() == 1
    })
    .await;
    let instance = first.instance().await;
    drop(first);
    assert!(fixture.engine().stop(&TaskName::default_task()).await.unwrap());
    assert_eq!(processes_with(&mark), Vec::<u32>::new(), "stopping ends its processes");
    assert!(
        !fixture.engine().stop(&TaskName::default_task()).await.unwrap(),
        "it is stopped already"
    );

    let sandbox = fixture.sandbox().await;
    assert_eq!(sandbox.state_before(), StateBefore::Stopped);
    assert_eq!(sandbox.instance().await, instance);
    let output = fixture.run("pwd; echo $keep; cat ~/file").await;
    assert_eq!(output.stdout.text(), "/usr\nme\nx\n");
}

pub(crate) async fn a_killed_guest_is_recovered_and_leaves_no_process(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let mark = marker();
    let text = format!("setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}");
    let job = sandbox.spawn(Command::shell(text)).await.unwrap();
    until("three of them run", || async { processes_with(&format!("sleep\0{mark}")).len() == 3 })
        .await;
    kill_guest(fixture);
    let again = sandbox.run(Command::shell("echo back")).await.unwrap();
    assert_eq!(again.stdout.bytes(), b"back\n");
    until("its jobs are gone", || async { processes_with(&mark).is_empty() }).await;
    let info = sandbox.wait(&job.id, Some(Duration::ZERO)).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Lost), "{info:?}");
    assert_eq!(fixture.guests().len(), 1);
}

pub(crate) async fn a_killed_supervisor_takes_its_job_along_and_no_other(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let (mark, other) = (marker(), marker());
    let text = format!("setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}");
    let lost = sandbox.spawn(Command::shell(text)).await.unwrap();
    let kept = sandbox.spawn(Command::shell(format!("sleep {other}"))).await.unwrap();
    until("three of them run", || async { processes_with(&format!("sleep\0{mark}")).len() == 3 })
        .await;
    let guests = fixture.guests();
    kill(parent_of(fixture.process(lost.pid.unwrap())).unwrap(), Signal::KILL);
    let info = sandbox.wait(&lost.id, None).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Lost), "{info:?}");
    until("what it left is gone", || async { processes_with(&mark).is_empty() }).await;
    assert_eq!(fixture.guests(), guests, "the guest goes on");
    let info = sandbox.wait(&kept.id, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(info.state, JobState::Running);
    sandbox.kill(&kept.id).await.unwrap();
    assert_eq!(processes_with(&other), Vec::<u32>::new());
}

pub(crate) async fn processes_that_outlive_all_of_ours_are_found_by_their_mark(
    fixture: &BackendFixture,
) {
    let sandbox = fixture.sandbox().await;
    let mark = marker();
    let text = format!("setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}");
    let job = sandbox.spawn(Command::shell(text)).await.unwrap();
    until("three of them run", || async { processes_with(&format!("sleep\0{mark}")).len() == 3 })
        .await;
    // A guest that is stopped cannot see a supervisor go, nor end what it left.
    let supervisor = parent_of(fixture.process(job.pid.unwrap())).unwrap();
    kill(fixture.guests()[0], Signal::STOP);
    kill(supervisor, Signal::KILL);
    until("the supervisor is gone", || async { !alive(supervisor) }).await;
    kill_guest(fixture);
    until("the guest is gone", || async { fixture.guests().is_empty() }).await;
    assert!(!processes_with(&mark).is_empty(), "nobody was left to end them");
    let output = sandbox.run(Command::shell("echo back")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"back\n");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

pub(crate) async fn a_stuck_guest_is_replaced(fixture: &BackendFixture) {
    fixture.run("kept=1").await;
    let stuck = fixture.guests()[0];
    kill(stuck, Signal::STOP);
    let output = fixture.run("echo $kept").await;
    assert_eq!(output.stdout.bytes(), b"1\n");
    assert!(!alive(stuck));
    assert_eq!(fixture.guests().len(), 1);
}

/// A starter that died can leave a guest behind that keeps its lock and is stuck.
pub(crate) async fn a_guest_that_keeps_its_dead_starters_lock_is_no_match_for_stop_and_removal(
    fixture: &BackendFixture,
) {
    let task = TaskName::default_task();
    let instance = fixture.sandbox().await.instance().await;
    for removes in [false, true] {
        fixture.engine().stop(&task).await.unwrap();
        let dies = [("VESTAL_FAILPOINT", "start.intent-written")];
        assert!(fixture.worker_with(&["attach", "default"], &dies).was_killed().await);
        let mut stuck = keep_the_lock(fixture, &instance);
        if removes {
            fixture.engine().remove(&task, FilesOnRemoval::Remove).await.unwrap();
        } else {
            assert!(!fixture.engine().stop(&task).await.unwrap(), "it did not run yet");
            assert_eq!(
                fixture.sandbox().await.instance().await,
                instance,
                "it is not the worse for it"
            );
        }
        assert!(!stuck.wait().await.unwrap().success());
    }
    assert!(!fixture.sandbox_dir("default").exists());
}

/// Starts what its backend takes for the guest of an instance that is coming up.
fn keep_the_lock(fixture: &BackendFixture, instance: &str) -> tokio::process::Child {
    let dir = fixture.sandbox_dir("default");
    let lock = std::fs::File::open(dir.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let child = tokio::process::Command::new("sleep")
        .arg("1000")
        .env("VESTAL_GUEST_INSTANCE", instance)
        .stdin(lock)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    if fixture.is_contained() {
        let pid = child.id().unwrap();
        let start = vestal_process::start_time(pid).unwrap();
        let boot = vestal_process::boot_id().unwrap();
        let guest = serde_json::json!({ "pid": pid, "pid_start": start, "boot": boot });
        let (text, file) = match fixture.kind() {
            Kind::Apptainer(_) => {
                (serde_json::json!({ "session": guest, "guest": guest }), "launch.json")
            }
            _ => (guest, "init.json"),
        };
        let record = dir.join("instances").join(instance).join(file);
        std::fs::write(record, text.to_string()).unwrap();
    }
    child
}

/// What cannot start today may start tomorrow, with what was installed in it.
pub(crate) async fn a_start_that_fails_loses_nothing(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    fixture.run("kept=1").await;
    // An ordinary user's has no system of its own to install anything in.
    let install = "(echo installed > /usr/tool) 2>/dev/null || echo read-only";
    let is_writable =
        fixture.has_system() && fixture.run(install).await.stdout.bytes() != b"read-only\n";
    let instance = fixture.sandbox().await.instance().await;
    fixture.engine().stop(&task).await.unwrap();
    // A file where the directory of the socket belongs: it cannot start like this.
    let io = fixture.socket_dir("default", &instance);
    // Beside it nothing would stay where a pod starts.
    let aside = match fixture.kind() {
        Kind::Kubernetes => fixture.files_dir("default").join("aside"),
        _ => io.with_file_name("io.aside"),
    };
    let block = || {
        std::fs::rename(&io, &aside).unwrap();
        std::fs::write(&io, "in the way").unwrap();
    };
    block();

    if !fixture.is_contained() {
        // Its files are the host's: nothing is lost with the instance.
        let sandbox = fixture.sandbox().await;
        assert_eq!(sandbox.generation().await, 2);
        assert!(sandbox.notices().iter().any(|notice| matches!(notice, Notice::Recreated { .. })));
        assert_eq!(fixture.run("echo $kept").await.stdout.bytes(), b"1\n");
        return;
    }
    for _ in 0..2 {
        let error = fixture.engine().sandbox(&task).await.unwrap_err();
        assert!(matches!(error, Error::StartFailed { .. }), "{error:?}");
    }
    assert_eq!(fixture.instances_of("default"), [&*instance], "no other is made");
    let left = fixture.left_of("default");
    assert!(!left.contains(&"intent.json".to_owned()), "there is nothing to finish: {left:?}");
    std::fs::remove_file(&io).unwrap();
    std::fs::rename(&aside, &io).unwrap();
    let output = fixture.run("cat /usr/tool || echo none; echo $kept").await;
    let expected = if is_writable { "installed\n1\n" } else { "none\n1\n" };
    assert_eq!(output.stdout.text(), expected);
    let sandbox = fixture.sandbox().await;
    assert_eq!((sandbox.instance().await, sandbox.generation().await), (instance.clone(), 1));

    // Making it again is for a person to say.
    drop(sandbox);
    fixture.engine().stop(&task).await.unwrap();
    if *fixture.kind() != Kind::Kubernetes {
        // What is in the way of a pod is in its sandbox's files, which outlive it.
        block();
    }
    fixture.engine().rebuild(&task, &Rebuild::default(), WhileBusy::Refuse).await.unwrap();
    let output = fixture.run("cat /usr/tool || echo none; echo $kept").await;
    assert_eq!(output.stdout.text(), "none\n1\n");
    assert_eq!(fixture.sandbox().await.generation().await, 2);
    assert_eq!(fixture.instances_of("default").len(), 1);
}

pub(crate) async fn ended_jobs_are_still_known_after_a_restart(fixture: &BackendFixture) {
    let id = new_job_id();
    let sandbox = fixture.sandbox().await;
    let command = Command::shell("echo out; echo err >&2; exit 7").job_id(id.clone());
    sandbox.run(command).await.unwrap();
    drop(sandbox);
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let sandbox = fixture.sandbox().await;
    let info = sandbox.wait(&id, None).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.code == Some(7)), "{info:?}");
    assert_eq!((info.stdout_bytes, info.stderr_bytes), (4, 4));
}

/// Kills the guest as the kernel would for want of memory.
pub(super) fn kill_guest(fixture: &BackendFixture) {
    for pid in fixture.guests() {
        kill(pid, Signal::KILL);
    }
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}
