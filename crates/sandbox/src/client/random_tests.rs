//! Random frames neither crash nor hang the client.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, FileCall, FileOp, HEADER_LEN, OutputDelivery,
    encode,
};

use super::fake_guest::{connected, ended, soon};
use super::{Channel, Connection};

/// A frame of random header fields, mostly near what is allowed.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![9 => 4_u8..=8, 1 => any::<u8>()];
    let stream = prop_oneof![9 => 0_u8..=4, 1 => any::<u8>()];
    let payload = prop_oneof![
        2 => Just(encode(&CallEvent::Started { pid: 1 }).unwrap()),
        2 => (0_u8..4, any::<u64>())
            .prop_map(|(stream, bytes)| encode(&CallEvent::Gap { stream, bytes }).unwrap()),
        2 => Just(encode(&CallReply::Done).unwrap()),
        2 => Just(encode(&CallReply::Job(Box::new(ended(&"job".parse().unwrap())))).unwrap()),
        2 => Just(vec![0, 0, 1, 0]),
        2 => vec(any::<u8>(), 0..64),
        1 => (0_usize..70_000).prop_map(|len| vec![7; len]),
        2 => Just(Vec::new()),
    ];
    // Now and then the length is a lie.
    let lie = prop_oneof![19 => Just(None), 1 => any::<u32>().prop_map(Some)];
    (0_u32..5, kind, stream, payload, lie).prop_map(|(channel, kind, stream, payload, lie)| {
        let len = lie.unwrap_or(u32::try_from(payload.len()).unwrap());
        let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&channel.to_le_bytes());
        bytes.extend_from_slice(&[kind, stream]);
        bytes.extend_from_slice(&payload);
        bytes
    })
}

async fn channels(connection: &Connection) -> Vec<Channel> {
    let job = || "job".parse().unwrap();
    let path = b"/file".to_vec().into();
    let requests = [
        CallRequest::Attach(AttachJob {
            id: job(),
            stdout_from: 0,
            stderr_from: 0,
            follow: true,
            delivery: OutputDelivery::EveryByte,
        }),
        CallRequest::Touch,
        CallRequest::File(FileCall {
            session: None,
            start_dir: None,
            op: FileOp::Read { path, offset: 0, limit: None },
        }),
        CallRequest::Kill { id: job() },
    ];
    let mut channels = Vec::new();
    for request in requests {
        channels.push(connection.channel(request).await.unwrap());
    }
    channels
}

/// Reads a channel to its end, whatever that is.
async fn exhaust(mut channel: Channel) {
    while let Ok(Some(_)) = channel.recv().await {}
}

async fn survive(frames: Vec<Vec<u8>>) {
    let (connection, mut guest) = connected().await;
    let mut channels = channels(&connection).await;
    // One channel is given up, the others are read.
    drop(channels.pop());
    let readers: Vec<_> =
        channels.into_iter().map(|channel| tokio::spawn(exhaust(channel))).collect();
    for frame in frames {
        let writing = guest.io.write_all(&frame);
        if soon(writing).await.is_err() {
            break;
        }
    }
    drop(guest);
    for reader in readers {
        soon(reader).await.unwrap();
    }
    soon(connection.closed()).await;
    let answer = connection.call_within(CallRequest::Touch, Duration::from_mins(1)).await;
    assert!(answer.is_err());
    assert_eq!(connection.shared().channels(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_frames_never_crash_nor_hang_the_client(frames in vec(frame(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(survive(frames));
    }

    #[test]
    fn random_bytes_never_crash_nor_hang_the_client(bytes in vec(any::<u8>(), 0..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(survive(vec![bytes]));
    }
}
