//! `present_plan`: the plan of a conversation in plan mode, for a person to approve.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use vestal_model::ToolSpec;

use super::arguments::{NonEmptyString, parse, tool_spec};
use crate::event::TurnEvent;
use crate::human::PlanAnswer;
use crate::mode::ConversationMode;
use crate::tool::{Tool, ToolContext, ToolOutput};

const DESCRIPTION: &str = "\
Presents your plan to the user and waits for the answer. Only in plan mode. Call it once the plan is complete: concrete \
steps, the files and commands they touch, and how the result is checked. If the user approves, plan mode ends and you \
carry the plan out at once; if not, you read why, change the plan and present it again.";

/// The tool. A conversation has it in plan mode only.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PresentPlan;

/// Its name.
pub(crate) const PRESENT_PLAN: &str = "present_plan";

#[derive(Deserialize, JsonSchema)]
struct PresentPlanArguments {
    /// The whole plan, in Markdown.
    plan: NonEmptyString,
}

#[async_trait]
impl Tool for PresentPlan {
    fn spec(&self) -> ToolSpec {
        tool_spec::<PresentPlanArguments>(PRESENT_PLAN, DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "plan"
    }

    fn is_for_children(&self) -> bool {
        false
    }

    fn only_reads(&self, _: &Value) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let plan = match parse::<PresentPlanArguments>(arguments) {
            Ok(PresentPlanArguments { plan }) => plan.into_inner(),
            Err(bad) => return bad.into(),
        };
        if context.mode.get() != ConversationMode::Plan {
            return ToolOutput::error(
                "plan mode is off: no approval is needed, go on with the work",
            );
        }
        let plan = context.redactor.redact(plan.trim()).into_owned();
        context.events.emit(TurnEvent::PlanPresented { plan: plan.clone() });
        if !context.human.is_present() {
            return ToolOutput::json(&json!({
                "status": "presented",
                "note": "nobody can approve the plan now. End your turn with the plan as your answer; \
                         plan mode stays on until the user turns it off.",
            }));
        }
        let limit = context.limits.clarify_timeout;
        let answer = tokio::select! {
            biased;
            () = context.cancel.cancelled() => {
                return ToolOutput::error("the turn was interrupted before the plan was approved");
            }
            answer = timeout(limit, context.human.approve_plan(&plan)) => answer,
        };
        match answer {
            Ok(PlanAnswer::Approve) => {
                context.mode.set(ConversationMode::Work);
                context.events.emit(TurnEvent::ModeChanged { mode: ConversationMode::Work });
                ToolOutput::json(&json!({
                    "status": "approved",
                    "note": "plan mode is off now: carry the plan out",
                }))
            }
            Ok(PlanAnswer::Change(wish)) => ToolOutput::json(&json!({
                "status": "changes_requested",
                "user_response": wish,
                "note": "plan mode stays on: change the plan and present it again",
            })),
            Ok(PlanAnswer::Reject) => ToolOutput::json(&json!({
                "status": "not_approved",
                "note": "plan mode stays on: ask the user what should be different, or end your turn",
            })),
            Err(_) => ToolOutput::error(format!(
                "the plan was not answered within {} s; end your turn with the plan as your answer",
                limit.as_secs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{AgentFixture, Scripted};

    async fn presented(answer: Option<&str>) -> (Value, ConversationMode) {
        let mut fixture = AgentFixture::new();
        if let Some(answer) = answer {
            fixture = fixture.with_human(Scripted::answering([Some(answer.to_owned())]));
        }
        fixture.context.mode.set(ConversationMode::Plan);
        let result = fixture.call(&PresentPlan, json!({"plan": "1. Do it."})).await;
        let mode = fixture.context.mode.get();
        (result, mode)
    }

    #[tokio::test]
    async fn only_an_approval_ends_plan_mode() {
        let (result, mode) = presented(Some("Approve")).await;
        assert_eq!((result["status"].as_str(), mode), (Some("approved"), ConversationMode::Work));
        let (result, mode) = presented(Some("Keep planning")).await;
        assert_eq!(
            (result["status"].as_str(), mode),
            (Some("not_approved"), ConversationMode::Plan)
        );
        let (result, mode) = presented(Some("approve the first step only")).await;
        assert_eq!(result["user_response"], "approve the first step only");
        assert_eq!(mode, ConversationMode::Plan);
        let (result, mode) = presented(None).await;
        assert_eq!((result["status"].as_str(), mode), (Some("presented"), ConversationMode::Plan));
    }

    #[tokio::test]
    async fn without_plan_mode_there_is_nothing_to_approve() {
        let fixture = AgentFixture::new();
        let result = fixture.call(&PresentPlan, json!({"plan": "1. Do it."})).await;
        assert!(result["error"].as_str().unwrap().contains("plan mode is off"), "{result}");
    }
}
