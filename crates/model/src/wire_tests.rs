use super::*;

mod wire {
    //! Whatever a history has been through, what is sent holds the rules of the API.

    use std::collections::HashSet;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::message::Image;
    use crate::message::{
        FinishReason, Message, Opaque, Part, Reasoning, ToolCall, ToolResult, UserMessage,
    };

    fn endpoint(api: ProviderApi) -> Endpoint {
        Endpoint {
            name: "there".to_owned(),
            api,
            base_url: "http://h/v1".to_owned(),
            key: None,
            model: "m".to_owned(),
            context_length: None,
            prices: None,
            reasoning: crate::effort::ReasoningOptions::AUTO,
        }
    }

    /// Few words, so that ids meet and collide.
    fn id() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["a", "b", "a.b", "a_b", "a b", "", "é", "call", "a_b_2"])
            .prop_map(str::to_owned)
    }

    fn words() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["", " ", "\n", "words", " more words \n"]).prop_map(str::to_owned)
    }

    fn call() -> impl Strategy<Value = ToolCall> {
        let name =
            prop::sample::select(vec!["t", "", "no such tool!", "é"]).prop_map(str::to_owned);
        let arguments = prop::sample::select(vec!["", "{}", "{\"a\":1}", "{\"a\":", "[]", "null"]);
        (id(), name, arguments.prop_map(str::to_owned)).prop_map(|(id, name, arguments)| ToolCall {
            id,
            name,
            arguments,
        })
    }

    fn thought() -> impl Strategy<Value = Reasoning> {
        let api = prop::sample::select(vec![
            ProviderApi::ChatCompletions,
            ProviderApi::AnthropicMessages,
        ]);
        let provider = prop::sample::select(vec!["there", "elsewhere"]).prop_map(str::to_owned);
        let value = prop::sample::select(vec![
            serde_json::json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
            serde_json::json!({"field": "reasoning_content"}),
            serde_json::json!("broken"),
        ]);
        let opaque = (api, provider, value);
        prop::option::of(opaque).prop_map(|opaque| Reasoning {
            text: "hm".to_owned(),
            opaque: opaque.map(|(api, provider, value)| Opaque { api, provider, value }),
        })
    }

    fn message() -> impl Strategy<Value = Message> {
        let image =
            Image { media_type: "image/png".to_owned(), data: "QUJD".to_owned(), optional: false };
        let part = prop_oneof![
            3 => words().prop_map(|text| Part::Text { text }),
            1 => Just(Part::Image(image)),
        ];
        let user = prop::collection::vec(part, 0..3)
            .prop_map(|parts| Message::User(UserMessage { parts }));
        let assistant =
            (words(), prop::collection::vec(thought(), 0..2), prop::collection::vec(call(), 0..4))
                .prop_map(|(text, reasoning, calls)| {
                    Message::Assistant(AssistantMessage {
                        text,
                        reasoning,
                        calls,
                        finish: FinishReason::Stop,
                    })
                });
        let tool = (id(), words(), any::<bool>()).prop_map(|(call, content, is_error)| {
            Message::Tool(ToolResult {
                call,
                name: "t".to_owned(),
                content,
                is_error,
                images: Vec::new(),
            })
        });
        prop_oneof![2 => user, 3 => assistant, 4 => tool]
    }

    fn sent(api: ProviderApi, messages: &[Message]) -> Value {
        let request = ModelRequest { system: "be", messages, ..ModelRequest::default() };
        let bytes = body(&endpoint(api), &request, Quirks::default()).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn list(value: &Value) -> &[Value] {
        value.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }

    fn is_word(text: &str) -> bool {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    }

    fn of_kind<'a>(entry: &'a Value, kind: &str, field: &str) -> Vec<&'a str> {
        let blocks = list(&entry["content"]).iter().filter(|block| block["type"] == kind);
        blocks.map(|block| text(&block[field])).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn chat_completions_get_a_result_for_each_call_and_a_call_for_each_result(
            messages in prop::collection::vec(message(), 0..12),
        ) {
            let body = sent(ProviderApi::ChatCompletions, &messages);
            let mut waiting: Vec<&str> = Vec::new();
            for entry in list(&body["messages"]) {
                if entry["role"] == "tool" {
                    prop_assert!(!waiting.is_empty(), "a result without a call: {body}");
                    prop_assert_eq!(text(&entry["tool_call_id"]), waiting.remove(0));
                    continue;
                }
                prop_assert!(waiting.is_empty(), "a call without a result: {body}");
                let calls = list(&entry["tool_calls"]);
                let reply = !text(&entry["content"]).is_empty() || !list(&entry["content"]).is_empty();
                prop_assert!(reply || !calls.is_empty(), "an empty message: {body}");
                for call in calls {
                    let arguments = text(&call["function"]["arguments"]);
                    let arguments: Result<Value, _> = serde_json::from_str(arguments);
                    prop_assert!(arguments.is_ok_and(|value| value.is_object()), "{call}");
                    prop_assert!(is_word(text(&call["function"]["name"])), "{call}");
                    waiting.push(text(&call["id"]));
                }
            }
            prop_assert!(waiting.is_empty(), "a call without a result: {body}");
        }

        #[test]
        fn anthropic_gets_alternating_roles_paired_calls_and_nothing_empty(
            messages in prop::collection::vec(message(), 0..12),
        ) {
            let body = sent(ProviderApi::AnthropicMessages, &messages);
            let entries = list(&body["messages"]);
            let mut seen = HashSet::new();
            let mut waiting: Vec<&str> = Vec::new();
            for (index, entry) in entries.iter().enumerate() {
                let role = if index % 2 == 0 { "user" } else { "assistant" };
                prop_assert_eq!(text(&entry["role"]), role, "roles: {}", body);
                let blocks = list(&entry["content"]);
                prop_assert!(!blocks.is_empty(), "an empty message: {body}");
                for block in blocks.iter().filter(|block| block["type"] == "text") {
                    prop_assert!(!text(&block["text"]).trim().is_empty(), "an empty text: {body}");
                }
                prop_assert_eq!(of_kind(entry, "tool_result", "tool_use_id"), waiting);
                let results = blocks.iter().rposition(|block| block["type"] == "tool_result");
                let others = blocks.iter().position(|block| block["type"] != "tool_result");
                if let (Some(last), Some(first)) = (results, others) {
                    prop_assert!(last < first, "words before results: {body}");
                }
                waiting = of_kind(entry, "tool_use", "id");
                for id in &waiting {
                    prop_assert!(is_word(id) && seen.insert(*id), "the id {id}: {body}");
                }
                for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
                    prop_assert!(block["input"].is_object() && is_word(text(&block["name"])));
                }
            }
            prop_assert!(waiting.is_empty(), "a call without a result: {body}");
            prop_assert!(entries.len() % 2 == 1 || entries.is_empty(), "no last word: {body}");
            let marks = body.to_string().matches("cache_control").count();
            prop_assert!(marks <= 4, "{marks} marks");
        }
    }
}

