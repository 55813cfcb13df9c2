//! The guest's own life: who may talk to it, and when it ends.

mod support;

use std::time::Duration;

use support::{Client, TestGuest, fault, id, shell};
use vestal_testkit::wait_until;
use vestal_wire::{
    CallReply, CallRequest, FaultCode, FrameKind, Header, Hello, HostRole, MAJOR, MINOR, StartJob,
    Status, Stream, encode, read_frame, write_frame,
};

fn status(client: &mut Client) -> Status {
    match client.call(&CallRequest::Status) {
        CallReply::Status(status) => status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_welcome_says_who_is_there() {
    let guest = TestGuest::start();
    let welcome = guest.client().welcome;
    assert_eq!((welcome.major, welcome.minor), (MAJOR, MINOR));
    assert_eq!(welcome.instance, guest.settings.instance);
    assert_eq!((welcome.key.as_str(), welcome.generation), ("key", 1));
    for word in [welcome.incarnation.as_str(), welcome.boot.as_str()] {
        assert!(guest.ready.contains(word));
        let file = std::fs::read_to_string(guest.dir.path().join("io/guest.json")).unwrap();
        assert!(file.contains(word) && file.contains(&guest.settings.instance));
    }
    assert!(guest.ready.contains(&format!("\"pid\":{},", guest.pid())));
}

#[test]
fn another_instance_and_another_major_are_refused() {
    let guest = TestGuest::start();
    let wrong = Hello::new(HostRole::User, Some("another".into()));
    let refused = Client::try_connect(&guest.socket(), &wrong).err().unwrap();
    assert_eq!(refused.code, FaultCode::WrongInstance);
    let wrong = Hello { major: MAJOR + 1, ..Hello::new(HostRole::User, None) };
    let refused = Client::try_connect(&guest.socket(), &wrong).err().unwrap();
    assert_eq!(refused.code, FaultCode::Unsupported);
    let newer = Hello { minor: MINOR + 7, ..Hello::new(HostRole::User, None) };
    assert!(Client::try_connect(&guest.socket(), &newer).is_ok());
}

#[test]
fn two_guests_never_share_a_state_directory() {
    let guest = TestGuest::start();
    let (status, word) = TestGuest::second(&guest.settings);
    assert!(!status.success());
    assert!(word.starts_with("error: another guest uses the state directory"), "{word}");
    assert_eq!(guest.client().run(shell("a", "echo on")).0.stdout, b"on\n");
}

#[test]
fn pipes_in_place_of_its_files_do_not_hold_a_guest_up() {
    let mut guest = TestGuest::start();
    assert_eq!(guest.client().run(shell("a", "echo out")).0.stdout, b"out\n");
    guest.kill();
    let state = guest.state_dir();
    for name in ["alive", "journal", "journal.new", "guest.log", "jobs/a/stdout.head"] {
        let path = state.join(name);
        std::fs::remove_file(&path).ok();
        let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
    }
    guest.restart();
    let start = StartJob { session: Some("main".into()), ..shell("b", "echo on") };
    assert_eq!(guest.client().run(start).0.stdout, b"on\n");
    for name in ["alive", "journal", "guest.log"] {
        assert!(std::fs::symlink_metadata(state.join(name)).unwrap().is_file(), "{name}");
    }
}

#[test]
fn garbage_closes_its_connection_and_nothing_else() {
    let guest = TestGuest::start();
    let mut steady = guest.client();
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    for len in [0, 1, 9, 10, 11, 100, 5000, 200_000] {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                seed.to_le_bytes()[0]
            })
            .collect();
        let mut stream = std::os::unix::net::UnixStream::connect(guest.socket()).unwrap();
        // The guest may hang up before everything is written.
        std::io::Write::write_all(&mut stream, &bytes).ok();
    }
    assert_eq!(steady.run(shell("a", "echo on")).0.stdout, b"on\n");
}

