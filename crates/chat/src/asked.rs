//! The person at the terminal, asked through the chat.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use vestal_agent::slash::Invocation;
use vestal_agent::{Approval, ApprovalRequest, Human, Question};

/// Returns somebody to be asked, for every conversation that is opened, and
/// what they are asked, for the chat to show.
pub fn asked() -> (Arc<dyn Human>, Questions) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Arc::new(Person { questions: sender }), Questions(receiver))
}

/// What the person at the terminal is asked.
#[derive(Debug)]
pub struct Questions(mpsc::UnboundedReceiver<Pending>);

impl Questions {
    /// Waits for the next question; for ever, when nobody can ask any more.
    pub(crate) async fn next(&mut self) -> Pending {
        match self.0.recv().await {
            Some(pending) => pending,
            None => std::future::pending().await,
        }
    }
}

/// A question that waits for its answer. An agent that asked may give it up:
/// then nobody hears the answer any more.
pub(crate) enum Pending {
    /// The agent asks to be allowed something.
    Approve { request: ApprovalRequest, reply: oneshot::Sender<Approval> },
    /// The model wants to know something.
    Clarify { question: Question, reply: oneshot::Sender<String> },
    /// This program does: see [`Then`].
    Choose { question: Question, then: Then },
}

/// Makes a command of an answer. It is carried out before anything that is
/// typed after the answer.
pub(crate) type Then = Box<dyn FnOnce(&str) -> Option<Invocation> + Send>;

impl Pending {
    /// Waits until whoever asked has given it up.
    pub(crate) async fn given_up(&mut self) {
        match self {
            Self::Approve { reply, .. } => reply.closed().await,
            Self::Clarify { reply, .. } => reply.closed().await,
            Self::Choose { .. } => std::future::pending().await,
        }
    }

    /// Reports whether whoever asked has given it up.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            Self::Approve { reply, .. } => reply.is_closed(),
            Self::Clarify { reply, .. } => reply.is_closed(),
            Self::Choose { .. } => false,
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Approve { .. } => "Approve",
            Self::Clarify { .. } => "Clarify",
            Self::Choose { .. } => "Choose",
        })
    }
}

struct Person {
    questions: mpsc::UnboundedSender<Pending>,
}

#[async_trait]
impl Human for Person {
    fn is_present(&self) -> bool {
        !self.questions.is_closed()
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        let (reply, answer) = oneshot::channel();
        let request = request.clone();
        if self.questions.send(Pending::Approve { request, reply }).is_err() {
            return Approval::Deny(None);
        }
        // A chat that is left without an answer has denied it.
        answer.await.unwrap_or(Approval::Deny(None))
    }

    async fn clarify(&self, question: &Question) -> Option<String> {
        let (reply, answer) = oneshot::channel();
        let question = question.clone();
        self.questions.send(Pending::Clarify { question, reply }).ok()?;
        answer.await.ok()
    }
}

/// Reads an answer; words after a no are the reason for it.
pub fn read_approval(line: &str, may_last: bool) -> Option<Approval> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word = word.trim_end_matches([',', '.', ':']).to_lowercase();
    let reason = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
    match (word.as_str(), &reason) {
        ("o" | "once" | "y" | "yes", None) => Some(Approval::Once),
        ("c" | "conversation", None) => Some(Approval::Conversation),
        ("a" | "always", None) if may_last => Some(Approval::Always),
        ("d" | "deny" | "n" | "no", _) => Some(Approval::Deny(reason)),
        _ => None,
    }
}

/// Reads an answer to a question: a number chooses, other words are an answer too.
pub fn read_answer(line: &str, choices: &[String]) -> Option<String> {
    let line = line.trim();
    let number: Option<usize> = line.parse().ok();
    let chosen = number.and_then(|number| choices.get(number.checked_sub(1)?));
    let answer = chosen.map_or(line, String::as_str);
    (!answer.is_empty()).then(|| answer.to_owned())
}

#[cfg(test)]
#[path = "asked_tests.rs"]
mod tests;
