//! A guest that lies, floods, stalls or vanishes does no harm.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use vestal_wire::limits::{MAX_DATA, WINDOW};
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, Fault, FaultCode, FrameKind, HelloError,
    HostRole, JobId, MAJOR, OutputDelivery, Stream, Welcome, encode,
};

use super::fake_guest::{FakeGuest, connected, ended, soon, welcome};
use super::{CallError, Channel, Closed, ConnectError, Connection, Violation};

/// Connects to a guest that answers the hello with `answer`.
async fn greeted_with(answer: impl AsyncFnOnce(&mut FakeGuest)) -> ConnectError {
    let (host, io) = UnixStream::pair().unwrap();
    let mut guest = FakeGuest { io };
    let limit = Duration::from_millis(500);
    let (connection, ()) = soon(async {
        tokio::join!(
            Connection::open_within(host, HostRole::User, Some("instance".to_owned()), limit),
            async {
                guest.frame().await;
                answer(&mut guest).await;
                // Stays until the host has decided.
                guest.closed().await;
            }
        )
    })
    .await;
    connection.expect_err("the greeting should have failed")
}

async fn greeted_by(welcome: Welcome) -> ConnectError {
    greeted_with(async |guest| {
        guest.send(0, FrameKind::Welcome, Stream::Input, &encode(&welcome).unwrap()).await;
    })
    .await
}

/// Opens a channel that may have output and events.
async fn following() -> (Connection, FakeGuest, Channel, u32) {
    let (connection, mut guest) = connected().await;
    let request = CallRequest::Attach(AttachJob {
        id: job(),
        stdout_from: 0,
        stderr_from: 0,
        follow: true,
        delivery: OutputDelivery::EveryByte,
    });
    let channel = connection.channel(request).await.unwrap();
    let (number, _) = guest.request().await;
    (connection, guest, channel, number)
}

fn job() -> JobId {
    "job".parse().unwrap()
}

/// Expects that the guest is cut off and that every caller gets the reason.
async fn cut_off(
    connection: &Connection,
    channel: &mut Channel,
    mut guest: FakeGuest,
) -> Violation {
    let error = soon(channel.reply()).await.expect_err("no reply was due");
    let CallError::Protocol { sent: true, violation } = error else { panic!("{error:?}") };
    assert_eq!(soon(connection.closed()).await, Closed::Violation(violation.clone()));
    let again = soon(connection.call(CallRequest::Touch)).await;
    assert!(matches!(again, Err(CallError::Protocol { sent: false, .. })), "{again:?}");
    soon(guest.closed()).await;
    violation
}

#[tokio::test]
async fn a_guest_of_another_major_is_refused() {
    let error = greeted_by(Welcome { major: MAJOR + 1, ..welcome() }).await;
    assert!(
        matches!(error, ConnectError::Version(HelloError::Major { theirs }) if theirs == MAJOR + 1)
    );
}

#[tokio::test]
async fn a_guest_of_another_instance_is_refused() {
    let error = greeted_by(Welcome { instance: "other".to_owned(), ..welcome() }).await;
    assert!(matches!(error, ConnectError::WrongInstance { found, .. } if found == "other"));
}

