//! Turns: streamed, interrupted, steered, asked about, watched by several.

use std::time::Duration;

use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};
use vestal_testkit::files::Fifo;
use vestal_testkit::processes::{marker, processes_with};

use crate::support::{TEST_TIMEOUT, TestServer, echo};

#[tokio::test]
async fn what_is_slow_is_answered_when_it_is_done() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let gate = Fifo::create(server.home.path().join("gate"));
    let command = format!("cat {}", gate.display());
    let params = json!({ "session_id": session, "command": command });
    let slow = client.send("shell.exec", params).await;
    let fast = client.send("session.active_list", json!({})).await;
    let first = client.read().await.unwrap();
    assert_eq!(first["id"].as_u64().or(Some(fast)), Some(fast), "{first}");
    if first["id"].is_null() {
        client.answer(fast).await;
    }
    tokio::task::spawn_blocking(move || gate.write("open")).await.unwrap();
    assert_eq!(client.answer(slow).await["result"]["stdout"], "open");
    server.end().await;
}

#[tokio::test]
async fn an_interrupt_ends_the_commands_of_its_session_and_takes_back_its_questions_only() {
    let mark = marker();
    let script = Script::rules([
        ReplyRule::when_user_contains("sleep").reply(ScriptedReply::tool_call(
            "terminal",
            json!({ "command": format!("sleep {mark}") }),
        )),
        ReplyRule::when_user_contains("remove")
            .reply(ScriptedReply::tool_call("terminal", json!({ "command": "rm -rf precious" }))),
        ReplyRule::always().reply(ScriptedReply::text("done")),
    ]);
    let server = TestServer::start(script).await;
    let mut client = server.client().await;
    let (one, two, three) = (client.create().await, client.create().await, client.create().await);
    for (session, text) in [(&one, "sleep"), (&two, "remove"), (&three, "remove")] {
        let params = json!({ "session_id": session, "text": text });
        client.call("prompt.submit", params).await;
    }
    let mut asked =
        [client.event("approval.request").await, client.event("approval.request").await];
    asked.sort_by_key(|event| event["session_id"] != two.as_str());
    assert_eq!(asked[0]["payload"]["command"], "rm -rf precious", "{asked:?}");
    assert_eq!(asked[0]["payload"]["choices"], json!(["once", "session", "always", "deny"]));
    vestal_testkit::until("the command runs", || !processes_with(&mark).is_empty()).await;
    for session in [&one, &two] {
        let stopped = client.call("session.interrupt", json!({ "session_id": session })).await;
        assert_eq!(stopped["status"], "interrupted");
    }
    let expired = client.event("approval.expire").await;
    assert_eq!(
        (&expired["session_id"], &expired["payload"]["answered"]),
        (&json!(two), &json!(false))
    );
    for _ in 0..2 {
        let ended = client.event("message.complete").await;
        assert_ne!(ended["session_id"], three.as_str());
        assert_eq!(ended["payload"]["status"], "interrupted");
    }
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let joined = client.call("session.activate", json!({ "session_id": three })).await;
    assert_eq!((&joined["status"], &joined["running"]), (&json!("waiting"), &json!(true)));
    let request = joined["questions"][0]["request_id"].clone();
    let params =
        json!({ "session_id": three, "choice": "deny", "request_id": request, "reason": "no" });
    assert_eq!(client.call("approval.respond", params.clone()).await, json!({ "resolved": 1 }));
    assert_eq!(client.event("approval.expire").await["payload"]["answered"], true);
    assert_eq!(client.complete().await["text"], "done");
    assert_eq!(client.refused("approval.respond", params).await, 4009);
    server.end().await;
}

