//! How a connection behaves with an honest guest.

use std::collections::HashSet;
use std::time::Duration;

use vestal_wire::limits::{MAX_CHANNELS, MAX_DATA, WINDOW};
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, Fault, FaultCode, FrameKind, JobId,
    OutputDelivery, Status, Stream,
};

use super::fake_guest::{connected, ended, soon};
use super::{CallError, ChannelMessage, Closed};

fn attach() -> (JobId, CallRequest) {
    let id: JobId = "job".parse().unwrap();
    let attach = AttachJob {
        id: id.clone(),
        stdout_from: 0,
        stderr_from: 0,
        follow: true,
        delivery: OutputDelivery::EveryByte,
    };
    (id, CallRequest::Attach(attach))
}

fn status(idle_ms: u64) -> Status {
    Status {
        idle_ms,
        expires_in_ms: None,
        jobs_running: 0,
        jobs_known: 0,
        up_ms: 0,
        last_used_ms: 0,
    }
}

#[tokio::test]
async fn a_call_gets_its_reply() {
    let (connection, mut guest) = connected().await;
    assert_eq!(connection.welcome().incarnation, "incarnation");
    let (answer, ()) = tokio::join!(connection.status(Duration::from_mins(1)), async {
        let (channel, request) = guest.request().await;
        assert_eq!(request, CallRequest::Status);
        guest.reply(channel, &CallReply::Status(status(5))).await;
    });
    assert_eq!(answer.unwrap(), status(5));
    assert!(!connection.is_closed());
}

#[tokio::test]
async fn a_fault_is_an_error_and_leaves_the_connection_usable() {
    let (connection, mut guest) = connected().await;
    let fault = Fault::new(FaultCode::Busy, "a job runs");
    let (answer, ()) = tokio::join!(connection.call(CallRequest::Touch), async {
        let (channel, _) = guest.request().await;
        guest.reply(channel, &CallReply::Fault(fault.clone())).await;
    });
    assert!(matches!(answer, Err(CallError::Fault(found)) if found == fault));
    let (answer, ()) = tokio::join!(connection.call(CallRequest::Touch), async {
        let (channel, _) = guest.request().await;
        guest.reply(channel, &CallReply::Done).await;
    });
    assert_eq!(answer.unwrap(), CallReply::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_each_get_their_own_reply() {
    const CALLS: u64 = 3 * MAX_CHANNELS as u64;
    let (connection, mut guest) = connected().await;
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let request = CallRequest::ResetSession { name: number.to_string() };
                (number, connection.call(request).await)
            })
        })
        .collect();
    // Answers come in another order than the questions, and each carries the
    // number of its question back.
    let serving = tokio::spawn(async move {
        let mut open = Vec::new();
        let mut served = 0;
        while served < CALLS {
            let (channel, request) = guest.request().await;
            let CallRequest::ResetSession { name } = request else { panic!("{request:?}") };
            open.push((channel, name));
            assert!(open.len() <= MAX_CHANNELS);
            let rest = CALLS - served;
            if open.len() as u64 == rest.min(100) {
                for (channel, name) in open.drain(..).rev() {
                    let fault = Fault::new(FaultCode::Busy, name);
                    guest.reply(channel, &CallReply::Fault(fault)).await;
                    served += 1;
                }
            }
        }
        guest
    });
    for call in calls {
        let (number, answer) = soon(call).await.unwrap();
        match answer {
            Err(CallError::Fault(fault)) => assert_eq!(fault.message, number.to_string()),
            other => panic!("{other:?}"),
        }
    }
    drop(soon(serving).await.unwrap());
    assert_eq!(connection.shared().channels(), 0);
}

#[tokio::test]
async fn more_calls_than_channels_wait_for_a_free_one() {
    let (connection, mut guest) = connected().await;
    let mut open = Vec::new();
    let mut ids = HashSet::new();
    for _ in 0..MAX_CHANNELS {
        open.push(connection.channel(CallRequest::Touch).await.unwrap());
        ids.insert(guest.request().await.0);
    }
    assert_eq!(ids.len(), MAX_CHANNELS);
    let mut next = Box::pin(connection.channel(CallRequest::Touch));
    assert!(futures_poll_once(&mut next).await.is_none());
    let freed = *ids.iter().next().unwrap();
    guest.reply(freed, &CallReply::Done).await;
    let (next, (channel, _)) = soon(async { tokio::join!(next, guest.request()) }).await;
    next.unwrap();
    assert!(channel == freed || !ids.contains(&channel));
}