#[tokio::test]
async fn a_refusal_is_reported_as_such() {
    for (code, wrong_instance) in [(FaultCode::WrongInstance, true), (FaultCode::Busy, false)] {
        let error = greeted_with(async |guest| {
            let fault = encode(&Fault::new(code, "no")).unwrap();
            guest.send(0, FrameKind::Welcome, Stream::Input, &fault).await;
        })
        .await;
        match error {
            ConnectError::WrongInstance { .. } => assert!(wrong_instance),
            ConnectError::Refused(fault) => assert!(!wrong_instance && fault.code == code),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn garbage_in_the_place_of_a_welcome_is_refused() {
    let garbage: [&[u8]; 3] = [
        &[0xff; 64],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        // A frame of the right kind with nonsense in it.
        &[4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0xde, 0xad, 0xbe, 0xef],
    ];
    for bytes in garbage {
        let error = greeted_with(async |guest| guest.raw(bytes).await).await;
        assert!(matches!(error, ConnectError::Protocol(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_welcome_with_endless_names_is_refused() {
    let error = greeted_by(Welcome { program: "x".repeat(100_000), ..welcome() }).await;
    assert!(matches!(error, ConnectError::Protocol(Violation::Claim(_))), "{error:?}");
}

#[tokio::test]
async fn a_welcome_that_never_comes_is_given_up() {
    let error = greeted_with(async |_| {}).await;
    assert!(matches!(error, ConnectError::Timeout(_)), "{error:?}");
}

#[tokio::test]
async fn a_guest_that_vanishes_before_the_welcome_is_reported_as_such() {
    let error = greeted_with(async |guest| guest.io.shutdown().await.unwrap()).await;
    assert!(matches!(error, ConnectError::Vanished), "{error:?}");
}

#[tokio::test]
async fn a_huge_length_is_refused_without_waiting_for_the_bytes() {
    let (connection, mut guest, mut channel, number) = following().await;
    let mut header = vec![0xff, 0xff, 0xff, 0x7f];
    header.extend_from_slice(&number.to_le_bytes());
    header.extend_from_slice(&[FrameKind::Data as u8, Stream::Stdout as u8]);
    guest.raw(&header).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert!(matches!(violation, Violation::Frame(_)), "{violation:?}");
}

#[tokio::test]
async fn data_beyond_the_window_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    for _ in 0..=WINDOW as usize / MAX_DATA {
        guest.data(number, Stream::Stdout, &vec![0; MAX_DATA]).await;
    }
    // Nothing has been taken so far, hence nothing was granted.
    soon(connection.closed()).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert!(matches!(violation, Violation::Window { left: 0, .. }), "{violation:?}");
}

#[tokio::test]
async fn data_for_an_unknown_channel_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    guest.data(number + 1, Stream::Stdout, b"x").await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    let expected = Violation::UnknownChannel { channel: number + 1, kind: FrameKind::Data };
    assert_eq!(violation, expected);
}

#[tokio::test]
async fn an_event_for_an_unknown_channel_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    guest.event(number + 1, &CallEvent::Started { pid: 1 }).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert!(matches!(violation, Violation::UnknownChannel { kind: FrameKind::Event, .. }));
}

#[tokio::test]
async fn data_on_a_stream_the_request_does_not_have_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    guest.data(number, Stream::Content, b"x").await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert_eq!(violation, Violation::UnexpectedStream(Stream::Content));
}

#[tokio::test]
async fn data_after_the_end_of_its_stream_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    guest.send(number, FrameKind::End, Stream::Stdout, &[]).await;
    guest.data(number, Stream::Stdout, b"x").await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert_eq!(violation, Violation::AfterEnd(Stream::Stdout));
}

#[tokio::test]
async fn a_flood_of_events_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    for _ in 0..2_000 {
        guest.event(number, &CallEvent::gap(Stream::Stdout, 1)).await;
    }
    soon(connection.closed()).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert_eq!(violation, Violation::EventFlood);
}

#[tokio::test]
async fn a_flood_of_events_on_a_cancelled_channel_is_a_violation() {
    let (connection, mut guest, channel, number) = following().await;
    drop(channel);
    for _ in 0..2_000 {
        guest.event(number, &CallEvent::gap(Stream::Stdout, 1)).await;
    }
    assert_eq!(soon(connection.closed()).await, Closed::Violation(Violation::EventFlood));
}

#[tokio::test]
async fn events_out_of_turn_are_violations() {
    let mut other = ended(&job());
    other.id = "other".parse().unwrap();
    let started = CallEvent::Started { pid: 1 };
    let cases = [
        vec![started.clone(), started],
        vec![CallEvent::Gap { stream: 3, bytes: 1 }],
        vec![CallEvent::Ended(Box::new(ended(&job()))), CallEvent::gap(Stream::Stdout, 1)],
        vec![CallEvent::Ended(Box::new(other))],
    ];
    for events in cases {
        let (connection, mut guest, mut channel, number) = following().await;
        for event in &events {
            guest.event(number, event).await;
        }
        let violation = cut_off(&connection, &mut channel, guest).await;
        assert!(matches!(violation, Violation::Event(_)), "{events:?}: {violation:?}");
    }
}

#[tokio::test]
async fn an_event_for_a_request_without_any_is_a_violation() {
    let (connection, mut guest) = connected().await;
    let mut channel = connection.channel(CallRequest::Touch).await.unwrap();
    let (number, _) = guest.request().await;
    guest.event(number, &CallEvent::Started { pid: 1 }).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert_eq!(violation, Violation::UnexpectedKind(FrameKind::Event));
}

#[tokio::test]
async fn a_reply_of_the_wrong_type_is_a_violation() {
    let mut other = ended(&job());
    other.id = "other".parse().unwrap();
    for reply in [
        CallReply::Done,
        CallReply::Jobs { jobs: vec![], more: false },
        CallReply::Job(other.into()),
    ] {
        let (connection, mut guest, mut channel, number) = following().await;
        guest.reply(number, &reply).await;
        let violation = cut_off(&connection, &mut channel, guest).await;
        assert_eq!(violation, Violation::WrongReply);
    }
}

#[tokio::test]
async fn a_reply_that_cannot_be_decoded_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    guest.send(number, FrameKind::Reply, Stream::Input, &[0x9f; 100]).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert!(matches!(violation, Violation::Undecodable { kind: FrameKind::Reply, .. }));
}

#[tokio::test]
async fn a_second_reply_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    let reply = CallReply::Job(Box::new(ended(&job())));
    guest.reply(number, &reply).await;
    guest.reply(number, &reply).await;
    // The first one counts.
    assert_eq!(soon(channel.reply()).await.unwrap(), reply);
    let closed = soon(connection.closed()).await;
    let expected = Violation::UnknownChannel { channel: number, kind: FrameKind::Reply };
    assert_eq!(closed, Closed::Violation(expected));
}