#[test]
fn breaches_of_the_protocol_close_the_connection() {
    let guest = TestGuest::start();
    let open = |channel: u32| {
        (
            channel,
            FrameKind::Open,
            encode(&CallRequest::Wait { id: id("a"), timeout_ms: None }).unwrap(),
        )
    };
    let breaches: Vec<Vec<(u32, FrameKind, Vec<u8>)>> = vec![
        vec![(1, FrameKind::Welcome, vec![])],
        vec![(0, FrameKind::Hello, encode(&Hello::new(HostRole::User, None)).unwrap())],
        vec![open(0)],
        vec![open(7), open(7)],
        vec![open(7), (7, FrameKind::Credit, vec![1])],
        vec![open(7), (7, FrameKind::End, vec![]), (7, FrameKind::End, vec![])],
    ];
    guest.client().background(shell("a", "sleep 600"));
    for breach in breaches {
        let mut client = guest.client();
        for (channel, kind, payload) in &breach {
            client.send(*channel, *kind, Stream::Input, payload);
        }
        assert!(read_frame(&mut client.stream).is_err(), "{breach:?}");
    }
    let mut flood = guest.client();
    let start = StartJob { stdin: vestal_wire::Stdin::Piped, ..shell("b", "sleep 600") };
    let channel = flood.open(&CallRequest::Start(Box::new(start)));
    let piece = vec![0; vestal_wire::limits::MAX_DATA];
    let hung_up = (0..100).any(|_| {
        write_frame(&mut flood.stream, channel, FrameKind::Data, Stream::Input, &piece).is_err()
    });
    assert!(hung_up, "more than the window was taken");
    let mut client = guest.client();
    client.kill(&id("a"));
    client.kill(&id("b"));
}

#[test]
fn a_frame_that_announces_too_much_is_not_waited_for() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let header = Header { len: u32::MAX, channel: 1, kind: FrameKind::Open, stream: Stream::Input };
    std::io::Write::write_all(&mut client.stream, &header.to_bytes()).unwrap();
    assert!(read_frame(&mut client.stream).is_err());
}

#[test]
fn a_request_from_the_future_is_answered_as_such() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    // An array of a variant's number and its fields, of which this guest knows none.
    client.send(1, FrameKind::Open, Stream::Input, &[0x82, 0x18, 99, 0x80]);
    assert_eq!(fault(client.reply(1)).code, FaultCode::Unsupported);
    client.send(2, FrameKind::Open, Stream::Input, b"\xff\xff");
    assert_eq!(fault(client.reply(2)).code, FaultCode::Invalid);
    assert_eq!(client.run(shell("a", "echo on")).0.stdout, b"on\n");
}

#[test]
fn a_client_that_never_reads_is_given_up() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.run(shell("a", "true"));
    let request = encode(&CallRequest::Jobs { running: false, limit: 100 }).unwrap();
    let given_up = (1..2_000_000).any(|channel| {
        write_frame(&mut client.stream, channel, FrameKind::Open, Stream::Input, &request).is_err()
    });
    assert!(given_up);
    assert_eq!(guest.client().run(shell("b", "echo on")).0.stdout, b"on\n");
}

#[test]
fn looking_is_not_use_and_running_is() {
    let guest = TestGuest::with(|settings| settings.retention_ms = Some(3_600_000));
    let mut observer = guest.client_as(HostRole::Observer);
    let first = status(&mut observer);
    assert!(first.expires_in_ms.unwrap() <= 3_600_000);
    std::thread::sleep(Duration::from_millis(30));
    observer.call(&CallRequest::Jobs { running: false, limit: 10 });
    let second = status(&mut observer);
    assert!(second.idle_ms >= 30 && second.last_used_ms == first.last_used_ms);
    let mut user = guest.client();
    user.call(&CallRequest::Touch);
    assert!(status(&mut observer).last_used_ms > first.last_used_ms);
    user.background(shell("a", "sleep 600"));
    std::thread::sleep(Duration::from_millis(30));
    let busy = status(&mut observer);
    assert_eq!((busy.idle_ms, busy.jobs_running, busy.jobs_known), (0, 1, 1));
    user.kill(&id("a"));
    assert_eq!(status(&mut observer).jobs_running, 0);
}

