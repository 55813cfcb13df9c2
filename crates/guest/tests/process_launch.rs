//! How a supervisor starts commands and reports them.

mod supervised;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use rustix::process::{Pid, Signal};
use supervised::{Ran, Streams, Supervised, base_env, shell, var};
use vestal_guest::process::{
    ChildEnds, FailedStep, LaunchCommand, SupervisorReport, WaitStatus, open_pty, resize, tree,
};
use vestal_testkit::{TEST_TIMEOUT, is_alive, wait_until};
use vestal_wire::WindowSize;

fn argv(arguments: &[&str], cwd: &Path) -> vestal_guest::process::Launch {
    let arguments = arguments.iter().map(|a| a.as_bytes().to_vec().into()).collect();
    vestal_guest::process::Launch { command: LaunchCommand::Argv(arguments), ..shell("", cwd) }
}

#[test]
fn output_and_messages_stay_apart_and_the_code_is_reported() {
    let ran = Supervised::new()
        .run_with(&shell("cat; echo err >&2; pwd; exit 7", Path::new("/usr")), b"in\0put\n");
    assert_eq!(
        (&ran.stdout[..], &ran.stderr[..], ran.code()),
        (&b"in\0put\n/usr\n"[..], &b"err\n"[..], 7)
    );
    assert_eq!(ran.left, [0_u32; 0]);
}

#[test]
fn a_supervisor_runs_one_launch_after_another() {
    let mut supervised = Supervised::new();
    for round in 0..20 {
        let ran = supervised.run(&shell(format!("echo {round}; exit {round}"), Path::new("/")));
        assert_eq!((ran.out(), ran.code()), (format!("{round}\n"), round));
        // Nothing of earlier launches stays open.
        let open = std::fs::read_dir(format!("/proc/{}/fd", supervised.pid())).unwrap().count();
        assert!(open <= 6, "{open} open files");
    }
}

#[test]
fn a_second_launch_at_once_is_refused_without_harm() {
    let mut supervised = Supervised::new();
    let streams = Streams::new(b"");
    supervised
        .get()
        .launch(&shell("read -r x < fifo; exit 3", Path::new("/nowhere/at/all")), streams.ends())
        .unwrap();
    let ran = supervised.finish(streams);
    assert_eq!(ran.failed, Some((FailedStep::Chdir, rustix::io::Errno::NOENT.raw_os_error())));
    let directory = tempfile::tempdir().unwrap();
    let streams = Streams::new(b"");
    supervised
        .get()
        .launch(&shell("mkfifo fifo; read -r x < fifo; exit 3", directory.path()), streams.ends())
        .unwrap();
    supervised.get().launch(&shell("echo no", Path::new("/")), Streams::new(b"").ends()).unwrap();
    assert!(matches!(
        supervised.report().unwrap(),
        SupervisorReport::Failed { step: FailedStep::Setup, .. } | SupervisorReport::Started { .. }
    ));
    assert!(matches!(
        supervised.report().unwrap(),
        SupervisorReport::Failed { step: FailedStep::Setup, .. } | SupervisorReport::Started { .. }
    ));
    let fifo = directory.path().join("fifo");
    wait_until("the fifo is there", || fifo.exists());
    File::options().write(true).open(fifo).unwrap().write_all(b"go\n").unwrap();
    assert_eq!(supervised.finish(streams).code(), 3);
}

