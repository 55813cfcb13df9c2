//! SIGKILL of a gateway at every step of its life.

use vestal_gateway::{GatewayPhase, ask_stop, failpoint};
use vestal_scripted_model::ScriptedReply;

use crate::fixture::{GatewayFixture, HEARD, START_JOB, STARTED};

#[tokio::test]
async fn killed_at_any_step_the_next_one_serves_and_nothing_is_lost_or_done_twice() {
    // Steps of runs are walked by the tests of runs.
    for name in failpoint::NAMES.iter().filter(|name| !name.starts_with("run.")) {
        let fixture = GatewayFixture::new(ScriptedReply::text(HEARD));
        let mut gateway = fixture.spawn(Some(name));
        gateway.discard_output();
        vestal_testkit::until("it is ready or dead", || {
            !vestal_testkit::is_alive(gateway.pid())
                || vestal_gateway::read_state(&fixture.home())
                    .ok()
                    .flatten()
                    .is_some_and(|state| state.gateway_state == GatewayPhase::Running)
        })
        .await;
        let asked = if vestal_testkit::is_alive(gateway.pid()) {
            fixture.ask(START_JOB, None).await
        } else {
            None
        };
        if let Some((reply, session)) = &asked {
            assert_eq!(reply, STARTED, "{name}");
            fixture.gate.write("over");
            if *name == "jobs.news-taken" {
                gateway.wait();
            } else {
                fixture.until_message(session, HEARD).await;
            }
        }
        // The answer is lost with a gateway that dies over it.
        ask_stop(&fixture.home(), false).await.ok();
        gateway.wait();

        let next = fixture.start();
        let (reply, _) = fixture.ask("hello", None).await.unwrap();
        assert_eq!(reply, "hello", "{name}");
        let is_started =
            fixture.model.requests().iter().any(|request| !request.tool_results().is_empty());
        if asked.is_none() && is_started {
            // The client heard of nothing, but its conversation waits for the job.
            fixture.gate.write("over");
        }
        if let Some((_, session)) = &asked {
            fixture.until_message(session, HEARD).await;
            assert_eq!(fixture.messages(session).await, [STARTED, HEARD], "{name}");
        }
        fixture.until_settled().await;
        fixture.stop(next).await;
        assert_eq!(fixture.state().gateway_state, GatewayPhase::Stopped, "{name}");
    }
}
