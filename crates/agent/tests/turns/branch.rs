//! Going another way.

use serde_json::json;
use vestal_agent::{EndReason, Start, Switch};
use vestal_conversations::{Error, ParentKind};
use vestal_sandbox::Isolation;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::fixture::{TurnFixture, new, user_prompt};

fn shell() -> Script {
    Script::new()
        .rule(ReplyRule::when_user_contains("$ ").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            ScriptedReply::tool_call(
                "terminal",
                json!({"command": command.trim_start_matches("$ ")}),
            )
        }))
        .rule(
            ReplyRule::after_tool_results(1)
                .reply_with(|request| ScriptedReply::text(request.last_tool_results().concat())),
        )
        .or_echo()
}

fn output(text: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(text).unwrap();
    result["output"].as_str().unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_branch_goes_on_from_here_and_the_other_stays_as_it_was() {
    let fixture = TurnFixture::new(shell());
    let agent = fixture.agent().await;
    let mut conversation = agent.open(fixture.opening(new())).await.unwrap();
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    conversation.switch_tool("terminal", Switch::Off).await.unwrap();
    let branch = conversation.branch(Some("another way")).await.unwrap();
    let id = conversation.id().clone();
    conversation.close(EndReason::NewConversation).await.unwrap();

    let mut other = fixture.resume(&branch).await;
    assert_eq!(other.title().await.unwrap().as_deref(), Some("another way"));
    assert!(other.tools().iter().any(|tool| tool.name == "terminal" && !tool.is_on));
    other.run(user_prompt("two"), &fixture.ears()).await;
    assert_eq!(other.messages().len(), 4);

    let first = fixture.resume(&id).await;
    assert_eq!(first.messages().len(), 2);
    let parent = agent.store().get(&branch).await.unwrap().parent.unwrap();
    assert_eq!((parent.kind, parent.id), (ParentKind::Branch, Some(id)));
}

#[tokio::test]
async fn a_branch_works_in_the_same_sandbox_and_directory_with_a_shell_of_its_own() {
    for isolation in [Isolation::Shared, Isolation::Conversation] {
        let fixture = TurnFixture::new(shell());
        let agent = fixture.agent().await;
        let opening = vestal_agent::ConversationOptions { isolation, ..fixture.opening(new()) };
        let mut conversation = agent.open(opening).await.unwrap();
        let made = "$ mkdir -p deep; cd deep; word=lit; echo x > file";
        conversation.run(user_prompt(made), &fixture.ears()).await;
        let task = conversation.sandbox().task().clone();
        let branch = conversation.branch(None).await.unwrap();
        conversation.close(EndReason::NewConversation).await.unwrap();

        let start = Start::Resume(branch);
        let opening = vestal_agent::ConversationOptions { isolation, ..fixture.opening(start) };
        let mut other = fixture.agent().await.open(opening).await.unwrap();
        assert_eq!(*other.sandbox().task(), task);
        let dialogue = user_prompt("$ echo $(basename $PWD) [$word]; cat file");
        let result = other.run(dialogue, &fixture.ears()).await;
        assert_eq!(output(&result.text), "deep []\nx");
    }
}

#[tokio::test]
async fn a_title_that_another_has_is_refused_and_no_branch_is_left() {
    let fixture = TurnFixture::new(shell());
    let agent = fixture.agent().await;
    let mut other = agent.open(fixture.opening(new())).await.unwrap();
    assert_eq!(other.set_title("  mine  ").await.unwrap(), "mine");
    let mut conversation = agent.open(fixture.opening(new())).await.unwrap();
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    let refused = conversation.branch(Some("mine")).await.unwrap_err();
    assert!(matches!(refused, Error::TitleTaken { .. }), "{refused:?}");
    assert_eq!(
        agent
            .store()
            .list(&vestal_conversations::ConversationFilter::default())
            .await
            .unwrap()
            .len(),
        2
    );
}
