//! Running commands.

use std::time::Duration;

use vestal_sandbox::job::{Follow, JobError, JobEvent};
use vestal_sandbox::{Command, CommandInput, Error};
use vestal_wire::{Cause, FaultCode, JobExit, JobState, WindowSize};

use crate::support::{BackendFixture, Gate, marker, processes_with, until};

pub(crate) async fn stdout_and_stderr_are_separate_and_byte_exact(fixture: &BackendFixture) {
    let text = r"printf 'a\0b\377\n\r'; printf 'e\0r\376' >&2; exit 3";
    let output = fixture.run(text).await;
    assert_eq!(output.stdout.bytes(), b"a\0b\xff\n\r");
    assert_eq!(output.stderr.bytes(), b"e\0r\xfe");
    assert_eq!(output.exit, JobExit { code: Some(3), cause: Cause::Exited });
}

pub(crate) async fn output_is_bounded_with_an_exact_count_of_what_is_left_out(
    fixture: &BackendFixture,
) {
    let total: u64 = 50_000_000;
    let text = format!("printf begin; head -c {total} /dev/zero; printf end");
    let sandbox = fixture.sandbox().await;
    let output = sandbox.run(Command::shell(text).capture(1000, 1000)).await.unwrap();
    let (head, tail) = (&output.stdout.head, &output.stdout.tail);
    assert!(head.starts_with(b"begin\0") && tail.ends_with(b"\0end"));
    assert_eq!((head.len(), tail.len()), (1000, 1000));
    assert_eq!(output.stdout.omitted, total + 8 - 2000);
}

pub(crate) async fn a_failing_command_runs_once_whatever_it_prints(fixture: &BackendFixture) {
    let text = "echo ran >> ~/runs; echo 'Error: No such container: is not running' >&2; exit 1";
    let output = fixture.run(text).await;
    assert_eq!(output.exit.code, Some(1));
    assert_eq!(std::fs::read(fixture.home_files().join("runs")).unwrap(), b"ran\n");
}

