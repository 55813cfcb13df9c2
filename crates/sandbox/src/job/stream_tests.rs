//! Streams of jobs, against guests that are played and whose connections are cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::net::UnixStream;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, mpsc};
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, CommandOutcome, Fault, FaultCode, FrameKind,
    HostRole, JobId, OutputDelivery, Stream, Welcome,
};

use super::*;
use crate::client::Connection;
use crate::client::fake_guest::{FakeGuest, ended, soon, welcome};
use crate::command::{CommandInput, new_job_id};
use crate::job::recovery::RECONNECTIONS;

/// Connects to one fake guest after the other.
struct Wire {
    guests: mpsc::UnboundedSender<UnixStream>,
    /// Connections that may have started a sandbox.
    connections: AtomicUsize,
    /// Connections to an instance that runs.
    greetings: AtomicUsize,
    /// Whether the sandbox is stopped, and so cannot be connected to.
    is_stopped: AtomicBool,
    /// Whether the sandbox cannot be attached to for another reason.
    is_locked: AtomicBool,
    unfinished: Arc<RwLock<()>>,
}

impl Wire {
    async fn open(&self) -> Result<Connection, Error> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(Error::Stopped { task: "t".to_owned() });
        }
        if self.is_locked.load(Ordering::Relaxed) {
            return Err(Error::Busy { task: "t".to_owned(), reason: "it is locked".to_owned() });
        }
        let (host, io) = UnixStream::pair().unwrap();
        self.guests.send(io).unwrap();
        Ok(Connection::open(host, HostRole::User, Some("instance".to_owned())).await?)
    }
}

#[async_trait]
impl Connector for Wire {
    async fn connect(&self) -> Result<Connection, Error> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.open().await
    }

    async fn connect_running(&self) -> Result<Connection, Error> {
        self.greetings.fetch_add(1, Ordering::Relaxed);
        self.open().await
    }

    fn delay_close(&self) -> Option<OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.unfinished).try_read_owned().ok()
    }
}

/// The guests that are connected to, in order.
struct Guests(mpsc::UnboundedReceiver<UnixStream>);

impl Guests {
    async fn next(&mut self) -> FakeGuest {
        self.next_as(&welcome()).await
    }

    async fn next_as(&mut self, welcome: &Welcome) -> FakeGuest {
        let io = soon(self.0.recv()).await.unwrap();
        let mut guest = FakeGuest { io };
        guest.greet(welcome).await;
        guest
    }
}

fn wire() -> (Arc<Wire>, Guests) {
    let (guests, taken) = mpsc::unbounded_channel();
    let wire = Wire {
        guests,
        connections: AtomicUsize::new(0),
        greetings: AtomicUsize::new(0),
        is_stopped: AtomicBool::new(false),
        is_locked: AtomicBool::new(false),
        unfinished: Arc::default(),
    };
    (Arc::new(wire), Guests(taken))
}

fn running(id: &JobId) -> Box<JobInfo> {
    Box::new(JobInfo { state: vestal_wire::JobState::Running, ..ended(id) })
}

/// Reads the question what became of a job, and answers it.
async fn answer_lookup(guest: &mut FakeGuest, id: &JobId, outcome: CommandOutcome) {
    let (channel, request) = guest.request().await;
    let (incarnation, boot) = ("incarnation".to_owned(), "boot".to_owned());
    assert_eq!(request, CallRequest::Lookup { id: id.clone(), incarnation, boot });
    guest.reply(channel, &CallReply::Outcome(outcome)).await;
}

/// Reads the request to follow a job from these bytes on.
async fn expect_attach(
    guest: &mut FakeGuest,
    id: &JobId,
    stdout_from: u64,
    stderr_from: u64,
) -> u32 {
    let (channel, request) = guest.request().await;
    let delivery = OutputDelivery::EveryByte;
    let expected = AttachJob { id: id.clone(), stdout_from, stderr_from, follow: true, delivery };
    assert_eq!(request, CallRequest::Attach(expected));
    channel
}