#[tokio::test]
async fn what_is_approved_is_done_and_a_dangerous_command_of_the_client_is_asked_about_too() {
    let script = Script::rules([
        ReplyRule::when_user_contains("rm").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            ScriptedReply::tool_call("terminal", json!({ "command": command }))
        }),
        ReplyRule::always().reply(ScriptedReply::text("done")),
    ]);
    let server = TestServer::start(script).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let [gone, kept] = ["gone", "kept"].map(|name| server.home.path().join(name));
    for dir in [&gone, &kept] {
        std::fs::create_dir(dir).unwrap();
    }
    let text = format!("rm -rf {}", gone.display());
    client.call("prompt.submit", json!({ "session_id": session, "text": text })).await;
    client.event("approval.request").await;
    client.call("approval.respond", json!({ "session_id": session, "choice": "once" })).await;
    let tool = client.event("tool.complete").await["payload"].take();
    assert_eq!((&tool["name"], &tool["is_error"]), (&json!("terminal"), &json!(false)), "{tool}");
    client.complete().await;
    let command = format!("rm -rf {}", kept.display());
    let exec =
        client.send("shell.exec", json!({ "session_id": session, "command": command })).await;
    client.event("approval.request").await;
    client.call("approval.respond", json!({ "session_id": session, "choice": "deny" })).await;
    assert_eq!(client.answer(exec).await["error"]["code"], -32000);
    assert_eq!((gone.exists(), kept.exists()), (false, true));
    server.end().await;
}

