//! Commands: what they print, how they end.

mod support;

use support::{TestGuest, code, exit, fault, id, processes_of, shell, var};
use vestal_testkit::processes::cpu_ticks;
use vestal_testkit::wait_until;
use vestal_wire::{
    CallRequest, Cause, FaultCode, JobCommand, JobExit, JobState, OutputDelivery, ShellText,
    StartJob, Stdin, Stream, WindowSize,
};

#[test]
fn streams_are_separate_and_byte_exact() {
    let guest = TestGuest::start();
    let text = r"printf 'out\000\377\n'; printf 'err\001\376' >&2; exit 7";
    let (output, info) = guest.client().run(shell("a", text));
    assert_eq!(output.stdout, b"out\0\xff\n");
    assert_eq!(output.stderr, b"err\x01\xfe");
    assert_eq!(exit(&info), JobExit { code: Some(7), cause: Cause::Exited });
    assert_eq!((info.stdout_bytes, info.stderr_bytes), (6, 5));
    assert_eq!(output.started, info.pid);
    assert_eq!(output.ended.unwrap().state, info.state);
    assert!(info.pid_start.is_some() && info.duration_us.is_some());
}

#[test]
fn streams_are_merged_where_asked() {
    let guest = TestGuest::start();
    let start = StartJob { merge: true, ..shell("a", "echo one; echo two >&2; echo three") };
    let (output, _) = guest.client().run(start);
    assert_eq!(output.stdout, b"one\ntwo\nthree\n");
}

#[test]
fn a_megabyte_and_more_arrives_whole() {
    let guest = TestGuest::start();
    let (output, info) = guest.client().run(shell("a", "seq 1000000; seq 300000 >&2"));
    let line = |i: u32| format!("{i}\n").into_bytes();
    let expected = |n: u32| (1..=n).flat_map(line).collect::<Vec<u8>>();
    assert!(output.stdout == expected(1_000_000) && output.stderr == expected(300_000));
    assert!(output.gaps.is_empty());
    assert_eq!(info.stdout_bytes, output.stdout.len() as u64);
    assert!(info.stdout_omitted > 0, "the log is smaller than that");
}

#[test]
fn a_command_of_ten_megabytes_runs() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let mut text = b"printf %s begin; : '".to_vec();
    text.resize(10 << 20, b'x');
    text.extend_from_slice(b"'; printf %s end");
    let start = StartJob { command: JobCommand::Shell(ShellText::Streamed), ..shell("a", "") };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    client.send_data(channel, Stream::Text, &text);
    client.send_end(channel, Stream::Text);
    let (output, _) = client.follow(channel);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "beginend");
}

#[test]
fn programs_run_without_a_shell() {
    let guest = TestGuest::start();
    let argv = ["printf", "%s|", "a b", "$HOME", ""];
    let command = JobCommand::Argv(argv.map(|s| s.as_bytes().to_vec().into()).into());
    let (output, _) = guest.client().run(StartJob { command, ..shell("a", "") });
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a b|$HOME||");
}

#[test]
fn a_program_that_does_not_exist_is_127_as_in_a_shell() {
    let guest = TestGuest::start();
    let command = JobCommand::Argv(vec![b"no-such-program".to_vec().into()]);
    let (output, info) = guest.client().run(StartJob { command, ..shell("a", "") });
    assert_eq!(code(&info), Some(127));
    assert!(!output.stderr.is_empty());
}

#[test]
fn a_missing_directory_is_126_and_reported() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob { workdir: Some(b"/no/such/place".to_vec().into()), ..shell("a", "true") };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    let (_, reply) = client.follow(channel);
    let fault = fault(reply);
    assert_eq!(fault.code, FaultCode::NoWorkdir);
    assert!(fault.message.contains("/no/such/place"), "{fault}");
    assert_eq!(code(&client.wait(&id("a"))), Some(126));
    let (output, _) = client.run(shell("b", "echo on"));
    assert_eq!(output.stdout, b"on\n");
}

#[test]
fn the_directory_is_for_one_command_only() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob { workdir: Some(b"/".to_vec().into()), ..shell("a", "pwd") };
    assert_eq!(client.run(start).0.stdout, b"/\n");
    let (output, info) = client.run(shell("b", "pwd -P"));
    let work = guest.work_dir().canonicalize().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), work.to_str().unwrap());
    assert_eq!(info.cwd[..], *guest.work_dir().as_os_str().as_encoded_bytes());
}

