//! Runs: what is promised to clients that come and go, and to those of a gateway that was killed.

use serde_json::{Value, json};
use vestal_gateway::Shutdown;
use vestal_scripted_model::{Reply, Script};

use crate::support::{StreamEvent, TestGateway, found};

fn names(events: &[StreamEvent]) -> Vec<&str> {
    events.iter().filter_map(|event| event.name.as_deref()).collect()
}

fn said(events: &[StreamEvent]) -> String {
    events.iter().filter_map(|event| event.data["delta"].as_str()).collect()
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let words = "all of these words are read by somebody who comes and goes";
    let gateway =
        TestGateway::start(Script::replies([Reply::text(words).chunked(6).hold_after(4)])).await;
    let run = gateway.run("go").await;
    let events = format!("/v1/runs/{run}/events");
    let mut first = gateway.follow(&events, None).await;
    let mut seen = vec![first.next().await.unwrap(), first.until("message.delta").await];
    // The reader is gone; the run is not.
    drop(first);
    gateway.model.wait_for_holds(1).await;
    gateway.model.release();
    let last = seen.last().unwrap().id.clone().unwrap();
    seen.extend(gateway.follow(&events, Some(&last)).await.rest().await);
    assert_eq!(names(&seen)[..2], ["run.started", "message.delta"]);
    assert_eq!(names(&seen).last(), Some(&"run.completed"));
    assert_eq!(said(&seen), words);
    let ids: Vec<String> = seen.iter().map(|event| event.id.clone().unwrap()).collect();
    let expected: Vec<String> = (1..=seen.len()).map(|number| number.to_string()).collect();
    assert_eq!(ids, expected);
    // Whoever comes when all is over reads the same.
    assert_eq!(gateway.follow(&events, None).await.rest().await, seen);
    let shown = gateway.get(&format!("/v1/runs/{run}")).await.body;
    assert_eq!((&shown["status"], &shown["output"]), (&json!("completed"), &json!(words)));
    assert_eq!(gateway.get("/v1/runs").await.body["data"][0]["run_id"], json!(run));
    gateway.end(Shutdown::Planned).await;
}

#[tokio::test]
async fn a_run_of_a_killed_gateway_ends_as_interrupted_and_says_so() {
    let held = Reply::text("these words were heard before the end").chunked(6).hold_after(3);
    let gateway = TestGateway::start_killable(Script::replies([held])).await;
    let run = gateway.run("go").await;
    let events = format!("/v1/runs/{run}/events");
    let mut reader = gateway.follow(&events, None).await;
    let seen = vec![reader.next().await.unwrap(), reader.until("message.delta").await];
    gateway.model.wait_for_holds(1).await;
    drop(reader);
    let (home, model) = gateway.kill();
    let gateway = TestGateway::restart(home, model).await;
    let shown = gateway.get(&format!("/v1/runs/{run}")).await.body;
    assert_eq!(shown["status"], "interrupted", "{shown}");
    assert_eq!(shown["error"]["code"], "interrupted");
    assert!(shown["ended_at"].is_string(), "{shown}");
    let last = seen.last().unwrap().id.clone().unwrap();
    let rest = gateway.follow(&events, Some(&last)).await.rest().await;
    assert_eq!(names(&rest).last(), Some(&"run.interrupted"), "{rest:?}");
    // What was seen before the end is the same after it.
    let all = gateway.follow(&events, None).await.rest().await;
    assert_eq!(all[..2], seen);
    assert_eq!(all.len(), seen.len() + rest.len());
    gateway.end(Shutdown::Planned).await;
}

#[tokio::test]
async fn a_run_that_a_drain_interrupts_says_so() {
    let held = Reply::text("too late").hold_after(0);
    let gateway = TestGateway::start_killable(Script::replies([held])).await;
    let run = gateway.run("go").await;
    let mut reader = gateway.follow(&format!("/v1/runs/{run}/events"), None).await;
    gateway.model.wait_for_requests(1).await;
    gateway.shutdown.send(Shutdown::Planned).await.unwrap();
    let end = reader.until("run.interrupted").await;
    assert_eq!(end.data["error"]["code"], "interrupted", "{}", end.data);
    gateway.ended().await;
}

