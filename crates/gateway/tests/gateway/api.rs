//! What clients of the API see.

use serde_json::{Value, json};
use vestal_gateway::{GatewaySettings, ShutdownCause};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::support::{TestGateway, answer, events};

fn echo() -> Script {
    Script::rules([ReplyRule::always()
        .reply_with(|request| ScriptedReply::text(request.last_user_text().unwrap_or_default()))])
}

#[tokio::test]
async fn a_session_goes_on_where_it_was() {
    let gateway = TestGateway::start(echo()).await;
    let first = gateway.ask("one", None).await;
    assert_eq!((first.status, first.text()), (200, "one"), "{}", first.body);
    assert_eq!(first.body["choices"][0]["finish_reason"], "stop");
    let session = first.header("x-vestal-session-id").unwrap();
    let second = gateway.ask("two", Some(session)).await;
    assert_eq!((second.status, second.text()), (200, "two"), "{}", second.body);
    assert_eq!(second.header("x-vestal-session-id"), Some(session));
    let messages = gateway.get(&format!("/api/sessions/{session}/messages")).await.body;
    let roles: Vec<&Value> = messages["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stored| &stored["message"]["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"], "{messages}");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn the_history_that_a_client_sends_reaches_the_model() {
    let gateway = TestGateway::start(echo()).await;
    let body = json!({ "messages": [
        { "role": "system", "content": "You are a baker." },
        { "role": "user", "content": "my name is Ada" },
        { "role": "assistant", "content": "hello Ada" },
        { "role": "user", "content": [{ "type": "text", "text": "who am I?" }] },
    ]});
    let asked = answer(gateway.post("/v1/chat/completions", &body)).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    let requests = gateway.model.requests();
    let sent = format!("{}{:?}", requests[0].system(), requests[0].messages());
    for reply in ["You are a baker.", "my name is Ada", "hello Ada", "who am I?"] {
        assert!(sent.contains(reply), "{reply} is not in {sent}");
    }
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_stream_has_the_words_in_order_and_ends_with_usage_and_done() {
    let gateway =
        TestGateway::start(Script::replies([
            ScriptedReply::text("a whole answer in pieces").chunked(5)
        ]))
        .await;
    let body = json!({ "messages": [{ "role": "user", "content": "go" }], "stream": true,
        "stream_options": { "include_usage": true } });
    let streamed = answer(gateway.post("/v1/chat/completions", &body)).await;
    assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
    let events = events(streamed.body.as_str().unwrap());
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let chunks: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let reply: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(reply, "a whole answer in pieces");
    assert!(chunks.len() > 4, "the answer came in one piece: {chunks:?}");
    let [.., finish, usage] = &chunks[..] else { panic!("{chunks:?}") };
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert!(usage["usage"]["total_tokens"].as_u64().unwrap() > 0, "{usage}");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_failed_provider_is_an_error_and_never_an_answer() {
    let failures = [(500, 502), (429, 429), (401, 502), (400, 400)];
    let replies = failures.iter().flat_map(|&(status, _)| {
        [ScriptedReply::error(status, "no"), ScriptedReply::error(status, "no")]
    });
    let gateway = TestGateway::start(Script::replies(replies)).await;
    for (upstream, expected) in failures {
        for stream in [false, true] {
            let body =
                json!({ "messages": [{ "role": "user", "content": "go" }], "stream": stream });
            let failed = answer(gateway.post("/v1/chat/completions", &body)).await;
            assert_eq!(failed.status, expected, "{upstream} {stream}: {}", failed.body);
            assert!(failed.body["error"]["message"].is_string(), "{}", failed.body);
        }
    }
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn only_health_is_served_without_the_key() {
    let gateway = TestGateway::start(echo()).await;
    assert_eq!(gateway.get_without_key("/health").await.body["status"], "ok");
    for path in ["/health/detailed", "/v1/models", "/api/sessions", "/api/sessions/x/messages"] {
        let refused = gateway.get_without_key(path).await;
        assert_eq!(refused.status, 401, "{path}");
        assert_eq!(refused.body["error"]["code"], "invalid_api_key");
    }
    for key in ["", "wrong", "9f86d081884c7d659a2feaa0c55ad01", "9f86d081884c7d659a2feaa0c55ad0155"]
    {
        let request = reqwest::Client::new().get(gateway.url("/v1/models")).bearer_auth(key);
        assert_eq!(answer(request).await.status, 401, "{key}");
    }
    assert_eq!(gateway.get("/v1/models").await.body["data"][0]["id"], "vestal-agent");
    let detailed = gateway.get("/health/detailed").await.body;
    assert_eq!(
        (&detailed["status"], &detailed["gateway_state"]),
        (&json!("ok"), &json!("running"))
    );
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn runs_beyond_the_limit_are_refused_with_the_time_to_retry() {
    let held =
        Script::replies([ScriptedReply::text("slow").hold_after(0), ScriptedReply::text("next")]);
    let gateway = TestGateway::start_with(held, &["api_server.max_concurrent_runs=1"]).await;
    let body = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let first = tokio::spawn(answer(gateway.post("/v1/chat/completions", &body)));
    gateway.model.wait_for_requests(1).await;
    let refused = gateway.ask("me too", None).await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("2")),
        "{}",
        refused.body
    );
    gateway.model.release();
    assert_eq!(first.await.unwrap().text(), "slow");
    assert_eq!(gateway.ask("now", None).await.text(), "next");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_client_that_leaves_interrupts_its_turn() {
    let gateway =
        TestGateway::start(Script::replies([ScriptedReply::text("never read").hold_after(0)]))
            .await;
    let body = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let request = tokio::spawn(gateway.post("/v1/chat/completions", &body).send());
    gateway.model.wait_for_requests(1).await;
    request.abort();
    // The provider sees its connection close: nobody goes on paying for an answer.
    gateway.model.wait_for_hangups(1).await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_in_the_envelope() {
    let gateway = TestGateway::start(echo()).await;
    let user = json!([{ "role": "user", "content": "x" }]);
    let cases = [
        (json!({ "messages": [] }), 400),
        (json!({ "messages": [{ "role": "assistant", "content": "x" }] }), 400),
        (json!({ "messages": [{ "role": "king", "content": "x" }] }), 400),
        (json!({ "messages": user, "n": 2 }), 400),
        (json!({ "messages": user, "tools": [{ "type": "function" }] }), 400),
        (json!({ "messages": user, "response_format": { "type": "json_object" } }), 400),
        (json!({ "messages": 7 }), 422),
        (json!("words"), 422),
    ];
    for (body, status) in cases {
        let refused = answer(gateway.post("/v1/chat/completions", &body)).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
        assert!(refused.body["error"]["message"].is_string(), "{}", refused.body);
    }
    assert_eq!(gateway.ask("x", Some("20261115-103001-k3f9ab")).await.status, 404);
    assert_eq!(gateway.get("/nowhere").await.status, 404);
    assert_eq!(gateway.get("/v1/chat/completions").await.status, 405);
    assert_eq!(gateway.model.requests().len(), 0);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_session_can_be_listed_shown_and_deleted() {
    let gateway = TestGateway::start(echo()).await;
    let asked = gateway.ask("keep this", None).await;
    let session = asked.header("x-vestal-session-id").unwrap();
    let listed = gateway.get("/api/sessions").await.body;
    assert_eq!(listed["data"][0]["id"], session);
    let shown = gateway.get(&format!("/api/sessions/{session}")).await.body;
    assert_eq!((&shown["source"], &shown["messages"]), (&json!("api_server"), &json!(2)));
    assert_eq!(gateway.delete(&format!("/api/sessions/{session}")).await.body["deleted"], true);
    assert_eq!(gateway.get(&format!("/api/sessions/{session}")).await.status, 404);
    assert_eq!(gateway.delete(&format!("/api/sessions/{session}")).await.status, 404);
    gateway.end(ShutdownCause::Planned).await;
}

#[test]
fn a_misspelt_setting_of_the_api_server_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let settings = |text: &str| {
        std::fs::write(home.path().join("config.yaml"), text).unwrap();
        GatewaySettings::new(&crate::support::settings(home.path(), &[]))
    };
    let key = "key: 9f86d081884c7d659a2feaa0c55ad015";
    assert!(settings(&format!("api_server: {{enabled: true, {key}}}")).unwrap().is_ok());
    for wrong in ["hots: 127.0.0.1", "prot: 1", "cors_origin: https://a.example", "enabeld: true"] {
        let text = format!("api_server: {{enabled: true, {key}, {wrong}}}");
        assert!(settings(&text).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_reported_in_words_that_name_the_member() {
    let gateway = TestGateway::start(echo()).await;
    for (path, body, param, message) in [
        ("/v1/runs", json!({}), json!("input"), "the member input is missing"),
        (
            "/v1/runs",
            json!({ "input": 7 }),
            json!("input"),
            "input must be text, or a list of items",
        ),
        (
            "/v1/chat/completions",
            json!({ "messages": [{ "role": "user", "content": 7 }] }),
            json!("messages[0].content"),
            "messages[0].content must be text, or a list of parts that each have a type",
        ),
        (
            "/v1/chat/completions",
            json!({ "messages": [], "n": "two" }),
            json!("n"),
            "n must be a whole number that is not negative, not string \"two\"",
        ),
        (
            "/api/sandboxes/lab/run",
            json!({ "command": "true", "time_out": 1 }),
            json!("time_out"),
            "there is no member time_out; known are command, argv, workdir, timeout_seconds, session, background, stdin, env, image, backend",
        ),
        ("/v1/runs", json!([]), Value::Null, "the body must be an object"),
    ] {
        let refused = gateway.say(path, body).await;
        let error = &refused.body["error"];
        assert_eq!((refused.status, &error["param"]), (422, &param), "{}", refused.body);
        assert_eq!(error["message"], message);
    }
    let query = gateway.get("/v1/runs?limit=many").await;
    assert_eq!((query.status, &query.body["error"]["param"]), (400, &json!("limit")));
    let broken = gateway.request("POST", "/v1/runs").header("content-type", "application/json");
    let broken = answer(broken.body("{\"input\": ")).await;
    assert_eq!(broken.status, 400);
    assert_eq!(broken.body["error"]["message"], "the body is not JSON: line 1, column 10");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn schedules_that_cannot_be_used_are_reported_everywhere_in_the_same_words() {
    let home = tempfile::tempdir().unwrap();
    let file = vestal_schedules::store_path(home.path());
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "no database").unwrap();
    let model = vestal_scripted_model::ScriptedModel::start(Script::replies([]));
    let gateway = TestGateway::restart(home, model).await;
    let refused = gateway.get("/api/jobs").await;
    assert_eq!(
        (refused.status, &refused.body["error"]["code"]),
        (503, &json!("schedules_unavailable")),
        "{}",
        refused.body
    );
    let health = crate::support::found("the part has failed", async || {
        let health = gateway.get("/health/detailed").await.body;
        (health["platforms"]["schedules"]["state"] == "failed").then_some(health)
    })
    .await;
    let state = vestal_gateway::read_state(gateway.home.path()).unwrap().unwrap();
    assert_eq!(state.gateway_state, vestal_gateway::GatewayPhase::Degraded);
    assert_eq!(
        (&health["status"], &health["gateway_state"]),
        (&json!("degraded"), &json!("degraded"))
    );
    gateway.end(ShutdownCause::Planned).await;
}
