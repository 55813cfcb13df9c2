//! What a model says arrives whole, in both shapes.

use serde_json::json;
use vestal_model::{
    Cost, CostSource, FinishReason, Message, ModelPrices, ModelRequest, ProviderApi, TokenUsage,
    ToolResult, ToolSpec,
};
use vestal_scripted_model::{self as scripted, Quirk, ScriptedReply, ScriptedToolCall};

use crate::support::{APIS, KEY, ask, ask_with, endpoint, label, models, server};

fn tool_spec() -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    ToolSpec { name: "terminal".to_owned(), description: "runs".to_owned(), parameters }
}

#[tokio::test]
async fn words_arrive_in_order_with_usage_and_cost() {
    for api in APIS {
        let usage =
            scripted::BilledUsage { input: 100, output: 10, cache_read: 50, ..Default::default() };
        let reply = ScriptedReply::text("one two").with_reasoning("hm").chunked(4).usage(usage);
        let server = server([reply]);
        let mut endpoint = endpoint(api, &server.base_url());
        endpoint.prices =
            Some(ModelPrices { input: 1.0, output: 2.0, cache_read: Some(0.1), cache_write: None });
        let outcome = ask(&models(), vec![endpoint]).await;
        assert_eq!(outcome.story(), ["reasoning hm", "text one ", "text two"], "{}", label(api));
        let completion = outcome.result.unwrap();
        assert_eq!(completion.message.text, "one two");
        assert_eq!(completion.message.reasoning[0].text, "hm");
        assert_eq!(completion.message.finish, FinishReason::Stop);
        let wanted = TokenUsage { input: 100, output: 10, cache_read: 50, ..TokenUsage::default() };
        assert_eq!(completion.usage, wanted, "{}", label(api));
        let cost = Cost::Known { micro_usd: 125, source: CostSource::Prices };
        assert_eq!(completion.cost, cost, "{}", label(api));
        assert_eq!((&*completion.provider, &*completion.model), ("scripted", "scripted-1"));
    }
}

#[tokio::test]
async fn each_api_is_asked_as_it_wants_to_be() {
    for api in APIS {
        let server = server([ScriptedReply::text("ok")]);
        let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
        assert_eq!(outcome.text(), "ok");
        let request = &server.requests()[0];
        let (path, header, value) = match api {
            ProviderApi::ChatCompletions => {
                ("/v1/chat/completions", "authorization", format!("Bearer {KEY}"))
            }
            ProviderApi::AnthropicMessages => ("/v1/messages", "x-api-key", KEY.to_owned()),
            ProviderApi::Responses => ("/v1/responses", "authorization", format!("Bearer {KEY}")),
        };
        assert_eq!(request.path, path);
        assert_eq!(request.header(header), Some(value.as_str()));
        assert_eq!(request.body["stream"], true);
        assert!(request.header("user-agent").unwrap().starts_with("vestal/"));
        if api == ProviderApi::AnthropicMessages {
            assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
            assert_eq!(request.header("authorization"), None);
        }
    }
}

#[tokio::test]
async fn parallel_calls_arrive_whole_and_malformed_arguments_as_written() {
    for api in APIS {
        let server = server([ScriptedReply::tool_calls([
            ScriptedToolCall::new("terminal", json!({"command": "a long one, in many pieces"}))
                .id("c1"),
            ScriptedToolCall::new("terminal", "{\"command\": \"oo").id("c2"),
            ScriptedToolCall::new("other", json!({})).id("c3"),
        ])
        .with_text("let me see")]);
        let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
        let story = outcome.story();
        assert_eq!(story.iter().filter(|line| line.starts_with("call ")).count(), 3, "{story:?}");
        let message = outcome.result.unwrap().message;
        let calls: Vec<_> =
            message.calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
        let wanted = [
            ("c1", "terminal", "{\"command\":\"a long one, in many pieces\"}"),
            ("c2", "terminal", "{\"command\": \"oo"),
            ("c3", "other", "{}"),
        ];
        assert_eq!(calls, wanted, "{}", label(api));
        assert_eq!(message.finish, FinishReason::ToolCalls);
    }
}