mod sse {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> Result<Vec<StreamEvent>, TooLong> {
        let mut parser = EventParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece, |event| {
                events.push(event);
                Ok::<(), TooLong>(())
            })?;
        }
        events.extend(parser.finish());
        Ok(events)
    }

    fn event(name: &str, data: &str) -> StreamEvent {
        StreamEvent { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_read_whatever_ends_their_lines() {
        let text = "\u{feff}: hello\nevent: a\ndata: 1\ndata:2\n\ndata: x\nid: 7\n\n\n";
        let wanted = Ok(vec![event("a", "1\n2"), event("", "x")]);
        assert_eq!(parse(&[text.as_bytes()]), wanted);
        assert_eq!(parse(&[text.replace('\n', "\r\n").as_bytes()]), wanted);
        assert_eq!(parse(&[text.replace('\n', "\r").as_bytes()]), wanted);
    }

    #[test]
    fn a_last_event_without_its_blank_line_is_read() {
        assert_eq!(parse(&[b"data: [DONE]"]), Ok(vec![event("", "[DONE]")]));
        assert_eq!(parse(&[b"data: [DONE]\n"]), Ok(vec![event("", "[DONE]")]));
    }

    #[test]
    fn a_line_or_an_event_without_end_is_refused() {
        let piece = vec![b'x'; 1 << 20];
        let mut pieces: Vec<&[u8]> = vec![b"data: "];
        pieces.extend(std::iter::repeat_n(piece.as_slice(), 17));
        assert_eq!(parse(&pieces), Err(TooLong));
        let mut line = b"data: ".to_vec();
        line.extend_from_slice(&piece);
        line.push(b'\n');
        let pieces: Vec<&[u8]> = std::iter::repeat_n(line.as_slice(), 17).collect();
        assert_eq!(parse(&pieces), Err(TooLong));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_split_of_the_bytes_gives_the_same_events(
            text in "((data|event|id|: c)?(: ?)?[a-zé€𝄞 :]{0,6}(\n|\r\n|\r)){0,24}[a-z:é]{0,4}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = text.as_bytes();
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut start = 0;
            let pieces: Vec<&[u8]> = ends
                .into_iter()
                .map(|end| {
                    let piece = &bytes[start..end];
                    start = end;
                    piece
                })
                .collect();
            prop_assert_eq!(parse(&pieces), parse(&[bytes]));
        }
    }
}
