//! Sessions and what is kept of them.

use serde_json::{Value, json};
use vestal_sandbox::SummaryState;
use vestal_scripted_model::{Script, ScriptedReply};

use crate::support::{Client, TEST_TIMEOUT, TestServer, echo, server_at};

#[tokio::test]
async fn nothing_is_stored_before_the_first_prompt_and_the_deltas_are_the_text() {
    let reply = ScriptedReply::text("\n\n Hello,\n\nworld! \n").with_reasoning("hm").chunked(3);
    let server = TestServer::start(Script::replies([reply])).await;
    let mut client = server.client().await;
    let made = client.call("session.create", json!({ "title": "greetings" })).await;
    assert_eq!(made["stored_session_id"], Value::Null, "{made}");
    assert_eq!((&made["info"]["model"], &made["info"]["lazy"]), (&json!("m"), &json!(true)));
    assert!(made["info"]["tools"].as_array().unwrap().contains(&json!("terminal")), "{made}");
    assert_eq!(client.call("session.list", json!({})).await["sessions"], json!([]));
    let session = made["session_id"].as_str().unwrap().to_owned();
    let complete = client.say(&session, "hi").await;
    assert_eq!(complete["text"], "Hello,\n\nworld!", "{complete}");
    assert_eq!((&complete["status"], &complete["reasoning"]), (&json!("complete"), &json!("hm")));
    let reply: String = client
        .come("message.delta")
        .iter()
        .map(|event| event["payload"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(reply, "Hello,\n\nworld!");
    let info = client.event("session.info").await;
    let stored = info["payload"]["stored_session_id"].as_str().unwrap().to_owned();
    let listed = client.call("session.list", json!({})).await;
    assert_eq!(listed["sessions"][0]["id"], stored.as_str(), "{listed}");
    assert_eq!(listed["sessions"][0]["title"], "greetings");
    assert_eq!(listed["sessions"][0]["live_session_id"], session.as_str());
    let recent = client.call("session.most_recent", json!({})).await;
    assert_eq!(recent["session_id"], stored.as_str());
    server.end().await;
}

#[tokio::test]
async fn what_is_undone_stays_undone_for_the_next_process() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.say(&session, "one").await;
    client.say(&session, "two").await;
    let of = json!({ "session_id": session });
    let undone = client.call("session.undo", of.clone()).await;
    assert_eq!(undone, json!({ "removed": 2, "turns": 1, "text": "two" }));
    let history = client.call("session.history", of.clone()).await;
    assert_eq!(history["count"], 2, "{history}");
    let stored = client.call("session.activate", of).await["stored_session_id"].clone();
    drop(client);
    let (home, model) = server.end().await;
    let (next, engine) = server_at(home.path(), &model, &[]).await;
    let mut client = Client::connect(&next).await;
    let resumed = client.call("session.resume", json!({ "session_id": stored })).await;
    let texts: Vec<&Value> =
        resumed["messages"].as_array().unwrap().iter().map(|message| &message["text"]).collect();
    assert_eq!(texts, ["one", "one"], "{resumed}");
    // An earlier message is edited: it and what follows it give way.
    let params = json!({ "session_id": resumed["session_id"], "text": "three",
        "truncate_before_user_ordinal": 0 });
    client.call("prompt.submit", params.clone()).await;
    client.complete().await;
    let of = json!({ "session_id": resumed["session_id"] });
    let history = client.call("session.history", of).await;
    let texts: Vec<&Value> =
        history["messages"].as_array().unwrap().iter().map(|message| &message["text"]).collect();
    assert_eq!(texts, ["three", "three"], "{history}");
    let mut stale = params;
    stale["truncate_before_user_ordinal"] = json!(5);
    assert_eq!(client.refused("prompt.submit", stale).await, 4018);
    next.shutdown("the end").await;
    engine.close(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn a_conversation_that_another_process_holds_is_busy_and_says_who() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.say(&session, "mine").await;
    let (other, engine) = server_at(server.home.path(), &server.model, &[]).await;
    let mut second = Client::connect(&other).await;
    let refused = second.error("session.resume", json!({ "session_id": "mine" })).await;
    assert_eq!(
        (&refused["code"], &refused["data"]["pid"]),
        (&json!(4009), &json!(std::process::id()))
    );
    let active = second.call("session.active_list", json!({})).await;
    assert_eq!(active["sessions"], json!([]), "the refused one is left");
    client.call("session.close", json!({ "session_id": session })).await;
    second.call("session.resume", json!({ "session_id": "mine" })).await;
    other.shutdown("the end").await;
    engine.close(TEST_TIMEOUT).await;
    server.end().await;
}

#[tokio::test]
async fn the_seventeenth_session_is_refused_until_one_is_closed() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let first = client.create().await;
    for _ in 1..16 {
        client.create().await;
    }
    assert_eq!(client.refused("session.create", json!({})).await, 4090);
    let closed = client.call("session.close", json!({ "session_id": first })).await;
    assert_eq!(closed, json!({ "closed": true }));
    client.create().await;
    assert_eq!(client.refused("session.close", json!({ "session_id": first })).await, 4001);
    assert_eq!(client.refused("session.close", json!({ "session_id": "" })).await, 4006);
    assert_eq!(client.refused("session.close", json!({})).await, -32602);
    // One that nobody watches and that does nothing gives way.
    drop(client);
    server.client().await.create().await;
    server.end().await;
}

#[tokio::test]
async fn a_session_is_titled_branched_saved_and_deleted() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let of = json!({ "session_id": session });
    assert_eq!(client.refused("session.branch", of.clone()).await, 4008);
    let titled = json!({ "session_id": session, "title": "plans" });
    let pending = client.call("session.title", titled).await;
    assert_eq!(pending, json!({ "title": "plans", "pending": true }));
    client.say(&session, "one").await;
    let title = client.call("session.title", of.clone()).await;
    assert_eq!(title, json!({ "title": "plans", "pending": false }));
    let branch = client.call("session.branch", json!({ "session_id": session, "name": "b" })).await;
    assert_eq!(branch["title"], "b", "{branch}");
    let own = json!({ "session_id": branch["session_id"] });
    assert_eq!(client.call("session.history", own.clone()).await["count"], 2);
    assert_eq!(client.refused("session.delete", json!({ "session_id": "plans" })).await, 4023);
    client.call("session.close", own).await;
    let deleted = client.call("session.delete", json!({ "session_id": "b" })).await;
    assert_eq!(deleted["messages"], 2, "{deleted}");
    assert_eq!(client.refused("session.resume", json!({ "session_id": "b" })).await, 4007);
    let saved = client.call("session.save", of.clone()).await;
    let file = saved["file"].as_str().unwrap();
    let lines: Vec<Value> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((lines.len(), &lines[0]["title"]), (3, &json!("plans")), "{lines:?}");
    let usage = client.call("session.usage", of.clone()).await;
    assert_eq!(
        (&usage["total"]["calls"], &usage["models"][0]["model"]),
        (&json!(1), &json!("custom:m"))
    );
    let status = client.call("session.status", of.clone()).await;
    assert!(status["output"].as_str().unwrap().contains("plans"), "{status}");
    assert_eq!(client.refused("session.compress", of).await, 4018);
    server.end().await;
}

#[tokio::test]
async fn closing_a_session_never_stops_its_sandbox() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let command = json!({ "session_id": session, "command": "echo hello; echo oops >&2; exit 3" });
    let ran = client.call("shell.exec", command).await;
    assert_eq!(
        ran,
        json!({ "stdout": "hello\n", "stderr": "oops\n", "code": 3, "timed_out": false })
    );
    client.call("session.close", json!({ "session_id": session })).await;
    let found = server.engine.inspect(&"default".parse().unwrap()).await.unwrap();
    assert_eq!(found[0].state, SummaryState::Running);
    server.end().await;
}
