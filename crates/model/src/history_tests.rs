use super::*;
use crate::message::FinishReason;

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn assistant_message(calls: Vec<ToolCall>) -> Message {
    let message = AssistantMessage { calls, finish: FinishReason::ToolCalls, ..Default::default() };
    Message::Assistant(message)
}

fn result(call: &str, content: &str) -> Message {
    Message::Tool(ToolResult {
        call: call.to_owned(),
        name: "t".to_owned(),
        content: content.to_owned(),
        ..ToolResult::default()
    })
}

/// Returns the conversation as text: who speaks and, for calls, what they came to.
fn outline(messages: &[Message], rule: IdRule) -> Vec<String> {
    let mut lines = Vec::new();
    for turn in turns(messages, rule) {
        match turn {
            HistoryTurn::User(message) => lines.push(format!("user {}", message.text())),
            HistoryTurn::Assistant { calls, .. } => {
                lines.push("assistant".to_owned());
                lines.extend(calls.iter().map(|call| {
                    let content = if call.content == INTERRUPTED { "?" } else { call.content };
                    format!(
                        "{} {} {} = {content} {}",
                        call.id, call.name, call.arguments, call.is_error
                    )
                }));
            }
        }
    }
    lines
}

#[test]
fn every_call_has_its_result_behind_it_and_no_result_lacks_its_call() {
    let messages = [
        result("lost", "whose call was cut off"),
        Message::user("go"),
        assistant_message(vec![call("a", "t", "{}"), call("b", "t", "{}"), call("c", "t", "{}")]),
        result("c", "C"),
        Message::user("steer"),
        result("a", "A"),
        result("a", "A again"),
        assistant_message(vec![call("d", "t", "{}")]),
    ];
    let wanted = [
        "user go",
        "assistant",
        "a t {} = A false",
        "b t {} = ? true",
        "c t {} = C false",
        "user steer",
        "assistant",
        "d t {} = ? true",
    ];
    assert_eq!(outline(&messages, IdRule::Any), wanted);
}

#[test]
fn ids_are_what_the_api_takes_and_unique_and_results_follow_them() {
    let messages = [
        assistant_message(vec![
            call("a.b", "t", "{}"),
            call("a:b", "t", "{}"),
            call("", "t", "{}"),
        ]),
        result("a:b", "second"),
        result("a.b", "first"),
        result("", "third"),
        assistant_message(vec![call("a_b", "t", "{}")]),
        result("a_b", "fourth"),
    ];
    let wanted = [
        "assistant",
        "a_b t {} = first false",
        "a_b_2 t {} = second false",
        "call t {} = third false",
        "assistant",
        "a_b_3 t {} = fourth false",
    ];
    assert_eq!(outline(&messages, IdRule::Word), wanted);
    assert_eq!(outline(&messages[..1], IdRule::Any)[1], "a.b t {} = ? true");
}

#[test]
fn two_calls_of_one_id_get_a_result_each() {
    let messages = [
        assistant_message(vec![call("x", "t", "{}"), call("x", "t", "{}")]),
        result("x", "one"),
        result("x", "two"),
    ];
    let wanted = ["assistant", "x t {} = one false", "x_2 t {} = two false"];
    assert_eq!(outline(&messages, IdRule::Any), wanted);
}

#[test]
fn arguments_are_an_object_whatever_the_model_wrote() {
    let cases = [
        ("", "{}"),
        ("  ", "{}"),
        (" {\"b\":1, \"a\":2} ", "{\"b\":1, \"a\":2}"),
        ("{\"a\":", r#"{"unreadable_arguments":"{\"a\":"}"#),
        ("[1]", r#"{"unreadable_arguments":"[1]"}"#),
        ("\"x\"", r#"{"unreadable_arguments":"\"x\""}"#),
        ("{} {}", r#"{"unreadable_arguments":"{} {}"}"#),
    ];
    for (written, wanted) in cases {
        assert_eq!(arguments(written), wanted, "{written}");
    }
}

#[test]
fn names_are_what_every_api_takes() {
    assert_eq!(tool_name("read_file"), "read_file");
    assert_eq!(tool_name("functions.read file"), "functions_read_file");
    assert_eq!(tool_name(""), "unknown");
    assert_eq!(tool_name(&"é".repeat(100)), "_".repeat(64));
}
