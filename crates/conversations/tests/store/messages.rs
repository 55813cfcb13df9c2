use serde_json::json;
use vestal_conversations::{
    Error, MessageKind, MessageStanding, New, NewMessage, ParentKind, SearchScope, Stored,
};
use vestal_model::{
    AssistantMessage, Cost, CostSource, FinishReason, Image, Message, Opaque, Part, ProviderApi,
    Reasoning, TokenUsage, ToolCall, UserMessage,
};

use crate::{answer, begin, call, fixture, from_cli, numbers, result, seen, user};

#[tokio::test]
async fn a_conversation_is_found_as_it_was_made() {
    let fixture = fixture().await;
    let parent = begin(&fixture).await;
    let new = New {
        id: Some("20260101-000000-abcdef".parse().unwrap()),
        source: "delegate".to_owned(),
        parent: Some((ParentKind::Delegation, parent.clone())),
        cwd: Some("/some/where".into()),
        system_prompt: "be kind".to_owned(),
        state: vec![("todo".to_owned(), serde_json::json!([1])), ("x".to_owned(), "y".into())],
        ..from_cli()
    };
    let made = fixture.create(new.clone()).await.unwrap();
    assert_eq!(Some(&made.id), new.id.as_ref());
    assert_eq!(made.cwd, new.cwd);
    assert_eq!(made.parent.as_ref().unwrap().id, Some(parent));
    assert_eq!((made.provider.as_str(), made.model.as_str()), ("acme", "large"));
    assert_eq!(made, fixture.get(&made.id).await.unwrap());
    assert_eq!(fixture.system_prompt(&made.id).await.unwrap(), "be kind");
    assert_eq!(fixture.state(&made.id, "todo").await.unwrap(), Some(serde_json::json!([1])));
    assert_eq!(fixture.state(&made.id, "x").await.unwrap(), Some("y".into()));
    assert!(matches!(fixture.create(new).await, Err(Error::Exists { .. })));
}

#[tokio::test]
async fn every_part_of_a_message_comes_back() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let image =
        Image { media_type: "image/png".to_owned(), data: "aGk=".repeat(50_000), optional: false };
    let dialogue = Message::User(UserMessage {
        parts: vec![Part::Text { text: "look\0 \u{1f600}".to_owned() }, Part::Image(image)],
    });
    let thought = Message::Assistant(AssistantMessage {
        text: "hm".to_owned(),
        reasoning: vec![Reasoning {
            text: "let me see".to_owned(),
            opaque: Some(Opaque {
                api: ProviderApi::AnthropicMessages,
                provider: "acme".into(),
                value: serde_json::json!({ "signature": "xyz" }),
            }),
        }],
        calls: vec![ToolCall {
            id: "1".to_owned(),
            name: "terminal".to_owned(),
            arguments: "{\"command\": not json".to_owned(),
        }],
        finish: FinishReason::ToolCalls,
    });
    let usage = TokenUsage { input: 1, output: 2, cache_read: 3, cache_write: 4, reasoning: 5 };
    let cost = Cost::Known { micro_usd: 17, source: CostSource::Provider };
    let new = [
        NewMessage::note(dialogue.clone()),
        NewMessage {
            usage: Some(usage),
            cost: Some(cost),
            model: Some("small".to_owned()),
            provider: Some("other".to_owned()),
            ..NewMessage::new(thought.clone())
        },
    ];
    let seqs = fixture.append(&id, &new).await.unwrap();
    let stored = fixture.messages(&id).await.unwrap();
    let plain = Stored {
        seq: seqs[0],
        kind: MessageKind::Note,
        standing: MessageStanding::Active,
        at: stored[0].at,
        message: dialogue,
        usage: None,
        cost: None,
        provider: None,
        model: None,
    };
    let full = Stored {
        seq: seqs[1],
        kind: MessageKind::Dialogue,
        at: stored[1].at,
        message: thought,
        usage: Some(usage),
        cost: Some(cost),
        provider: Some("other".to_owned()),
        model: Some("small".to_owned()),
        ..plain.clone()
    };
    assert_eq!(stored, [plain, full]);
}

#[tokio::test]
async fn messages_are_numbered_in_the_order_they_come() {
    let fixture = fixture().await;
    let (id, other) = (begin(&fixture).await, begin(&fixture).await);
    assert_eq!(numbers(&fixture.append(&id, &[user("a"), answer("b")]).await.unwrap()), [1, 2]);
    assert_eq!(numbers(&fixture.append(&other, &[user("x")]).await.unwrap()), [1]);
    assert_eq!(numbers(&fixture.append(&id, &[]).await.unwrap()), [0_i64; 0]);
    assert_eq!(numbers(&fixture.append(&id, &[user("c")]).await.unwrap()), [3]);
    assert_eq!(seen(&fixture, &id).await, crate::expected(&[(1, "a"), (2, "b"), (3, "c")]));
}

