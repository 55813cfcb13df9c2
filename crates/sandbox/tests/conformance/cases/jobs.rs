//! Jobs that outlive the process that started them.

use std::time::Duration;

use vestal_sandbox::job::{AfterInput, Follow, JobEvent, JobFilter, lookup};
use vestal_sandbox::{Command, CommandInput, Error, Sandbox, TaskName, WindowSize, new_job_id};
use vestal_wire::{AttachJob, Cause, CommandOutcome, JobExit, JobId, JobState, OutputDelivery};

use crate::support::{BackendFixture, marker, processes_with, until};

pub(crate) async fn a_killed_job_leaves_no_process_whatever_it_did(fixture: &BackendFixture) {
    let mark = marker();
    let text = format!(
        "trap '' TERM INT HUP; for n in 1 2 3 4 5 6; do setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &); done; sleep {mark}"
    );
    let sandbox = fixture.sandbox().await;
    let job = sandbox.spawn(Command::shell(text)).await.unwrap();
    until("all of them run", || async { processes_with(&format!("sleep\0{mark}")).len() >= 19 })
        .await;
    let killed = sandbox.kill(&job.id).await.unwrap();
    assert_eq!(killed.state, JobState::Ended(JobExit { code: Some(137), cause: Cause::Killed }));
    assert_eq!(killed.processes, 0);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

pub(crate) async fn a_job_can_be_killed_by_another_process(fixture: &BackendFixture) {
    let mark = marker();
    let mut worker = fixture.worker(&["spawn", "default", &format!("sleep {mark}")]);
    let id: JobId = worker.line().await["job"].as_str().unwrap().parse().unwrap();
    worker.finish().await;
    let sandbox = fixture.sandbox().await;
    sandbox.kill(&id).await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let info = sandbox.wait(&id, None).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Killed));
}

pub(crate) async fn acting_on_a_job_starts_no_sandbox(fixture: &BackendFixture) {
    let engine = fixture.engine();
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let job = sandbox.spawn(Command::shell("cat").stdin(CommandInput::Piped)).await.unwrap();
    let dropped = Command::shell("sleep 1000").kill_on_drop();
    let dropped = sandbox.start(dropped, Follow::EveryByte).await.unwrap();
    let connection = sandbox.connection().await.unwrap();
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    connection.closed().await;
    let input = CommandInput::Bytes(b"x".to_vec());
    let size = WindowSize { rows: 24, cols: 80 };
    let refused = [
        sandbox.write(&job.id, input, AfterInput::KeepOpen).await.unwrap_err(),
        sandbox.resize(&job.id, size).await.unwrap_err(),
        sandbox.signal(&job.id, 15).await.unwrap_err(),
        sandbox.kill(&job.id).await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::Stopped { .. }), "{error:?}");
    }
    drop(dropped);
    assert!(engine.close(Duration::from_mins(1)).await);
    assert_eq!(fixture.guests(), Vec::<u32>::new());
}

pub(crate) async fn a_background_job_runs_in_its_directory(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    sandbox.run(Command::shell("cd /etc").session("main")).await.unwrap();
    let inherited = sandbox.spawn(Command::shell("pwd").session("main")).await.unwrap();
    let given =
        sandbox.spawn(Command::shell("pwd; exit 5").session("main").workdir("/usr")).await.unwrap();
    assert_eq!(log(&sandbox, &inherited.id).await, b"/etc\n");
    assert_eq!(log(&sandbox, &given.id).await, b"/usr\n");
    let info = sandbox.wait(&given.id, None).await.unwrap();
    assert_eq!(info.state, JobState::Ended(JobExit { code: Some(5), cause: Cause::Exited }));
}

pub(crate) async fn a_background_job_reads_what_is_written_to_it(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let job =
        sandbox.spawn(Command::shell("cat; echo over").stdin(CommandInput::Piped)).await.unwrap();
    let write = |bytes: &'static [u8], after| {
        sandbox.write(&job.id, CommandInput::Bytes(bytes.to_vec()), after)
    };
    write(b"one\n", AfterInput::KeepOpen).await.unwrap();
    // Another process can write as well.
    let elsewhere = fixture.sandbox().await;
    elsewhere
        .write(&job.id, CommandInput::Bytes(b"two\n".to_vec()), AfterInput::Close)
        .await
        .unwrap();
    assert_eq!(log(&sandbox, &job.id).await, b"one\ntwo\nover\n");
    assert!(write(b"three\n", AfterInput::KeepOpen).await.is_err());
}

