use serde_json::json;
use vestal_conversations::{New, NewMessage, Title};
use vestal_model::{AssistantMessage, Message, ToolCall, ToolResult};

use super::*;
use crate::testing::{CURRENT, KEY, MemoryFixture};

const OLD: &str = "20261001-090000-aaaaaa";
const OLDER: &str = "20260901-090000-bbbbbb";

fn answer(text: &str) -> NewMessage {
    let message = AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
    NewMessage::new(Message::Assistant(message))
}

fn user(text: &str) -> NewMessage {
    NewMessage::new(Message::user(text))
}

async fn converse(stage: &MemoryFixture, id: &str, title: &str, dialogue: &[NewMessage]) {
    let new = New {
        id: Some(id.parse().unwrap()),
        title: Some(Title::Given(title.to_owned())),
        source: "cli".to_owned(),
        ..New::default()
    };
    let conversation = stage.store.create(new).await.unwrap();
    stage.store.append(&conversation.id, dialogue).await.unwrap();
}

/// Returns a stage with two past conversations and the current one.
async fn stage() -> (MemoryFixture, SessionSearch) {
    let stage = MemoryFixture::new().await;
    let call = AssistantMessage {
        calls: vec![ToolCall {
            id: "c1".to_owned(),
            name: "terminal".to_owned(),
            arguments: json!({"command": "make deploy"}).to_string(),
        }],
        ..AssistantMessage::default()
    };
    let result = ToolResult {
        call: "c1".to_owned(),
        name: "terminal".to_owned(),
        content: format!("deployed the walrus service; {}", "y".repeat(20_000)),
        ..ToolResult::default()
    };
    converse(
        &stage,
        OLDER,
        "Deploy it",
        &[
            user("please deploy the walrus service"),
            NewMessage::new(Message::Assistant(call)),
            NewMessage::new(Message::Tool(result)),
            answer("The walrus is up."),
        ],
    )
    .await;
    converse(&stage, OLD, "Names", &[user("name my penguin"), answer("Call it Pingu.")]).await;
    let many: Vec<_> = (0..50).map(|n| user(&format!("walrus {n}"))).collect();
    converse(&stage, CURRENT, "Now", &many).await;
    let tool = SessionSearch::new(stage.store.clone());
    (stage, tool)
}

