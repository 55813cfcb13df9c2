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