pub(crate) async fn the_log_can_be_read_at_any_offset(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let job = sandbox.spawn(Command::shell("printf 0123456789; printf abcdef >&2")).await.unwrap();
    sandbox.wait(&job.id, None).await.unwrap();
    let request = AttachJob {
        id: job.id.clone(),
        stdout_from: 7,
        stderr_from: 4,
        follow: false,
        delivery: OutputDelivery::EveryByte,
    };
    let mut following = sandbox.attach(request).await.unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while let Some(event) = following.next().await.unwrap() {
        match event {
            JobEvent::Stdout(bytes) => out.extend_from_slice(&bytes),
            JobEvent::Stderr(bytes) => err.extend_from_slice(&bytes),
            _ => {}
        }
    }
    assert_eq!((&*out, &*err), (&b"789"[..], &b"ef"[..]));
}

pub(crate) async fn jobs_are_listed_in_the_order_they_started(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let mut expected = Vec::new();
    for number in 0..5 {
        expected.push(sandbox.run(Command::shell(format!("exit {number}"))).await.unwrap().job);
    }
    let running = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    expected.push(running.id.clone());
    // A process that started none of them sees them all.
    let list = fixture.sandbox().await.jobs(JobFilter::All, 100).await.unwrap();
    let ids: Vec<JobId> = list.jobs.iter().map(|job| job.id.clone()).collect();
    assert_eq!(ids, expected);
    let list = sandbox.jobs(JobFilter::Running, 100).await.unwrap();
    assert_eq!(list.jobs.len(), 1);
    assert_eq!(list.jobs[0].summary, "sleep 1000");
    sandbox.kill(&running.id).await.unwrap();
}

pub(crate) async fn a_job_id_is_never_run_twice(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let id = new_job_id();
    let command = || Command::shell("echo ran >> ~/runs; echo once; exit 4").job_id(id.clone());
    let first = sandbox.run(command()).await.unwrap();
    let second = fixture.sandbox().await.run(command()).await.unwrap();
    assert_eq!(second.stdout, first.stdout);
    assert_eq!(second.exit, first.exit);
    super::survival::kill_guest(fixture);
    drop(sandbox);
    let third = fixture.sandbox().await.run(command()).await.unwrap();
    assert_eq!(third.exit, first.exit);
    assert_eq!(std::fs::read(fixture.home_files().join("runs")).unwrap(), b"ran\n");
}

pub(crate) async fn a_job_id_is_not_run_again_when_its_job_is_forgotten(fixture: &BackendFixture) {
    let engine = fixture.engine_with(&["terminal.jobs_kept=1"]);
    let id = new_job_id();
    let command = || Command::shell("echo ran >> ~/runs").job_id(id.clone());
    let run = async |command| {
        let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
        sandbox.run(command).await
    };
    run(command()).await.unwrap();
    for _ in 0..3 {
        run(Command::shell("true")).await.unwrap();
    }
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let kept = sandbox.jobs(JobFilter::All, 100).await.unwrap().jobs;
    assert!(kept.iter().all(|job| job.id != id), "it is forgotten");
    for _ in 0..2 {
        // That a guest was killed may be noticed by the first command only.
        until("the id is refused", || async {
            let again = run(command()).await.unwrap_err();
            matches!(again, Error::Job(_))
        })
        .await;
        // The next guest knows no more of the job, but not less either.
        super::survival::kill_guest(fixture);
    }
    let runs = std::fs::read(fixture.home_files().join("runs")).unwrap();
    assert_eq!(runs, b"ran\n");
}

pub(crate) async fn a_command_that_never_arrived_is_never_run(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let connection = sandbox.connection().await.unwrap();
    let welcome = connection.welcome().clone();
    let id = new_job_id();
    let outcome = lookup(&connection, &id, &welcome.incarnation, &welcome.boot).await.unwrap();
    assert_eq!(outcome, CommandOutcome::NeverStarted);
    // What arrives late is refused, or the answer would have been a lie.
    let late = sandbox.run(Command::shell("echo ran").job_id(id)).await.unwrap_err();
    assert!(matches!(late, Error::Job(_)), "{late}");
    // Of another boot nobody can tell.
    let outcome = lookup(&connection, &new_job_id(), "another", "another").await.unwrap();
    assert_eq!(outcome, CommandOutcome::Unknown);
}

