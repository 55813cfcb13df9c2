//! Runs that go on with the next gateway, whatever ended the one before.

use serde_json::{Value, json};
use vestal_conversations::{ConversationId, NewMessage};
use vestal_gateway::GatewayPhase;
use vestal_model::Message;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};
use vestal_testkit::{until, until_async};

use crate::fixture::{GatewayFixture, WENT_ON};

const WORDS: &str = "these words were heard before the end";

/// A model that is cut off in the middle of its answer, and continues on request.
fn cut_off(goes_on: ScriptedReply) -> Script {
    Script::rules([
        ReplyRule::when_user_contains("say hello").reply(ScriptedReply::text("hello")),
        ReplyRule::when_user_contains("ended unexpectedly").reply(goes_on.clone()),
        ReplyRule::when_user_contains("was restarted").reply(goes_on),
        ReplyRule::always().reply(ScriptedReply::text(WORDS).chunked(6).hold_after(3)),
    ])
}

fn names(events: &[(i64, String, Value)]) -> Vec<&str> {
    events.iter().map(|(_, name, _)| name.as_str()).collect()
}

/// Returns why a run was resumed, each time.
fn resumptions(events: &[(i64, String, Value)]) -> Vec<&str> {
    let resumed = events.iter().filter(|(_, name, _)| name == "run.resumed");
    resumed.filter_map(|(_, _, data)| data["reason"].as_str()).collect()
}

/// Asserts that events are numbered without a gap, and that the last one and no other ends the run.
fn assert_whole(events: &[(i64, String, Value)], first: i64) {
    let numbers: Vec<i64> = events.iter().map(|(number, ..)| *number).collect();
    let expected: Vec<i64> = (first..).take(events.len()).collect();
    assert_eq!(numbers, expected);
    let ends = ["run.completed", "run.failed", "run.cancelled", "run.interrupted"];
    let ended: Vec<bool> = names(events).iter().map(|name| ends.contains(name)).collect();
    assert_eq!(ended.iter().filter(|ended| **ended).count(), 1, "{:?}", names(events));
    assert_eq!(ended.last(), Some(&true), "{:?}", names(events));
}

/// Begins a run that is in the middle of its answer, and returns it.
async fn run_in_the_middle(fixture: &GatewayFixture) -> String {
    let run = fixture.run("go").await;
    fixture.model.wait_for_holds(1).await;
    fixture
        .until_run(&run, "words are stored", |run| run["last_event_id"].as_i64() >= Some(2))
        .await;
    run
}

#[tokio::test]
async fn killed_at_any_step_of_a_run_it_ends_once_under_its_id_or_was_never_begun() {
    for name in ["turn.recorded", "run.recorded", "turn.ended", "run.ended", "turn.settled"] {
        let fixture = GatewayFixture::with_script(Script::echo(), &[]);
        let mut gateway = fixture.spawn(Some(name));
        gateway.discard_output();
        until("it is ready", || {
            let state = vestal_gateway::read_state(&fixture.home()).unwrap();
            state.is_some_and(|state| state.gateway_state == GatewayPhase::Running)
        })
        .await;
        let (key, body) = ([("idempotency-key", "k")], json!({ "input": "walk" }));
        fixture.send("POST", "/v1/runs", &key, Some(body.clone())).await;
        gateway.wait();

        let next = fixture.start();
        let again = fixture.send("POST", "/v1/runs", &key, Some(body)).await.unwrap();
        let runs = fixture.send("GET", "/v1/runs", &[], None).await.unwrap().1["data"].clone();
        if name == "turn.recorded" {
            assert_eq!(
                (again.0, &again.1["error"]["code"]),
                (503, &json!("interrupted")),
                "{name}"
            );
            assert_eq!(runs, json!([]), "{name}");
        } else {
            // A client that did not receive the run's id gets it by asking again.
            assert_eq!(again.0, 202, "{name}: {}", again.1);
            let run = again.1["run_id"].as_str().unwrap();
            let events = fixture.events(run, 0).await;
            assert_whole(&events, 1);
            let (_, last, data) = events.last().unwrap();
            assert_eq!(
                (last.as_str(), &data["output"]),
                ("run.completed", &json!("walk")),
                "{name}"
            );
            assert_eq!(runs.as_array().unwrap().len(), 1, "{name}");
            let session = again.1["session_id"].as_str().unwrap();
            assert_eq!(fixture.messages(session).await, ["walk"], "{name}");
        }
        fixture.until_settled().await;
        fixture.stop(next).await;
    }
}

