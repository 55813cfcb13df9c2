//! Plan mode: nothing is changed before a person has approved the plan.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use vestal_agent::{
    Approval, ApprovalRequest, ConversationMode, EndReason, Human, PlanAnswer, Question, TurnEvent,
};
use vestal_scripted_model::{Script, ScriptedReply};

use crate::fixture::{TurnFixture, new, user_prompt};

/// A person who answers plans from a list.
struct Planner(Mutex<Vec<PlanAnswer>>);

#[async_trait]
impl Human for Planner {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, _: &ApprovalRequest) -> Approval {
        Approval::Deny(None)
    }

    async fn clarify(&self, _: &Question) -> Option<String> {
        None
    }

    async fn approve_plan(&self, _: &str) -> PlanAnswer {
        self.0.lock().unwrap().remove(0)
    }
}

fn write(content: &str) -> ScriptedReply {
    ScriptedReply::tool_call("write_file", json!({"path": "made", "content": content}))
}

fn present() -> ScriptedReply {
    ScriptedReply::tool_call("present_plan", json!({"plan": "1. Write `made`."}))
}

#[tokio::test]
async fn nothing_is_changed_before_the_plan_is_approved_and_then_it_is_carried_out() {
    let fixture = TurnFixture::new(Script::replies([
        write("too early"),
        ScriptedReply::tool_call("terminal", json!({"command": "touch made"})),
        ScriptedReply::tool_call("terminal", json!({"command": "ls; echo seen"})),
        present(),
        present(),
        write("approved"),
        ScriptedReply::text("done"),
    ]));
    let mut opening = fixture.opening(new());
    let answers = vec![PlanAnswer::Change("smaller".to_owned()), PlanAnswer::Approve];
    opening.human = Arc::new(Planner(Mutex::new(answers)));
    let mut conversation = fixture.agent().await.open(opening).await.unwrap();
    conversation.set_mode(ConversationMode::Plan).await.unwrap();
    let result = conversation.run(user_prompt("make it"), &fixture.ears()).await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    let requests = fixture.model.requests();
    assert!(requests[0].tool_names().contains(&"present_plan"));
    let told =
        requests[0].messages().iter().any(|said| said.to_string().contains("Plan mode is on"));
    assert!(told, "{:?}", requests[0].messages());
    let results = requests[6].tool_results();
    assert!(results[0].contains("plan mode is on"), "{}", results[0]);
    assert!(results[1].contains("plan mode is on"), "{}", results[1]);
    assert!(results[2].contains("seen") && !results[2].contains("made"), "{}", results[2]);
    assert!(results[3].contains("smaller"), "{}", results[3]);
    assert!(results[4].contains("approved"), "{}", results[4]);
    assert_eq!(std::fs::read_to_string(fixture.file("made")).unwrap(), "approved");
    assert_eq!(conversation.mode(), ConversationMode::Work);
    let changed = TurnEvent::ModeChanged { mode: ConversationMode::Work };
    assert!(fixture.events().contains(&changed));
    // The next turn has no plan to present, and is not told again.
    fixture.model.requests();
    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    assert_eq!(fixture.resume(&id).await.mode(), ConversationMode::Work);
}

#[tokio::test]
async fn plan_mode_lasts_until_somebody_turns_it_off_also_in_another_process() {
    let fixture = TurnFixture::new(Script::replies([
        present(),
        ScriptedReply::text("the plan"),
        write("refused"),
        ScriptedReply::text("still planning"),
        write("allowed"),
        ScriptedReply::text("done"),
    ]));
    let mut conversation = fixture.begin().await;
    conversation.set_mode(ConversationMode::Plan).await.unwrap();
    conversation.run(user_prompt("make it"), &fixture.ears()).await;
    let presented = &fixture.model.requests()[1].tool_results()[0];
    assert!(presented.contains("nobody can approve"), "{presented}");
    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();

    let mut again = fixture.resume(&id).await;
    assert_eq!(again.mode(), ConversationMode::Plan);
    again.run(user_prompt("go on"), &fixture.ears()).await;
    assert!(!fixture.file("made").exists());
    again.set_mode(ConversationMode::Work).await.unwrap();
    again.run(user_prompt("do it"), &fixture.ears()).await;
    assert_eq!(std::fs::read_to_string(fixture.file("made")).unwrap(), "allowed");
    let last = fixture.model.requests().last().unwrap().clone();
    let said = last.messages().iter().map(ToString::to_string).collect::<String>();
    assert_eq!(said.matches("Plan mode is on").count(), 1);
    assert_eq!(said.matches("Plan mode is off").count(), 1);
    assert!(!last.tool_names().contains(&"present_plan"));
}

#[tokio::test]
async fn children_of_a_conversation_in_plan_mode_change_nothing_either() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("delegate_task", json!({"goal": "look"})),
        write("by a child"),
        ScriptedReply::text("report"),
        ScriptedReply::text("the plan"),
    ]));
    let mut conversation = fixture.begin().await;
    conversation.set_mode(ConversationMode::Plan).await.unwrap();
    conversation.run(user_prompt("make it"), &fixture.ears()).await;
    let child = &fixture.model.requests()[2];
    assert!(child.tool_results()[0].contains("plan mode is on"), "{:?}", child.tool_results());
    assert!(!child.tool_names().contains(&"present_plan"));
    assert!(!fixture.file("made").exists());
}

#[tokio::test]
async fn a_mode_that_is_switched_during_a_turn_counts_for_the_next_call() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "true"})).hold_after(0),
        write("late"),
        ScriptedReply::text("done"),
    ]));
    let mut conversation = fixture.begin().await;
    let switch = conversation.mode_switch();
    let ears = fixture.ears();
    tokio::join!(conversation.run(user_prompt("go"), &ears), async {
        fixture.model.wait_for_holds(1).await;
        switch.set(ConversationMode::Plan);
        fixture.model.release();
    });
    assert!(!fixture.file("made").exists());
    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    assert_eq!(fixture.resume(&id).await.mode(), ConversationMode::Plan);
}