pub(crate) async fn a_timed_out_command_leaves_no_process(fixture: &BackendFixture) {
    let mark = marker();
    let sandbox = fixture.sandbox().await;
    let text = format!(
        "trap '' TERM; setsid sleep {mark} & (setsid sleep {mark} &); echo up; sleep {mark}"
    );
    let limit = Duration::from_secs(2);
    let output = sandbox.run(Command::shell(text).timeout(limit)).await.unwrap();
    assert_eq!(output.exit, JobExit { code: Some(124), cause: Cause::TimedOut });
    assert_eq!(output.stdout.bytes(), b"up\n");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

pub(crate) async fn a_timeout_ends_its_own_job_and_nothing_else(fixture: &BackendFixture) {
    let (mark, other) = (marker(), marker());
    let sandbox = fixture.sandbox().await;
    // One that left a process behind and one that runs, in the same session.
    let left = Command::shell(format!("sleep {other} & disown")).session("main");
    let left = sandbox.run(left).await.unwrap();
    let running = Command::shell(format!("sleep {other}")).session("main");
    let running = sandbox.spawn(running).await.unwrap();
    let late =
        Command::shell(format!("sleep {mark}")).session("main").timeout(Duration::from_secs(1));
    let output = sandbox.run(late).await.unwrap();
    assert_eq!(output.exit.cause, Cause::TimedOut);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let info = sandbox.wait(&running.id, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(info.state, JobState::Running);
    assert_eq!(processes_with(&format!("sleep\0{other}")).len(), 2);
    for job in [left.job, running.id] {
        sandbox.kill(&job).await.unwrap();
    }
    assert_eq!(processes_with(&other), Vec::<u32>::new());
}

pub(crate) async fn an_interrupted_command_ends_with_130(fixture: &BackendFixture) {
    let mark = marker();
    let sandbox = fixture.sandbox().await;
    let command = Command::shell(format!("echo up; sleep {mark}")).session("main");
    let mut job = sandbox.start(command, Follow::EveryByte).await.unwrap();
    while !matches!(job.next().await.unwrap(), Some(JobEvent::Stdout(_))) {}
    until("its process runs", || async { processes_with(&format!("sleep\0{mark}")).len() == 1 })
        .await;
    let id = job.id().clone();
    sandbox.signal(&id, 2).await.unwrap();
    let info = job.finish().await.unwrap().into_info().unwrap();
    assert_eq!(info.state, JobState::Ended(JobExit { code: Some(130), cause: Cause::Signaled(2) }));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    // Its end is reported before it is known that it left nobody behind.
    until("nothing is left to report", || async { sandbox.signal(&id, 2).await.is_err() }).await;
}

pub(crate) async fn a_workdir_is_for_one_command_only(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let pwd = || Command::shell("pwd").session("main");
    let start = format!("{}\n", fixture.start_dir().display());
    assert_eq!(sandbox.run(pwd()).await.unwrap().stdout.text(), start);
    assert_eq!(sandbox.run(pwd().workdir("/usr")).await.unwrap().stdout.bytes(), b"/usr\n");
    assert_eq!(sandbox.run(pwd()).await.unwrap().stdout.text(), start);
    let moved =
        sandbox.run(Command::shell("cd /tmp").session("main").workdir("/usr")).await.unwrap();
    assert_eq!(moved.cwd, b"/tmp");
}

pub(crate) async fn a_missing_workdir_has_an_error_of_its_own(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    for missing in ["/no/such/place", "/etc/passwd"] {
        let error = sandbox.run(Command::shell("echo ran").workdir(missing)).await.unwrap_err();
        let Error::Job(JobError::Fault(fault)) = error else { panic!("{error}") };
        assert_eq!(fault.code, FaultCode::NoWorkdir, "{fault}");
    }
}

pub(crate) async fn shell_text_of_any_length_runs(fixture: &BackendFixture) {
    for size in [200_000, 10 << 20] {
        let text = format!("x=\"{}\"; echo ${{#x}}", "y".repeat(size));
        for command in [Command::shell(text.clone()), Command::shell(text).session("main")] {
            let sandbox = fixture.sandbox().await;
            let output = sandbox.run(command).await.unwrap();
            assert_eq!(output.stdout.text(), format!("{size}\n"), "{}", output.stderr.text());
            sandbox.reset_session("main").await.unwrap();
        }
    }
}

pub(crate) async fn standard_input_of_any_length_arrives(fixture: &BackendFixture) {
    let bytes: Vec<u8> =
        (0..8_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let command = Command::shell("cat > ~/copy; echo $?").stdin(CommandInput::Bytes(bytes.clone()));
    let output = fixture.sandbox().await.run(command).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"0\n");
    // Where files are is known once there is a place for them.
    let path = fixture.home_files().join("copy");
    assert!(std::fs::read(path).unwrap() == bytes, "what arrived is not what was sent");
}

pub(crate) async fn a_foreground_command_ends_with_its_shell(fixture: &BackendFixture) {
    let mark = marker();
    let gate = Gate::new(fixture);
    let sandbox = fixture.sandbox().await;
    let text = format!("{{ {}; sleep {mark}; }} & echo started", gate.pass());
    let output = sandbox.run(Command::shell(text)).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"started\n");
    // The one in the background continues.
    gate.reached().await;
    gate.open().await;
    sandbox.kill(&output.job).await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

pub(crate) async fn exit_codes_are_the_commands_own(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let cases = [
        ("true", Some(0), Cause::Exited),
        ("exit 255", Some(255), Cause::Exited),
        ("no-such-command-here", Some(127), Cause::Exited),
        ("kill -TERM $$", Some(143), Cause::Signaled(15)),
        ("kill -KILL $$", Some(137), Cause::Signaled(9)),
    ];
    for (text, code, cause) in cases {
        for command in [Command::shell(text), Command::shell(text).session("main")] {
            let output = sandbox.run(command).await.unwrap();
            assert_eq!(output.exit, JobExit { code, cause }, "{text}");
        }
    }
}

pub(crate) async fn an_argv_is_not_shell_text(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let argv = ["printf", "%s|", "a b", "$HOME", "*", "", "; echo no"];
    for command in [Command::argv(argv), Command::argv(argv).session("main")] {
        let output = sandbox.run(command).await.unwrap();
        assert_eq!(output.stdout.text(), "a b|$HOME|*||; echo no|");
    }
}

pub(crate) async fn a_reader_that_stops_reading_slows_only_its_own_job(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    // Far more than pipe, queue and window hold together, yet written in no time.
    let flood = Command::shell("head -c 16000000 /dev/zero; echo > ~/all-written");
    let mut stalled = sandbox.start(flood, Follow::EveryByte).await.unwrap();
    assert!(matches!(stalled.next().await.unwrap(), Some(JobEvent::Started { .. })));
    // Nobody reads on; others are served all the same.
    for _ in 0..20 {
        let output = sandbox.run(Command::shell("echo served")).await.unwrap();
        assert_eq!(output.stdout.bytes(), b"served\n");
    }
    assert!(!fixture.home_files().join("all-written").exists(), "every byte was asked for");
    // A reader that vanishes holds nothing up.
    drop(stalled);
    until("the job goes on alone", || async { fixture.home_files().join("all-written").exists() })
        .await;
}

pub(crate) async fn a_terminal_has_a_size_that_can_change(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let command = Command::shell("stty size; read line; stty size; tty >/dev/null && echo tty")
        .pty(WindowSize { rows: 24, cols: 80 })
        .stdin(CommandInput::Piped);
    let mut job = sandbox.start(command, Follow::EveryByte).await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(5).any(|window| window == b"24 80") {
        if let Some(JobEvent::Stdout(bytes)) = job.next().await.unwrap() {
            seen.extend_from_slice(&bytes);
        }
    }
    let id = job.id().clone();
    sandbox.resize(&id, WindowSize { rows: 50, cols: 132 }).await.unwrap();
    assert!(job.write_input(b"\n").await);
    while let Some(event) = job.next().await.unwrap() {
        if let JobEvent::Stdout(bytes) = event {
            seen.extend_from_slice(&bytes);
        }
    }
    let text = String::from_utf8(seen).unwrap();
    assert!(text.contains("50 132") && text.contains("tty"), "{text:?}");
    job.finish().await.unwrap().into_info().unwrap();
}
