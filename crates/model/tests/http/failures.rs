//! A failed call is a failure, is tried again where that may help, and never
//! shows the key.

use std::time::{Duration, Instant};

use serde_json::json;
use vestal_model::{AnswerProgress, ModelError, ModelOptions, Models, ProviderApi};
use vestal_scripted_model::{Quirk, ScriptedReply};

use crate::support::{APIS, KEY, ask, assert_keyless, endpoint, label, models, options, server};

#[tokio::test]
async fn what_cannot_succeed_fails_at_once() {
    for api in APIS {
        for (status, code) in [
            (400, "bad_request"),
            (401, "authentication"),
            (402, "quota"),
            (403, "authentication"),
            (404, "not_found"),
        ] {
            let server = server([ScriptedReply::error(status, format!("no, {KEY} is not taken"))]);
            let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
            let error = outcome.error();
            assert_eq!(error.code(), code, "{}: {error}", label(api));
            let detail = error.detail().unwrap();
            assert_eq!((detail.status, detail.attempts), (Some(status), 1));
            assert_eq!(detail.message, "no, *** is not taken");
            assert_eq!((&*detail.provider, &*detail.model), ("scripted", "scripted-1"));
            assert_keyless(error);
            assert_eq!(server.requests().len(), 1);
            assert!(outcome.reported.is_empty());
        }
    }
}

#[tokio::test]
async fn transient_failures_are_retried_and_reported() {
    for api in APIS {
        for status in [408, 409, 425, 429, 500, 502, 503, 529] {
            let server = server([
                ScriptedReply::error(status, "not now"),
                ScriptedReply::error(status, "not now"),
                ScriptedReply::text("now"),
            ]);
            let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
            assert_eq!(outcome.text(), "now", "{} {status}", label(api));
            assert_eq!(outcome.story(), ["retrying 2", "retrying 3", "text now"]);
        }
    }
}

