//! A person at the other end of a wire: questions go out as events, answers come back by id.
//!
//! Every front end without a terminal asks through this one type, so that a question is asked
//! once, can be listed by clients that connect later, and is taken back when its turn ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::Serialize;
use tokio::sync::oneshot;
use vestal_agent::{Approval, ApprovalRequest, Human, Question};
use vestal_api::dashboard::QuestionAnswer;
use vestal_api::{AgentRunQuestion, AgentRunQuestionKind};

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteQuestion {
    /// Its id, never used again by the same [`RemoteHuman`].
    pub id: String,
    /// What is asked.
    #[serde(flatten)]
    pub kind: RemoteQuestionKind,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RemoteQuestionKind {
    /// Whether something dangerous may be done.
    Approval(ApprovalRequest),
    /// A question of the model.
    Clarification(Question),
}

impl From<RemoteQuestion> for AgentRunQuestion {
    fn from(asked: RemoteQuestion) -> Self {
        let kind = match asked.kind {
            RemoteQuestionKind::Approval(ApprovalRequest { action, reason, pattern, may_last }) => {
                AgentRunQuestionKind::Approval { action, reason, pattern, may_last }
            }
            RemoteQuestionKind::Clarification(Question { question, choices }) => {
                AgentRunQuestionKind::Clarification { question, choices }
            }
        };
        Self { id: asked.id, kind }
    }
}

/// What happened to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionEvent {
    /// It waits for an answer.
    Asked(RemoteQuestion),
    /// It needs no answer any more: it was answered, or its turn ended or gave up waiting.
    Closed {
        /// Its id.
        id: String,
    },
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteAnswer {
    /// The answer to a request for approval.
    Approval(Approval),
    /// The answer to a clarification; `None` means that there is none.
    Clarification(Option<String>),
}

impl From<QuestionAnswer> for RemoteAnswer {
    fn from(answer: QuestionAnswer) -> Self {
        match answer {
            QuestionAnswer::Once => Self::Approval(Approval::Once),
            QuestionAnswer::Session => Self::Approval(Approval::Conversation),
            QuestionAnswer::Deny => Self::Approval(Approval::Deny(None)),
            QuestionAnswer::Words(words) => Self::Clarification(words),
        }
    }
}

/// Why an answer was not taken. The question, if there is one, stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It was never asked, or is closed.
    #[error("no question with this id is open")]
    NotOpen,
    /// An approval was given to a clarification, or the other way round.
    #[error("the answer does not fit the question")]
    WrongKind,
    /// It may not be approved for always.
    #[error("this cannot be approved for always; approve it for the session")]
    MayNotLast,
}

/// How long what somebody approves may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalReach {
    /// Also in every later conversation of the profile: it is written to its settings.
    Profile,
    /// In this conversation at the longest. For somebody who may use the agent of this machine, and
    /// not change what guards it.
    Conversation,
}

type QuestionListener = Box<dyn Fn(QuestionEvent) + Send + Sync>;

/// Asks somebody who is reached by events. Answering is thread-safe; the first answer counts.
pub struct RemoteHuman {
    listener: QuestionListener,
    reach: ApprovalReach,
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Waiting>>,
}

struct Waiting {
    question: RemoteQuestion,
    reply: oneshot::Sender<RemoteAnswer>,
}

impl RemoteHuman {
    /// Returns a human whose questions go to `listener`. It must not block.
    pub fn new(
        reach: ApprovalReach,
        listener: impl Fn(QuestionEvent) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::numbered_from(1, reach, listener)
    }

    /// Returns one whose questions are numbered from `first` on. For work that another process began:
    /// an answer to a question of that process must not be taken for one of this.
    pub fn numbered_from(
        first: u64,
        reach: ApprovalReach,
        listener: impl Fn(QuestionEvent) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            listener: Box::new(listener),
            reach,
            next: AtomicU64::new(first),
            open: Mutex::new(BTreeMap::new()),
        })
    }

    /// Returns the open questions, oldest first.
    pub fn open_questions(&self) -> Vec<RemoteQuestion> {
        self.open().values().map(|waiting| waiting.question.clone()).collect()
    }

    /// Answers a question.
    pub fn answer(&self, id: &str, answer: RemoteAnswer) -> Result<(), AnswerError> {
        let reply = {
            let mut open = self.open();
            let number = number_of(id).ok_or(AnswerError::NotOpen)?;
            let waiting = open.get(&number).ok_or(AnswerError::NotOpen)?;
            match (&waiting.question.kind, &answer) {
                (RemoteQuestionKind::Approval(request), RemoteAnswer::Approval(approval)) => {
                    if *approval == Approval::Always && !request.may_last {
                        return Err(AnswerError::MayNotLast);
                    }
                }
                (RemoteQuestionKind::Clarification(_), RemoteAnswer::Clarification(_)) => {}
                _ => return Err(AnswerError::WrongKind),
            }
            open.remove(&number).ok_or(AnswerError::NotOpen)?.reply
        };
        reply.send(answer).map_err(|_| AnswerError::NotOpen)
    }

    async fn ask(&self, kind: RemoteQuestionKind) -> Option<RemoteAnswer> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let question = RemoteQuestion { id: format!("q{number}"), kind };
        let (reply, answer) = oneshot::channel();
        self.open().insert(number, Waiting { question: question.clone(), reply });
        // Closes the question also when the turn is interrupted while it waits.
        let _closing = Closing { human: self, number };
        (self.listener)(QuestionEvent::Asked(question));
        answer.await.ok()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix('q')?.parse().ok()
}