/// Polls a future once and returns its result if it has one.
async fn futures_poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn what_comes_on_a_channel_keeps_its_order() {
    let (connection, mut guest) = connected().await;
    let (id, request) = attach();
    let mut channel = connection.channel(request).await.unwrap();
    let (number, _) = guest.request().await;
    guest.event(number, &CallEvent::Started { pid: 1 }).await;
    guest.data(number, Stream::Stdout, b"a").await;
    guest.data(number, Stream::Stdout, b"b").await;
    guest.data(number, Stream::Stderr, b"c").await;
    guest.event(number, &CallEvent::gap(Stream::Stdout, 9)).await;
    guest.data(number, Stream::Stdout, b"d").await;
    guest.send(number, FrameKind::End, Stream::Stdout, &[]).await;
    guest.end_job(number, &id).await;

    let mut seen = Vec::new();
    while let Some(incoming) = soon(channel.recv()).await.unwrap() {
        seen.push(match incoming {
            ChannelMessage::Data(stream, bytes) => format!("{stream:?} {bytes:?}"),
            ChannelMessage::End(stream) => format!("end {stream:?}"),
            ChannelMessage::Event(CallEvent::Started { .. }) => "started".to_owned(),
            ChannelMessage::Event(CallEvent::Gap { .. }) => "gap".to_owned(),
            ChannelMessage::Event(CallEvent::Ended(info)) => format!("ended {}", info.id),
            ChannelMessage::Reply(_) => "reply".to_owned(),
        });
    }
    // Neighbouring bytes of one stream may be joined.
    let text = seen.join(", ").replace("b\"a\", Stdout b\"b\"", "b\"ab\"");
    assert_eq!(
        text,
        "started, Stdout b\"ab\", Stderr b\"c\", gap, Stdout b\"d\", end Stdout, ended job, reply"
    );
}

#[tokio::test]
async fn a_slow_consumer_stops_the_guest_at_the_window() {
    const CHUNKS: usize = 64 * WINDOW as usize / MAX_DATA;
    let (connection, mut guest) = connected().await;
    let (id, request) = attach();
    let mut channel = connection.channel(request).await.unwrap();
    let (number, _) = guest.request().await;

    // An honest guest: sends what it has credit for, then waits for more.
    let sending = tokio::spawn(async move {
        let mut credit = WINDOW as usize;
        let mut most_unasked = 0;
        for chunk in 0..CHUNKS {
            while credit < MAX_DATA {
                let payload = guest.expect(number, FrameKind::Credit, Stream::Stdout).await;
                credit += u32::from_le_bytes(payload.try_into().unwrap()) as usize;
                most_unasked = most_unasked.max(credit);
            }
            credit -= MAX_DATA;
            guest.data(number, Stream::Stdout, &vec![chunk.to_le_bytes()[0]; MAX_DATA]).await;
        }
        guest.end_job(number, &id).await;
        (guest, most_unasked)
    });

    let mut received = 0;
    loop {
        match soon(channel.recv()).await.unwrap() {
            Some(ChannelMessage::Data(_, bytes)) => {
                for (index, byte) in bytes.iter().enumerate() {
                    let chunk = (received + index) / MAX_DATA;
                    assert_eq!(*byte, chunk.to_le_bytes()[0]);
                }
                received += bytes.len();
            }
            Some(ChannelMessage::Reply(_)) => break,
            _ => {}
        }
    }
    assert_eq!(received, CHUNKS * MAX_DATA);
    let (_guest, most_unasked) = soon(sending).await.unwrap();
    assert!(most_unasked <= WINDOW as usize);
}

#[tokio::test]
async fn input_stops_at_the_credit_and_goes_on_with_more() {
    let (connection, mut guest) = connected().await;
    let id: JobId = "job".parse().unwrap();
    let channel = connection.channel(CallRequest::Input { id, close: true }).await.unwrap();
    let (number, _) = guest.request().await;
    let mut outgoing = channel.outgoing(Stream::Input);
    let total = WINDOW as usize + 100;
    let sending = tokio::spawn(async move {
        assert!(outgoing.write(&vec![1; total]).await);
        outgoing.end();
    });
    let mut received = 0;
    while received < WINDOW as usize {
        received += guest.expect(number, FrameKind::Data, Stream::Input).await.len();
    }
    assert_eq!(received, WINDOW as usize);
    guest.credit(number, Stream::Input, 60).await;
    assert_eq!(soon(guest.expect(number, FrameKind::Data, Stream::Input)).await.len(), 60);
    guest.credit(number, Stream::Input, 1000).await;
    assert_eq!(soon(guest.expect(number, FrameKind::Data, Stream::Input)).await.len(), 40);
    guest.expect(number, FrameKind::End, Stream::Input).await;
    soon(sending).await.unwrap();
    drop(channel);
}

#[tokio::test]
async fn a_writer_learns_that_the_guest_wants_no_more() {
    let (connection, mut guest) = connected().await;
    let id: JobId = "job".parse().unwrap();
    let mut channel = connection.channel(CallRequest::Input { id, close: true }).await.unwrap();
    let (number, _) = guest.request().await;
    let mut outgoing = channel.outgoing(Stream::Input);
    let sending = tokio::spawn(async move { outgoing.write(&vec![0; 2 * WINDOW as usize]).await });
    let mut received = 0;
    while received < WINDOW as usize {
        received += guest.expect(number, FrameKind::Data, Stream::Input).await.len();
    }
    guest.reply(number, &CallReply::Done).await;
    assert!(!soon(sending).await.unwrap());
    assert_eq!(soon(channel.reply()).await.unwrap(), CallReply::Done);
}