#[tokio::test]
async fn a_run_that_a_kill_cut_off_goes_on_and_its_readers_miss_nothing() {
    let fixture = GatewayFixture::with_script(cut_off(ScriptedReply::text(WENT_ON)), &[]);
    let mut first = fixture.start();
    let run = run_in_the_middle(&fixture).await;
    first.kill();
    let second = fixture.start();
    let events = fixture.events(&run, 0).await;
    assert_whole(&events, 1);
    assert_eq!(resumptions(&events), ["crash"]);
    let heard: String = events.iter().filter_map(|(.., data)| data["delta"].as_str()).collect();
    assert!(heard.starts_with("these words") && heard.ends_with(WENT_ON), "{heard}");
    let (last, _, data) = events.last().unwrap();
    assert_eq!((&data["status"], &data["output"]), (&json!("completed"), &json!(WENT_ON)));
    // A reader that was there before goes on behind what it has.
    assert_eq!(fixture.events(&run, 2).await, events[2..]);
    let shown = fixture.show(&run).await;
    assert_eq!((&shown["status"], &shown["last_event_id"]), (&json!("completed"), &json!(last)));
    assert_eq!(shown["usage"], data["usage"]);
    fixture.until_settled().await;
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_gateway_that_dies_over_a_resumed_run_leaves_it_to_the_next() {
    let fixture = GatewayFixture::with_script(cut_off(ScriptedReply::text(WENT_ON)), &[]);
    let first = fixture.start();
    let run = run_in_the_middle(&fixture).await;
    fixture.stop(first).await;
    let mut second = fixture.spawn(Some("run.resumed"));
    second.discard_output();
    second.wait();
    let third = fixture.start();
    let events = fixture.events(&run, 0).await;
    assert_whole(&events, 1);
    assert_eq!(resumptions(&events), ["restart", "crash"]);
    assert_eq!(events.last().unwrap().2["output"], WENT_ON);
    fixture.until_settled().await;
    fixture.stop(third).await;
}

#[tokio::test]
async fn a_run_that_a_drain_interrupts_is_suspended_and_goes_on_while_clients_are_served() {
    let more = ["api_server.max_concurrent_runs=1"];
    let fixture =
        GatewayFixture::with_script(cut_off(ScriptedReply::text(WENT_ON).hold_after(0)), &more);
    let first = fixture.start();
    let run = run_in_the_middle(&fixture).await;
    fixture.stop(first).await;
    let second = fixture.start();
    fixture.model.wait_for_holds(2).await;
    // It holds no slot of clients, of which there is one.
    assert_eq!(fixture.ask("say hello", None).await.unwrap().0, "hello");
    let health = fixture.send("GET", "/health/detailed", &[], None).await.unwrap().1;
    assert_eq!(
        (&health["active_agents"], &health["turns"]),
        (&json!(1), &json!({ "clients": 0, "resumed": 1, "scheduled": 0 })),
    );
    fixture.model.release();
    let events = fixture.events(&run, 0).await;
    assert_whole(&events, 1);
    let (_, rest) = events.split_at(events.len() - 4);
    assert_eq!(
        names(rest),
        ["run.suspended", "run.resumed", "message.delta", "run.completed"],
        "{events:?}"
    );
    assert_eq!(rest[1].2["reason"], "restart");
    assert_eq!(rest[3].2["output"], WENT_ON);
    fixture.until_settled().await;
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_resumed_run_asks_again_and_no_old_answer_counts() {
    let home = tempfile::tempdir().unwrap();
    let doomed = home.path().join("doomed");
    std::fs::create_dir(&doomed).unwrap();
    let call = json!({ "command": format!("rm -r {}", doomed.display()) });
    let script = Script::rules([
        ReplyRule::when_user_contains("ended unexpectedly")
            .reply(ScriptedReply::tool_call("terminal", call.clone())),
        ReplyRule::when_user_contains("remove it")
            .reply(ScriptedReply::tool_call("terminal", call)),
        ReplyRule::always().reply(ScriptedReply::text("gone")),
    ]);
    let fixture = GatewayFixture::with_script(script, &["approvals.mode=manual"]);
    let mut first = fixture.start();
    let run = fixture.run("remove it").await;
    let is_waiting = |run: &Value| run["status"] == "waiting";
    fixture.until_run(&run, "it asks", is_waiting).await;
    let old = fixture.show(&run).await["questions"][0]["id"].clone();
    until_async("the question is stored", || async {
        fixture.show(&run).await["last_event_id"].as_i64() >= Some(3)
    })
    .await;
    first.kill();
    let second = fixture.start();
    fixture.until_run(&run, "it asks again", is_waiting).await;
    let approval = format!("/v1/runs/{run}/approval");
    let answer = async |id: &Value| {
        let body = json!({ "id": id, "choice": "once" });
        fixture.send("POST", &approval, &[], Some(body)).await.unwrap().0
    };
    assert_eq!(answer(&old).await, 409);
    assert!(doomed.exists());
    let new = fixture.show(&run).await["questions"][0]["id"].clone();
    assert_ne!(new, old);
    assert_eq!(answer(&new).await, 200);
    let events = fixture.events(&run, 0).await;
    assert_whole(&events, 1);
    assert!(!doomed.exists());
    let closed: Vec<&Value> = events
        .iter()
        .filter(|(_, name, _)| name == "approval.closed")
        .map(|(_, _, data)| &data["id"])
        .collect();
    assert_eq!(closed, [&old, &new]);
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_run_that_is_stopped_after_a_restart_ends_for_good() {
    let fixture =
        GatewayFixture::with_script(cut_off(ScriptedReply::text("never").hold_after(0)), &[]);
    let first = fixture.start();
    let run = run_in_the_middle(&fixture).await;
    fixture.stop(first).await;
    let second = fixture.start();
    fixture.model.wait_for_holds(2).await;
    let stop = format!("/v1/runs/{run}/stop");
    let stopping = fixture.send("POST", &stop, &[], Some(json!({}))).await.unwrap().1;
    assert_eq!(stopping["status"], "stopping");
    let events = fixture.events(&run, 0).await;
    assert_whole(&events, 1);
    assert_eq!(names(&events).last(), Some(&"run.cancelled"));
    fixture.until_settled().await;
    fixture.stop(second).await;
    let third = fixture.start();
    assert_eq!(fixture.show(&run).await["status"], "cancelled");
    assert_eq!(fixture.model.requests().len(), 2);
    fixture.stop(third).await;
}

#[tokio::test]
async fn a_run_that_cannot_go_on_ends_with_what_there_is_of_it() {
    /// What happens to the session while no gateway runs.
    enum Meanwhile {
        SomebodySpoke,
        RecordIsGone,
        ThreeDied,
    }
    for (meanwhile, status, code) in [
        (Meanwhile::SomebodySpoke, "interrupted", "interrupted"),
        (Meanwhile::RecordIsGone, "interrupted", "interrupted"),
        (Meanwhile::ThreeDied, "failed", "given_up"),
    ] {
        let fixture = GatewayFixture::with_script(cut_off(ScriptedReply::text(WENT_ON)), &[]);
        let mut first = fixture.start();
        let run = run_in_the_middle(&fixture).await;
        let session = fixture.show(&run).await["session_id"].as_str().unwrap().to_owned();
        first.kill();
        let (store, id) = (fixture.store().await, session.parse::<ConversationId>().unwrap());
        match meanwhile {
            Meanwhile::SomebodySpoke => {
                let reply = NewMessage::new(Message::user("never mind"));
                store.append(&id, &[reply]).await.unwrap();
            }
            Meanwhile::RecordIsGone => store.set_state(&id, "gateway", None).await.unwrap(),
            Meanwhile::ThreeDied => {
                let (_, mut record) = store.with_state("gateway").await.unwrap().pop().unwrap();
                record["turn"]["deaths"] = json!(2);
                store.set_state(&id, "gateway", Some(&record)).await.unwrap();
            }
        }
        store.close().await.unwrap();
        let second = fixture.start();
        let events = fixture.events(&run, 0).await;
        assert_whole(&events, 1);
        let (_, last, data) = events.last().unwrap();
        assert_eq!((last, &data["status"]), (&format!("run.{status}"), &json!(status)));
        assert_eq!((&data["error"]["code"], &data["session_id"]), (&json!(code), &json!(session)));
        let output = data["output"].as_str().unwrap();
        assert!(!output.is_empty() && WORDS.starts_with(output), "{output}");
        let shown = fixture.show(&run).await;
        assert_eq!((&shown["status"], &shown["output"]), (&json!(status), &data["output"]));
        assert_eq!(fixture.model.requests().len(), 1);
        fixture.stop(second).await;
    }
}