#[test]
fn an_idle_guest_ends_by_itself_and_leaves_its_state() {
    let mut guest = TestGuest::with(|settings| settings.retention_ms = Some(100));
    assert!(guest.wait().success());
    assert!(!guest.socket().exists() && !guest.dir.path().join("io/guest.json").exists());
    assert!(guest.state_dir().join("journal").exists());
}

#[test]
fn a_guest_never_ends_under_a_running_job_or_an_open_call() {
    let mut guest = TestGuest::with(|settings| settings.retention_ms = Some(50));
    let mut client = guest.client();
    client.run(shell("a", "sleep 0.4; echo done"));
    let channel = {
        client.background(shell("b", "sleep 0.4"));
        client.open(&CallRequest::Wait { id: id("b"), timeout_ms: None })
    };
    client.reply(channel);
    drop(client);
    assert!(guest.wait().success());
}

#[test]
fn a_guest_that_nobody_can_find_ends_by_itself() {
    let mut guest = TestGuest::start();
    std::fs::remove_dir_all(guest.dir.path().join("io")).unwrap();
    assert!(guest.wait().success());
}

#[test]
fn retention_can_be_changed() {
    let mut guest = TestGuest::start();
    let mut client = guest.client();
    assert_eq!(status(&mut client).expires_in_ms, None);
    assert_eq!(client.call(&CallRequest::Retain { retention_ms: Some(1) }), CallReply::Done);
    assert!(guest.wait().success());
}

#[test]
fn a_guest_without_its_owner_ends_with_its_jobs() {
    let mut guest = TestGuest::with(|settings| {
        settings.owner_grace_ms = Some(400);
        settings.ephemeral = true;
    });
    let owner = guest.client_as(HostRole::Owner);
    let second = guest.client_as(HostRole::Owner);
    guest.client().background(shell("a", "trap '' TERM; sleep 600 & wait; sleep 600"));
    drop(owner);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(guest.client().run(shell("b", "echo on")).0.stdout, b"on\n");
    drop(second);
    assert!(guest.wait().success());
    assert!(!guest.state_dir().exists() && !guest.dir.path().join("io").exists());
    assert!(support::processes_of_instance(&guest.settings.instance).is_empty());
}

#[test]
fn a_guest_to_which_no_owner_comes_ends() {
    let mut guest = TestGuest::with(|settings| settings.owner_grace_ms = Some(50));
    assert!(guest.wait().success());
}

#[test]
fn a_busy_guest_is_not_shut_down_if_idle_was_meant() {
    let mut guest = TestGuest::start();
    let mut client = guest.client();
    client.background(shell("a", "sleep 600"));
    let polite = CallRequest::Shutdown { grace_ms: 0, if_idle: true };
    assert_eq!(fault(client.call(&polite)).code, FaultCode::Busy);
    let mut other = guest.client();
    let channel = other.open(&CallRequest::Wait { id: id("a"), timeout_ms: None });
    client.kill(&id("a"));
    other.reply(channel);
    assert_eq!(client.call(&polite), CallReply::Done);
    assert!(guest.wait().success());
}

