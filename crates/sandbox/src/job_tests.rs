//! Jobs, against a guest that is played.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use vestal_wire::limits::{MAX_INLINE_TEXT, WINDOW};
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, Cause, CommandOutcome, Fault, FaultCode,
    FrameKind, JobExit, JobId, JobState, OutputDelivery, SessionState, ShellText, Stdin, Stream,
};

use super::{
    AfterInput, Follow, JobError, JobEvent, JobFilter, attach, jobs, kill, lookup, run,
    spawn_background, start, wait, write,
};
use crate::client::fake_guest::{FakeGuest, connected, ended, soon};
use crate::command::{Command, CommandInput};
use crate::output::{Captured, CapturedOutput};

/// Reads a stream to its end, granting credit for all that comes.
async fn drain(guest: &mut FakeGuest, channel: u32, stream: Stream) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        let (header, payload) = guest.frame().await;
        assert_eq!((header.channel, header.stream), (channel, stream));
        match header.kind {
            FrameKind::Data => {
                received.extend_from_slice(&payload);
                guest.credit(channel, stream, header.len).await;
            }
            FrameKind::End => return received,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_run_returns_what_the_command_printed_and_how_it_ended() {
    let (connection, mut guest) = connected().await;
    let command = Command::shell("make").session("main").capture(3, 3);
    let (output, id) = tokio::join!(run(&connection, command), async {
        let (channel, start) = guest.start().await;
        assert_eq!(start.delivery, OutputDelivery::Captured { head: 3, tail: 3 });
        assert_eq!(start.session.as_deref(), Some("main"));
        guest.event(channel, &CallEvent::Started { pid: 7 }).await;
        guest.data(channel, Stream::Stdout, b"abc").await;
        guest.event(channel, &CallEvent::gap(Stream::Stdout, 10)).await;
        guest.data(channel, Stream::Stdout, b"xyz").await;
        guest.data(channel, Stream::Stderr, b"err").await;
        guest.end_job(channel, &start.id).await;
        start.id
    });
    assert_eq!(
        output.unwrap(),
        CapturedOutput {
            job: id,
            exit: JobExit { code: Some(0), cause: Cause::Exited },
            stdout: Captured { head: b"abc".to_vec(), omitted: 10, tail: b"xyz".to_vec() },
            stderr: Captured { head: b"err".to_vec(), omitted: 0, tail: Vec::new() },
            cwd: b"/workspace".to_vec(),
            session_state: SessionState::Saved,
            session_error: None,
            duration: Some(Duration::from_micros(1500)),
        }
    );
}

#[tokio::test]
async fn text_and_input_of_any_length_are_streamed() {
    let text = vec![b'#'; 3 * WINDOW as usize + 1];
    let input: Vec<u8> = (0..5 * WINDOW).map(|n| n.to_le_bytes()[0]).collect();
    let cases = [
        (text.clone(), CommandInput::Bytes(input.clone())),
        (text, CommandInput::Reader(Box::new(io::Cursor::new(input.clone())))),
        (b"short".to_vec(), CommandInput::Reader(Box::new(io::Cursor::new(input.clone())))),
        (b"short".to_vec(), CommandInput::Bytes(input)),
        (vec![b'#'; MAX_INLINE_TEXT + 1], CommandInput::Bytes(b"few".to_vec())),
        (b"short".to_vec(), CommandInput::Bytes(Vec::new())),
    ];
    for (text, input) in cases {
        let expected = match &input {
            CommandInput::Bytes(bytes) => bytes.clone(),
            _ => (0..5 * WINDOW).map(|n| n.to_le_bytes()[0]).collect(),
        };
        let (connection, mut guest) = connected().await;
        let command = Command::shell(text.clone()).stdin(input);
        let (output, ()) = soon(async {
            tokio::join!(run(&connection, command), async {
                let (channel, start) = guest.start().await;
                assert_eq!(start.stdin, Stdin::Piped);
                let sent = match start.command {
                    vestal_wire::JobCommand::Shell(ShellText::Inline(text)) => text.to_vec(),
                    _ => drain(&mut guest, channel, Stream::Text).await,
                };
                assert_eq!(sent, text);
                let input = drain(&mut guest, channel, Stream::Input).await;
                assert!(input == expected, "{} bytes", input.len());
                guest.end_job(channel, &start.id).await;
            })
        })
        .await;
        output.unwrap();
    }
}

#[tokio::test]
async fn a_command_that_does_not_read_its_input_still_ends() {
    let (connection, mut guest) = connected().await;
    let command = Command::shell("true").stdin(CommandInput::Bytes(vec![0; 8 * WINDOW as usize]));
    let (output, ()) = soon(async {
        tokio::join!(run(&connection, command), async {
            let (channel, start) = guest.start().await;
            guest.end_job(channel, &start.id).await;
        })
    })
    .await;
    output.unwrap();
}

/// A reader that fails after its first bytes.
struct Failing(bool);

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(Err(io::Error::other("disk on fire")));
        }
        buffer.put_slice(b"half");
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_command_whose_input_fails_is_killed_and_sees_no_end_of_its_input() {
    let (connection, mut guest) = connected().await;
    let command = Command::shell("restore").stdin(CommandInput::Reader(Box::new(Failing(false))));
    let (output, ()) = soon(async {
        tokio::join!(run(&connection, command), async {
            let (channel, start) = guest.start().await;
            assert_eq!(guest.expect(channel, FrameKind::Data, Stream::Input).await, b"half");
            let (killing, request) = guest.request().await;
            assert_eq!(request, CallRequest::Kill { id: start.id.clone() });
            guest.end_job(channel, &start.id).await;
            guest.reply(killing, &CallReply::Job(Box::new(ended(&start.id)))).await;
        })
    })
    .await;
    let Err(JobError::Input { source, .. }) = output else { panic!("{output:?}") };
    assert_eq!(source.to_string(), "disk on fire");
}