struct Closing<'a> {
    human: &'a RemoteHuman,
    number: u64,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.human.open().remove(&self.number);
        (self.human.listener)(QuestionEvent::Closed { id: format!("q{}", self.number) });
    }
}

#[async_trait]
impl Human for RemoteHuman {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        let mut request = request.clone();
        request.may_last &= self.reach == ApprovalReach::Profile;
        match self.ask(RemoteQuestionKind::Approval(request)).await {
            Some(RemoteAnswer::Approval(approval)) => approval,
            Some(RemoteAnswer::Clarification(_)) | None => Approval::Deny(None),
        }
    }

    async fn clarify(&self, question: &Question) -> Option<String> {
        match self.ask(RemoteQuestionKind::Clarification(question.clone())).await {
            Some(RemoteAnswer::Clarification(answer)) => answer,
            Some(RemoteAnswer::Approval(_)) | None => None,
        }
    }
}

impl std::fmt::Debug for RemoteHuman {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteHuman").field("open", &self.open().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn human(reach: ApprovalReach) -> (Arc<RemoteHuman>, Arc<Mutex<Vec<QuestionEvent>>>) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        (RemoteHuman::new(reach, move |event| seen.lock().unwrap().push(event)), events)
    }

    fn request(may_last: bool) -> ApprovalRequest {
        let (action, reason) = ("rm -rf build".to_owned(), "removes files".to_owned());
        ApprovalRequest { action, reason, pattern: "rm".to_owned(), may_last }
    }

    #[tokio::test]
    async fn the_first_answer_that_fits_counts() {
        let (human, events) = human(ApprovalReach::Profile);
        let asking = {
            let human = Arc::clone(&human);
            tokio::spawn(async move { human.approve(&request(false)).await })
        };
        while human.open_questions().is_empty() {
            tokio::task::yield_now().await;
        }
        let wrong = human.answer("q1", RemoteAnswer::Clarification(None));
        assert_eq!(wrong, Err(AnswerError::WrongKind));
        let lasting = human.answer("q1", RemoteAnswer::Approval(Approval::Always));
        assert_eq!(lasting, Err(AnswerError::MayNotLast));
        assert_eq!(
            human.answer("q7", RemoteAnswer::Clarification(None)),
            Err(AnswerError::NotOpen)
        );
        assert_eq!(human.answer("q1", RemoteAnswer::Approval(Approval::Once)), Ok(()));
        let second = human.answer("q1", RemoteAnswer::Approval(Approval::Deny(None)));
        assert_eq!(second, Err(AnswerError::NotOpen));
        assert_eq!(asking.await.unwrap(), Approval::Once);
        let closed = QuestionEvent::Closed { id: "q1".to_owned() };
        assert_eq!(events.lock().unwrap().last(), Some(&closed));
    }

    #[tokio::test]
    async fn what_reaches_no_further_than_the_conversation_is_not_approved_for_always() {
        let (human, _) = human(ApprovalReach::Conversation);
        let asking = {
            let human = Arc::clone(&human);
            tokio::spawn(async move { human.approve(&request(true)).await })
        };
        while human.open_questions().is_empty() {
            tokio::task::yield_now().await;
        }
        let asked = RemoteQuestionKind::Approval(request(false));
        assert_eq!(human.open_questions()[0].kind, asked, "it is not offered");
        let lasting = human.answer("q1", RemoteAnswer::Approval(Approval::Always));
        assert_eq!(lasting, Err(AnswerError::MayNotLast));
        assert_eq!(human.answer("q1", RemoteAnswer::Approval(Approval::Conversation)), Ok(()));
        assert_eq!(asking.await.unwrap(), Approval::Conversation);
    }

    #[tokio::test]
    async fn a_question_whose_turn_ends_is_closed() {
        let (human, events) = human(ApprovalReach::Profile);
        let question = Question { question: "which?".to_owned(), choices: Vec::new() };
        let asking = {
            let human = Arc::clone(&human);
            tokio::spawn(async move { human.clarify(&question).await })
        };
        while human.open_questions().is_empty() {
            tokio::task::yield_now().await;
        }
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        assert_eq!(human.open_questions(), Vec::new());
        assert_eq!(events.lock().unwrap().len(), 2);
    }
}