async fn start(wire: &Arc<Wire>, command: Command) -> Result<JobStream, Error> {
    JobStream::start(Arc::clone(wire) as Arc<dyn Connector>, command, Follow::EveryByte).await
}

/// Does both at the same time; fails a test that would hang.
fn both<A, B>(
    a: impl Future<Output = A>,
    b: impl Future<Output = B>,
) -> impl Future<Output = (A, B)> {
    let (a, b) = (Box::pin(a), Box::pin(b));
    async move { soon(async { tokio::join!(a, b) }).await }
}

/// Returns all that a stream gives, and what became of the job.
async fn collect(mut job: JobStream) -> (Vec<JobEvent>, JobOutcome) {
    let mut events = Vec::new();
    while let Some(event) = job.next().await.unwrap() {
        events.push(event);
    }
    (events, job.finish().await.unwrap())
}

#[tokio::test]
async fn a_stream_goes_on_at_the_byte_where_its_connection_was_lost() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let follow = async {
        collect(start(&wire, Command::shell("make").job_id(id.clone())).await.unwrap()).await
    };
    let serve = async {
        let mut guest = guests.next().await;
        let (channel, _) = guest.start().await;
        guest.event(channel, &CallEvent::Started { pid: 7 }).await;
        guest.data(channel, Stream::Stdout, b"one").await;
        guest.data(channel, Stream::Stderr, b"err").await;
        drop(guest);
        // The second guest loses it again, after a gap and some more.
        let mut guest = guests.next().await;
        answer_lookup(&mut guest, &id, CommandOutcome::Known(running(&id))).await;
        let channel = expect_attach(&mut guest, &id, 3, 3).await;
        guest.event(channel, &CallEvent::Started { pid: 7 }).await;
        guest.event(channel, &CallEvent::gap(Stream::Stdout, 10)).await;
        guest.data(channel, Stream::Stdout, b"two").await;
        drop(guest);
        let mut guest = guests.next().await;
        answer_lookup(&mut guest, &id, CommandOutcome::Known(running(&id))).await;
        let channel = expect_attach(&mut guest, &id, 16, 3).await;
        guest.data(channel, Stream::Stdout, b"three").await;
        guest.end_job(channel, &id).await;
        guest
    };
    let ((events, outcome), _guest) = both(follow, serve).await;
    let expected = [
        JobEvent::Started { pid: 7 },
        JobEvent::Stdout(b"one"[..].into()),
        JobEvent::Stderr(b"err"[..].into()),
        JobEvent::Gap { stream: Stream::Stdout, bytes: 10 },
        JobEvent::Stdout(b"two"[..].into()),
        JobEvent::Stdout(b"three"[..].into()),
        JobEvent::Ended(Box::new(ended(&id))),
    ];
    assert_eq!(events, expected);
    assert_eq!(outcome, JobOutcome::Ran(Box::new(ended(&id))));
}

#[tokio::test]
async fn a_command_that_never_started_is_reported_and_not_sent_again() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let follow = async {
        collect(start(&wire, Command::shell("x").job_id(id.clone())).await.unwrap()).await
    };
    let serve = async {
        let mut guest = guests.next().await;
        guest.start().await;
        drop(guest);
        let mut guest = guests.next().await;
        answer_lookup(&mut guest, &id, CommandOutcome::NeverStarted).await;
        // Nothing follows: neither a start nor an attachment.
        assert!(
            soon(guest.try_frame()).await.is_none_or(|(header, _)| header.kind != FrameKind::Open)
        );
    };
    let ((events, outcome), ()) = both(follow, serve).await;
    assert_eq!((events, outcome), (Vec::new(), JobOutcome::NeverStarted { job: id }));
    assert_eq!(wire.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_command_that_a_guest_refuses_while_it_shuts_down_is_run_by_the_next_one() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let command = Command::shell("true").job_id(id.clone());
    let followed = async { collect(start(&wire, command).await.unwrap()).await };
    let guests = async {
        let mut first = guests.next().await;
        let (channel, begun) = first.start().await;
        let message = "the guest is shutting down".to_owned();
        let fault = Fault { code: FaultCode::ShuttingDown, message, errno: None };
        first.reply(channel, &CallReply::Fault(fault)).await;
        drop(first);
        let mut second = guests.next().await;
        let (channel, again) = second.start().await;
        assert_eq!((&begun.id, &again), (&id, &begun));
        second.reply(channel, &CallReply::Job(Box::new(ended(&id)))).await;
        second
    };
    let ((events, outcome), _guest) = both(followed, guests).await;
    assert_eq!(events, []);
    assert_eq!(outcome, JobOutcome::Ran(Box::new(ended(&id))));
}