#[test]
fn what_cannot_be_started_is_reported_by_step_and_the_supervisor_goes_on() {
    let mut supervised = Supervised::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "not a program").unwrap();
    let enoent = rustix::io::Errno::NOENT.raw_os_error();
    let eacces = rustix::io::Errno::ACCESS.raw_os_error();
    let failed = |ran: Ran| ran.failed.unwrap();
    assert_eq!(
        failed(supervised.run(&shell(":", Path::new("/no/such")))),
        (FailedStep::Chdir, enoent)
    );
    assert_eq!(
        failed(supervised.run(&argv(&["/no/such/program"], Path::new("/")))),
        (FailedStep::Exec, enoent)
    );
    assert_eq!(
        failed(supervised.run(&argv(&["nosuchprogram"], Path::new("/")))),
        (FailedStep::Exec, enoent)
    );
    assert_eq!(
        failed(supervised.run(&argv(&[file.to_str().unwrap()], Path::new("/")))),
        (FailedStep::Exec, eacces)
    );
    assert_eq!(failed(supervised.run(&argv(&[], Path::new("/")))).0, FailedStep::Setup);
    assert_eq!(failed(supervised.run(&shell("a\0b", Path::new("/")))).0, FailedStep::Setup);
    assert_eq!(supervised.run(&shell("echo on", Path::new("/"))).out(), "on\n");
}

#[test]
fn arguments_are_passed_as_they_are_along_the_jobs_path() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("my-script");
    std::fs::write(&script, "printf '%s|' \"$@\"").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut launch = argv(&["my-script", "a b", "", "$x"], Path::new("/"));
    launch.env[0] = var("PATH", format!("/nowhere:{}", directory.path().display()));
    let ran = Supervised::new().run(&launch);
    // It has no interpreter line, which makes it the shell's.
    assert_eq!((ran.out().as_str(), ran.code()), ("a b||$x|", 0));
}

#[test]
fn the_environment_is_exactly_the_callers() {
    let mut launch = argv(&["/usr/bin/env"], Path::new("/usr"));
    launch.job_env = vec![var("BASE", "the job's"), var("ONLY", "one\ntwo")];
    let ran = Supervised::new().run(&launch);
    let mut lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "BASE=the job's",
            "HOME=/nowhere",
            "LANG=C.UTF-8",
            "ONLY=one",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "PWD=/usr",
            "two"
        ]
    );
}

#[test]
fn a_program_starts_with_clean_signals_files_and_a_session_of_its_own() {
    let text = "grep -E '^Sig(Blk|Ign):' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; cut -d' ' -f6 /proc/$$/stat";
    let ran = Supervised::new().run(&shell(text, Path::new("/")));
    let pid = ran.started.unwrap().0;
    assert_eq!(
        ran.out(),
        format!("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0 1 2 3 {pid}\n")
    );
}

#[test]
fn text_of_ten_mebibytes_runs() {
    let mut text = "echo start\n".to_owned();
    text.push_str(&format!(": {}\n", "x".repeat(1 << 10)).repeat(10 << 10));
    text.push_str("echo end; exit 4");
    let ran = Supervised::new().run(&shell(text, Path::new("/")));
    assert_eq!((ran.out().as_str(), ran.code()), ("start\nend\n", 4));
}

#[test]
fn the_reported_start_time_names_the_process() {
    let mut supervised = Supervised::new();
    let streams = Streams::new(b"");
    supervised.get().launch(&shell("exec sleep 1000", Path::new("/")), streams.ends()).unwrap();
    let SupervisorReport::Started { pid, pid_start } = supervised.report().unwrap() else {
        panic!()
    };
    assert_eq!(tree::start_time(pid), Some(pid_start));
    supervised.get().kill(std::time::Duration::ZERO).unwrap();
    assert_eq!(supervised.finish(streams).status, Some(WaitStatus::Signaled(9)));
    assert_eq!(tree::start_time(pid), None);
}

#[test]
fn a_signal_reaches_the_shell_and_what_it_runs_in_the_foreground() {
    let mut supervised = Supervised::new();
    let directory = tempfile::tempdir().unwrap();
    let streams = Streams::new(b"");
    let text = "trap 'echo shell; exit 5' USR1; sh -c 'trap \"echo child; exit 6\" USR1; : > ready; while :; do sleep 0.01; done'";
    supervised.get().launch(&shell(text, directory.path()), streams.ends()).unwrap();
    wait_until("the job is ready", || directory.path().join("ready").exists());
    supervised.get().signal(Signal::USR1.as_raw()).unwrap();
    let ran = supervised.finish(streams);
    assert_eq!((ran.out().as_str(), ran.code()), ("child\nshell\n", 5));
}

