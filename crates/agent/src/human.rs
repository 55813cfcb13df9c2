//! The person who can be asked during a turn.

use async_trait::async_trait;
use serde::Serialize;

/// A person who can be asked.
///
/// Implementations need no timeouts: a question that takes too long
/// is given up by dropping its future, and counts as denied or unanswered.
#[async_trait]
pub trait Human: Send + Sync {
    /// Reports whether anybody is there to be asked.
    fn is_present(&self) -> bool;

    /// Asks whether something dangerous may be done.
    async fn approve(&self, request: &ApprovalRequest) -> Approval;

    /// Asks a question; `None` when there is no answer.
    async fn clarify(&self, question: &Question) -> Option<String>;

    /// Asks whether a plan, in Markdown, may be carried out. Unless an implementation shows plans
    /// in a way of its own, it is a question with two choices; other words are a wish for changes.
    async fn approve_plan(&self, plan: &str) -> PlanAnswer {
        let question = Question {
            question: format!("{plan}\n\nApprove this plan?"),
            choices: vec![PlanAnswer::APPROVE.to_owned(), PlanAnswer::REJECT.to_owned()],
        };
        match self.clarify(&question).await {
            Some(answer) => PlanAnswer::from_words(&answer),
            None => PlanAnswer::Reject,
        }
    }
}

/// A person's answer to a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanAnswer {
    /// Carry it out.
    Approve,
    /// Change it like this first.
    Change(String),
    /// Not this one.
    Reject,
}

impl PlanAnswer {
    /// The choice that approves.
    pub const APPROVE: &str = "Approve";
    /// The choice that does not.
    pub const REJECT: &str = "Keep planning";

    /// Returns what an answer in words means: only the choice itself approves.
    pub fn from_words(answer: &str) -> Self {
        match answer.trim() {
            Self::APPROVE => Self::Approve,
            Self::REJECT | "" => Self::Reject,
            wish => Self::Change(wish.to_owned()),
        }
    }
}

/// Something dangerous that the model wants to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApprovalRequest {
    /// What it is: the command, secrets masked.
    pub action: String,
    /// Why it is dangerous, as text.
    pub reason: String,
    /// What a lasting approval would be remembered as.
    pub pattern: String,
    /// Whether it may be approved for always.
    pub may_last: bool,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// This once.
    Once,
    /// Whenever it comes up in this conversation.
    Conversation,
    /// Whenever it comes up.
    Always,
    /// No, and why, if they say so.
    Deny(Option<String>),
}

/// A question of the model's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// Answers to choose from; none: any words will do. Other words always do.
    pub choices: Vec<String>,
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHuman;

#[async_trait]
impl Human for NoHuman {
    fn is_present(&self) -> bool {
        false
    }

    async fn approve(&self, _: &ApprovalRequest) -> Approval {
        Approval::Deny(None)
    }

    async fn clarify(&self, _: &Question) -> Option<String> {
        None
    }
}