#[tokio::test]
async fn a_question_of_the_model_is_answered_once() {
    let ask = json!({ "question": "Which one?", "choices": ["a", "b"] });
    let server = TestServer::start(Script::replies([
        ScriptedReply::text("Let me ask.")
            .with_tool_call(vestal_scripted_model::ScriptedToolCall::new("clarify", ask)),
        ScriptedReply::text("b it is"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.call("prompt.submit", json!({ "session_id": session, "text": "choose" })).await;
    let asked = client.event("clarify.request").await["payload"].take();
    assert_eq!((&asked["question"], &asked["choices"]), (&json!("Which one?"), &json!(["a", "b"])));
    assert_eq!(client.come("message.interim")[0]["payload"]["text"], "Let me ask.");
    let params = json!({ "request_id": asked["request_id"], "answer": "b" });
    assert_eq!(client.call("clarify.respond", params.clone()).await, json!({ "status": "ok" }));
    assert_eq!(client.call("clarify.respond", params).await, json!({ "status": "expired" }));
    assert_eq!(client.complete().await["text"], "b it is");
    let result = &server.model.requests()[1].messages().last().unwrap().to_string();
    assert!(result.contains(r#"\"user_response\":\"b\""#), "{result}");
    server.end().await;
}

#[tokio::test]
async fn a_prompt_while_a_turn_runs_waits_interrupts_or_steers() {
    let held = || ScriptedReply::text("slowly said").chunked(7).hold_after(1);
    let server = TestServer::start(Script::rules([
        ReplyRule::when_user_contains("slow").reply_with(move |_| held()),
        ReplyRule::always().reply_with(|request| {
            ScriptedReply::text(request.last_user_text().unwrap_or_default())
        }),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    let say = |text: &str| json!({ "session_id": session, "text": text });
    // By default it interrupts.
    client.call("prompt.submit", say("slow")).await;
    client.event("message.delta").await;
    assert_eq!(client.call("prompt.submit", say("next")).await["status"], "queued");
    assert_eq!(client.complete().await["status"], "interrupted");
    assert_eq!(client.complete().await["text"], "next");
    // Queued, it waits, and an interrupt drops it.
    let busy = |mode: &str| json!({ "session_id": session, "key": "busy", "value": mode });
    client.call("config.set", busy("queue")).await;
    client.call("prompt.submit", say("slow")).await;
    client.event("message.delta").await;
    client.call("prompt.submit", say("dropped")).await;
    let undo = json!({ "session_id": session });
    assert_eq!(client.refused("session.undo", undo.clone()).await, 4009);
    let stopped = client.call("session.interrupt", undo).await;
    assert_eq!(stopped, json!({ "status": "interrupted", "dropped": 1 }));
    assert_eq!(client.complete().await["status"], "interrupted");
    // Steered, it is heard in the same turn or right after it.
    client.call("config.set", busy("steer")).await;
    client.call("prompt.submit", say("slow")).await;
    client.event("message.delta").await;
    assert_eq!(client.call("prompt.submit", say("and quickly")).await["status"], "steered");
    server.model.release_many(9);
    assert_eq!(client.complete().await["text"], "slowly said");
    assert_eq!(client.complete().await["text"], "and quickly");
    let steer = client.call("session.steer", say("late")).await;
    assert_eq!(steer, json!({ "status": "rejected" }));
    server.end().await;
}

#[tokio::test]
async fn two_clients_at_one_session_miss_nothing_and_hear_nothing_twice() {
    let reply = ScriptedReply::text("the first part, the second part").chunked(15).hold_after(1);
    let server = TestServer::start(Script::replies([reply])).await;
    let mut one = server.client().await;
    let session = one.create().await;
    one.call("prompt.submit", json!({ "session_id": session, "text": "tell" })).await;
    let delta = one.event("message.delta").await;
    let mut two = server.client().await;
    let active = two.call("session.active_list", json!({})).await;
    let stored = active["sessions"][0]["session_key"].clone();
    let joined = two.call("session.resume", json!({ "session_id": stored })).await;
    assert_eq!(joined["session_id"], session.as_str(), "the live one is joined");
    assert!(joined["seq"].as_u64() >= delta["seq"].as_u64(), "{joined}");
    server.model.release();
    let text = |event: &Value| event["payload"]["text"].as_str().unwrap().to_owned();
    for (client, mut reply) in [
        (&mut one, text(&delta)),
        (&mut two, joined["inflight"]["text"].as_str().unwrap().to_owned()),
    ] {
        let complete = client.complete().await;
        reply.extend(client.come("message.delta").into_iter().map(text));
        assert_eq!(
            (reply.as_str(), &complete["text"]),
            ("the first part, the second part", &json!(reply))
        );
    }
    // The one that leaves takes nothing along.
    drop(one);
    assert_eq!(
        two.call("session.activate", json!({ "session_id": session })).await["running"],
        false
    );
    server.end().await;
}

#[tokio::test]
async fn a_subagent_is_shown_and_can_be_interrupted_by_itself() {
    let server = TestServer::start(Script::rules([
        ReplyRule::when_user_contains("delegate")
            .reply(ScriptedReply::tool_call("delegate_task", json!({ "goal": "count sheep" }))),
        ReplyRule::when_user_contains("count sheep")
            .reply(ScriptedReply::text("one, two, three").hold_after(1)),
        ReplyRule::always().reply(ScriptedReply::text("the child was interrupted")),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.call("prompt.submit", json!({ "session_id": session, "text": "delegate" })).await;
    let started = client.event("subagent.start").await["payload"].take();
    client.event("subagent.text").await;
    let of = json!({ "session_id": session });
    let status = client.call("delegation.status", of).await;
    assert_eq!(status["active"][0]["subagent_id"], started["subagent_id"], "{status}");
    let params = json!({ "subagent_id": started["subagent_id"] });
    let interrupted = client.call("subagent.interrupt", params.clone()).await;
    assert_eq!(interrupted, json!({ "found": true }));
    assert_eq!(client.event("subagent.complete").await["payload"]["outcome"], "interrupted");
    assert_eq!(client.complete().await["text"], "the child was interrupted");
    assert_eq!(client.call("subagent.interrupt", params).await, json!({ "found": false }));
    server.end().await;
}

#[tokio::test]
async fn a_failed_turn_says_why_and_the_session_goes_on() {
    let server = TestServer::start(Script::replies([
        ScriptedReply::error(401, "bad key"),
        ScriptedReply::text("fine"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    let failed = client.say(&session, "one").await;
    assert_eq!((&failed["status"], &failed["text"]), (&json!("error"), &json!("")), "{failed}");
    assert!(!failed["error"].as_str().unwrap().is_empty() && !failed["advice"][0].is_null());
    assert_eq!(client.say(&session, "two").await["text"], "fine");
    server.end().await;
}

#[tokio::test]
async fn the_end_of_the_server_interrupts_a_running_command_and_stores_the_messages() {
    let mark = marker();
    let call = ScriptedReply::tool_call("terminal", json!({ "command": format!("sleep {mark}") }));
    let server = TestServer::start(Script::replies([call])).await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.call("prompt.submit", json!({ "session_id": session, "text": "wait" })).await;
    vestal_testkit::until("the command runs", || !processes_with(&mark).is_empty()).await;
    tokio::time::timeout(TEST_TIMEOUT, server.server.shutdown("bye")).await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(client.complete().await["status"], "interrupted");
    assert_eq!(client.event("connection.closed").await["payload"]["reason"], "bye");
    assert_eq!(client.read().await, None);
    server.end().await;
}

#[tokio::test]
async fn during_other_work_a_steer_is_refused_and_a_prompt_is_sent_afterwards() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.say(&session, "one").await;
    let busy = json!({ "session_id": session, "key": "busy", "value": "steer" });
    client.call("config.set", busy).await;
    let command = json!({ "session_id": session, "command": "/sandbox snapshot hold" });
    let exec = client.send("slash.exec", command).await;
    server.verbs.held().await;
    let say = |text: &str| json!({ "session_id": session, "text": text });
    let steer = client.call("session.steer", say("unheard")).await;
    assert_eq!(steer, json!({ "status": "rejected" }));
    assert_eq!(client.call("prompt.submit", say("afterwards")).await["status"], "queued");
    server.verbs.release();
    assert!(client.answer(exec).await["error"].is_null());
    assert_eq!(client.complete().await["text"], "afterwards");
    assert!(server.model.requests().iter().all(|request| {
        !request.messages().iter().any(|message| message.to_string().contains("unheard"))
    }));
    server.end().await;
}

#[tokio::test]
async fn a_drain_gives_waiting_prompts_back_and_takes_no_more() {
    let held = ScriptedReply::text("to the end").chunked(6).hold_after(1);
    let server = TestServer::start(Script::replies([held])).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let busy = json!({ "session_id": session, "key": "busy", "value": "queue" });
    client.call("config.set", busy).await;
    let say = |text: &str| json!({ "session_id": session, "text": text });
    client.call("prompt.submit", say("first")).await;
    client.event("message.delta").await;
    assert_eq!(client.call("prompt.submit", say("second")).await["status"], "queued");
    assert_eq!(client.call("session.steer", say("aside")).await["status"], "queued");
    let drained = {
        let server = server.server.clone();
        tokio::spawn(async move { server.drain("the gateway is stopping").await })
    };
    let returned = client.event("prompt.returned").await["payload"].take();
    assert_eq!(
        returned,
        json!({ "prompts": [{ "text": "second" }], "reason": "the gateway is stopping" })
    );
    assert_eq!(client.refused("prompt.submit", say("third")).await, -32000);
    server.model.release();
    assert_eq!(client.complete().await["text"], "to the end");
    // What the model had no step left to hear comes back, too.
    let returned = client.event("prompt.returned").await["payload"].take();
    assert_eq!(returned["prompts"], json!([{ "text": "aside" }]));
    client.event("session.closed").await;
    tokio::time::timeout(TEST_TIMEOUT, drained).await.unwrap().unwrap();
    assert_eq!(server.model.requests().len(), 1);
    server.end().await;
}

#[tokio::test]
async fn an_interrupt_says_which_prompts_it_dropped() {
    let held = ScriptedReply::text("never told").chunked(5).hold_after(1);
    let server = TestServer::start(Script::replies([held])).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let say = |text: &str| json!({ "session_id": session, "text": text });
    client.call("prompt.submit", say("first")).await;
    client.event("message.delta").await;
    assert_eq!(client.call("session.steer", say("aside")).await["status"], "queued");
    let stopped = client.call("session.interrupt", json!({ "session_id": session })).await;
    assert_eq!(stopped, json!({ "status": "interrupted", "dropped": 1 }));
    let returned = client.event("prompt.returned").await["payload"].take();
    assert_eq!(returned["prompts"], json!([{ "text": "aside" }]));
    assert_eq!(client.complete().await["status"], "interrupted");
    assert_eq!(server.model.requests().len(), 1);
    server.end().await;
}

/// Returns the words of an answer as a client puts them together that joined at some moment.
fn heard(joined: &Value, mut client_deltas: Vec<String>, complete: Option<String>) -> Vec<String> {
    let mut heard: Vec<String> = joined["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect();
    if let Some(complete) = complete {
        client_deltas.insert(0, joined["inflight"]["text"].as_str().unwrap_or_default().to_owned());
        assert_eq!(client_deltas.concat(), complete, "{joined}");
        heard.push(complete);
    }
    heard
}

#[tokio::test]
async fn a_client_that_joins_at_any_moment_of_an_answer_sees_it_once() {
    let text = "a b c d e f g h i j k l m n o p";
    let reply = move || ScriptedReply::text(text).chunked(2).paced(Duration::from_millis(2));
    let server =
        TestServer::start(Script::rules([ReplyRule::always().reply_with(move |_| reply())])).await;
    let mut first = server.client().await;
    let session = first.create().await;
    first.call("prompt.submit", json!({ "session_id": session, "text": "tell" })).await;
    let mut joined = Vec::new();
    loop {
        let frame = first.read().await.unwrap();
        let kind = frame["params"]["type"].as_str().unwrap_or_default().to_owned();
        let mut client = server.client().await;
        let view = client.call("session.activate", json!({ "session_id": session })).await;
        joined.push((client, view));
        if kind == "message.complete" {
            break;
        }
    }
    assert!(joined.len() > 10, "{}", joined.len());
    for (mut client, view) in joined {
        let prompts = view["messages"].as_array().unwrap().iter();
        assert_eq!(prompts.filter(|message| message["role"] == "user").count(), 1, "{view}");
        let complete = if view["inflight"].is_null() {
            None
        } else {
            Some(client.complete().await["text"].as_str().unwrap().to_owned())
        };
        let text_of = |event: &Value| event["payload"]["text"].as_str().unwrap().to_owned();
        let deltas = client.come("message.delta").into_iter().map(text_of).collect();
        assert_eq!(heard(&view, deltas, complete), [text], "{view}");
    }
    server.end().await;
}

/// The smallest PNG.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn pictures_go_with_a_prompt_and_a_model_that_takes_none_says_so() {
    let server = TestServer::start(Script::replies([
        ScriptedReply::text("a pixel"),
        ScriptedReply::error(400, "this model does not support image input"),
        ScriptedReply::text("in words"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    let attach = |data: &str| json!({ "session_id": session, "data": data });
    let attached = client.call("image.attach", attach(PIXEL)).await;
    assert_eq!(attached, json!({ "media_type": "image/png", "bytes": 70, "images": 1 }));
    let file = server.home.path().join("pixel.png");
    std::fs::write(&file, base64_of(PIXEL)).unwrap();
    let path = json!({ "session_id": session, "path": file });
    assert_eq!(client.call("image.attach", path).await["images"], 2);
    let detach = json!({ "session_id": session, "index": 1 });
    assert_eq!(client.call("image.detach", detach.clone()).await, json!({ "images": 1 }));
    assert_eq!(client.refused("image.detach", detach).await, 4018);
    for bad in ["", "%%%", "aGVsbG8=", "data:text/html;base64,aGVsbG8="] {
        assert_eq!(client.refused("image.attach", attach(bad)).await, 4002, "{bad}");
    }
    let with = |count: usize| {
        let images: Vec<Value> = (0..count)
            .map(|_| json!({ "data": format!("data:image/png;base64,{PIXEL}") }))
            .collect();
        json!({ "session_id": session, "text": "what is this?", "images": images })
    };
    assert_eq!(client.refused("prompt.submit", with(16)).await, 4002, "one is attached");
    client.call("prompt.submit", with(1)).await;
    assert_eq!(client.event("message.start").await["payload"]["images"], 2);
    assert_eq!(client.complete().await["text"], "a pixel");
    let sent = server.model.requests()[0].messages().last().unwrap().to_string();
    assert_eq!(sent.matches(PIXEL).count(), 2, "{sent:.300}");
    let history = client.call("session.history", json!({ "session_id": session })).await;
    assert_eq!(history["messages"][0]["images"], 2, "{history}");
    // A model that takes none: the prompt is taken back, so that the next one is not spoiled.
    client.call("prompt.submit", with(1)).await;
    let failed = client.complete().await;
    assert_eq!(failed["error"], "custom:m takes no pictures", "{failed}");
    let returned = client.event("prompt.returned").await["payload"].take();
    assert_eq!(returned["prompts"], json!([{ "text": "what is this?", "images": 1 }]));
    let refused = client.error("prompt.submit", with(1)).await;
    assert_eq!(refused["code"], 4002, "{refused}");
    assert_eq!(server.model.requests().len(), 2);
    assert_eq!(client.say(&session, "then in words").await["text"], "in words");
    server.end().await;
}

fn base64_of(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}