pub(crate) async fn waiting_gives_the_exit_code_or_says_it_still_runs(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let job =
        sandbox.spawn(Command::shell("read x; exit $x").stdin(CommandInput::Piped)).await.unwrap();
    let waited = sandbox.wait(&job.id, Some(Duration::from_millis(50))).await.unwrap();
    assert_eq!(waited.state, JobState::Running);
    let waiting = tokio::spawn({
        let (sandbox, id) = (sandbox.clone(), job.id.clone());
        async move { sandbox.wait(&id, None).await.unwrap() }
    });
    sandbox
        .write(&job.id, CommandInput::Bytes(b"9\n".to_vec()), AfterInput::KeepOpen)
        .await
        .unwrap();
    let ended = waiting.await.unwrap();
    assert_eq!(ended.state, JobState::Ended(JobExit { code: Some(9), cause: Cause::Exited }));
    let unknown = sandbox.wait(&new_job_id(), None).await.unwrap_err();
    assert!(unknown.to_string().contains("job"), "{unknown}");
}

/// Follows a job to its end and returns its standard output.
async fn log(sandbox: &Sandbox, id: &JobId) -> Vec<u8> {
    let request = AttachJob {
        id: id.clone(),
        stdout_from: 0,
        stderr_from: 0,
        follow: true,
        delivery: Follow::EveryByte.delivery(),
    };
    let mut following = sandbox.attach(request).await.unwrap();
    let mut out = Vec::new();
    while let Some(event) = following.next().await.unwrap() {
        if let JobEvent::Stdout(bytes) = event {
            out.extend_from_slice(&bytes);
        }
    }
    out
}

pub(crate) async fn a_session_that_a_dead_process_left_is_ended_with_all_its_jobs(
    fixture: &BackendFixture,
) {
    let (mark, other) = (marker(), marker());
    let sandbox = fixture.sandbox().await;
    sandbox.run(Command::shell("mine=1").session("mine")).await.unwrap();
    sandbox.run(Command::shell("theirs=1").session("theirs")).await.unwrap();
    // One in the background, one whose shell is gone, and one that is waited for.
    let sleep = |mark: &str| format!("setsid sleep {mark} & sleep {mark}");
    sandbox.spawn(Command::shell(sleep(&mark)).session("mine")).await.unwrap();
    let left = format!("setsid sleep {mark} & disown");
    sandbox.run(Command::shell(left).session("mine")).await.unwrap();
    let follow = Command::shell(format!("sleep {mark}")).session("mine");
    let waited = sandbox.start(follow, Follow::EveryByte).await.unwrap();
    sandbox.spawn(Command::shell(sleep(&other)).session("theirs")).await.unwrap();
    let running = |mark: &str| processes_with(&format!("sleep\0{mark}")).len();
    until("all of them run", || async { running(&mark) == 4 && running(&other) == 2 }).await;
    assert_eq!(sandbox.jobs_of_session("mine").await.unwrap().len(), 3);
    drop((waited, sandbox));

    let killed = fixture.engine().end_session(&TaskName::default_task(), "mine").await.unwrap();
    assert_eq!(killed.len(), 3);
    assert_eq!((running(&mark), running(&other)), (0, 2));
    let sandbox = fixture.sandbox().await;
    let shown = |session| sandbox.run(Command::shell("echo $mine$theirs").session(session));
    assert_eq!(shown("mine").await.unwrap().stdout.text(), "\n");
    assert_eq!(shown("theirs").await.unwrap().stdout.text(), "1\n");
    // The shell that just answered may count as running for a moment longer.
    assert!(!sandbox.end_session("theirs").await.unwrap().is_empty());
    assert_eq!(running(&other), 0);
}

pub(crate) async fn ending_a_session_makes_and_starts_nothing(fixture: &BackendFixture) {
    let (engine, task) = (fixture.engine(), TaskName::default_task());
    assert_eq!(engine.end_session(&task, "main").await.unwrap(), []);
    assert_eq!(engine.list().await.unwrap(), []);
    fixture.run("true").await;
    engine.stop(&task).await.unwrap();
    assert_eq!(engine.end_session(&task, "main").await.unwrap(), []);
    let state = engine.inspect(&task).await.unwrap()[0].state;
    assert_eq!(state, vestal_sandbox::SummaryState::Stopped);
}
