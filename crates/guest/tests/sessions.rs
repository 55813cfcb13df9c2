//! Shell sessions, as callers see them through the guest.

mod support;

use support::{GuestMessage, TestGuest, code, fault, id, job, shell, var};
use vestal_wire::{
    CallEvent, CallReply, CallRequest, FaultCode, FileCall, FileOp, FileReply, FrameKind,
    JobCommand, JobInfo, OutputDelivery, SessionState, ShellText, StartJob, Stdin, Stream,
};

fn in_session(name: &str, text: &str) -> StartJob {
    StartJob { session: Some("main".into()), ..shell(name, text) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn one_command_starts_from_what_the_last_one_left() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let (_, info) = client.run(in_session("a", "mkdir sub; cd sub; export V=1; f() { echo f$V; }"));
    assert_eq!(info.session_state, SessionState::Saved);
    assert!(text(&info.cwd).ends_with("/work/sub"), "{}", text(&info.cwd));
    let (output, _) = client.run(in_session("b", "pwd; f; exit 3"));
    assert!(text(&output.stdout).ends_with("/work/sub\nf1\n"));
    let (output, info) = client.run(shell("c", "pwd; echo $V"));
    assert!(text(&output.stdout).ends_with("/work\n\n"), "{}", text(&output.stdout));
    assert_eq!(info.session_state, SessionState::None);
}

#[test]
fn sessions_are_kept_across_a_guests_death() {
    let mut guest = TestGuest::start();
    guest.client().run(in_session("a", "V=kept"));
    guest.kill();
    guest.restart();
    let (output, _) = guest.client().run(in_session("b", "echo $V"));
    assert_eq!(output.stdout, b"kept\n");
}

#[test]
fn secrets_of_a_job_are_not_saved() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let job_env = vec![var("TOKEN", "secret-value")];
    client.run(StartJob { job_env, ..in_session("a", "export TOKEN; X=1") });
    let (output, _) = client.run(in_session("b", "echo [$TOKEN]$X"));
    assert_eq!(output.stdout, b"[]1\n");
    for entry in std::fs::read_dir(guest.state_dir().join("sessions")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!text(&bytes).contains("secret-value") && !text(&bytes).contains("VESTAL_JOB"));
    }
}

#[test]
fn the_exit_is_reported_before_the_state_is_saved() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let channel = client.open(&CallRequest::Start(Box::new(in_session("a", "exit 4"))));
    let (output, reply) = client.follow(channel);
    let ended = output.ended.unwrap();
    assert_eq!((code(&ended), ended.session_state), (Some(4), SessionState::None));
    assert_eq!(job(reply).session_state, SessionState::Saved);
}

#[test]
fn of_two_commands_at_once_the_last_started_wins() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let first = start_held(&mut client, "first", "V=first");
    let second = start_held(&mut client, "second", "V=second");
    let states = [release(&mut client, second), release(&mut client, first)];
    assert_eq!(
        states.map(|info| info.session_state),
        [SessionState::Saved, SessionState::Superseded]
    );
    assert_eq!(client.run(in_session("c", "echo $V")).0.stdout, b"second\n");
}

#[test]
fn a_killed_later_command_supersedes_nothing() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let first = start_held(&mut client, "first", "V=first");
    start_held(&mut client, "second", "V=second");
    assert_eq!(client.kill(&id("second")).session_state, SessionState::None);
    assert_eq!(release(&mut client, first).session_state, SessionState::Saved);
    assert_eq!(client.run(in_session("c", "echo $V")).0.stdout, b"first\n");
}

#[test]
fn background_jobs_start_from_the_session_and_never_write_back() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.run(in_session("a", "V=1"));
    client.background(in_session("b", "echo $V; V=2"));
    let info = client.wait(&id("b"));
    assert_eq!((info.stdout_bytes, info.session_state), (2, SessionState::None));
    assert_eq!(client.run(in_session("c", "echo $V")).0.stdout, b"1\n");
}

#[test]
fn a_session_whose_file_was_damaged_begins_anew_and_says_so() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.run(in_session("a", "V=1"));
    let file = guest.state_dir().join("sessions/n.main");
    std::fs::write(&file, [0xff; 1000]).unwrap();
    let (output, info) = client.run(in_session("b", "echo [$V]; V=2"));
    assert_eq!(output.stdout, b"[]\n");
    let expected = format!(
        "vestal: the session's state was damaged and starts empty; the old file is {}.damaged\n",
        file.display()
    );
    assert_eq!(text(&output.stderr), expected);
    assert_eq!(info.session_state, SessionState::Saved);
    let (output, _) = client.run(in_session("c", "echo $V"));
    assert_eq!((output.stdout, output.stderr), (b"2\n".to_vec(), Vec::new()));
}