#[tokio::test]
async fn an_unknown_outcome_is_reported_as_unknown() {
    // The guest's record is gone; or it denies a job that was seen to run.
    for (printed, answer) in
        [(false, CommandOutcome::Unknown), (true, CommandOutcome::NeverStarted)]
    {
        let (wire, mut guests) = wire();
        let id = new_job_id();
        let follow = async {
            collect(start(&wire, Command::shell("x").job_id(id.clone())).await.unwrap()).await
        };
        let serve = async {
            let mut guest = guests.next().await;
            let (channel, _) = guest.start().await;
            if printed {
                guest.data(channel, Stream::Stdout, b"out").await;
            }
            drop(guest);
            let mut guest = guests.next().await;
            answer_lookup(&mut guest, &id, answer).await;
            guest
        };
        let ((_, outcome), _guest) = both(follow, serve).await;
        assert_eq!(outcome, JobOutcome::Unknown { job: id });
    }
}

#[tokio::test]
async fn a_dropped_stream_kills_its_job_only_when_asked() {
    for kills in [true, false] {
        let (wire, mut guests) = wire();
        let id = new_job_id();
        let command = Command::shell("sleep 1000").job_id(id.clone());
        let command = if kills { command.kill_on_drop() } else { command };
        let (job, (mut guest, _)) = tokio::join!(start(&wire, command), async {
            let mut guest = guests.next().await;
            let started = guest.start().await;
            (guest, started)
        });
        drop(job.unwrap());
        // The call that nobody waits for is given up in any case.
        let (header, _) = soon(guest.frame()).await;
        assert_eq!(header.kind, FrameKind::Cancel);
        if !kills {
            // Long enough for a task that would kill it to begin.
            tokio::task::yield_now().await;
            assert_eq!(wire.greetings.load(Ordering::Relaxed), 0);
            continue;
        }
        expect_kill(&mut guests, &id).await;
        assert_eq!(wire.connections.load(Ordering::Relaxed), 1, "nothing is started for it");
    }
}

/// Reads the request to kill a job, from a connection of its own, and answers it.
async fn expect_kill(guests: &mut Guests, id: &JobId) {
    let mut killer = guests.next().await;
    let (channel, request) = soon(killer.request()).await;
    assert_eq!(request, CallRequest::Kill { id: id.clone() });
    killer.reply(channel, &CallReply::Job(Box::new(ended(id)))).await;
}

/// Loses the connection over a job that was started, and has its guest fault
/// when it is attached to again.
async fn fault_when_attached(guests: &mut Guests, id: &JobId) {
    let mut guest = guests.next().await;
    let (channel, _) = guest.start().await;
    guest.event(channel, &CallEvent::Started { pid: 7 }).await;
    drop(guest);
    let mut guest = guests.next().await;
    answer_lookup(&mut guest, id, CommandOutcome::Known(running(id))).await;
    let (channel, request) = guest.request().await;
    assert!(matches!(request, CallRequest::Attach(_)), "{request:?}");
    let fault = Fault { code: FaultCode::Internal, message: "no room".into(), errno: None };
    guest.reply(channel, &CallReply::Fault(fault)).await;
}

