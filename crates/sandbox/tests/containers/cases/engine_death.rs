//! Engines that die and come back. Each case has an engine of its own.

use vestal_sandbox::backend::BackendError;
use vestal_sandbox::{Command, Error, StateBefore, TaskName, new_job_id};
use vestal_wire::JobState;

use crate::support::{EngineFixture, Fate, Hold, OwnEngine, Request, out, until};

async fn own_fixture() -> (EngineFixture, OwnEngine) {
    let engine = OwnEngine::docker(&[]).await;
    (EngineFixture::on(engine.host()), engine)
}

/// Returns whether an error says that the engine is gone.
fn is_unreachable(error: &Error) -> bool {
    match error {
        Error::Backend { source, .. } => {
            matches!(source, BackendError::Unreachable { .. }) && source.advice().is_some()
        }
        // A job that may continue without the engine is named with it.
        Error::LostJob { source, .. } => is_unreachable(source),
        _ => false,
    }
}

pub(crate) async fn an_engine_that_dies_while_a_sandbox_is_made_leaves_none_or_one() {
    let (fixture, engine) = own_fixture().await;
    let (fixture, proxy) = fixture.proxied();
    let points: [fn(&Request) -> bool; 2] = [Request::creates, Request::starts];
    for is_here in points {
        let hold = Hold::new();
        let held = hold.clone();
        proxy.rule(
            move |request| {
                if is_here(request) { Fate::Hold(held.clone()) } else { Fate::Pass }
            },
        );
        let opened = fixture.engine();
        let making =
            tokio::spawn(async move { opened.sandbox(&TaskName::default_task()).await.map(drop) });
        hold.reached().await;
        engine.kill().await;
        hold.release();
        let error = making.await.unwrap().unwrap_err();
        assert!(is_unreachable(&error), "{error:?}");
        proxy.pass();
        engine.again().await;
        assert_eq!(fixture.out("echo ok").await, "ok\n");
        assert_eq!(fixture.containers().len(), 1);
        let files = vestal_sandbox::FilesOnRemoval::Remove;
        fixture.engine().remove(&TaskName::default_task(), files).await.unwrap();
    }
    // The same for one that is there and is to be started.
    fixture.out("echo 1 > ~/kept; echo 2 > /usr/kept").await;
    let container = fixture.container_id();
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let hold = Hold::new();
    let held = hold.clone();
    proxy.rule(move |request| if request.starts() { Fate::Hold(held.clone()) } else { Fate::Pass });
    let opened = fixture.engine();
    let starting =
        tokio::spawn(async move { opened.sandbox(&TaskName::default_task()).await.map(drop) });
    hold.reached().await;
    engine.kill().await;
    hold.release();
    let error = starting.await.unwrap().unwrap_err();
    assert!(is_unreachable(&error), "{error:?}");
    proxy.pass();
    engine.again().await;
    assert_eq!(fixture.out("cat ~/kept /usr/kept").await, "1\n2\n");
    assert_eq!(fixture.container_id(), container);
    fixture.finish().await;
}

pub(crate) async fn a_command_outlives_the_engine_and_runs_once() {
    let (fixture, engine) = own_fixture().await;
    let sandbox = fixture.sandbox().await;
    let text = "echo ran >> runs; until [ -e go ]; do sleep 0.05; done; echo done";
    let running = {
        let sandbox = sandbox.clone();
        tokio::spawn(async move { sandbox.run(Command::shell(text)).await })
    };
    let runs = fixture.workspace().join("runs");
    until("the command runs", || async { runs.exists() }).await;
    engine.kill().await;
    // Neither what runs nor what attaches needs an engine.
    let other = fixture.sandbox().await;
    assert_eq!(other.state_before(), StateBefore::Running);
    assert_eq!(out(&other, "cat runs").await, "ran\n");
    std::fs::write(fixture.workspace().join("go"), "").unwrap();
    assert_eq!(running.await.unwrap().unwrap().stdout.text(), "done\n");

    // One that runs while the engine comes back may end with its container; it
    // is not run again, and its outcome is reported.
    let job = other.spawn(Command::shell("echo again >> runs; sleep 1000")).await.unwrap();
    engine.again().await;
    let sandbox = fixture.sandbox().await;
    assert_eq!(out(&sandbox, "cat runs").await, "ran\nagain\n");
    let info = sandbox.wait(&job.id, Some(std::time::Duration::ZERO)).await.unwrap();
    assert!(matches!(info.state, JobState::Running | JobState::Ended(_)), "{info:?}");
    assert_eq!(fixture.containers().len(), 1);
    fixture.finish().await;
}

pub(crate) async fn a_command_that_the_engine_takes_along_is_reported_and_runs_once() {
    let (fixture, engine) = own_fixture().await;
    // All that is known of the command comes by way of the engine.
    let fixture = fixture.set("terminal.docker_transport=exec");
    let sandbox = fixture.sandbox().await;
    let id = new_job_id();
    let command = Command::shell("echo ran >> runs; sleep 1000").job_id(id.clone());
    let running = {
        let sandbox = sandbox.clone();
        tokio::spawn(async move { sandbox.run(command).await })
    };
    until("the command runs", || async { fixture.out("cat runs || true").await == "ran\n" }).await;
    engine.kill().await;
    let error = running.await.unwrap().unwrap_err();
    assert!(is_unreachable(&error), "{error:?}");
    engine.again().await;
    assert_eq!(out(&sandbox, "cat runs").await, "ran\n");
    let info = sandbox.wait(&id, Some(std::time::Duration::ZERO)).await.unwrap();
    assert!(matches!(info.state, JobState::Running | JobState::Ended(_)), "{info:?}");
    // Asked for again under the same id, it is not run again.
    let again = Command::shell("echo ran >> runs").job_id(id.clone());
    let again = tokio::time::timeout(std::time::Duration::from_secs(30), sandbox.spawn(again));
    again.await.unwrap().ok();
    assert_eq!(out(&sandbox, "cat runs").await, "ran\n");
    fixture.finish().await;
}

pub(crate) async fn an_engine_that_was_restarted_is_no_stop_of_the_users() {
    let (fixture, engine) = own_fixture().await;
    fixture
        .out("echo 1 > ~/kept; echo 2 > kept; echo 3 > /usr/kept; echo 4 > /tmp/gone; x=5")
        .await;
    let container = fixture.container_id();
    engine.halt().await;
    let error = fixture.engine().sandbox(&TaskName::default_task()).await.unwrap_err();
    assert!(is_unreachable(&error), "{error:?}");
    engine.again().await;
    let sandbox = fixture.sandbox().await;
    assert_eq!(sandbox.state_before(), StateBefore::Stopped);
    assert_eq!(out(&sandbox, "cat ~/kept kept /usr/kept; echo $x; ls /tmp").await, "1\n2\n3\n5\n");
    assert_eq!(fixture.container_id(), container);
    fixture.finish().await;
}