#[tokio::test]
async fn a_guest_that_does_not_read_makes_writers_wait_not_memory_grow() {
    let (connection, guest) = connected().await;
    let mut channels = Vec::new();
    let mut writers = Vec::new();
    for number in 0..64 {
        let id: JobId = format!("job-{number}").parse().unwrap();
        let channel = connection.channel(CallRequest::Input { id, close: true });
        let Some(channel) = futures_poll_once(&mut Box::pin(channel)).await else {
            break;
        };
        let channel = channel.unwrap();
        let mut outgoing = channel.outgoing(Stream::Input);
        channels.push(channel);
        writers.push(tokio::spawn(async move {
            outgoing.write(&vec![0; WINDOW as usize]).await;
        }));
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    assert!(connection.shared().outbox.pending() <= 512 << 10);
    drop(guest);
    for writer in writers {
        soon(writer).await.unwrap();
    }
    assert_eq!(soon(connection.closed()).await, Closed::Vanished);
}

#[tokio::test]
async fn a_dropped_channel_is_cancelled_and_frees_its_number_with_the_reply() {
    let (connection, mut guest) = connected().await;
    let (_, request) = attach();
    let channel = connection.channel(request).await.unwrap();
    let (number, _) = guest.request().await;
    drop(channel);
    guest.expect(number, FrameKind::Cancel, Stream::Input).await;
    assert_eq!(connection.shared().channels(), 1);
    // What crossed with the cancellation is passed over.
    guest.data(number, Stream::Stdout, b"late").await;
    guest.event(number, &CallEvent::Started { pid: 1 }).await;
    let fault = Fault::new(FaultCode::Cancelled, "cancelled");
    guest.reply(number, &CallReply::Fault(fault)).await;
    let (answer, ()) = soon(async {
        tokio::join!(connection.call(CallRequest::Touch), async {
            let (channel, _) = guest.request().await;
            guest.reply(channel, &CallReply::Done).await;
        })
    })
    .await;
    answer.unwrap();
    assert_eq!(connection.shared().channels(), 0);
}

#[tokio::test]
async fn a_call_given_up_is_cancelled() {
    let (connection, mut guest) = connected().await;
    let answer = connection.call_within(CallRequest::Touch, Duration::from_millis(20)).await;
    assert!(matches!(answer, Err(CallError::Deadline { sent: true })), "{answer:?}");
    let (number, _) = guest.request().await;
    guest.expect(number, FrameKind::Cancel, Stream::Input).await;
}

#[tokio::test]
async fn the_connection_closes_with_its_last_holder() {
    let (connection, mut guest) = connected().await;
    let (_, request) = attach();
    let channel = connection.channel(request).await.unwrap();
    let (number, _) = guest.request().await;
    drop(connection.clone());
    drop(connection);
    guest.data(number, Stream::Stdout, b"still here").await;
    let mut channel = channel;
    assert!(matches!(soon(channel.recv()).await, Ok(Some(ChannelMessage::Data(..)))));
    drop(channel);
    guest.expect(number, FrameKind::Cancel, Stream::Input).await;
    soon(guest.closed()).await;
}

#[tokio::test]
async fn an_answer_given_before_the_guest_left_still_arrives() {
    let (connection, mut guest) = connected().await;
    let (answer, ()) = tokio::join!(connection.call(CallRequest::Touch), async {
        let (channel, _) = guest.request().await;
        guest.reply(channel, &CallReply::Done).await;
        drop(guest);
    });
    assert_eq!(answer.unwrap(), CallReply::Done);
    assert_eq!(soon(connection.closed()).await, Closed::Vanished);
    let answer = soon(connection.call(CallRequest::Touch)).await;
    assert!(matches!(answer, Err(CallError::Lost { sent: false, .. })), "{answer:?}");
}

#[test]
fn callers_outlive_the_runtime_that_drove_the_connection() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (connection, guest, mut channel) = runtime.block_on(async {
        let (connection, guest) = connected().await;
        let channel = connection.channel(CallRequest::Touch).await.unwrap();
        (connection, guest, channel)
    });
    drop(runtime);
    assert!(connection.is_closed());
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = other.block_on(channel.reply());
    assert!(matches!(answer, Err(CallError::Lost { sent: true, .. })), "{answer:?}");
    drop(guest);
}

#[tokio::test]
async fn large_messages_pass() {
    let (connection, mut guest) = connected().await;
    let id: JobId = "job".parse().unwrap();
    let request = CallRequest::Wait { id: id.clone(), timeout_ms: None };
    let mut info = ended(&id);
    info.cwd = vec![b'x'; 900_000].into();
    let reply = CallReply::Job(Box::new(info));
    let (answer, ()) = tokio::join!(connection.call(request), async {
        let (channel, _) = guest.request().await;
        guest.reply(channel, &reply).await;
    });
    assert_eq!(answer.unwrap(), reply);
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_before_it_is_sent() {
    let (connection, _guest) = connected().await;
    let request = CallRequest::ResetSession { name: "x".repeat(2 << 20) };
    let answer = connection.call(request).await;
    assert!(matches!(answer, Err(CallError::Unsendable(_))), "{answer:?}");
    assert!(!connection.is_closed());
}