#[tokio::test]
async fn a_fault_after_a_reconnection_leaves_the_job_to_be_killed_on_drop() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let command = Command::shell("sleep 1000").job_id(id.clone()).kill_on_drop();
    let follow = async {
        let mut job = start(&wire, command).await.unwrap();
        loop {
            if let Err(error) = job.next().await {
                return error;
            }
        }
    };
    let (error, ()) = both(follow, fault_when_attached(&mut guests, &id)).await;
    assert!(matches!(&error, Error::LostJob { job, .. } if *job == id), "{error:?}");
    expect_kill(&mut guests, &id).await;

    // The same for one that is run to its end.
    let id = new_job_id();
    let command = Command::shell("sleep 1000").job_id(id.clone()).kill_on_drop();
    let run = run(Arc::clone(&wire) as Arc<dyn Connector>, command);
    let (output, ()) = both(run, fault_when_attached(&mut guests, &id)).await;
    assert!(matches!(&output, Err(Error::LostJob { job, .. }) if *job == id), "{output:?}");
    expect_kill(&mut guests, &id).await;
}

#[tokio::test]
async fn a_command_that_was_refused_is_not_killed() {
    let (wire, mut guests) = wire();
    let command = Command::shell("x").kill_on_drop();
    let follow = async {
        let mut job = start(&wire, command).await.unwrap();
        job.next().await.unwrap_err()
    };
    let serve = async {
        let mut guest = guests.next().await;
        let (channel, _) = guest.start().await;
        let message = "no such directory".to_owned();
        let fault = Fault { code: FaultCode::NoWorkdir, message, errno: None };
        guest.reply(channel, &CallReply::Fault(fault)).await;
        guest
    };
    let (error, _guest) = both(follow, serve).await;
    assert!(matches!(error, Error::Job(JobError::Fault(_))), "{error:?}");
    tokio::task::yield_now().await;
    assert_eq!(wire.greetings.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_end_of_the_process_waits_for_the_kill_of_a_job_that_was_dropped() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let command = Command::shell("sleep 1000").job_id(id.clone()).kill_on_drop();
    let (job, _guest) = both(start(&wire, command), async {
        let mut guest = guests.next().await;
        guest.start().await;
        guest
    })
    .await;
    assert!(wire.unfinished.try_write().is_ok(), "a job that is followed holds nothing up");
    drop(job.unwrap());
    assert!(wire.unfinished.try_write().is_err());
    expect_kill(&mut guests, &id).await;
    drop(soon(wire.unfinished.write()).await);
}

#[tokio::test]
async fn an_error_of_a_stream_names_the_job_that_may_still_be_running() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let follow = async {
        let mut job = start(&wire, Command::shell("x").job_id(id.clone())).await.unwrap();
        assert_eq!(job.next().await.unwrap(), Some(JobEvent::Started { pid: 7 }));
        let lost = job.next().await.unwrap_err();
        wire.is_locked.store(false, Ordering::Relaxed);
        wire.is_stopped.store(true, Ordering::Relaxed);
        (lost, job.next().await.unwrap_err())
    };
    let serve = async {
        let mut guest = guests.next().await;
        let (channel, _) = guest.start().await;
        guest.event(channel, &CallEvent::Started { pid: 7 }).await;
        wire.is_locked.store(true, Ordering::Relaxed);
        drop(guest);
    };
    let ((lost, stopped), ()) = both(follow, serve).await;
    assert_eq!(
        lost.to_string(),
        format!(
            "lost sight of job {id}, which may still be running: the sandbox of task \"t\" is in \
             use: it is locked"
        )
    );
    // In a sandbox that is stopped nothing runs.
    assert!(matches!(stopped, Error::Stopped { .. }), "{stopped:?}");
}

