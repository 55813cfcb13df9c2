//! What outlives what.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use vestal_sandbox::{
    Command, Error, FilesOnRemoval, Notice, Rebuild, StateBefore, TaskName, WhileBusy, new_job_id,
};
use vestal_wire::{Cause, JobState};

use crate::support::{Gate, World, alive, marker, parent_of, processes_with, until};

pub(crate) async fn a_background_job_survives_its_process_and_is_found_again(world: &World) {
    let gate = Gate::new(world);
    let text = format!("{}; sleep 1000", gate.pass());
    let mut worker = world.worker(&["spawn", "default", &text]);
    let spawned = worker.line().await;
    gate.reached().await;
    worker.finish().await;
    gate.open().await;

    let sandbox = world.sandbox().await;
    let id = spawned["job"].as_str().unwrap().parse().unwrap();
    let job = sandbox.wait(&id, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(job.state, JobState::Running);
    assert_eq!(u64::from(job.pid.unwrap()), spawned["pid"].as_u64().unwrap());
    assert_eq!(job.pid_start.unwrap(), spawned["start"].as_u64().unwrap());
    let process = world.process(job.pid.unwrap());
    assert!(alive(process));
    let killed = sandbox.kill(&id).await.unwrap();
    assert!(matches!(killed.state, JobState::Ended(exit) if exit.cause == Cause::Killed));
    assert!(!alive(process));
}

pub(crate) async fn a_killed_process_leaves_the_sandbox_as_it_is(world: &World) {
    let mut worker = world.worker(&["attach", "default"]);
    let seen = worker.line().await;
    worker.crash().await;
    let sandbox = world.sandbox().await;
    assert_eq!(sandbox.state_before(), StateBefore::Running);
    assert_eq!(sandbox.instance().await, seen["instance"].as_str().unwrap());
}

pub(crate) async fn a_foreground_command_survives_the_loss_of_its_caller(world: &World) {
    let gate = Gate::new(world);
    let worker = world.worker(&["run", "default", &gate.pass()]);
    gate.reached().await;
    worker.crash().await;
    gate.open().await;
}

pub(crate) async fn a_stopped_sandbox_is_started_with_its_files_and_sessions(world: &World) {
    let first = world.sandbox().await;
    let mark = marker();
    world.run(&format!("cd /usr; keep=me; echo x > ~/file; sleep {mark} & disown")).await;
    assert_eq!(processes_with(&mark).len(), 1);
    let instance = first.instance().await;
    drop(first);
    assert!(world.engine().stop(&TaskName::default_task()).await.unwrap());
    assert_eq!(processes_with(&mark), Vec::<u32>::new(), "stopping ends its processes");
    assert!(
        !world.engine().stop(&TaskName::default_task()).await.unwrap(),
        "it is stopped already"
    );

    let sandbox = world.sandbox().await;
    assert_eq!(sandbox.state_before(), StateBefore::Stopped);
    assert_eq!(sandbox.instance().await, instance);
    let output = world.run("pwd; echo $keep; cat ~/file").await;
    assert_eq!(output.stdout.text(), "/usr\nme\nx\n");
}

pub(crate) async fn a_killed_guest_is_recovered_and_leaves_no_process(world: &World) {
    let sandbox = world.sandbox().await;
    let mark = marker();
    let text = format!("setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}");
    let job = sandbox.spawn(Command::shell(text)).await.unwrap();
    until("three of them run", || async { processes_with(&format!("sleep\0{mark}")).len() == 3 })
        .await;
    kill_guest(world);
    let again = sandbox.run(Command::shell("echo back")).await.unwrap();
    assert_eq!(again.stdout.bytes(), b"back\n");
    until("its jobs are gone", || async { processes_with(&mark).is_empty() }).await;
    let info = sandbox.wait(&job.id, Some(Duration::ZERO)).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Lost), "{info:?}");
    assert_eq!(world.guests().len(), 1);
}

