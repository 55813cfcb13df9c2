//! From what is said to what is answered.

use serde_json::json;
use vestal_agent::{TurnEvent, TurnOutcome};
use vestal_conversations::MessageStanding;
use vestal_model::{Message, ProviderApi};
use vestal_scripted_model::{BilledUsage, Script, ScriptedFinish, ScriptedReply};

use crate::fixture::{TurnFixture, user_prompt};

#[tokio::test]
async fn an_answer_streams_and_is_stored_with_what_it_took() {
    for api in [ProviderApi::ChatCompletions, ProviderApi::AnthropicMessages] {
        let usage = BilledUsage { input: 100, output: 7, ..BilledUsage::default() };
        let reply = ScriptedReply::text("Hello, Ada.").chunked(3).usage(usage);
        let fixture = TurnFixture::speaking(api, Script::replies([reply]));
        let result = fixture.turn("hi").await;
        assert!(result.outcome.is_completed(), "{:?}", result.outcome);
        assert_eq!(result.text, "Hello, Ada.");
        assert_eq!((result.model_calls, result.tool_calls), (1, 0));
        assert_eq!((result.usage.prompt(), result.usage.output), (100, 7));
        let streamed: String = fixture.events().iter().filter_map(text).collect();
        assert_eq!(streamed, "Hello, Ada.");
        let agent = fixture.agent().await;
        let stored = agent.store().messages(&result.conversation).await.unwrap();
        let words: Vec<String> = stored.iter().map(|stored| stored.message.text()).collect();
        assert_eq!(words, ["hi", "Hello, Ada."]);
        let summary = agent.store().summary(&result.conversation).await.unwrap();
        assert_eq!(summary.conversation.title.as_deref(), Some("hi"));
        assert_eq!(summary.totals.usage.output, 7);
    }
}

fn text(event: &TurnEvent) -> Option<&str> {
    match event {
        TurnEvent::Text { text } => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn a_tool_is_called_and_its_result_answered() {
    for api in [ProviderApi::ChatCompletions, ProviderApi::AnthropicMessages] {
        let fixture = TurnFixture::speaking(
            api,
            Script::replies([
                ScriptedReply::tool_call("terminal", json!({"command": "echo $((6*7))"}))
                    .with_text("Let me see."),
                ScriptedReply::text("It is 42."),
            ]),
        );
        let result = fixture.turn("what is 6*7?").await;
        assert!(result.outcome.is_completed(), "{:?}", result.outcome);
        assert_eq!(result.text, "It is 42.");
        assert_eq!((result.model_calls, result.tool_calls), (2, 1));
        let requests = fixture.model.requests();
        let results = requests[1].tool_results();
        assert!(results[0].contains("42"), "{results:?}");
        let ended = fixture.events().into_iter().any(|event| {
            matches!(event, TurnEvent::ToolEnded { name, is_error: false, .. } if name == "terminal")
        });
        assert!(ended);
    }
}

#[tokio::test]
async fn a_cut_off_answer_is_gone_on_with_and_joined() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text("one, two, ").finish(ScriptedFinish::Length),
        ScriptedReply::text("three."),
    ]));
    let result = fixture.turn("count").await;
    assert!(result.outcome.is_completed());
    assert_eq!(result.text, "one, two, three.");
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_again_and_never_taken_for_one() {
    let fixture =
        TurnFixture::new(Script::replies([ScriptedReply::text(""), ScriptedReply::text("here")]));
    assert_eq!(fixture.turn("hi").await.text, "here");
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text(""),
        ScriptedReply::text(""),
        ScriptedReply::text(""),
    ]));
    let result = fixture.turn("hi").await;
    assert!(matches!(result.outcome, TurnOutcome::Failed(_)), "{:?}", result.outcome);
    assert_eq!(result.text, "");
}

#[tokio::test]
async fn what_an_empty_answer_took_is_counted() {
    let fixture =
        TurnFixture::new(Script::replies([ScriptedReply::text(""), ScriptedReply::text("here")]));
    let result = fixture.turn("hi").await;
    let store = fixture.agent().await.store().clone();
    let usage = store.usage(Some(&result.conversation)).await.unwrap();
    let [taken] = usage.as_slice() else { panic!("{usage:?}") };
    assert_eq!(taken.totals.calls, 2);
    assert_eq!(taken.totals.usage, result.usage);
}

#[tokio::test]
async fn messages_are_stored_even_if_they_cannot_become_the_title() {
    let fixture = TurnFixture::new(Script::replies([ScriptedReply::text("heard")]));
    let mut conversation = fixture.begin().await;
    fixture.tamper(
        "CREATE TRIGGER untitled BEFORE UPDATE OF title ON conversations \
         BEGIN SELECT RAISE(ABORT, 'no title today'); END;",
    );
    let result = conversation.run(user_prompt("important words"), &fixture.ears()).await;
    assert_eq!(result.text, "heard", "{:?}", result.outcome);
    let stored = fixture.agent().await.store().messages(conversation.id()).await.unwrap();
    let texts: Vec<String> = stored.iter().map(|stored| stored.message.text()).collect();
    assert_eq!(texts, ["important words", "heard"]);
    let shown =
        |event: &TurnEvent| matches!(event, TurnEvent::Warning { text } if text.contains("title"));
    assert_eq!(fixture.events().iter().filter(|event| shown(event)).count(), 1);
}

#[tokio::test]
async fn a_refusal_is_no_answer() {
    let fixture =
        TurnFixture::new(Script::replies(
            [ScriptedReply::text("").finish(ScriptedFinish::Refusal)],
        ));
    let result = fixture.turn("something nasty").await;
    assert!(matches!(result.outcome, TurnOutcome::Refused), "{:?}", result.outcome);
}

#[tokio::test]
async fn a_title_is_given_once_and_never_twice_to_different_conversations() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text("a"),
        ScriptedReply::text("b"),
        ScriptedReply::text("c"),
    ]));
    let mut first = fixture.begin().await;
    first.run(user_prompt("same words\nmore"), &fixture.ears()).await;
    first.run(user_prompt("other words"), &fixture.ears()).await;
    let mut second = fixture.begin().await;
    second.run(user_prompt("same words"), &fixture.ears()).await;
    let store = fixture.agent().await.store().clone();
    let title = async |id| store.get(id).await.unwrap().title.unwrap();
    assert_eq!(title(first.id()).await, "same words");
    assert_ne!(title(second.id()).await, "same words");
}

#[tokio::test]
async fn secrets_are_masked_in_the_store_and_nowhere_lost_to_the_model() {
    const KEY: &str = "hunter2-and-a-long-tail-0123456789";
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": format!("echo {KEY}")})),
        ScriptedReply::text(format!("it said {KEY}")),
    ]));
    let agent = fixture.agent_knowing(&[KEY]).await;
    let mut conversation = agent.open(fixture.opening(crate::fixture::new())).await.unwrap();
    let result = conversation.run(user_prompt(&format!("the key is {KEY}")), &fixture.ears()).await;
    assert!(result.outcome.is_completed());
    assert!(fixture.model.requests()[0].last_user_text().unwrap().contains(KEY));
    let history = agent.store().history(conversation.id()).await.unwrap();
    assert_eq!(history.len(), 4);
    assert!(history.iter().all(|stored| stored.standing == MessageStanding::Active));
    for stored in history {
        let json = serde_json::to_string(&stored.message).unwrap();
        assert!(!json.contains(KEY), "{json}");
    }
    let title = agent.store().get(conversation.id()).await.unwrap().title.unwrap();
    assert!(!title.contains(KEY), "{title}");
    assert!(matches!(conversation.messages()[0], Message::User(_)));
}