#[test]
fn every_process_knows_its_instance_and_job() {
    let guest = TestGuest::start();
    let start = StartJob {
        job_env: vec![var("VESTAL_JOB", "forged"), var("SECRET", "s")],
        ..shell("a-1", "echo $VESTAL_INSTANCE $VESTAL_JOB $SECRET")
    };
    let (output, _) = guest.client().run(start);
    let expected = format!("{} a-1 s\n", guest.settings.instance);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn a_command_that_stops_its_supervisor_is_timed_out_all_the_same() {
    let guest = TestGuest::start();
    let text = "kill -STOP $PPID; sleep 600";
    let start = StartJob { timeout_ms: Some(300), ..shell("stopper", text) };
    let mut client = guest.client();
    let (_, info) = client.run(start);
    assert_eq!(exit(&info), JobExit { code: Some(124), cause: Cause::TimedOut });
    client.kill(&id("stopper"));
    assert_eq!(processes_of(&guest, "stopper"), [0_u32; 0]);
}

#[test]
fn a_timed_out_command_leaves_no_process() {
    let guest = TestGuest::start();
    let text = "setsid sleep 600 & (sleep 600 &) ; sleep 600";
    let start = StartJob { timeout_ms: Some(300), ..shell("slow", text) };
    let mut client = guest.client();
    let (_, info) = client.run(start);
    assert_eq!(exit(&info), JobExit { code: Some(124), cause: Cause::TimedOut });
    // The kill is complete when a second one has nothing to do.
    client.kill(&id("slow"));
    assert_eq!(processes_of(&guest, "slow"), [0_u32; 0]);
}

#[test]
fn a_killed_command_leaves_no_process() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let info = client.background(shell("slow", "setsid sleep 600 & (sleep 600 &) ; sleep 600"));
    assert_eq!(info.state, JobState::Running);
    wait_until("all of it runs", || processes_of(&guest, "slow").len() >= 3);
    let info = client.kill(&id("slow"));
    assert_eq!(exit(&info), JobExit { code: Some(137), cause: Cause::Killed });
    assert_eq!((processes_of(&guest, "slow"), info.processes), (vec![], 0));
}

#[test]
fn a_signal_reaches_the_command() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let text = "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.05; done";
    let channel = client.open(&CallRequest::Start(Box::new(shell("a", text))));
    loop {
        if let support::GuestMessage::Data(_, bytes) = client.next_on(channel) {
            assert_eq!(bytes, b"ready\n");
            break;
        }
    }
    let reply = client.call(&CallRequest::Signal { id: id("a"), signal: 10 });
    assert_eq!(reply, vestal_wire::CallReply::Done);
    let (output, reply) = client.follow(channel);
    assert_eq!(output.stdout, b"got\n");
    assert_eq!(code(&support::job(reply)), Some(3));
}

#[test]
fn a_command_that_dies_of_a_signal_says_so() {
    let guest = TestGuest::start();
    let (_, info) = guest.client().run(shell("a", "kill -SEGV $$"));
    assert_eq!(exit(&info), JobExit { code: Some(139), cause: Cause::Signaled(11) });
}

#[test]
fn a_foreground_command_ends_with_its_shell() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let (output, info) = client.run(shell("a", "sleep 600 & echo $!"));
    assert_eq!(code(&info), Some(0));
    let left: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    // Who is just being executed has no environment to be known by.
    wait_until("one process is left", || processes_of(&guest, "a") == [left]);
    client.kill(&id("a"));
    assert_eq!(processes_of(&guest, "a"), [0_u32; 0]);
}

#[test]
fn what_is_left_behind_writes_on_into_the_log_only() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let flag = guest.work_dir().join("flag");
    let text = "(until [ -e flag ]; do sleep 0.01; done; echo later) & echo first";
    let (output, info) = client.run(shell("a", text));
    assert_eq!((output.stdout.as_slice(), info.stdout_bytes), (&b"first\n"[..], 6));
    std::fs::write(flag, "").unwrap();
    wait_until("the rest is in the log", || client.wait(&id("a")).stdout_bytes == 12);
}

#[test]
fn captured_output_has_head_and_tail_and_says_what_is_missing() {
    let guest = TestGuest::start();
    let delivery = OutputDelivery::Captured { head: 10, tail: 5 };
    let start = StartJob { delivery, ..shell("a", "seq 100000; echo few >&2") };
    let (output, info) = guest.client().run(start);
    assert_eq!(output.stdout, b"1\n2\n3\n4\n5\n0000\n");
    assert_eq!(output.gaps, [(1, 10, info.stdout_bytes - 15)]);
    assert_eq!(output.stderr, b"few\n");
}