#[tokio::test]
async fn a_followed_job_tells_what_happens_as_it_happens() {
    let (connection, mut guest) = connected().await;
    let command = Command::argv(["cat"]).stdin(CommandInput::Piped);
    let mut job = start(&connection, command, Follow::Lossy).await.unwrap();
    let (channel, request) = guest.start().await;
    assert_eq!(&request.id, job.id());
    guest.event(channel, &CallEvent::Started { pid: 7 }).await;
    assert_eq!(soon(job.next()).await.unwrap(), Some(JobEvent::Started { pid: 7 }));
    assert!(job.write_input(b"hello").await);
    assert_eq!(guest.expect(channel, FrameKind::Data, Stream::Input).await, b"hello");
    job.close_input();
    assert!(!job.write_input(b"late").await);
    guest.expect(channel, FrameKind::End, Stream::Input).await;
    guest.data(channel, Stream::Stdout, b"hello").await;
    assert_eq!(soon(job.next()).await.unwrap(), Some(JobEvent::Stdout(b"hello"[..].into())));
    guest.event(channel, &CallEvent::gap(Stream::Stderr, 4)).await;
    let gap = JobEvent::Gap { stream: Stream::Stderr, bytes: 4 };
    assert_eq!(soon(job.next()).await.unwrap(), Some(gap));
    guest.end_job(channel, &request.id).await;
    let end = JobEvent::Ended(Box::new(ended(&request.id)));
    assert_eq!(soon(job.next()).await.unwrap(), Some(end));
    assert_eq!(soon(job.finish()).await.unwrap(), ended(&request.id));
}

#[tokio::test]
async fn input_can_be_written_while_events_are_awaited() {
    let (connection, mut guest) = connected().await;
    let command = Command::argv(["cat"]).stdin(CommandInput::Piped);
    let mut job = start(&connection, command, Follow::EveryByte).await.unwrap();
    let (channel, request) = guest.start().await;
    let mut input = job.take_input().unwrap();
    let writing = async {
        assert!(input.write(b"x").await);
        input.close();
    };
    let echo = async {
        let bytes = drain(&mut guest, channel, Stream::Input).await;
        guest.data(channel, Stream::Stdout, &bytes).await;
        guest.end_job(channel, &request.id).await;
    };
    let (event, (), ()) = soon(async { tokio::join!(job.next(), writing, echo) }).await;
    assert_eq!(event.unwrap(), Some(JobEvent::Stdout(b"x"[..].into())));
}

#[tokio::test]
async fn a_background_job_gets_its_input_on_a_channel_of_its_own() {
    let (connection, mut guest) = connected().await;
    let command = Command::shell("serve").stdin(CommandInput::Bytes(b"config".to_vec()));
    let (info, id) = soon(async {
        tokio::join!(spawn_background(&connection, command), async {
            let (channel, start) = guest.start().await;
            assert!(start.background);
            assert_eq!((start.delivery, start.stdin), (OutputDelivery::Detached, Stdin::Piped));
            let mut info = ended(&start.id);
            info.state = JobState::Running;
            guest.reply(channel, &CallReply::Job(Box::new(info))).await;
            let (channel, request) = guest.request().await;
            assert_eq!(request, CallRequest::Input { id: start.id.clone(), close: true });
            assert_eq!(drain(&mut guest, channel, Stream::Input).await, b"config");
            guest.reply(channel, &CallReply::Done).await;
            start.id
        })
    })
    .await;
    let info = info.unwrap();
    assert_eq!((info.id, info.state), (id, JobState::Running));
}

