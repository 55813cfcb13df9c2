//! Jobs of a guest that lies or vanishes.

use vestal_wire::{CallEvent, CallReply, JobState, Stream};

use super::{JobError, JobFilter, jobs, run};
use crate::client::fake_guest::{connected, ended, soon};
use crate::client::{CallError, Violation};
use crate::command::Command;

#[tokio::test]
async fn more_jobs_than_asked_for_are_a_violation() {
    let (connection, mut guest) = connected().await;
    let info = ended(&"job".parse().unwrap());
    let (list, ()) = tokio::join!(jobs(&connection, JobFilter::All, 1), async {
        let (channel, _) = guest.request().await;
        guest
            .reply(channel, &CallReply::Jobs { jobs: vec![info.clone(), info], more: false })
            .await;
    });
    assert!(matches!(list, Err(CallError::Protocol { .. })), "{list:?}");
    assert!(connection.is_closed());
}

#[tokio::test]
async fn more_output_than_asked_for_is_a_violation() {
    let (connection, mut guest) = connected().await;
    let (output, ()) = tokio::join!(run(&connection, Command::shell("x").capture(2, 2)), async {
        let (channel, _) = guest.start().await;
        guest.data(channel, Stream::Stdout, b"12345").await;
        soon(guest.closed()).await;
    });
    let Err(JobError::Lost { sent: true, source, .. }) = output else { panic!("{output:?}") };
    assert!(matches!(source, CallError::Protocol { violation: Violation::Claim(_), .. }));
}

#[tokio::test]
async fn a_reply_for_a_run_that_has_not_ended_is_a_violation() {
    let (connection, mut guest) = connected().await;
    let (output, ()) = tokio::join!(run(&connection, Command::shell("x")), async {
        let (channel, start) = guest.start().await;
        let mut info = ended(&start.id);
        info.state = JobState::Running;
        guest.reply(channel, &CallReply::Job(Box::new(info))).await;
    });
    assert!(matches!(output, Err(JobError::Lost { .. })), "{output:?}");
    assert!(connection.is_closed());
}

/// How far a guest gets before it vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Received,
    Started,
    Printed,
    Ended,
}

#[tokio::test]
async fn a_guest_that_vanishes_at_any_step_leaves_what_is_needed_to_look_the_job_up() {
    for last in [Step::Received, Step::Started, Step::Printed, Step::Ended] {
        let (connection, mut guest) = connected().await;
        let id = crate::command::new_job_id();
        let command = Command::shell("x").job_id(id.clone());
        let (output, ()) = soon(async {
            tokio::join!(run(&connection, command), async {
                let (channel, start) = guest.start().await;
                if last >= Step::Started {
                    guest.event(channel, &CallEvent::Started { pid: 1 }).await;
                }
                if last >= Step::Printed {
                    guest.data(channel, Stream::Stdout, b"x").await;
                }
                if last >= Step::Ended {
                    let event = CallEvent::Ended(Box::new(ended(&start.id)));
                    guest.event(channel, &event).await;
                }
                drop(guest);
            })
        })
        .await;
        match output {
            Err(JobError::Lost { job, incarnation, boot, sent: true, .. }) => {
                assert_eq!((job, &*incarnation, &*boot), (id, "incarnation", "boot"));
            }
            other => panic!("{last:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_command_for_a_guest_that_is_gone_was_not_sent() {
    let (connection, guest) = connected().await;
    drop(guest);
    soon(connection.closed()).await;
    let output = run(&connection, Command::shell("x")).await;
    assert!(matches!(output, Err(JobError::Lost { sent: false, .. })), "{output:?}");
}

#[tokio::test]
async fn a_command_too_large_for_a_message_is_refused() {
    let (connection, _guest) = connected().await;
    let output = run(&connection, Command::argv(["x".repeat(2 << 20)])).await;
    assert!(matches!(output, Err(JobError::TooLarge(_))), "{output:?}");
    assert!(!connection.is_closed());
}