#[tokio::test]
async fn after_the_last_attempt_the_failure_is_returned_with_their_number() {
    let server = server((0..4).map(|_| ScriptedReply::error(500, "broken")));
    let outcome =
        ask(&models(), vec![endpoint(ProviderApi::ChatCompletions, &server.base_url())]).await;
    let error = outcome.error();
    assert_eq!(error.code(), "server");
    assert_eq!(
        error.to_string(),
        "scripted (model scripted-1) failed (HTTP 500, 4 attempts): broken"
    );
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_model_that_is_being_loaded_is_waited_for() {
    let loading = (0..7).map(|_| ScriptedReply::error(503, "Loading model"));
    let server = server(loading.chain([ScriptedReply::text("ready")]));
    let outcome =
        ask(&models(), vec![endpoint(ProviderApi::ChatCompletions, &server.base_url())]).await;
    assert_eq!(outcome.text(), "ready");
    let retries = (2..=8).map(|attempt| format!("retrying {attempt}"));
    assert_eq!(outcome.story(), retries.chain(["text ready".to_owned()]).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_wanted_pause_is_granted() {
    for api in APIS {
        let server = server([
            ScriptedReply::error(429, "slow down").header("retry-after-ms", "300"),
            ScriptedReply::text("ok"),
        ]);
        let started = Instant::now();
        let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
        assert_eq!(outcome.text(), "ok");
        assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
        let AnswerProgress::Retrying { after, .. } = outcome.reported[0] else {
            panic!("{:?}", outcome.reported)
        };
        assert!(after >= Duration::from_millis(300), "{after:?}");
    }
}

#[tokio::test]
async fn a_pause_beyond_the_cap_is_a_failure_that_says_so() {
    let server = server([ScriptedReply::error(429, "come back tomorrow").retry_after(3600)]);
    let outcome =
        ask(&models(), vec![endpoint(ProviderApi::ChatCompletions, &server.base_url())]).await;
    let error = outcome.error();
    assert_eq!(error.retry_after(), Some(Duration::from_hours(1)));
    assert!(error.to_string().contains("3600 s"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_cut_answer_is_void_and_tried_again() {
    for api in APIS {
        let server = server([
            ScriptedReply::text("half of it").chunked(5).cut_after(1),
            ScriptedReply::text("whole"),
        ]);
        let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
        assert_eq!(outcome.text(), "whole", "{}", label(api));
        let story = outcome.story();
        assert_eq!(story.last().map(String::as_str), Some("text whole"));
        assert!(story.contains(&"retrying 2".to_owned()), "{story:?}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_politely_but_unfinished_is_cut_all_the_same() {
    for api in APIS {
        let unfinished =
            || ScriptedReply::text("half of it").quirk(Quirk::NoFinish).quirk(Quirk::NoDone);
        let server = server((0..4).map(|_| unfinished()));
        let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
        assert_eq!(outcome.error().code(), "cut", "{}", label(api));
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn an_error_inside_of_a_stream_is_tried_again() {
    for api in APIS {
        let server = server([
            ScriptedReply::text("half of it").chunked(5).error_after(1, "overloaded"),
            ScriptedReply::text("whole"),
        ]);
        let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
        assert_eq!(outcome.text(), "whole", "{}", label(api));
    }
}

#[tokio::test]
async fn a_stalled_answer_times_out_and_is_tried_again() {
    for api in APIS {
        for stall in
            [ScriptedReply::stall(), ScriptedReply::text("half of it").chunked(5).stall_after(1)]
        {
            // More than one, since a busy machine may stall too.
            let server =
                server([stall].into_iter().chain((0..3).map(|_| ScriptedReply::text("whole"))));
            let models =
                Models::new(ModelOptions { idle_timeout: Duration::from_millis(500), ..options() })
                    .unwrap();
            let outcome = ask(&models, vec![endpoint(api, &server.base_url())]).await;
            assert_eq!(outcome.text(), "whole", "{}", label(api));
            let retrying = outcome.reported.iter().find_map(|progress| match progress {
                AnswerProgress::Retrying { reason, .. } => Some(reason),
                _ => None,
            });
            assert!(retrying.unwrap().contains("sent nothing for 1 s"), "{retrying:?}");
            server.wait_for_hangup().await;
        }
    }
}

#[tokio::test]
async fn garbage_is_a_failure_and_not_tried_again() {
    for api in APIS {
        let garbage = [
            ScriptedReply::garbage("data: {nonsense\n\n"),
            ScriptedReply::garbage("<html>hello</html>").header("content-type", "text/html"),
            ScriptedReply::garbage("[]").header("content-type", "application/json"),
        ];
        for reply in garbage {
            let server = server([reply]);
            let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
            assert_eq!(outcome.error().code(), "protocol", "{}: {}", label(api), outcome.error());
        }
    }
}

#[tokio::test]
async fn a_line_without_end_is_a_failure() {
    let mut line = b"data: ".to_vec();
    line.resize(17 << 20, b'x');
    let server = server([ScriptedReply::garbage(line)]);
    let outcome =
        ask(&models(), vec![endpoint(ProviderApi::ChatCompletions, &server.base_url())]).await;
    assert_eq!(outcome.error().code(), "protocol", "{}", outcome.error());
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let elsewhere = server([ScriptedReply::text("never")]);
    let location = format!("{}/chat/completions", elsewhere.base_url());
    let here = server([ScriptedReply::error(307, "moved").header("location", location)]);
    let outcome =
        ask(&models(), vec![endpoint(ProviderApi::ChatCompletions, &here.base_url())]).await;
    assert_eq!(outcome.error().code(), "protocol");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_unreachable_provider_is_reported_after_every_attempt() {
    // Bound and closed again: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let outcome = ask(
        &models(),
        vec![endpoint(ProviderApi::ChatCompletions, &format!("http://127.0.0.1:{port}/v1"))],
    )
    .await;
    let error = outcome.error();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!(outcome.story(), ["retrying 2", "retrying 3", "retrying 4"]);
    assert_keyless(error);
}

#[tokio::test]
async fn no_model_is_an_error_of_its_own() {
    let outcome = ask(&models(), vec![]).await;
    assert_eq!(outcome.error().code(), "not_configured");
}

#[tokio::test]
async fn a_key_no_header_can_carry_is_refused_and_not_shown() {
    let server = server([]);
    let mut endpoint = endpoint(ProviderApi::ChatCompletions, &server.base_url());
    let key = format!("{KEY}\nx");
    endpoint.key = Some(vestal_model::ApiKey::new(key));
    let outcome = ask(&models(), vec![endpoint]).await;
    assert_eq!(outcome.error().code(), "authentication");
    assert_keyless(outcome.error());
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_key_is_in_no_text_whatever_a_provider_repeats() {
    let bodies = [
        json!({"error": {"message": format!("Incorrect API key provided: {KEY}."), "code": KEY}}),
        json!({"error": KEY}),
        json!({"detail": [{"input": KEY}]}),
        json!(format!("plain {KEY}")),
        json!({"error": {"message": format!("{}{KEY}", "x".repeat(590))}}),
    ];
    for body in bodies {
        for status in [400, 401, 500] {
            let server = server((0..4).map(|_| ScriptedReply::error_body(status, body.clone())));
            let chain = vec![endpoint(ProviderApi::ChatCompletions, &server.base_url())];
            let models = models();
            let debug = format!("{:?} {models:?}", models.chat(chain.clone()));
            assert!(!debug.contains(KEY), "{debug}");
            let outcome = ask(&models, chain).await;
            assert_keyless(outcome.error());
            let reported = format!("{:?}", outcome.reported);
            assert!(!reported.contains(KEY) && !reported.contains("sk-never"), "{reported}");
        }
    }
}