#[tokio::test]
async fn a_stream_that_has_seen_the_end_kills_nothing() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let command = Command::shell("true").job_id(id.clone()).kill_on_drop();
    let follow = async { collect(start(&wire, command).await.unwrap()).await };
    let serve = async {
        let mut guest = guests.next().await;
        let (channel, start) = guest.start().await;
        guest.end_job(channel, &start.id).await;
        guest
    };
    let ((_, outcome), _guest) = both(follow, serve).await;
    assert_eq!(outcome, JobOutcome::Ran(Box::new(ended(&id))));
    tokio::task::yield_now().await;
    assert_eq!(wire.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn no_loss_of_any_kind_sends_a_command_twice() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let run = run(Arc::clone(&wire) as Arc<dyn Connector>, Command::shell("x").job_id(id.clone()));
    let serve = async {
        let mut guest = guests.next().await;
        guest.start().await;
        drop(guest);
        // Lost over the question, over the attachment, and in the middle of the output.
        let mut guest = guests.next().await;
        assert!(matches!(guest.request().await.1, CallRequest::Lookup { .. }));
        drop(guest);
        let mut guest = guests.next().await;
        answer_lookup(&mut guest, &id, CommandOutcome::Known(running(&id))).await;
        assert!(matches!(guest.request().await.1, CallRequest::Attach(_)));
        drop(guest);
        let mut guest = guests.next().await;
        answer_lookup(&mut guest, &id, CommandOutcome::Known(running(&id))).await;
        let (channel, request) = guest.request().await;
        assert!(
            matches!(request, CallRequest::Attach(AttachJob { stdout_from: 0, .. })),
            "{request:?}"
        );
        guest.data(channel, Stream::Stdout, b"all of it").await;
        guest.end_job(channel, &id).await;
        guest
    };
    let (output, _guest) = both(run, serve).await;
    assert_eq!(output.unwrap().stdout.bytes(), b"all of it");
}

#[tokio::test]
async fn a_guest_that_is_lost_again_and_again_is_an_error_after_which_one_may_go_on() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let follow = async {
        let mut job = start(&wire, Command::shell("x").job_id(id.clone())).await.unwrap();
        let error = job.next().await.unwrap_err();
        assert!(matches!(&error, Error::LostJob { job, .. } if *job == id), "{error:?}");
        collect(job).await
    };
    let serve = async {
        let mut guest = guests.next().await;
        guest.start().await;
        drop(guest);
        for _ in 0..RECONNECTIONS {
            let mut guest = guests.next().await;
            guest.request().await;
            drop(guest);
        }
        let mut guest = guests.next().await;
        answer_lookup(&mut guest, &id, CommandOutcome::Known(running(&id))).await;
        let channel = expect_attach(&mut guest, &id, 0, 0).await;
        guest.end_job(channel, &id).await;
        guest
    };
    let ((_, outcome), _guest) = both(follow, serve).await;
    assert_eq!(outcome, JobOutcome::Ran(Box::new(ended(&id))));
}

#[tokio::test]
async fn whether_a_command_started_is_asked_for_the_guest_it_was_sent_to() {
    let (wire, mut guests) = wire();
    let id = new_job_id();
    let follow = async {
        collect(start(&wire, Command::shell("x").job_id(id.clone())).await.unwrap()).await
    };
    let serve = async {
        let mut guest = guests.next().await;
        guest.start().await;
        drop(guest);
        // Guests of a later boot answer, and the first of them is lost as well.
        let later = Welcome { incarnation: "later".into(), boot: "later".into(), ..welcome() };
        let mut guest = guests.next_as(&later).await;
        guest.request().await;
        drop(guest);
        let mut guest = guests.next_as(&later).await;
        answer_lookup(&mut guest, &id, CommandOutcome::Unknown).await;
        guest
    };
    let ((_, outcome), _guest) = both(follow, serve).await;
    assert_eq!(outcome, JobOutcome::Unknown { job: id });
}

#[tokio::test]
async fn a_job_that_loses_a_part_of_its_input_is_not_followed_as_if_nothing_had_happened() {
    let (wire, mut guests) = wire();
    let command = Command::shell("cat").stdin(CommandInput::Piped);
    let follow = async {
        let mut job = start(&wire, command).await.unwrap();
        assert!(job.write_input(b"half").await);
        job.next().await.unwrap_err()
    };
    let serve = async {
        let mut guest = guests.next().await;
        let (channel, _) = guest.start().await;
        guest.expect(channel, FrameKind::Data, Stream::Input).await;
    };
    let (error, ()) = both(follow, serve).await;
    assert!(matches!(error, Error::Job(JobError::InputLost { .. })), "{error:?}");
    assert_eq!(wire.connections.load(Ordering::Relaxed), 1);
}
