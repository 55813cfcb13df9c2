//! The bounds of what waits on a channel.

use bytes::BytesMut;
use vestal_wire::limits::WINDOW;
use vestal_wire::{AttachJob, CallEvent, CallRequest, OutputDelivery, Stream, encode};

use super::error::{Expectation, Violation};
use super::inbox::{Inbox, InboxItem};

fn inbox() -> Inbox {
    Inbox::new(Expectation::of(&CallRequest::Attach(AttachJob {
        id: "job".parse().unwrap(),
        stdout_from: 0,
        stderr_from: 0,
        follow: true,
        delivery: OutputDelivery::EveryByte,
    })))
}

#[test]
fn single_bytes_do_not_pile_up_as_single_items() {
    let mut inbox = inbox();
    for _ in 0..WINDOW {
        inbox.data(Stream::Stdout, BytesMut::from(&b"o"[..])).unwrap();
        inbox.data(Stream::Stderr, BytesMut::from(&b"e"[..])).unwrap();
    }
    assert!(inbox.len() < 2_000, "{} items", inbox.len());
    let (mut stdout, mut stderr) = (0, 0);
    while let Some((item, _)) = inbox.pop() {
        match item {
            InboxItem::Data(Stream::Stdout, bytes) => {
                assert!(bytes.iter().all(|byte| *byte == b'o'));
                stdout += bytes.len();
            }
            InboxItem::Data(Stream::Stderr, bytes) => {
                assert!(bytes.iter().all(|byte| *byte == b'e'));
                stderr += bytes.len();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((stdout, stderr), (WINDOW as usize, WINDOW as usize));
}

#[test]
fn data_after_an_event_is_never_joined_to_data_before_it() {
    let mut inbox = inbox();
    let gap = encode(&CallEvent::gap(Stream::Stdout, 1)).unwrap();
    inbox.data(Stream::Stdout, BytesMut::from(&b"a"[..])).unwrap();
    inbox.event(&gap).unwrap();
    inbox.data(Stream::Stdout, BytesMut::from(&b"b"[..])).unwrap();
    assert!(matches!(inbox.pop(), Some((InboxItem::Data(_, bytes), None)) if bytes == b"a"[..]));
    assert!(matches!(inbox.pop(), Some((InboxItem::Event(..), None))));
    assert!(matches!(inbox.pop(), Some((InboxItem::Data(_, bytes), None)) if bytes == b"b"[..]));
    assert!(inbox.pop().is_none());
}

#[test]
fn a_gap_keeps_its_place_also_in_a_long_queue() {
    let mut inbox = inbox();
    let gap = encode(&CallEvent::gap(Stream::Stdout, 1)).unwrap();
    for _ in 0..5_000 {
        inbox.data(Stream::Stdout, BytesMut::from(&b"a"[..])).unwrap();
        inbox.data(Stream::Stderr, BytesMut::from(&b"e"[..])).unwrap();
    }
    inbox.event(&gap).unwrap();
    inbox.data(Stream::Stdout, BytesMut::from(&b"b"[..])).unwrap();
    let mut stdout = Vec::new();
    while let Some((item, _)) = inbox.pop() {
        match item {
            InboxItem::Data(Stream::Stdout, bytes) => stdout.extend_from_slice(&bytes),
            InboxItem::Event(..) => stdout.push(b'|'),
            _ => {}
        }
    }
    assert_eq!(stdout, [&[b'a'; 5_000][..], b"|b"].concat());
}

#[test]
fn joining_goes_on_after_items_were_taken() {
    let mut inbox = inbox();
    inbox.data(Stream::Stdout, BytesMut::from(&b"a"[..])).unwrap();
    inbox.pop().unwrap();
    inbox.data(Stream::Stdout, BytesMut::from(&b"b"[..])).unwrap();
    inbox.data(Stream::Stdout, BytesMut::from(&b"c"[..])).unwrap();
    assert!(matches!(inbox.pop(), Some((InboxItem::Data(_, bytes), None)) if bytes == b"bc"[..]));
}

#[test]
fn credit_is_granted_for_what_is_taken_and_nothing_else() {
    let mut inbox = inbox();
    let chunk = BytesMut::from(&vec![0; 64 << 10][..]);
    for _ in 0..WINDOW / (64 << 10) {
        inbox.data(Stream::Stdout, chunk.clone()).unwrap();
    }
    let over = inbox.data(Stream::Stdout, BytesMut::from(&b"x"[..]));
    assert_eq!(over, Err(Violation::Window { stream: Stream::Stdout, len: 1, left: 0 }));
    let mut granted = 0;
    while let Some((_, credit)) = inbox.pop() {
        granted += credit.map_or(0, |(stream, bytes)| {
            assert_eq!(stream, Stream::Stdout);
            bytes
        });
    }
    assert_eq!(granted, WINDOW);
}

#[test]
fn a_cancelled_channel_keeps_nothing_and_grants_nothing() {
    let mut inbox = inbox();
    inbox.data(Stream::Stdout, BytesMut::from(&b"a"[..])).unwrap();
    inbox.discard();
    inbox.data(Stream::Stdout, BytesMut::from(&vec![0; WINDOW as usize - 1][..])).unwrap();
    assert_eq!(inbox.len(), 0);
    assert!(inbox.data(Stream::Stdout, BytesMut::from(&b"x"[..])).is_err());
}
