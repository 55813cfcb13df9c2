//! The person at the editor, who is asked by the protocol's requests for permission.

use std::sync::Arc;

use async_trait::async_trait;
use vestal_agent::{Approval, ApprovalRequest, Human, PlanAnswer, Question};

use crate::protocol::{
    CallStatus, ContentBlock, PermissionOption, PermissionParams, ToolCallUpdate, ToolContent,
    ToolKind, chosen,
};
use crate::updates::SessionView;

/// Asks whoever is at the editor.
#[derive(Debug)]
pub(crate) struct EditorHuman(pub(crate) Arc<SessionView>);

fn option(id: &str, name: impl Into<String>, kind: &'static str) -> PermissionOption {
    PermissionOption { option_id: id.to_owned(), name: name.into(), kind }
}

impl EditorHuman {
    /// Asks, and returns the option that was chosen.
    async fn ask(
        &self,
        tool_call: ToolCallUpdate,
        options: Vec<PermissionOption>,
    ) -> Option<String> {
        let session = self.0.session()?;
        let params = PermissionParams { session_id: session, tool_call, options };
        let answer = self.0.client().ask("session/request_permission", params).await?;
        chosen(&answer).map(str::to_owned)
    }
}

#[async_trait]
impl Human for EditorHuman {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        let id = self.0.call_doing(&request.action).unwrap_or_else(|| self.0.new_call());
        let text = format!("{}\n\n{}", request.action, request.reason);
        let call = ToolCallUpdate {
            title: Some(request.action.clone()),
            kind: Some(ToolKind::Execute),
            status: Some(CallStatus::Pending),
            content: Some(vec![ToolContent::Content { content: ContentBlock::Text { text } }]),
            ..ToolCallUpdate::of(&id)
        };
        let mut options = vec![
            option("once", "Allow once", "allow_once"),
            option("session", "Allow in this conversation", "allow_always"),
        ];
        if request.may_last {
            let name = format!("Always allow: {}", request.pattern);
            options.push(option("always", name, "allow_always"));
        }
        options.push(option("deny", "Deny", "reject_once"));
        let answer = self.ask(call, options).await;
        match answer.as_deref() {
            Some("once") => Approval::Once,
            Some("session") => Approval::Conversation,
            Some("always") if request.may_last => Approval::Always,
            // Whatever else a client answers is no permission.
            _ => Approval::Deny(None),
        }
    }

    async fn approve_plan(&self, plan: &str) -> PlanAnswer {
        let id = self.0.call_doing(plan).unwrap_or_else(|| self.0.new_call());
        let call = ToolCallUpdate {
            title: Some("Carry out this plan?".to_owned()),
            kind: Some(ToolKind::SwitchMode),
            status: Some(CallStatus::Pending),
            content: Some(vec![ToolContent::Content { content: ContentBlock::text(plan) }]),
            ..ToolCallUpdate::of(&id)
        };
        let options = vec![
            option("approve", "Carry it out", "allow_once"),
            option("reject", "Keep planning", "reject_once"),
        ];
        match self.ask(call, options).await.as_deref() {
            Some("approve") => PlanAnswer::Approve,
            _ => PlanAnswer::Reject,
        }
    }

    async fn clarify(&self, question: &Question) -> Option<String> {
        // The protocol has no question with words as its answer: it is part of the model's.
        if question.choices.is_empty() {
            return None;
        }
        let id = self.0.call_doing(&question.question).unwrap_or_else(|| self.0.new_call());
        let call = ToolCallUpdate {
            title: Some(question.question.clone()),
            kind: Some(ToolKind::Think),
            status: Some(CallStatus::Pending),
            ..ToolCallUpdate::of(&id)
        };
        let mut options: Vec<PermissionOption> = (0..)
            .zip(&question.choices)
            .map(|(at, choice): (usize, _)| option(&at.to_string(), choice, "allow_once"))
            .collect();
        options.push(option("none", "None of these", "reject_once"));
        let answer = self.ask(call, options).await?;
        question.choices.get(answer.parse::<usize>().ok()?).cloned()
    }
}
