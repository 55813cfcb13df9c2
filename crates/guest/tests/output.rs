//! Output: its log, those who follow it, and who slows whom down.

mod support;

use support::{GuestMessage, TestGuest, code, id, job, shell};
use vestal_testkit::wait_until;
use vestal_wire::limits::WINDOW;
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, FrameKind, JobState, OutputDelivery, StartJob,
    Stdin, Stream,
};

fn attach(name: &str, delivery: OutputDelivery) -> AttachJob {
    AttachJob { id: id(name), stdout_from: 0, stderr_from: 0, follow: true, delivery }
}

/// Returns `n` lines of eight bytes.
fn lines(n: u32) -> Vec<u8> {
    let line = |i: u32| {
        format!(
            "{i:07}
"
        )
        .into_bytes()
    };
    (0..n).flat_map(line).collect()
}

const PRINT_LINES: &str = "i=0; while [ $i -lt $N ]; do printf '%07d\\n' $i; i=$((i+1)); done";

fn print_lines(name: &str, n: u32) -> StartJob {
    shell(name, &format!("N={n}; {PRINT_LINES}"))
}

#[test]
fn the_log_keeps_the_first_quarter_and_the_last_three_exactly() {
    let guest = TestGuest::with(|settings| settings.log_bytes = 4096);
    let mut client = guest.client();
    let (output, info) = client.run(print_lines("a", 4000));
    let all = lines(4000);
    assert!(output.stdout == all);
    assert_eq!((info.stdout_bytes, info.stdout_omitted), (32_000, 32_000 - 4096));
    let channel = client.open(&CallRequest::Attach(attach("a", OutputDelivery::EveryByte)));
    let (output, _) = client.follow(channel);
    assert_eq!(output.stdout[..1024], all[..1024]);
    assert_eq!(output.stdout[1024..], all[32_000 - 3072..]);
    assert_eq!(output.gaps, [(1, 1024, 32_000 - 4096)]);
}

#[test]
fn the_log_can_be_read_from_any_offset() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.run(print_lines("a", 1000));
    for from in [0, 1, 4095, 7999, 8000, 9000] {
        let request = AttachJob { stdout_from: from, ..attach("a", OutputDelivery::Lossy) };
        let channel = client.open(&CallRequest::Attach(request));
        let (output, reply) = client.follow(channel);
        let expected = lines(1000).split_off(usize::try_from(from).unwrap().min(8000));
        assert!(output.stdout == expected && output.gaps.is_empty(), "from {from}");
        assert_eq!(code(&job(reply)), Some(0));
    }
}

#[test]
fn a_command_without_output_makes_no_files() {
    let guest = TestGuest::start();
    guest.client().run(shell("a", "true"));
    assert!(!guest.state_dir().join("jobs/a").exists());
    guest.client().run(shell("b", "echo"));
    assert!(guest.state_dir().join("jobs/b").exists());
}

#[test]
fn forgotten_jobs_take_their_logs_along() {
    let guest = TestGuest::with(|settings| settings.jobs_kept = 3);
    let mut client = guest.client();
    for n in 0..6 {
        client.run(shell(&format!("job-{n}"), "echo"));
    }
    let logs = || guest.state_dir().join("jobs").read_dir().unwrap().count();
    wait_until("three logs are left", || logs() == 3);
    let CallReply::Jobs { jobs, more } =
        client.call(&CallRequest::Jobs { running: false, limit: 100 })
    else {
        panic!("no listing");
    };
    let names: Vec<_> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!((names, more), (vec!["job-3", "job-4", "job-5"], false));
}

#[test]
fn a_follower_of_every_byte_slows_the_job_and_loses_nothing() {
    let guest = TestGuest::with(|settings| settings.log_bytes = 4096);
    let mut client = guest.client();
    client.grants = false;
    let n = 600_000;
    let channel = client.open(&CallRequest::Start(Box::new(shell("a", &format!("seq -w {n}")))));
    let mut received = Vec::new();
    while received.len() < WINDOW as usize {
        if let GuestMessage::Data(_, bytes) = client.next_on(channel) {
            received.extend(bytes);
        }
    }
    // The window is used up: what the job has printed by now is that, and what
    // fits its pipe.
    let mut other = guest.client();
    let seen = |client: &mut support::Client| {
        job(client.call(&CallRequest::Wait { id: id("a"), timeout_ms: Some(0) }))
    };
    let info = seen(&mut other);
    assert_eq!((info.state, info.stdout_bytes), (JobState::Running, u64::from(WINDOW)));
    client.grants = true;
    client.grant(channel, Stream::Stdout, WINDOW);
    let (output, reply) = client.follow(channel);
    received.extend(output.stdout);
    let expected: Vec<u8> = (1..=n).flat_map(|i| format!("{i:06}\n").into_bytes()).collect();
    assert!(received == expected && output.gaps.is_empty());
    assert_eq!(code(&job(reply)), Some(0));
}