#[tokio::test]
async fn a_fault_of_the_guest_keeps_its_code() {
    let (connection, mut guest) = connected().await;
    let (output, ()) =
        tokio::join!(run(&connection, Command::shell("x").workdir("/gone")), async {
            let (channel, _) = guest.start().await;
            let fault = Fault::new(FaultCode::NoWorkdir, "no such directory");
            guest.reply(channel, &CallReply::Fault(fault)).await;
        });
    let Err(JobError::Fault(fault)) = output else { panic!("{output:?}") };
    assert_eq!(fault.code, FaultCode::NoWorkdir);
}

#[tokio::test]
async fn control_calls_carry_their_questions_and_answers() {
    let (connection, mut guest) = connected().await;
    let id: JobId = "job".parse().unwrap();
    let info = ended(&id);
    let serve = async {
        let (channel, request) = guest.request().await;
        assert_eq!(request, CallRequest::Wait { id: id.clone(), timeout_ms: Some(250) });
        guest.reply(channel, &CallReply::Job(Box::new(info.clone()))).await;
        let (channel, request) = guest.request().await;
        assert_eq!(request, CallRequest::Kill { id: id.clone() });
        guest.reply(channel, &CallReply::Job(Box::new(info.clone()))).await;
        let (channel, request) = guest.request().await;
        assert_eq!(request, CallRequest::Jobs { running: true, limit: 10 });
        guest.reply(channel, &CallReply::Jobs { jobs: vec![info.clone()], more: true }).await;
        let (channel, request) = guest.request().await;
        let (incarnation, boot) = ("i".to_owned(), "b".to_owned());
        assert_eq!(request, CallRequest::Lookup { id: id.clone(), incarnation, boot });
        guest.reply(channel, &CallReply::Outcome(CommandOutcome::NeverStarted)).await;
        let (channel, request) = guest.request().await;
        assert_eq!(request, CallRequest::Input { id: id.clone(), close: false });
        assert_eq!(drain(&mut guest, channel, Stream::Input).await, b"in");
        guest.reply(channel, &CallReply::Done).await;
    };
    let ask = async {
        let limit = Some(Duration::from_millis(250));
        assert_eq!(wait(&connection, &id, limit).await.unwrap(), info);
        assert_eq!(kill(&connection, &id).await.unwrap(), info);
        let list = jobs(&connection, JobFilter::Running, 10).await.unwrap();
        assert_eq!((list.jobs, list.more), (vec![info.clone()], true));
        let outcome = lookup(&connection, &id, "i", "b").await.unwrap();
        assert_eq!(outcome, CommandOutcome::NeverStarted);
        let input = CommandInput::Bytes(b"in".to_vec());
        write(&connection, &id, input, AfterInput::KeepOpen).await.unwrap();
    };
    soon(async { tokio::join!(serve, ask) }).await;
}

#[tokio::test]
async fn a_job_is_attached_to_from_an_offset() {
    let (connection, mut guest) = connected().await;
    let id: JobId = "job".parse().unwrap();
    let request = AttachJob {
        id: id.clone(),
        stdout_from: 5,
        stderr_from: 6,
        follow: false,
        delivery: OutputDelivery::EveryByte,
    };
    let mut job = attach(&connection, request.clone()).await.unwrap();
    let (channel, found) = guest.request().await;
    assert_eq!(found, CallRequest::Attach(request));
    guest.data(channel, Stream::Stderr, b"rest").await;
    guest.reply(channel, &CallReply::Job(Box::new(ended(&id)))).await;
    assert_eq!(soon(job.next()).await.unwrap(), Some(JobEvent::Stderr(b"rest"[..].into())));
    assert_eq!(soon(job.next()).await.unwrap(), None);
    assert_eq!(soon(job.finish()).await.unwrap(), ended(&id));
}

#[tokio::test]
async fn a_command_that_finds_no_room_for_a_process_names_the_limit() {
    let (connection, mut guest) = connected().await;
    let (refused, ()) = tokio::join!(run(&connection, Command::shell("true")), async {
        let (channel, _) = guest.start().await;
        let message = "the command cannot be started: its process: no room".to_owned();
        let fault = Fault { code: FaultCode::System, message, errno: Some(11) };
        guest.reply(channel, &CallReply::Fault(fault)).await;
    });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("terminal.container_pids"), "{refused}");
}