#[test]
fn an_ended_command_is_reported_at_once_and_what_it_left_is_counted_until_it_is_gone() {
    let mut supervised = Supervised::new();
    let directory = tempfile::tempdir().unwrap();
    let text = "for i in 1 2 3 4; do (until [ -e go$i ]; do sleep 0.01; done) & done; exit 3";
    let streams = Streams::new(b"");
    supervised.get().launch(&shell(text, directory.path()), streams.ends()).unwrap();
    assert!(matches!(supervised.report().unwrap(), SupervisorReport::Started { .. }));
    let SupervisorReport::Ended { status, .. } = supervised.report().unwrap() else { panic!() };
    assert_eq!(status, WaitStatus::Exited(3));
    let SupervisorReport::Left { processes } = supervised.report().unwrap() else { panic!() };
    assert!((4..=8).contains(&processes), "{processes}");
    for index in 1..=4 {
        std::fs::write(directory.path().join(format!("go{index}")), "").unwrap();
    }
    let ran = supervised.finish(streams);
    assert!(ran.left.len() <= 4, "{:?}", ran.left);
    assert!(ran.left.iter().all(|left| *left < processes));
}

#[test]
fn a_signal_to_what_was_left_behind_reaches_it() {
    let mut supervised = Supervised::new();
    let streams = Streams::new(b"");
    supervised
        .get()
        .launch(&shell("sleep 1000 & setsid sleep 1000 & exit 0", Path::new("/")), streams.ends())
        .unwrap();
    loop {
        if let SupervisorReport::Left { .. } = supervised.report().unwrap() {
            break;
        }
    }
    // The second may not have executed its program yet; it gets the signal all
    // the same, or ends by the next.
    supervised.get().signal(Signal::TERM.as_raw()).unwrap();
    supervised.finish(streams);
}

#[test]
fn a_terminal_controls_its_shell_and_tells_its_size() {
    let mut supervised = Supervised::new();
    let (master, slave) = open_pty(WindowSize { rows: 11, cols: 22 }).unwrap();
    resize(std::os::fd::AsFd::as_fd(&master), WindowSize { rows: 33, cols: 44 }).unwrap();
    let mut launch = shell(
        "stty size; tty >/dev/null && echo tty; read -r x; echo got $x; exec cat",
        Path::new("/"),
    );
    launch.pty = true;
    launch.env = base_env();
    launch.env.push(var("TERM", "xterm"));
    let ends = ChildEnds {
        stdin: slave.try_clone().unwrap(),
        stdout: slave.try_clone().unwrap(),
        stderr: slave,
    };
    supervised.get().launch(&launch, ends).unwrap();
    let mut master = File::from(master);
    master.write_all(b"hello\n").unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    let started = std::time::Instant::now();
    while !String::from_utf8_lossy(&seen).contains("got hello") {
        assert!(started.elapsed() < TEST_TIMEOUT);
        let count = master.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8_lossy(&seen).into_owned();
    assert!(text.contains("33 44\r\n") && text.contains("tty\r\n"), "{text}");
    // Ctrl-C goes to the foreground process group.
    master.write_all(b"\x03").unwrap();
    let ran = supervised.finish(Streams::new(b""));
    assert_eq!(ran.status, Some(WaitStatus::Signaled(Signal::INT.as_raw())));
}

#[test]
fn a_dead_supervisor_is_noticed() {
    let mut supervised = Supervised::new();
    let streams = Streams::new(b"");
    supervised.get().launch(&shell("exec sleep 1000", Path::new("/")), streams.ends()).unwrap();
    let SupervisorReport::Started { pid, .. } = supervised.report().unwrap() else { panic!() };
    let supervisor = Pid::from_raw(i32::try_from(supervised.pid()).unwrap()).unwrap();
    rustix::process::kill_process(supervisor, Signal::KILL).unwrap();
    assert_eq!(supervised.report().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    // Its job is then somebody else's to end.
    tree::kill_tree(&[pid]);
    wait_until("the job is dead", || !is_alive(pid));
}
