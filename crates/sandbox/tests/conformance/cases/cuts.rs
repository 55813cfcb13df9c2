//! A connection to a guest that is cut.

use vestal_sandbox::{Command, Error, TaskName};

use crate::support::{Gate, World};

pub(crate) async fn a_command_outlives_the_connection_that_it_was_sent_over(world: &World) {
    let gate = Gate::new(world);
    let sandbox = world.sandbox().await;
    let text = format!("echo ran >> runs; {}; echo done", gate.pass());
    let running = tokio::spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.run(Command::shell(text)).await }
    });
    gate.reached().await;
    world.machine().cut();
    gate.open().await;
    let output = running.await.unwrap().unwrap();
    assert_eq!((output.exit.code, output.stdout.text()), (Some(0), "done\n".into()));
    let runs = std::fs::read_to_string(world.start_files().join("runs")).unwrap();
    assert_eq!(runs, "ran\n");
}

pub(crate) async fn a_cut_connection_is_made_again_to_the_same_instance(world: &World) {
    let sandbox = world.sandbox().await;
    let (instance, guests) = (sandbox.instance().await, world.guests());
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    for round in 0..20 {
        world.machine().cut();
        let text = format!("echo {round}");
        let output = sandbox.run(Command::shell(text)).await.unwrap();
        assert_eq!(output.stdout.text(), format!("{round}\n"));
    }
    assert_eq!((sandbox.instance().await, world.guests()), (instance, guests));
    sandbox.kill(&job.id).await.unwrap();
}

pub(crate) async fn an_owned_sandbox_outlives_a_cut_connection(world: &World) {
    let engine = world.engine_with(&["terminal.persist_across_processes=false"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let (instance, guests) = (sandbox.instance().await, world.guests());
    sandbox.run(Command::shell("kept=1").session("main")).await.unwrap();
    world.machine().cut();
    let output = sandbox.run(Command::shell("echo $kept").session("main")).await.unwrap();
    assert_eq!(output.stdout.text(), "1\n");
    assert_eq!((sandbox.instance().await, world.guests()), (instance, guests));
    drop(sandbox);
    assert!(engine.close(std::time::Duration::from_mins(1)).await);
}

pub(crate) async fn a_guest_that_cannot_be_reached_is_never_ended(world: &World) {
    let task = TaskName::default_task();
    let sandbox = world.engine().sandbox(&task).await.unwrap();
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    let (connection, guests) = (sandbox.connection().await.unwrap(), world.guests());
    world.machine().refuse_connections();
    world.machine().cut();
    connection.closed().await;
    let others = world.engine();
    let (used, looked_at, killed) =
        tokio::join!(others.sandbox(&task), others.observe(&task), sandbox.kill(&job.id));
    for error in [used.unwrap_err(), looked_at.unwrap_err(), killed.unwrap_err()] {
        assert!(matches!(error, Error::OutOfReach { .. }), "{error:?}");
    }
    world.machine().accept_connections();
    assert_eq!(world.guests(), guests);
    sandbox.kill(&job.id).await.unwrap();
}