#[tokio::test]
async fn calls_arrive_whole_from_servers_with_ideas_of_their_own() {
    let quirks = [
        vec![Quirk::NoIndex],
        vec![Quirk::NoId],
        vec![Quirk::NoIndex, Quirk::NoId],
        vec![Quirk::SplitNames],
        vec![Quirk::CumulativeNames],
        vec![Quirk::RepeatedNames],
        vec![Quirk::ObjectArguments],
        vec![Quirk::NoUsage, Quirk::NoDone, Quirk::Crlf, Quirk::Comments],
    ];
    for quirks in quirks {
        let calls = [
            ScriptedToolCall::new("terminal", json!({"command": "first, in several pieces"})),
            ScriptedToolCall::new("terminal", json!({"command": "second, in several pieces"})),
        ];
        let reply = quirks
            .iter()
            .fold(ScriptedReply::tool_calls(calls), |reply, quirk| reply.quirk(*quirk));
        let server = server([reply]);
        let outcome =
            ask(&models(), vec![endpoint(ProviderApi::ChatCompletions, &server.base_url())]).await;
        let message = outcome.result.unwrap_or_else(|error| panic!("{quirks:?}: {error}")).message;
        let calls: Vec<_> =
            message.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
        let wanted = [
            ("terminal", "{\"command\":\"first, in several pieces\"}"),
            ("terminal", "{\"command\":\"second, in several pieces\"}"),
        ];
        assert_eq!(calls, wanted, "{quirks:?}");
        assert!(!message.calls[0].id.is_empty() && message.calls[0].id != message.calls[1].id);
    }
}

#[tokio::test]
async fn a_conversation_goes_on_after_calls_also_after_cut_and_malformed_ones() {
    for api in APIS {
        let calls = [
            ScriptedToolCall::new("terminal", json!({"command": "x"})).id("c.1"),
            ScriptedToolCall::new("terminal", "{oops").id("c.2"),
            ScriptedToolCall::new("no such tool!", json!({})).id("c.3"),
        ];
        let first = ScriptedReply::tool_calls(calls).with_reasoning("hm").with_signature("sig");
        let server = server([first, ScriptedReply::text("done")]);
        let models = models();
        let chat = models.chat(vec![endpoint(api, &server.base_url())]);
        let tools = [tool_spec()];
        let mut messages = vec![Message::user("go")];
        let request = ModelRequest {
            system: "be",
            messages: &messages,
            tools: &tools,
            ..ModelRequest::default()
        };
        let first = ask_with(&chat, &request).await.result.unwrap();
        messages.push(Message::Assistant(first.message));
        // The other two were cut off: there is no result of theirs.
        messages.push(Message::Tool(ToolResult {
            call: "c.1".to_owned(),
            name: "terminal".to_owned(),
            content: "lantern".to_owned(),
            ..ToolResult::default()
        }));
        let request = ModelRequest {
            system: "be",
            messages: &messages,
            tools: &tools,
            ..ModelRequest::default()
        };
        let second = ask_with(&chat, &request).await;
        assert_eq!(second.text(), "done", "{}", label(api));
        let asked = &server.requests()[1];
        let results = asked.last_tool_results();
        assert_eq!(results.len(), 3, "{}", label(api));
        assert_eq!(results[0], "lantern");
        assert!(results[1].contains("interrupted") && results[2].contains("interrupted"));
        let from_end = match api {
            ProviderApi::ChatCompletions => 4,
            ProviderApi::AnthropicMessages => 2,
            ProviderApi::Responses => 7,
        };
        let dialogue = &asked.messages()[asked.messages().len() - from_end];
        let thought = match api {
            ProviderApi::ChatCompletions => &dialogue["reasoning_content"],
            ProviderApi::AnthropicMessages => &dialogue["content"][0],
            ProviderApi::Responses => dialogue,
        };
        let wanted = match api {
            ProviderApi::ChatCompletions => json!("hm"),
            ProviderApi::AnthropicMessages => {
                json!({"type": "thinking", "thinking": "hm", "signature": "sig"})
            }
            ProviderApi::Responses => json!({
                "type": "reasoning", "id": "rs_1_0", "encrypted_content": "sig",
                "summary": [{"type": "summary_text", "text": "hm"}],
            }),
        };
        assert_eq!(*thought, wanted);
    }
}

#[tokio::test]
async fn a_refusal_and_a_full_page_are_distinguished_from_an_end() {
    for api in APIS {
        for (dialogue, wanted) in [
            (scripted::ScriptedFinish::Refusal, FinishReason::Refused),
            (scripted::ScriptedFinish::Length, FinishReason::Length),
            (scripted::ScriptedFinish::Stop, FinishReason::Stop),
        ] {
            let server = server([ScriptedReply::text("so far").finish(dialogue)]);
            let outcome = ask(&models(), vec![endpoint(api, &server.base_url())]).await;
            assert_eq!(outcome.result.unwrap().message.finish, wanted, "{}", label(api));
        }
    }
}

#[tokio::test]
async fn without_a_count_a_cost_is_unknown_and_not_nothing() {
    for api in APIS {
        let server = server([ScriptedReply::text("ok").quirk(Quirk::NoUsage)]);
        let mut endpoint = endpoint(api, &server.base_url());
        endpoint.prices =
            Some(ModelPrices { input: 1.0, output: 1.0, cache_read: None, cache_write: None });
        let completion = ask(&models(), vec![endpoint]).await.result.unwrap();
        assert_eq!(completion.cost, Cost::Unknown, "{}", label(api));
        assert_eq!(completion.usage, TokenUsage::default());
    }
}
