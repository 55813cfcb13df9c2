//! The guest dies at every step it has, and the next one makes sense of it.

#![cfg(feature = "failpoints")]
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod support;

use std::os::unix::net::UnixStream;

use support::{TestGuest, id, processes_of_instance, shell};
use vestal_testkit::{TEST_TIMEOUT, wait_until};
use vestal_wire::{
    CallReply, CallRequest, Cause, CommandOutcome, FrameKind, Hello, HostRole, JobState, StartJob,
    Stream, Welcome, decode, encode, read_frame, write_frame,
};

/// Talks to a guest that may die at any word. Returns how far it came.
fn live_a_life(guest: &TestGuest) -> Option<Welcome> {
    let mut stream = UnixStream::connect(guest.socket()).ok()?;
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let hello = Hello::new(HostRole::User, None);
    write_frame(&mut stream, 0, FrameKind::Hello, Stream::Input, &encode(&hello).unwrap()).ok()?;
    let welcome: Welcome = decode(&read_frame(&mut stream).ok()?.1).unwrap();
    let start = StartJob {
        session: Some("main".into()),
        ..shell("job", "echo ran >> count; echo output; V=1")
    };
    let requests = [
        CallRequest::Start(Box::new(start)),
        CallRequest::Shutdown { grace_ms: 0, if_idle: false },
    ];
    for (channel, request) in (1..).zip(requests) {
        let payload = encode(&request).unwrap();
        let sent = write_frame(&mut stream, channel, FrameKind::Open, Stream::Input, &payload);
        if sent.is_err() {
            break;
        }
        while let Ok((header, _)) = read_frame(&mut stream) {
            if header.kind == FrameKind::Reply {
                break;
            }
        }
    }
    Some(welcome)
}

#[test]
fn after_a_death_at_any_step_a_command_ran_at_most_once_and_it_is_known_whether() {
    for name in vestal_guest::failpoint::NAMES {
        let mut guest = TestGuest::failing(name);
        let welcome = live_a_life(&guest);
        assert!(!guest.wait().success(), "{name} was not reached");
        wait_until("all are dead", || processes_of_instance(&guest.settings.instance).is_empty());
        guest.restart();
        let mut client = guest.client();
        let ran = std::fs::read_to_string(guest.work_dir().join("count")).unwrap_or_default();
        let start = shell("job", "echo ran >> count");
        let Some(welcome) = welcome else {
            assert_eq!(ran, "", "{name}");
            client.run(start);
            continue;
        };
        let lookup = CallRequest::Lookup {
            id: id("job"),
            incarnation: welcome.incarnation,
            boot: welcome.boot,
        };
        match client.call(&lookup) {
            CallReply::Outcome(CommandOutcome::NeverStarted) => {
                assert_eq!(ran, "", "{name}");
                client.call(&CallRequest::Start(Box::new(start)));
            }
            CallReply::Outcome(CommandOutcome::Known(info)) => {
                let JobState::Ended(exit) = info.state else { panic!("{name}: {info:?}") };
                assert!(
                    exit.cause == Cause::Lost || (exit.code, ran.as_str()) == (Some(0), "ran\n")
                );
                client.run(start);
            }
            other => panic!("{name}: {other:?}"),
        }
        let after = std::fs::read_to_string(guest.work_dir().join("count")).unwrap_or_default();
        assert_eq!(after, ran, "{name}: it ran twice");
        let mut held =
            client.run(StartJob { session: Some("main".into()), ..shell("next", "echo [$V]") });
        held.0.stdout.retain(|byte| *byte != b'\n');
        assert!([&b"[]"[..], b"[1]"].contains(&held.0.stdout.as_slice()), "{name}");
    }
}