fn found(output: &Value) -> Vec<&str> {
    let results = output["results"].as_array().unwrap();
    results.iter().map(|result| result["conversation"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn words_are_found_by_conversation_and_the_current_one_is_left_out() {
    let (stage, tool) = stage().await;
    let (output, failed) = stage.call(&tool, json!({"query": "walrus"})).await;
    assert!(!failed);
    assert_eq!(found(&output), [OLDER]);
    let result = &output["results"][0];
    assert_eq!((&result["title"], &result["source"]), (&json!("Deploy it"), &json!("cli")));
    let matches = result["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 3);
    let numbers: Vec<i64> = matches.iter().map(|hit| hit["message"].as_i64().unwrap()).collect();
    assert!([1, 3, 4].iter().all(|number| numbers.contains(number)), "{output}");
    assert!(matches.iter().all(|hit| hit["text"].as_str().unwrap().contains("**walrus**")));
    let (output, _) =
        stage.call(&tool, json!({"query": "walrus", "conversation": "current"})).await;
    assert_eq!(found(&output), [CURRENT]);
    assert_eq!(output["results"][0]["matches"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn where_no_message_has_all_the_words_those_with_some_are_found() {
    let (stage, tool) = stage().await;
    let (output, _) = stage.call(&tool, json!({"query": "what name did my penguin get"})).await;
    assert_eq!(found(&output)[0], OLD, "{output}");
    assert!(output["note"].as_str().unwrap().contains("some of them"), "{output}");
    let (output, failed) = stage.call(&tool, json!({"query": "zebra crossing"})).await;
    assert!(!failed);
    assert_eq!(found(&output), [""; 0]);
    assert!(output["note"].as_str().unwrap().contains("nothing was found"), "{output}");
}

#[tokio::test]
async fn messages_around_a_message_are_read_within_bounds() {
    let (stage, tool) = stage().await;
    let (output, failed) =
        stage.call(&tool, json!({"conversation": OLDER, "message": 3, "around": 1})).await;
    assert!(!failed, "{output}");
    let messages = output["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["assistant", "tool", "assistant"]);
    assert_eq!((&output["before"], &output["after"]), (&json!(1), &json!(0)));
    let call = messages[0]["text"].as_str().unwrap();
    assert!(call.contains("terminal") && call.contains("make deploy"), "{call}");
    let result = messages[1]["text"].as_str().unwrap();
    assert!(result.contains("deployed the walrus") && result.contains("more characters"));
    assert!(output.to_string().len() < 10_000);
    // By title, and from the beginning.
    let (output, _) = stage.call(&tool, json!({"conversation": "names"})).await;
    assert_eq!(output["messages"][1]["text"], "Call it Pingu.", "{output}");
    let all = json!({"conversation": CURRENT, "message": "25", "around": 99});
    let (output, _) = stage.call(&tool, all).await;
    assert_eq!(output["messages"].as_array().unwrap().len(), 2 * MOST_AROUND);
}

#[tokio::test]
async fn without_words_the_most_recent_conversations_are_listed() {
    let (stage, tool) = stage().await;
    let (output, _) = stage.call(&tool, json!({})).await;
    assert_eq!(found(&output), [OLD, OLDER]);
    assert_eq!(output["results"][0]["began"], "name my penguin");
    let (output, _) = stage.call(&tool, json!({"limit": 1, "query": "  "})).await;
    assert_eq!(found(&output), [OLD]);
}

#[tokio::test]
async fn what_makes_no_sense_is_answered_and_what_is_secret_is_masked() {
    let (stage, tool) = stage().await;
    for (arguments, says) in [
        (json!({"conversation": "nobody knows"}), "no conversation"),
        (json!({"conversation": OLD, "message": 99}), "no message 99"),
        (json!({"message": 1}), "needs the `conversation`"),
        (json!({"query": "x", "limit": 0}), "at least 1"),
        (json!([1]), "must be an object"),
    ] {
        let (output, failed) = stage.call(&tool, arguments.clone()).await;
        assert!(failed, "{arguments}");
        assert!(output["error"].as_str().unwrap().contains(says), "{arguments}: {output}");
    }
    for odd in ["\"", "NEAR(", "*", "'; DROP TABLE words; --", "a\0b", "\u{1f600}"] {
        let (_, failed) = stage.call(&tool, json!({"query": odd})).await;
        assert!(!failed, "{odd}");
    }
    // Stored before it was known to be a secret.
    let dialogue = [user(&format!("the giraffe key is {KEY} indeed"))];
    converse(&stage, "20261002-090000-cccccc", "Keys", &dialogue).await;
    for arguments in [json!({"query": "giraffe"}), json!({"conversation": "Keys"}), json!({})] {
        let (output, _) = stage.call(&tool, arguments).await;
        assert!(
            output.to_string().contains("giraffe") && !output.to_string().contains(KEY),
            "{output}"
        );
    }
}

#[tokio::test]
async fn what_a_summary_says_is_found_and_read_on_from() {
    let (stage, tool) = stage().await;
    let id = OLDER.parse().unwrap();
    stage.store.compact(&id, Seq(2), &[user("they wanted an ocelot")]).await.unwrap();
    stage
        .store
        .append(&id, &[NewMessage::note(Message::user("the ocelot is a note"))])
        .await
        .unwrap();
    let (output, _) = stage.call(&tool, json!({"query": "ocelot"})).await;
    let matches = output["results"][0]["matches"].as_array().unwrap();
    for (hit, role) in [(5, "summary"), (6, "note")] {
        let found = matches.iter().find(|own| own["message"] == hit).unwrap();
        assert_eq!(found["role"], role, "{output}");
        let (output, failed) =
            stage.call(&tool, json!({"conversation": OLDER, "message": hit, "around": 0})).await;
        assert!(!failed, "{output}");
        assert_eq!(output["messages"][0]["role"], role, "{output}");
    }
    // A branch has nothing else of what was summed up.
    let branch = stage.store.branch(&id, None, None).await.unwrap().id;
    let (output, _) = stage.call(&tool, json!({"conversation": branch})).await;
    assert_eq!(output["messages"][0]["text"], "they wanted an ocelot", "{output}");
}

#[tokio::test]
async fn one_long_conversation_hides_no_other() {
    let (stage, tool) = stage().await;
    let many: Vec<_> = (0..100).map(|_| user("penguin penguin")).collect();
    converse(&stage, "20261003-090000-dddddd", "Penguins", &many).await;
    let (output, _) = stage.call(&tool, json!({"query": "penguin"})).await;
    assert_eq!(found(&output), ["20261003-090000-dddddd", OLD], "{output}");
    assert_eq!(output["results"][0]["more_matches"], true);
}

#[tokio::test]
async fn an_answer_is_bounded_whatever_was_asked() {
    let (stage, tool) = stage().await;
    let long = "walrus ".repeat(100_000);
    for arguments in [json!({"query": long}), json!({"conversation": long})] {
        let (output, _) = stage.call(&tool, arguments).await;
        assert!(output.to_string().len() < 10_000, "{}", output.to_string().len());
    }
}

#[tokio::test]
async fn no_part_of_a_secret_is_shown_by_marking_or_cutting_it() {
    let (stage, tool) = stage().await;
    let call = AssistantMessage {
        calls: vec![ToolCall {
            id: "c1".to_owned(),
            name: "terminal".to_owned(),
            arguments: json!({"command": format!("{} {KEY}", "x".repeat(165))}).to_string(),
        }],
        ..AssistantMessage::default()
    };
    // Cut off after 1200 characters of a message, 200 of a call, 80 before a find.
    let dialogue = [
        user(&format!("the giraffe key is {KEY} indeed")),
        user(&format!("{}{KEY}", "y ".repeat(590))),
        NewMessage::new(Message::Assistant(call)),
        user(&format!("{KEY} {} okapi", "z".repeat(60))),
    ];
    converse(&stage, "20261002-090000-cccccc", "Keys", &dialogue).await;
    for arguments in [
        json!({"query": "hunter2"}),
        json!({"query": "giraffe lon"}),
        json!({"query": "okapi"}),
        json!({"conversation": "Keys"}),
        json!({"conversation": "Keys", "message": 3}),
    ] {
        let (output, failed) = stage.call(&tool, arguments.clone()).await;
        let output = output.to_string();
        assert!(!failed, "{output}");
        let middle = &KEY[8..KEY.len() - 6];
        for part in middle.split('-').filter(|part| part.len() > 3) {
            assert!(!output.contains(part), "{arguments}: {part} in {output}");
        }
    }
}