#[tokio::test]
async fn a_conversation_without_messages_is_there_and_one_that_is_not_is_not() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    assert_eq!(fixture.messages(&id).await.unwrap(), []);
    let missing = "nobody".parse().unwrap();
    let failed = [
        fixture.messages(&missing).await.err(),
        fixture.append(&missing, &[user("a")]).await.err(),
        fixture.get(&missing).await.err(),
        fixture.system_prompt(&missing).await.err(),
        fixture.undo(&missing, 1).await.err(),
        fixture.branch(&missing, None, None).await.err(),
        fixture.end(&missing, "done").await.err(),
        fixture.state(&missing, "x").await.err(),
        fixture.set_state(&missing, "x", None).await.err(),
        fixture.delete(&missing).await.err(),
        fixture.summary(&missing).await.err(),
    ];
    for error in failed {
        assert!(matches!(error, Some(Error::NotFound { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn a_list_tells_what_a_conversation_is_about_and_took() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let usage = TokenUsage { input: 10, output: 5, ..TokenUsage::default() };
    let cost = Cost::Known { micro_usd: 300, source: CostSource::Prices };
    let spent = NewMessage { usage: Some(usage), cost: Some(cost), ..call("terminal") };
    let first = user("  Fix\n the   build, please");
    fixture
        .append(&id, &[NewMessage::note(Message::user("note")), first, spent, result("ok")])
        .await
        .unwrap();
    fixture.append(&id, &[user("thanks")]).await.unwrap();
    let listed = fixture.list(&vestal_conversations::ConversationFilter::default()).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].conversation, fixture.get(&id).await.unwrap());
    assert_eq!(listed[0].preview, "Fix the build, please");
    assert_eq!((listed[0].messages, listed[0].tool_calls), (5, 1));
    assert_eq!(listed[0].totals.usage, usage);
    assert_eq!((listed[0].totals.micro_usd, listed[0].totals.calls), (300, 1));
    assert_eq!(listed, [fixture.summary(&id).await.unwrap()]);
}

#[tokio::test]
async fn a_list_has_the_last_used_first_and_only_what_was_asked_for() {
    use vestal_conversations::ConversationFilter;
    let fixture = fixture().await;
    let (a, b, ended) = (begin(&fixture).await, begin(&fixture).await, begin(&fixture).await);
    let parent = Some((ParentKind::Delegation, a.clone()));
    let child = New { parent, source: "delegate".to_owned(), ..from_cli() };
    let child = fixture.create(child).await.unwrap().id;
    fixture.end(&ended, "done").await.unwrap();
    fixture.touch(&a).await.unwrap();
    let ids = |filter: ConversationFilter| {
        let store = fixture.store.clone();
        async move {
            let listed = store.list(&filter).await.unwrap();
            listed.into_iter().map(|summary| summary.conversation.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(ids(ConversationFilter::default()).await, [a.clone(), ended.clone(), b.clone()]);
    let all = ConversationFilter { include_delegated: true, ..ConversationFilter::default() };
    assert_eq!(ids(all.clone()).await, [a.clone(), ended.clone(), child.clone(), b.clone()]);
    assert_eq!(ids(ConversationFilter { limit: 1, ..all.clone() }).await, vec![a.clone()]);
    let running = ConversationFilter { include_ended: false, ..ConversationFilter::default() };
    assert_eq!(ids(running).await, [a.clone(), b.clone()]);
    let source = ConversationFilter { source: Some("delegate".to_owned()), ..all.clone() };
    assert_eq!(ids(source).await, vec![child.clone()]);
    let before = Some(fixture.get(&ended).await.unwrap().updated_at);
    assert_eq!(ids(ConversationFilter { before, ..all }).await, [child, b]);
    assert_eq!(fixture.latest().await.unwrap(), a);
}

#[tokio::test]
async fn an_ended_conversation_is_in_use_again_after_a_message() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.end(&id, "one_shot").await.unwrap();
    assert_eq!(fixture.get(&id).await.unwrap().ended.unwrap().reason, "one_shot");
    fixture.append(&id, &[user("more")]).await.unwrap();
    assert_eq!(fixture.get(&id).await.unwrap().ended, None);
}

#[tokio::test]
async fn an_end_takes_an_entry_of_the_state_along_and_leaves_the_others() {
    let fixture = fixture().await;
    let (id, other) = (begin(&fixture).await, begin(&fixture).await);
    for id in [&id, &other] {
        fixture.set_state(id, "work", Some(&json!(1))).await.unwrap();
    }
    fixture.set_state(&id, "notes", Some(&json!(2))).await.unwrap();
    fixture.end_without(&id, "one_shot", "work").await.unwrap();
    assert_eq!(fixture.get(&id).await.unwrap().ended.unwrap().reason, "one_shot");
    assert_eq!(fixture.state(&id, "work").await.unwrap(), None);
    assert_eq!(fixture.state(&id, "notes").await.unwrap(), Some(json!(2)));
    assert_eq!(fixture.state(&other, "work").await.unwrap(), Some(json!(1)));
    // There need be none.
    fixture.end_without(&id, "done", "work").await.unwrap();
    assert_eq!(fixture.get(&id).await.unwrap().ended.unwrap().reason, "done");
}

#[tokio::test]
async fn deleting_a_conversation_leaves_those_that_come_from_it() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("unmistakable"), answer("b")]).await.unwrap();
    let branch = fixture.branch(&id, None, None).await.unwrap();
    fixture.delete(&id).await.unwrap();
    assert!(matches!(fixture.get(&id).await, Err(Error::NotFound { .. })));
    let left = fixture.get(&branch.id).await.unwrap();
    let parent = left.parent.unwrap();
    assert_eq!((parent.kind, parent.id), (ParentKind::Branch, None));
    let unmistakable = crate::expected(&[(1, "unmistakable"), (2, "b")]);
    assert_eq!(seen(&fixture, &branch.id).await, unmistakable);
    let hits = fixture.search(&SearchScope::default(), "unmistakable", 10).await.unwrap();
    assert_eq!(hits.iter().map(|hit| &hit.conversation).collect::<Vec<_>>(), [&branch.id]);
}

#[tokio::test]
async fn a_conversation_keeps_small_values_until_they_are_removed() {
    let fixture = fixture().await;
    let (id, other) = (begin(&fixture).await, begin(&fixture).await);
    let todo = serde_json::json!([{ "text": "wash up", "done": false }]);
    assert_eq!(fixture.state(&id, "todo").await.unwrap(), None);
    fixture.set_state(&id, "todo", Some(&serde_json::json!(1))).await.unwrap();
    fixture.set_state(&id, "todo", Some(&todo)).await.unwrap();
    assert_eq!(fixture.state(&id, "todo").await.unwrap(), Some(todo.clone()));
    assert_eq!(fixture.state(&other, "todo").await.unwrap(), None);
    assert_eq!(fixture.with_state("todo").await.unwrap(), [(id.clone(), todo)]);
    fixture.set_state(&id, "todo", None).await.unwrap();
    assert_eq!(fixture.state(&id, "todo").await.unwrap(), None);
    fixture.set_state(&other, "todo", Some(&serde_json::json!(1))).await.unwrap();
    fixture.delete(&other).await.unwrap();
    assert_eq!(fixture.with_state("todo").await.unwrap(), []);
}

#[tokio::test]
async fn what_a_conversation_is_can_be_changed() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.set_system_prompt(&id, "be brief").await.unwrap();
    fixture.set_model(&id, "other", "small").await.unwrap();
    fixture.set_cwd(&id, std::path::Path::new("/else")).await.unwrap();
    let now = fixture.get(&id).await.unwrap();
    assert_eq!((now.provider.as_str(), now.model.as_str()), ("other", "small"));
    assert_eq!(now.cwd, Some("/else".into()));
    assert_eq!(fixture.system_prompt(&id).await.unwrap(), "be brief");
}

