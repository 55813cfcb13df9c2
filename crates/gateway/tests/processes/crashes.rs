//! SIGKILL of a gateway at every step of its life.

use vestal_gateway::{GatewayPhase, ask_stop, failpoint};
use vestal_scripted_model::ScriptedReply;

use crate::world::{HEARD, START_JOB, STARTED, World};

#[tokio::test]
async fn killed_at_any_step_the_next_one_serves_and_nothing_is_lost_or_done_twice() {
    // Steps of runs are walked by the tests of runs.
    for name in failpoint::NAMES.iter().filter(|name| !name.starts_with("run.")) {
        let world = World::new(ScriptedReply::text(HEARD));
        let mut gateway = world.spawn(Some(name));
        gateway.discard_output();
        vestal_testkit::until("it is ready or dead", || {
            !vestal_testkit::is_alive(gateway.pid())
                || vestal_gateway::read_state(&world.home())
                    .ok()
                    .flatten()
                    .is_some_and(|state| state.gateway_state == GatewayPhase::Running)
        })
        .await;
        let asked = if vestal_testkit::is_alive(gateway.pid()) {
            world.ask(START_JOB, None).await
        } else {
            None
        };
        if let Some((said, session)) = &asked {
            assert_eq!(said, STARTED, "{name}");
            world.gate.write("over");
            if *name == "jobs.news-taken" {
                gateway.wait();
            } else {
                world.until_said(session, HEARD).await;
            }
        }
        // The answer is lost with a gateway that dies over it.
        ask_stop(&world.home(), false).await.ok();
        gateway.wait();

        let next = world.start();
        let (said, _) = world.ask("hello", None).await.unwrap();
        assert_eq!(said, "hello", "{name}");
        let is_started =
            world.model.requests().iter().any(|request| !request.tool_results().is_empty());
        if asked.is_none() && is_started {
            // The client heard of nothing, but its conversation waits for the job.
            world.gate.write("over");
        }
        if let Some((_, session)) = &asked {
            world.until_said(session, HEARD).await;
            assert_eq!(world.said(session).await, [STARTED, HEARD], "{name}");
        }
        world.until_settled().await;
        world.stop(next).await;
        assert_eq!(world.state().gateway_state, GatewayPhase::Stopped, "{name}");
    }
}
