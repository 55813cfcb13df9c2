//! Runs: what is promised to clients that come and go, and to those of a gateway that was killed.

use serde_json::{Value, json};
use vestal_gateway::ShutdownCause;
use vestal_scripted_model::{Script, ScriptedReply};

use crate::support::{KEY, StreamEvent, TestGateway, found};

fn names(events: &[StreamEvent]) -> Vec<&str> {
    events.iter().filter_map(|event| event.name.as_deref()).collect()
}

fn reply(events: &[StreamEvent]) -> String {
    events.iter().filter_map(|event| event.data["delta"].as_str()).collect()
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let words = "all of these words are read by somebody who comes and goes";
    let gateway =
        TestGateway::start(Script::replies([ScriptedReply::text(words).chunked(6).hold_after(4)]))
            .await;
    let begun = gateway.say("/v1/runs", json!({ "input": "go" })).await.body;
    let run = begun["run_id"].as_str().unwrap();
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
    assert_eq!(reply(&seen), words);
    let ids: Vec<String> = seen.iter().map(|event| event.id.clone().unwrap()).collect();
    let expected: Vec<String> = (1..=seen.len()).map(|number| number.to_string()).collect();
    assert_eq!(ids, expected);
    // A client that connects after the end reads the same.
    assert_eq!(gateway.follow(&events, None).await.rest().await, seen);
    let shown = gateway.get(&format!("/v1/runs/{run}")).await.body;
    assert_eq!((&shown["status"], &shown["output"]), (&json!("completed"), &json!(words)));
    assert_eq!(shown["created_at"], begun["created_at"]);
    assert_eq!(gateway.get("/v1/runs").await.body["data"][0]["run_id"], json!(run));
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_asks_for_a_run_leaves_none_or_one_that_goes_on() {
    use tokio::io::AsyncWriteExt as _;
    let more = ["api_server.max_concurrent_runs=100"];
    let gateway = TestGateway::start_with(Script::echo(), &more).await;
    let address = gateway.url("").trim_start_matches("http://").to_owned();
    let body = json!({ "input": "go on without me" }).to_string();
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for pause in 0..30 {
        let mut client = tokio::net::TcpStream::connect(&address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        // At another step of the request each time.
        for _ in 0..pause {
            tokio::task::yield_now().await;
        }
        drop(client);
    }
    let list = async |path: &str| {
        let listed = gateway.get(path).await.body;
        listed["data"].as_array().unwrap().clone()
    };
    let runs = found("every run has ended", async || {
        // One more is begun and ended, so that those before it have had their time.
        let run = gateway.run("last").await;
        gateway.follow(&format!("/v1/runs/{run}/events"), None).await.rest().await;
        let runs = list("/v1/runs").await;
        runs.iter().all(|run| run["ended_at"].is_string()).then_some(runs)
    })
    .await;
    assert!(runs.iter().all(|run| run["status"] == "completed"), "{runs:?}");
    // Nothing was said in a session whose run nobody knows.
    let mut sessions: Vec<Value> =
        list("/api/sessions").await.iter().map(|session| session["id"].clone()).collect();
    let mut of_runs: Vec<Value> = runs.iter().map(|run| run["session_id"].clone()).collect();
    sessions.sort_by_key(Value::to_string);
    of_runs.sort_by_key(Value::to_string);
    assert_eq!(sessions, of_runs);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_run_that_is_stopped_ends_with_its_commands() {
    let home = tempfile::tempdir().unwrap();
    let pid = home.path().join("pid");
    let command = format!("echo $$ > {0}.new && mv {0}.new {0}; sleep 1000", pid.display());
    let call = ScriptedReply::tool_call("terminal", json!({ "command": command }));
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
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_dangerous_command_waits_for_the_answer_of_a_client() {
    let home = tempfile::tempdir().unwrap();
    let doomed = home.path().join("doomed");
    std::fs::create_dir(&doomed).unwrap();
    let command = format!("rm -r {}", doomed.display());
    let gateway = TestGateway::start(Script::replies([
        ScriptedReply::tool_call("terminal", json!({ "command": command })),
        ScriptedReply::text("gone"),
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
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_run_whose_provider_fails_has_failed() {
    let gateway = TestGateway::start(Script::replies([ScriptedReply::error(500, "no")])).await;
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
    gateway.end(ShutdownCause::Planned).await;
}
