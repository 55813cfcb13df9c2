//! Work given to others.

use serde_json::json;
use vestal_agent::TurnEvent;
use vestal_conversations::{ConversationFilter, ParentKind};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::fixture::TurnFixture;

fn script() -> Script {
    Script::rules([
        ReplyRule::when_user_contains("split it").reply(ScriptedReply::tool_call(
            "delegate_task",
            json!({"tasks": [{"goal": "child: cd /; x=1; pwd > $HOME/one"}, {"goal": "child: pwd > two; echo [$x] >> two"}]}),
        )),
        ReplyRule::when_user_contains("child: ").reply_with(|request| {
            let goal = request.last_user_text().unwrap_or_default();
            let command = goal.lines().next().unwrap_or_default().trim_start_matches("child: ").to_owned();
            ScriptedReply::tool_call("terminal", json!({"command": command}))
        }),
        ReplyRule::when_user_contains("child: ").after_tool_results(1).reply(ScriptedReply::text("my part is done")),
        ReplyRule::when_user_contains("split it").after_tool_results(1).reply_with(|request| {
            ScriptedReply::text(request.tool_results().concat())
        }),
    ])
}

#[tokio::test]
async fn children_share_the_sandbox_and_each_has_its_own_shell() {
    let fixture = TurnFixture::new(script());
    let result = fixture.turn("split it").await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    assert_eq!(result.text.matches("my part is done").count(), 2, "{}", result.text);
    assert_eq!(std::fs::read_to_string(fixture.file("one")).unwrap(), "/\n");
    let two = std::fs::read_to_string(fixture.file("two")).unwrap();
    assert!(two.ends_with("/user\n[]\n"), "{two}");
    let of_children =
        fixture.events().into_iter().filter(|event| matches!(event, TurnEvent::Child { .. }));
    assert!(of_children.count() > 4);
}

#[tokio::test]
async fn a_child_has_a_conversation_that_says_whose_it_is_and_cannot_delegate_further() {
    let fixture = TurnFixture::new(script());
    let result = fixture.turn("split it").await;
    let store = fixture.agent().await.store().clone();
    let all = store
        .list(&ConversationFilter { include_delegated: true, ..ConversationFilter::default() })
        .await
        .unwrap();
    let children: Vec<_> = all
        .iter()
        .filter(|summary| {
            summary.conversation.parent.as_ref().is_some_and(|parent| {
                parent.kind == ParentKind::Delegation
                    && parent.id.as_ref() == Some(&result.conversation)
            })
        })
        .collect();
    assert_eq!(children.len(), 2);
    let requests = fixture.model.requests();
    let child = requests
        .iter()
        .find(|request| request.last_user_text().is_some_and(|text| text.starts_with("child: ")));
    let offered = child.unwrap().tool_names();
    assert!(offered.contains(&"terminal"));
    for kept_back in ["delegate_task", "clarify", "execute_code"] {
        assert!(!offered.contains(&kept_back), "{kept_back}");
    }
    let top: Vec<_> = store.list(&ConversationFilter::default()).await.unwrap();
    assert_eq!(top.len(), 1);
}

#[tokio::test]
async fn the_usage_of_children_is_known_to_their_parent() {
    let fixture = TurnFixture::new(script());
    let result = fixture.turn("split it").await;
    // Another conversation's are not counted.
    fixture.turn("split it").await;
    let agent = fixture.agent().await;
    let usage = agent.usage(&result.conversation).await.unwrap();
    let [own] = usage.own.as_slice() else { panic!("{usage:?}") };
    assert_eq!((own.totals.calls, own.totals.usage), (2, result.usage));
    assert_eq!(usage.children.count, 2);
    let [children] = usage.children.models.as_slice() else { panic!("{usage:?}") };
    assert_eq!((&*children.provider, &*children.model), ("scripted", "m"));
    assert_eq!(children.totals.calls, 4);
    assert!(children.totals.usage.input > 0 && children.totals.usage.output > 0, "{children:?}");
}

#[tokio::test]
async fn what_a_child_reports_counts_also_where_its_conversation_cannot_be_closed() {
    let fixture = TurnFixture::new(script());
    let mut conversation = fixture.begin().await;
    fixture.tamper(
        "CREATE TRIGGER endless BEFORE UPDATE OF ended_at ON conversations \
         WHEN NEW.ended_at IS NOT NULL BEGIN SELECT RAISE(ABORT, 'no end'); END;",
    );
    let result = conversation.run(crate::fixture::user_prompt("split it"), &fixture.ears()).await;
    assert_eq!(result.text.matches("my part is done").count(), 2, "{}", result.text);
}

#[tokio::test]
async fn a_child_leaves_no_shell_behind() {
    let fixture = TurnFixture::new(script().or_echo());
    fixture.turn("split it").await;
    let requests = fixture.model.requests();
    assert!(requests.iter().any(|request| request.last_user_text().unwrap().contains("x=1")));
    let store = fixture.agent().await.store().clone();
    let all = store
        .list(&ConversationFilter { include_delegated: true, ..ConversationFilter::default() })
        .await
        .unwrap();
    let children = all.iter().filter(|summary| summary.conversation.parent.is_some());
    for child in children {
        let mut again = fixture.resume(&child.conversation.id).await;
        let result = again.run(crate::fixture::user_prompt("$ echo [$x]"), &fixture.ears()).await;
        assert!(result.text.contains("[]"), "{}", result.text);
    }
}

#[tokio::test]
async fn an_interrupt_of_the_parent_reaches_the_children() {
    let marker = crate::fixture::marker();
    let goal = format!("child: sleep {marker}");
    let fixture = TurnFixture::new(Script::rules([
        ReplyRule::when_user_contains("split it")
            .reply(ScriptedReply::tool_call("delegate_task", json!({"goal": goal}))),
        ReplyRule::when_user_contains("child: ").reply(ScriptedReply::tool_call(
            "terminal",
            json!({"command": format!("sleep {marker}")}),
        )),
    ]));
    let mut conversation = fixture.begin().await;
    let control = conversation.control();
    let ears = fixture.ears();
    let (result, ()) =
        tokio::join!(conversation.run(crate::fixture::user_prompt("split it"), &ears), async {
            let runs = || !crate::fixture::processes_with(&marker).is_empty();
            crate::fixture::until("the child's command runs", runs).await;
            control.interrupt();
        });
    assert_eq!(result.outcome.word(), "interrupted");
    assert!(crate::fixture::processes_with(&marker).is_empty());
}