#[test]
fn piped_input_reaches_the_command_and_ends() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob { stdin: Stdin::Piped, ..shell("a", "cat") };
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    let mut writer = client.stream.try_clone().unwrap();
    let sent = bytes.clone();
    // Three megabytes do not fit the window: half of it is granted on the way.
    let window = vestal_wire::limits::WINDOW as usize;
    for piece in sent[..window].chunks(60_000) {
        vestal_wire::write_frame(
            &mut writer,
            channel,
            vestal_wire::FrameKind::Data,
            Stream::Input,
            piece,
        )
        .unwrap();
    }
    let mut rest = sent[window..].chunks(60_000);
    let mut credit = 0;
    let mut received = Vec::new();
    let mut ended = false;
    loop {
        match client.next_on(channel) {
            support::GuestMessage::Credit(Stream::Input, more) => credit += more as usize,
            support::GuestMessage::Data(_, data) => received.extend(data),
            support::GuestMessage::Reply(reply) => {
                assert_eq!(code(&support::job(reply)), Some(0));
                break;
            }
            _ => {}
        }
        while credit >= 60_000 {
            match rest.next() {
                Some(piece) => {
                    client.send(channel, vestal_wire::FrameKind::Data, Stream::Input, piece);
                }
                None if !ended => {
                    ended = true;
                    client.send_end(channel, Stream::Input);
                }
                None => break,
            }
            credit -= 60_000;
        }
    }
    assert!(received == bytes);
}

#[test]
fn input_that_a_command_does_not_read_is_dropped() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob { stdin: Stdin::Piped, ..shell("a", "exec <&-; sleep 0.2; exit 4") };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    client.send_data(channel, Stream::Input, &vec![0; 500_000]);
    client.send_end(channel, Stream::Input);
    let (_, reply) = client.follow(channel);
    assert_eq!(code(&support::job(reply)), Some(4));
}

#[test]
fn a_terminal_is_one_and_can_be_resized() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let text = "stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done";
    let start = StartJob { pty: Some(WindowSize { rows: 11, cols: 22 }), ..shell("a", text) };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    let mut seen = Vec::new();
    while !seen.ends_with(b"ready\r\n") {
        if let support::GuestMessage::Data(_, bytes) = client.next_on(channel) {
            seen.extend(bytes);
        }
    }
    assert_eq!(String::from_utf8_lossy(&seen), "11 22\r\nready\r\n");
    let size = WindowSize { rows: 33, cols: 44 };
    client.call(&CallRequest::Resize { id: id("a"), size });
    let (output, _) = client.follow(channel);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "33 44\r\n");
}

#[test]
fn a_terminal_takes_input_and_its_end() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob {
        pty: Some(WindowSize { rows: 24, cols: 80 }),
        ..shell("a", "stty -echo; echo ready; cat; echo over")
    };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    let mut seen = Vec::new();
    while !seen.ends_with(b"ready\r\n") {
        if let support::GuestMessage::Data(_, bytes) = client.next_on(channel) {
            seen.extend(bytes);
        }
    }
    client.send_data(channel, Stream::Input, b"line\nno newline");
    client.send_end(channel, Stream::Input);
    let (output, _) = client.follow(channel);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "line\r\nno newlineover\r\n");
}

#[test]
fn a_terminal_that_ends_with_input_waiting_leaves_the_guest_at_rest() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let text = "stty raw -echo; echo ready; sleep 600 & sleep 0.3";
    let start = StartJob { pty: Some(WindowSize { rows: 24, cols: 80 }), ..shell("a", text) };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    while !matches!(client.next_on(channel), support::GuestMessage::Data(..)) {}
    client.send_data(channel, Stream::Input, &vec![b'x'; 200_000]);
    let (_, reply) = client.follow(channel);
    assert_eq!(code(&support::job(reply)), Some(0));
    let before = cpu_ticks(guest.pid());
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(cpu_ticks(guest.pid()) - before < 10, "the guest spins");
    client.kill(&id("a"));
}

#[test]
fn wrong_requests_are_refused_and_harm_nothing() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let empty = StartJob { command: JobCommand::Argv(vec![]), ..shell("a", "") };
    let nameless = StartJob { session: Some(String::new()), ..shell("a", "") };
    let nul = StartJob { workdir: Some(b"/a\0b".to_vec().into()), ..shell("a", "") };
    let variable = StartJob { job_env: vec![var("A=B", "")], ..shell("a", "") };
    for start in [empty, nameless, nul, variable] {
        let reply = client.call(&CallRequest::Start(Box::new(start)));
        assert_eq!(fault(reply).code, FaultCode::Invalid);
    }
    for request in [
        CallRequest::Wait { id: id("nobody"), timeout_ms: None },
        CallRequest::Kill { id: id("nobody") },
        CallRequest::Input { id: id("nobody"), close: false },
    ] {
        assert_eq!(fault(client.call(&request)).code, FaultCode::NoSuchJob);
    }
    assert_eq!(client.run(shell("a", "echo fine")).0.stdout, b"fine\n");
}