#[tokio::test]
async fn frames_that_only_hosts_send_are_violations() {
    for kind in [FrameKind::Hello, FrameKind::Welcome, FrameKind::Open, FrameKind::Cancel] {
        let (connection, mut guest, mut channel, number) = following().await;
        guest.send(number, kind, Stream::Input, &[]).await;
        let violation = cut_off(&connection, &mut channel, guest).await;
        assert_eq!(violation, Violation::UnexpectedKind(kind));
    }
}

#[tokio::test]
async fn credit_beyond_counting_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    guest.credit(number, Stream::Input, u32::MAX).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert_eq!(violation, Violation::Credit(Stream::Input));
}

#[tokio::test]
async fn credit_without_a_number_is_a_violation() {
    let (connection, mut guest, mut channel, number) = following().await;
    guest.send(number, FrameKind::Credit, Stream::Input, &[1, 2]).await;
    let violation = cut_off(&connection, &mut channel, guest).await;
    assert!(matches!(violation, Violation::Frame(_)), "{violation:?}");
}

#[tokio::test]
async fn a_guest_that_stalls_meets_the_deadline() {
    let (connection, guest) = connected().await;
    let before = Instant::now();
    let answer = soon(connection.status(Duration::from_millis(50))).await;
    assert!(matches!(answer, Err(CallError::Deadline { sent: true })), "{answer:?}");
    assert!(before.elapsed() >= Duration::from_millis(50));
    assert!(!connection.is_closed());
    drop(guest);
}

#[tokio::test]
async fn a_guest_that_takes_no_bytes_has_not_been_sent_the_request() {
    let (host, mut guest) = tokio::io::duplex(64);
    let greeting = async {
        use tokio::io::AsyncReadExt;
        let mut bytes = vec![0; 10];
        guest.read_exact(&mut bytes).await.unwrap();
        let mut hello = vec![0; usize::from(bytes[0])];
        guest.read_exact(&mut hello).await.unwrap();
        let payload = encode(&welcome()).unwrap();
        let mut stream = Vec::new();
        vestal_wire::write_frame(&mut stream, 0, FrameKind::Welcome, Stream::Input, &payload)
            .unwrap();
        guest.write_all(&stream).await.unwrap();
    };
    let (connection, ()) = tokio::join!(Connection::open(host, HostRole::User, None), greeting);
    let connection = connection.unwrap();
    let request = || CallRequest::ResetSession { name: "x".repeat(1000) };
    let answer = soon(connection.call_within(request(), Duration::from_millis(50))).await;
    // The transport may yet take it.
    assert!(matches!(answer, Err(CallError::Deadline { sent: true })), "{answer:?}");

    // Half of a request cannot have been acted on, and the caller learns so.
    let mut channel = connection.channel(request()).await.unwrap();
    drop(guest);
    let answer = soon(channel.reply()).await;
    assert!(matches!(answer, Err(CallError::Lost { sent: false, .. })), "{answer:?}");
}

#[tokio::test]
async fn a_guest_that_sends_but_never_reads_is_cut_off_before_memory_grows() {
    let (connection, mut guest) = connected().await;
    // Fill the transport, then let the guest cause answers that it never reads.
    let mut channels = Vec::new();
    loop {
        let name = "x".repeat(1 << 19);
        let opening = connection.channel(CallRequest::ResetSession { name });
        match tokio::time::timeout(Duration::from_millis(100), opening).await {
            Ok(channel) => channels.push(channel.unwrap()),
            Err(_) => break,
        }
    }
    let before = connection.shared().outbox.pending();
    assert!(before < 2 << 20, "{before} bytes pend");
    drop(channels);
    let after = connection.shared().outbox.pending();
    assert!(after - before < 1 << 16, "{after} bytes pend");
    // What is not read stays within the bound for good: control frames run
    // into it and end the connection.
    for number in 0..1_000_000 {
        connection.shared().send_control(number, FrameKind::Credit, Stream::Stdout, &[0; 4]);
    }
    let closed = soon(connection.closed()).await;
    assert_eq!(closed, Closed::Violation(Violation::Unread));
    soon(guest.closed()).await;
}

#[tokio::test]
async fn a_guest_that_vanishes_fails_every_open_channel_at_once() {
    let (connection, mut guest) = connected().await;
    let mut channels = Vec::new();
    for _ in 0..100 {
        channels.push(connection.channel(CallRequest::Touch).await.unwrap());
        guest.request().await;
    }
    drop(guest);
    for channel in &mut channels {
        let answer = soon(channel.reply()).await;
        let Err(CallError::Lost { sent: true, reason }) = answer else { panic!("{answer:?}") };
        assert_eq!(reason, Closed::Vanished);
    }
}

#[tokio::test]
async fn a_guest_that_vanishes_inside_a_frame_is_lost() {
    let (connection, mut guest, mut channel, number) = following().await;
    let mut frame = Vec::new();
    vestal_wire::write_frame(&mut frame, number, FrameKind::Data, Stream::Stdout, &[0; 100])
        .unwrap();
    guest.raw(&frame[..50]).await;
    drop(guest);
    let answer = soon(channel.reply()).await;
    assert!(matches!(answer, Err(CallError::Lost { sent: true, .. })), "{answer:?}");
    assert!(connection.is_closed());
}