#[test]
fn an_orderly_end_gives_jobs_time_and_then_none() {
    let mut guest = TestGuest::start();
    let mut client = guest.client();
    let polite = "trap 'echo bye > bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    client.background(shell("polite", polite));
    client.background(shell("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.02; done"));
    for name in ["polite", "stubborn"] {
        wait_until("its first line is kept", || {
            let reply = client.call(&CallRequest::Wait { id: id(name), timeout_ms: Some(0) });
            support::job(reply).stdout_bytes == 6
        });
    }
    let reply = client.call(&CallRequest::Shutdown { grace_ms: 500, if_idle: false });
    assert_eq!(reply, CallReply::Done);
    assert!(read_frame(&mut client.stream).is_err(), "the connection closes after it");
    assert_eq!(std::fs::read_to_string(guest.work_dir().join("bye")).unwrap(), "bye\n");
    assert!(support::processes_of_instance(&guest.settings.instance).is_empty());
    // Another guest can start here once the connection has closed.
    let old = std::mem::take(&mut guest.ready);
    guest.wait();
    guest.restart();
    assert_ne!(guest.ready, old);
    let stubborn = guest.client().wait(&id("stubborn"));
    assert_eq!(support::code(&stubborn), Some(137));
    assert_eq!(support::code(&guest.client().wait(&id("polite"))), Some(0));
}

#[test]
fn nothing_starts_while_the_guest_ends() {
    let mut guest = TestGuest::start();
    let mut client = guest.client();
    client.background(shell("a", "trap '' TERM; echo ready; while :; do sleep 0.02; done"));
    wait_until("its first line is kept", || {
        let reply = client.call(&CallRequest::Wait { id: id("a"), timeout_ms: Some(0) });
        support::job(reply).stdout_bytes == 6
    });
    let channel = client.open(&CallRequest::Shutdown { grace_ms: 1000, if_idle: false });
    let reply = client.call(&CallRequest::Start(Box::new(shell("b", "true"))));
    assert_eq!(fault(reply).code, FaultCode::ShuttingDown);
    assert_eq!(client.reply(channel), CallReply::Done);
    assert!(guest.wait().success());
}

#[test]
fn sigterm_is_an_orderly_end_and_sighup_is_nothing() {
    let mut guest = TestGuest::start();
    guest.signal(rustix::process::Signal::HUP);
    guest.client().background(shell("a", "sleep 600"));
    guest.signal(rustix::process::Signal::TERM);
    assert!(guest.wait().success());
    assert!(support::processes_of_instance(&guest.settings.instance).is_empty());
    assert!(!guest.socket().exists());
}

#[test]
fn stats_count_the_processes_of_jobs() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    client.background(shell("a", "sleep 600 & sleep 600 & wait"));
    wait_until("all of it runs", || support::processes_of(&guest, "a").len() == 3);
    let CallReply::Stats(stats) = client.call(&CallRequest::Stats) else { panic!("no stats") };
    assert_eq!(stats.processes, 3);
    assert!(stats.memory_bytes > 0 && stats.guest_bytes > 0);
    let CallReply::Jobs { jobs, .. } = client.call(&CallRequest::Jobs { running: true, limit: 9 })
    else {
        panic!("no listing");
    };
    assert_eq!(jobs.iter().map(|job| job.processes).collect::<Vec<_>>(), [3]);
    client.kill(&id("a"));
}

#[test]
fn a_deep_directory_is_no_obstacle() {
    let deep = "d/".repeat(100);
    let mut guest = TestGuest::start();
    guest.kill();
    let io = guest.dir.path().join(&deep).join("io");
    std::fs::create_dir_all(&io).unwrap();
    guest.restart_with(|settings| {
        settings.socket_dir = io.clone().into_os_string().into_encoded_bytes().into();
    });
    let mut bridge = std::process::Command::new(env!("CARGO_BIN_EXE_vestal-guest"))
        .arg("connect")
        .arg(&io)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let hello = encode(&Hello::new(HostRole::User, None)).unwrap();
    let mut stdin = bridge.stdin.take().unwrap();
    write_frame(&mut stdin, 0, FrameKind::Hello, Stream::Input, &hello).unwrap();
    std::io::Write::flush(&mut stdin).unwrap();
    let (header, _) = read_frame(bridge.stdout.as_mut().unwrap()).unwrap();
    assert_eq!(header.kind, FrameKind::Welcome);
    drop(stdin);
    assert!(bridge.wait().unwrap().success());
}