#[tokio::test]
async fn many_tasks_write_and_read_at_once() {
    let fixture = fixture().await;
    let shared = begin(&fixture).await;
    let tasks: Vec<_> = (0..30)
        .map(|task| {
            let (store, shared) = (fixture.store.clone(), shared.clone());
            tokio::spawn(async move {
                let own = begin(&store).await;
                for number in 0..10 {
                    let text = format!("{task} {number}");
                    store.append(&own, &[user(&text)]).await.unwrap();
                    store.append(&shared, &[user(&text)]).await.unwrap();
                    assert_eq!(store.messages(&own).await.unwrap().len(), number + 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(fixture.messages(&shared).await.unwrap().len(), 300);
}

#[tokio::test]
async fn an_abandoned_call_is_done_or_not_done_and_hinders_nobody() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    for number in 0..50_u64 {
        let batch: Vec<_> = (0..3).map(|at| user(&format!("{number} {at}"))).collect();
        let timeout = std::time::Duration::from_micros(number * 20);
        let _abandoned = tokio::time::timeout(timeout, fixture.append(&id, &batch)).await;
    }
    fixture.append(&id, &[user("last")]).await.unwrap();
    let stored = fixture.messages(&id).await.unwrap();
    assert_eq!(stored.len() % 3, 1, "half an append: {}", stored.len());
}