#[test]
fn a_vanished_directory_is_reported_and_the_start_directory_taken() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.run(in_session("a", "mkdir gone; cd gone; V=1"));
    std::fs::remove_dir(guest.work_dir().join("gone")).unwrap();
    let (output, info) = client.run(in_session("b", "pwd; echo $V"));
    assert!(text(&output.stdout).ends_with("/work\n1\n"), "{}", text(&output.stdout));
    let work = guest.work_dir();
    let expected = format!(
        "vestal: the session's directory {0}/gone is gone; starting in {0}\n",
        work.display()
    );
    assert_eq!(text(&output.stderr), expected);
    assert_eq!(info.session_state, SessionState::Saved);
    let (output, _) = client.run(in_session("c", "true"));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_session_can_be_reset_and_odd_names_are_names() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    for name in ["main", "../../etc/passwd", "a b/ü", &"x".repeat(128)] {
        let start = |id: &str, text: &str| StartJob {
            session: Some(name.to_owned()),
            ..shell(&format!("{id}-{}", name.len()), text)
        };
        client.run(start("a", "V=1"));
        assert_eq!(client.run(start("b", "echo $V")).0.stdout, b"1\n");
        client.call(&CallRequest::ResetSession { name: name.to_owned() });
        assert_eq!(client.run(start("c", "echo $V")).0.stdout, b"\n");
    }
    let long = CallRequest::ResetSession { name: "x".repeat(129) };
    assert_eq!(fault(client.call(&long)).code, FaultCode::Invalid);
}

#[test]
fn files_are_found_from_the_sessions_directory() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.run(in_session("a", "mkdir sub; cd sub; printf content > file"));
    let op = FileOp::Read { path: b"file".to_vec().into(), offset: 3, limit: None };
    let call = FileCall { session: Some("main".into()), start_dir: None, op };
    let channel = client.open(&CallRequest::File(call.clone()));
    let (output, reply) = client.follow(channel);
    assert_eq!(output.stdout, b"tent");
    assert!(
        matches!(reply, CallReply::File(FileReply::Read { sent: 4, eof: true, .. })),
        "{reply:?}"
    );
    let elsewhere = FileCall { session: None, ..call };
    assert_eq!(fault(client.call(&CallRequest::File(elsewhere))).code, FaultCode::NotFound);
}

#[test]
fn a_large_file_goes_in_and_out_whole() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|i| u8::try_from(i % 249).unwrap()).collect();
    let file = |op| CallRequest::File(FileCall { session: None, start_dir: None, op });
    let channel = client.open(&file(FileOp::Write {
        path: b"large".to_vec().into(),
        create: vestal_wire::CreateMode::New,
        parents: false,
        mode: None,
        expect: None,
    }));
    client.send_data(channel, Stream::Input, &bytes);
    client.send_end(channel, Stream::Input);
    let reply = client.reply(channel);
    assert!(
        matches!(reply, CallReply::File(FileReply::Written { created: true, .. })),
        "{reply:?}"
    );
    assert!(std::fs::read(guest.work_dir().join("large")).unwrap() == bytes);
    let read = FileOp::Read { path: b"large".to_vec().into(), offset: 0, limit: None };
    let channel = client.open(&file(read));
    assert!(client.follow(channel).0.stdout == bytes);
}

#[test]
fn a_write_that_is_cancelled_or_abandoned_leaves_nothing() {
    let guest = TestGuest::start();
    let write = CallRequest::File(FileCall {
        session: None,
        start_dir: None,
        op: FileOp::Write {
            path: b"file".to_vec().into(),
            create: vestal_wire::CreateMode::Any,
            parents: false,
            mode: None,
            expect: None,
        },
    });
    let mut client = guest.client();
    let channel = client.open(&write);
    client.send_data(channel, Stream::Input, b"half");
    client.send(channel, FrameKind::Cancel, Stream::Input, &[]);
    assert_eq!(fault(client.reply(channel)).code, FaultCode::Cancelled);
    let channel = client.open(&write);
    client.send_data(channel, Stream::Input, b"half");
    drop(client);
    let empty = || guest.work_dir().read_dir().unwrap().count() == 0;
    vestal_testkit::wait_until("nothing half-written is left", empty);
}

/// Starts a command that waits for its input to end before it ends.
fn start_held(client: &mut support::Client, name: &str, text: &str) -> u32 {
    let held = format!("{text}; read -r _");
    let start = StartJob {
        stdin: Stdin::Piped,
        command: JobCommand::Shell(ShellText::Inline(held.into_bytes().into())),
        delivery: OutputDelivery::EveryByte,
        ..in_session(name, "")
    };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    while !matches!(client.next_on(channel), GuestMessage::Event(CallEvent::Started { .. })) {}
    channel
}

fn release(client: &mut support::Client, channel: u32) -> JobInfo {
    client.send_end(channel, Stream::Input);
    job(client.reply(channel))
}

#[test]
fn a_session_that_cannot_be_saved_is_reported() {
    let guest = TestGuest::start();
    let start = |id: &str, text: &str| StartJob { session: Some("main".into()), ..shell(id, text) };
    // Nothing can be written through a link that leads nowhere.
    std::os::unix::fs::symlink("nowhere/at/all", guest.state_dir().join("sessions")).unwrap();
    let (_, info) = guest.client().run(start("a", "X=1"));
    assert_eq!(info.session_state, SessionState::None);
    assert!(info.session_error.as_deref().is_some_and(|error| error.contains("No such file")));
    std::fs::remove_file(guest.state_dir().join("sessions")).unwrap();
    let (_, info) = guest.client().run(start("b", "X=1"));
    assert_eq!((info.session_state, info.session_error), (SessionState::Saved, None));
}