#[test]
fn a_lossy_follower_never_slows_the_job_and_gets_the_gaps_reported() {
    let guest = TestGuest::with(|settings| settings.log_bytes = 64 << 10);
    let mut client = guest.client();
    client.grants = false;
    let start = StartJob { delivery: OutputDelivery::Lossy, ..shell("a", "seq -w 600000") };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    let info = guest.client().wait(&id("a"));
    assert_eq!((code(&info), info.stdout_bytes), (Some(0), 4_200_000));
    client.grants = true;
    client.grant(channel, Stream::Stdout, WINDOW);
    let (output, _) = client.follow(channel);
    let gaps: u64 = output.gaps.iter().map(|gap| gap.2).sum();
    assert!(gaps > 0);
    assert_eq!(output.stdout.len() as u64 + gaps, 4_200_000);
    assert!(output.stdout.ends_with(b"600000\n"));
}

#[test]
fn a_reader_that_vanishes_never_stalls_the_job() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.grants = false;
    client.open(&CallRequest::Start(Box::new(shell("a", "seq -w 600000; echo $?"))));
    // It does not read, so the job stops writing; and then it is gone.
    let mut other = guest.client();
    let mut printed = || {
        let reply = other.call(&CallRequest::Wait { id: id("a"), timeout_ms: Some(50) });
        job(reply).stdout_bytes
    };
    wait_until("the job waits for its reader", || printed() > 100_000 && printed() == printed());
    assert!(printed() < 4_200_002);
    drop(client);
    let info = guest.client().wait(&id("a"));
    assert_eq!((code(&info), info.stdout_bytes), (Some(0), 4_200_002));
}

#[test]
fn a_cancelled_call_lets_the_job_go_on() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.grants = false;
    let channel = client.open(&CallRequest::Start(Box::new(shell("a", "seq -w 600000"))));
    client.send(channel, FrameKind::Cancel, Stream::Input, &[]);
    let fault = support::fault(client.reply(channel));
    assert_eq!(fault.code, vestal_wire::FaultCode::Cancelled);
    assert_eq!(client.wait(&id("a")).stdout_bytes, 4_200_000);
}

#[test]
fn a_late_follower_of_every_byte_misses_and_repeats_nothing() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob { stdin: Stdin::Piped, ..print_lines("a", 30_000) };
    client.background(start);
    let mut channels = Vec::new();
    let mut late = guest.client();
    for _ in 0..5 {
        channels.push(late.open(&CallRequest::Attach(attach("a", OutputDelivery::EveryByte))));
    }
    for channel in channels {
        let (output, reply) = late.follow(channel);
        assert!(output.stdout == lines(30_000) && output.gaps.is_empty());
        assert_eq!(output.started, job(reply).pid);
        assert!(output.ended.is_some());
    }
}

#[test]
fn a_look_at_a_running_job_returns_what_is_there() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.background(shell("a", "echo some; sleep 600"));
    wait_until("its first line is kept", || {
        let request = AttachJob { follow: false, ..attach("a", OutputDelivery::EveryByte) };
        let channel = client.open(&CallRequest::Attach(request));
        let (output, reply) = client.follow(channel);
        assert_eq!(job(reply).state, JobState::Running);
        assert!(output.ended.is_none());
        output.stdout == b"some\n"
    });
    client.kill(&id("a"));
}

#[test]
fn a_background_job_takes_input_from_any_client_until_it_is_closed() {
    let guest = TestGuest::start();
    let start = StartJob { stdin: Stdin::Piped, ..shell("a", "cat; echo over") };
    let info = guest.client().background(start);
    assert!(info.stdin_open);
    for (text, close) in [("one\n", false), ("two\n", true)] {
        let mut client = guest.client();
        let channel = client.open(&CallRequest::Input { id: id("a"), close });
        client.send_data(channel, Stream::Input, text.as_bytes());
        client.send_end(channel, Stream::Input);
        assert_eq!(client.reply(channel), CallReply::Done);
    }
    let mut client = guest.client();
    let info = client.wait(&id("a"));
    assert_eq!((code(&info), info.stdin_open), (Some(0), false));
    let channel = client.open(&CallRequest::Attach(attach("a", OutputDelivery::EveryByte)));
    assert_eq!(client.follow(channel).0.stdout, b"one\ntwo\nover\n");
    let fault = support::fault(client.call(&CallRequest::Input { id: id("a"), close: false }));
    assert_eq!(fault.message, "standard input is closed");
}

#[test]
fn the_input_of_a_foreground_job_ends_with_its_caller() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob { stdin: Stdin::Piped, ..shell("a", "cat >/dev/null; exit 9") };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    while !matches!(client.next_on(channel), GuestMessage::Event(CallEvent::Started { .. })) {}
    drop(client);
    assert_eq!(code(&guest.client().wait(&id("a"))), Some(9));
}

#[test]
fn waiting_has_an_end() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.background(shell("a", "sleep 600"));
    let reply = client.call(&CallRequest::Wait { id: id("a"), timeout_ms: Some(20) });
    assert_eq!(job(reply).state, JobState::Running);
    client.kill(&id("a"));
}

#[test]
fn many_commands_at_once_do_not_disturb_each_other() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let channels: Vec<u32> = (0..60)
        .map(|n| {
            let start =
                shell(&format!("job-{n}"), &format!("echo out {n}; echo err {n} >&2; exit {n}"));
            client.open(&CallRequest::Start(Box::new(start)))
        })
        .collect();
    for (n, channel) in channels.into_iter().enumerate() {
        let (output, reply) = client.follow(channel);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("out {n}\n"));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("err {n}\n"));
        assert_eq!(code(&job(reply)), u8::try_from(n).ok());
    }
}
