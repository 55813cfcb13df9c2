//! Questions of turns that wait for a person, for other front ends of this machine.
//!
//! Clients of the API see the questions of their own runs and sessions. A dashboard, which is a process of
//! the same user, sees all of them over the control socket and may answer them there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use vestal_api::dashboard::{AskingTurn, QuestionAnswer, WaitingQuestionView};
use vestal_runtime::AnswerError;
use vestal_serve::{Server, WaitingQuestion};

use crate::runs::Runs;

/// Questions that one answer lists. What one of them asks is cut by its asker.
const MAX_LISTED: usize = 100;

/// Tells that the questions which wait are others than before. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuestionChanges(Arc<watch::Sender<()>>);

impl QuestionChanges {
    pub(crate) fn announce(&self) {
        self.0.send_replace(());
    }
}

/// The questions of a gateway's turns. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenQuestions {
    changes: QuestionChanges,
    sources: Arc<Mutex<Option<(Runs, Server)>>>,
}

impl OpenQuestions {
    pub(crate) fn changes(&self) -> QuestionChanges {
        self.changes.clone()
    }

    /// Returns what changes whenever a question is asked or closed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.0.subscribe()
    }

    /// Says whose turns ask.
    pub(crate) fn set_sources(&self, runs: Runs, sessions: Server) {
        *self.sources() = Some((runs, sessions));
    }

    /// Asks nobody any more: the API server has ended.
    pub(crate) fn clear(&self) {
        *self.sources() = None;
        self.changes.announce();
    }

    /// Returns the questions that wait for an answer.
    pub(crate) fn list(&self, profile: &str) -> Vec<WaitingQuestionView> {
        let Some((runs, sessions)) = self.sources().clone() else { return Vec::new() };
        let of_runs = runs.waiting_questions().into_iter().map(|(run, conversation, question)| {
            WaitingQuestionView {
                profile: profile.to_owned(),
                asked_by: AskingTurn::GatewayRun,
                session: run,
                conversation: Some(conversation),
                title: None,
                question: question.into(),
            }
        });
        let of_sessions = sessions.waiting_questions().into_iter().map(|waiting| {
            let WaitingQuestion { session, conversation, title, question } = waiting;
            WaitingQuestionView {
                profile: profile.to_owned(),
                asked_by: AskingTurn::GatewaySession,
                session,
                conversation,
                title,
                question: question.into(),
            }
        });
        of_runs.chain(of_sessions).take(MAX_LISTED).collect()
    }

    /// Returns how many wait for an answer.
    pub(crate) fn count(&self) -> usize {
        let Some((runs, sessions)) = self.sources().clone() else { return 0 };
        runs.waiting_questions().len() + sessions.waiting_questions().len()
    }

    /// Answers a question.
    pub(crate) fn answer(
        &self,
        asked_by: AskingTurn,
        of: &str,
        question: &str,
        answer: QuestionAnswer,
    ) -> Result<(), AnswerError> {
        let Some((runs, sessions)) = self.sources().clone() else {
            return Err(AnswerError::NotOpen);
        };
        match asked_by {
            AskingTurn::GatewayRun => runs.answer(of, question, answer.into()),
            AskingTurn::GatewaySession => sessions.answer_question(of, question, answer.into()),
            AskingTurn::Chat => Err(AnswerError::NotOpen),
        }
    }

    fn sources(&self) -> MutexGuard<'_, Option<(Runs, Server)>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