#[tokio::test]
async fn a_run_that_is_stopped_ends_with_its_commands() {
    let home = tempfile::tempdir().unwrap();
    let pid = home.path().join("pid");
    let command = format!("echo $$ > {0}.new && mv {0}.new {0}; sleep 1000", pid.display());
    let call = Reply::tool_call("terminal", json!({ "command": command }));
    let gateway = TestGateway::start_with(Script::replies([call]), &["approvals.mode=off"]).await;
    let run = gateway.run("go").await;
    let mut reader = gateway.follow(&format!("/v1/runs/{run}/events"), None).await;
    reader.until("tool.started").await;
    let shell: u32 =
        found("the command runs", async || std::fs::read_to_string(&pid).ok()?.trim().parse().ok())
            .await;
    let stopped = gateway.say(&format!("/v1/runs/{run}/stop"), json!({})).await;
    assert_eq!(stopped.body["status"], "stopping", "{}", stopped.body);
    let end = reader.until("run.cancelled").await;
    assert_eq!(end.data["status"], "cancelled");
    assert_eq!(reader.next().await, None);
    assert!(!std::path::Path::new(&format!("/proc/{shell}")).exists(), "its command still runs");
    let again = gateway.say(&format!("/v1/runs/{run}/stop"), json!({})).await;
    assert_eq!(again.body["status"], "cancelled");
    gateway.remove_sandbox().await;
    gateway.end(Shutdown::Planned).await;
}

#[tokio::test]
async fn a_dangerous_command_waits_for_the_answer_of_a_client() {
    let home = tempfile::tempdir().unwrap();
    let doomed = home.path().join("doomed");
    std::fs::create_dir(&doomed).unwrap();
    let command = format!("rm -r {}", doomed.display());
    let gateway = TestGateway::start(Script::replies([
        Reply::tool_call("terminal", json!({ "command": command })),
        Reply::text("gone"),
    ]))
    .await;
    let run = gateway.run("remove it").await;
    let mut reader = gateway.follow(&format!("/v1/runs/{run}/events"), None).await;
    let asked = reader.until("approval.request").await;
    assert_eq!((&asked.data["kind"], &asked.data["action"]), (&json!("approval"), &json!(command)));
    let shown = gateway.get(&format!("/v1/runs/{run}")).await.body;
    assert_eq!(
        (&shown["status"], &shown["questions"][0]["id"]),
        (&json!("waiting"), &asked.data["id"])
    );
    assert!(doomed.exists());
    let approval = format!("/v1/runs/{run}/approval");
    for (wrong, status) in [
        (json!({}), 400),
        (json!({ "answer": "yes" }), 400),
        (json!({ "id": "q99", "choice": "once" }), 409),
        (json!({ "choice": "perhaps" }), 422),
    ] {
        assert_eq!(gateway.say(&approval, wrong.clone()).await.status, status, "{wrong}");
    }
    let answer = json!({ "id": asked.data["id"], "choice": "once" });
    let taken = gateway.say(&approval, answer.clone()).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    reader.until("approval.closed").await;
    let end = reader.until("run.completed").await;
    assert_eq!(end.data["output"], "gone");
    assert!(!doomed.exists());
    assert_eq!(gateway.say(&approval, answer).await.status, 409);
    gateway.remove_sandbox().await;
    gateway.end(Shutdown::Planned).await;
}

#[tokio::test]
async fn a_run_whose_provider_fails_has_failed() {
    let gateway = TestGateway::start(Script::replies([Reply::error(500, "no")])).await;
    let run = gateway.run("go").await;
    let events = gateway.follow(&format!("/v1/runs/{run}/events"), None).await.rest().await;
    assert_eq!(names(&events), ["run.started", "run.failed"]);
    let shown = gateway.get(&format!("/v1/runs/{run}")).await.body;
    assert_eq!((&shown["status"], &shown["output"]), (&json!("failed"), &Value::Null));
    assert_eq!(shown["error"]["type"], "upstream_error");
    for path in ["/v1/runs/run_0", "/v1/runs/run_0/events"] {
        let missing = gateway.get(path).await;
        assert_eq!(
            (missing.status, &missing.body["error"]["code"]),
            (404, &json!("run_not_found"))
        );
    }
    gateway.end(Shutdown::Planned).await;
}