pub(crate) async fn a_killed_supervisor_takes_its_job_along_and_no_other(world: &World) {
    let sandbox = world.sandbox().await;
    let (mark, other) = (marker(), marker());
    let text = format!("setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}");
    let lost = sandbox.spawn(Command::shell(text)).await.unwrap();
    let kept = sandbox.spawn(Command::shell(format!("sleep {other}"))).await.unwrap();
    until("three of them run", || async { processes_with(&format!("sleep\0{mark}")).len() == 3 })
        .await;
    let guests = world.guests();
    kill(parent_of(world.process(lost.pid.unwrap())).unwrap(), Signal::KILL);
    let info = sandbox.wait(&lost.id, None).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Lost), "{info:?}");
    until("what it left is gone", || async { processes_with(&mark).is_empty() }).await;
    assert_eq!(world.guests(), guests, "the guest goes on");
    let info = sandbox.wait(&kept.id, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(info.state, JobState::Running);
    sandbox.kill(&kept.id).await.unwrap();
    assert_eq!(processes_with(&other), Vec::<u32>::new());
}

pub(crate) async fn processes_that_outlive_all_of_ours_are_found_by_their_mark(world: &World) {
    let sandbox = world.sandbox().await;
    let mark = marker();
    let text = format!("setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}");
    let job = sandbox.spawn(Command::shell(text)).await.unwrap();
    until("three of them run", || async { processes_with(&format!("sleep\0{mark}")).len() == 3 })
        .await;
    // A guest that is stopped cannot see a supervisor go, nor end what it left.
    let supervisor = parent_of(world.process(job.pid.unwrap())).unwrap();
    kill(world.guests()[0], Signal::STOP);
    kill(supervisor, Signal::KILL);
    until("the supervisor is gone", || async { !alive(supervisor) }).await;
    kill_guest(world);
    until("the guest is gone", || async { world.guests().is_empty() }).await;
    assert!(!processes_with(&mark).is_empty(), "nobody was left to end them");
    let output = sandbox.run(Command::shell("echo back")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"back\n");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

pub(crate) async fn a_stuck_guest_is_replaced(world: &World) {
    world.run("kept=1").await;
    let stuck = world.guests()[0];
    kill(stuck, Signal::STOP);
    let output = world.run("echo $kept").await;
    assert_eq!(output.stdout.bytes(), b"1\n");
    assert!(!alive(stuck));
    assert_eq!(world.guests().len(), 1);
}

/// A starter that died can leave a guest behind that keeps its lock and is stuck.
pub(crate) async fn a_guest_that_keeps_its_dead_starters_lock_is_no_match_for_stop_and_removal(
    world: &World,
) {
    let task = TaskName::default_task();
    let instance = world.sandbox().await.instance().await;
    for removes in [false, true] {
        world.engine().stop(&task).await.unwrap();
        let dies = [("VESTAL_FAILPOINT", "start.intent-written")];
        assert!(world.worker_with(&["attach", "default"], &dies).was_killed().await);
        let mut stuck = keep_the_lock(world, &instance);
        if removes {
            world.engine().remove(&task, FilesOnRemoval::Remove).await.unwrap();
        } else {
            assert!(!world.engine().stop(&task).await.unwrap(), "it did not run yet");
            assert_eq!(
                world.sandbox().await.instance().await,
                instance,
                "it is not the worse for it"
            );
        }
        assert!(!stuck.wait().await.unwrap().success());
    }
    assert!(!world.sandbox_dir("default").exists());
}

/// Starts what its backend takes for the guest of an instance that is coming up.
fn keep_the_lock(world: &World, instance: &str) -> tokio::process::Child {
    let dir = world.sandbox_dir("default");
    let lock = std::fs::File::open(dir.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let child = tokio::process::Command::new("sleep")
        .arg("1000")
        .env("VESTAL_GUEST_INSTANCE", instance)
        .stdin(lock)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    if world.is_contained() {
        let pid = child.id().unwrap();
        let start = vestal_process::start_time(pid).unwrap();
        let boot = vestal_process::boot_id().unwrap();
        let text = serde_json::json!({ "pid": pid, "pid_start": start, "boot": boot });
        let record = dir.join("instances").join(instance).join("init.json");
        std::fs::write(record, text.to_string()).unwrap();
    }
    child
}

/// What cannot start today may start tomorrow, with what was installed in it.
pub(crate) async fn a_start_that_fails_loses_nothing(world: &World) {
    let task = TaskName::default_task();
    world.run("kept=1").await;
    // An ordinary user's has no system of its own to install anything in.
    let install = "(echo installed > /usr/tool) 2>/dev/null || echo read-only";
    let is_writable =
        world.has_system() && world.run(install).await.stdout.bytes() != b"read-only\n";
    let instance = world.sandbox().await.instance().await;
    world.engine().stop(&task).await.unwrap();
    // A file where the directory of the socket belongs: it cannot start like this.
    let io = world.socket_dir("default", &instance);
    let aside = io.with_file_name("io.aside");
    let block = || {
        std::fs::rename(&io, &aside).unwrap();
        std::fs::write(&io, "in the way").unwrap();
    };
    block();

    if !world.is_contained() {
        // Its files are the host's: nothing is lost with the instance.
        let sandbox = world.sandbox().await;
        assert_eq!(sandbox.generation().await, 2);
        assert!(sandbox.notices().iter().any(|notice| matches!(notice, Notice::Recreated { .. })));
        assert_eq!(world.run("echo $kept").await.stdout.bytes(), b"1\n");
        return;
    }
    for _ in 0..2 {
        let error = world.engine().sandbox(&task).await.unwrap_err();
        assert!(matches!(error, Error::StartFailed { .. }), "{error:?}");
    }
    assert_eq!(world.instances_of("default"), [&*instance], "no other is made");
    let left = world.left_of("default");
    assert!(!left.contains(&"intent.json".to_owned()), "there is nothing to finish: {left:?}");
    std::fs::remove_file(&io).unwrap();
    std::fs::rename(&aside, &io).unwrap();
    let output = world.run("cat /usr/tool || echo none; echo $kept").await;
    let expected = if is_writable { "installed\n1\n" } else { "none\n1\n" };
    assert_eq!(output.stdout.text(), expected);
    let sandbox = world.sandbox().await;
    assert_eq!((sandbox.instance().await, sandbox.generation().await), (instance.clone(), 1));

    // Making it anew is for a person to say.
    drop(sandbox);
    world.engine().stop(&task).await.unwrap();
    block();
    world.engine().rebuild(&task, &Rebuild::default(), WhileBusy::Refuse).await.unwrap();
    let output = world.run("cat /usr/tool || echo none; echo $kept").await;
    assert_eq!(output.stdout.text(), "none\n1\n");
    assert_eq!(world.sandbox().await.generation().await, 2);
    assert_eq!(world.instances_of("default").len(), 1);
}

pub(crate) async fn ended_jobs_are_still_known_after_a_restart(world: &World) {
    let id = new_job_id();
    let sandbox = world.sandbox().await;
    let command = Command::shell("echo out; echo err >&2; exit 7").job_id(id.clone());
    sandbox.run(command).await.unwrap();
    drop(sandbox);
    world.engine().stop(&TaskName::default_task()).await.unwrap();
    let sandbox = world.sandbox().await;
    let info = sandbox.wait(&id, None).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.code == Some(7)), "{info:?}");
    assert_eq!((info.stdout_bytes, info.stderr_bytes), (4, 4));
}

/// Kills the guest as the kernel would for want of memory.
pub(super) fn kill_guest(world: &World) {
    for pid in world.guests() {
        kill(pid, Signal::KILL);
    }
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}
