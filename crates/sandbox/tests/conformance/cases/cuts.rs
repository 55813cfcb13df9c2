//! A connection to a guest that is cut.

use vestal_sandbox::backend::BackendError;
use vestal_sandbox::{Command, Error, TaskName};

use crate::support::{BackendFixture, Gate};

pub(crate) async fn a_command_outlives_the_connection_that_it_was_sent_over(
    fixture: &BackendFixture,
) {
    let gate = Gate::new(fixture);
    let sandbox = fixture.sandbox().await;
    let text = format!("echo ran >> runs; {}; echo done", gate.pass());
    let running = tokio::spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.run(Command::shell(text)).await }
    });
    gate.reached().await;
    fixture.machine().cut();
    gate.open().await;
    let output = running.await.unwrap().unwrap();
    assert_eq!((output.exit.code, output.stdout.text()), (Some(0), "done\n".into()));
    let runs = std::fs::read_to_string(fixture.start_files().join("runs")).unwrap();
    assert_eq!(runs, "ran\n");
}

pub(crate) async fn a_cut_connection_is_made_again_to_the_same_instance(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let (instance, guests) = (sandbox.instance().await, fixture.guests());
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    for round in 0..20 {
        fixture.machine().cut();
        let text = format!("echo {round}");
        let output = sandbox.run(Command::shell(text)).await.unwrap();
        assert_eq!(output.stdout.text(), format!("{round}\n"));
    }
    assert_eq!((sandbox.instance().await, fixture.guests()), (instance, guests));
    sandbox.kill(&job.id).await.unwrap();
}

pub(crate) async fn an_owned_sandbox_outlives_a_cut_connection(fixture: &BackendFixture) {
    let engine = fixture.engine_with(&["terminal.persist_across_processes=false"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let (instance, guests) = (sandbox.instance().await, fixture.guests());
    sandbox.run(Command::shell("kept=1").session("main")).await.unwrap();
    fixture.machine().cut();
    let output = sandbox.run(Command::shell("echo $kept").session("main")).await.unwrap();
    assert_eq!(output.stdout.text(), "1\n");
    assert_eq!((sandbox.instance().await, fixture.guests()), (instance, guests));
    drop(sandbox);
    assert!(engine.close(std::time::Duration::from_mins(1)).await);
}

pub(crate) async fn a_guest_that_cannot_be_reached_is_never_ended(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    let sandbox = fixture.engine().sandbox(&task).await.unwrap();
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    let (connection, guests) = (sandbox.connection().await.unwrap(), fixture.guests());
    fixture.machine().refuse_connections();
    fixture.machine().cut();
    connection.closed().await;
    let others = fixture.engine();
    let (used, looked_at, killed) =
        tokio::join!(others.sandbox(&task), others.observe(&task), sandbox.kill(&job.id));
    for error in [used.unwrap_err(), looked_at.unwrap_err(), killed.unwrap_err()] {
        let is_reported = match &error {
            Error::OutOfReach { .. } => true,
            // Where the machine itself cannot be reached, that is said, with advice.
            Error::Backend { source, .. } => matches!(
                source,
                BackendError::HostUnreachable { .. } | BackendError::Unreachable { .. }
            ),
            _ => false,
        };
        assert!(is_reported, "{error:?}");
    }
    fixture.machine().accept_connections();
    assert_eq!(fixture.guests(), guests);
    sandbox.kill(&job.id).await.unwrap();
}
