//! The events of one session: made of what its turns do, numbered, and handed to everybody who
//! watches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vestal_agent::Event;
use vestal_model::Finish;
use vestal_runtime::{QuestionEvent, RemoteQuestion, RemoteQuestionKind};

use crate::events::{ApprovalQuestion, ClarifyQuestion, EventBody, StatusKind};
use crate::outbox::Outbox;
use crate::views::{Inflight, OpenQuestion, RunningTool, SubagentView};

/// Hands the events of a session to its watchers.
#[derive(Debug)]
pub(crate) struct Hub {
    session: Arc<str>,
    approval_timeout: Duration,
    state: Mutex<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    /// The number of the last event.
    seq: u64,
    /// Who watches, by connection.
    watchers: Vec<(u64, Outbox)>,
    /// What the model is saying.
    words: Words,
    /// Tools at work, by call.
    tools: BTreeMap<String, RunningTool>,
    /// Subagents at work, by conversation.
    subagents: BTreeMap<String, (SubagentView, Instant)>,
    /// Questions that wait for an answer.
    questions: HashMap<String, QuestionState>,
}

#[derive(Debug, Clone, Copy)]
struct QuestionState {
    is_approval: bool,
    is_answered: bool,
}

/// The words of one answer. Blanks around them are left out, as they are of the answer as a whole,
/// so that the pieces together are exactly the text that the end of the turn tells.
#[derive(Debug, Default)]
struct Words {
    text: String,
    /// Blanks that are words only if more words follow.
    held: String,
}

impl Words {
    /// Adds what came, and returns what of it can be shown.
    fn push(&mut self, more: &str) -> Option<String> {
        let more = if self.text.is_empty() { more.trim_start() } else { more };
        let mut piece = std::mem::take(&mut self.held);
        piece.push_str(more);
        let end = piece.trim_end().len();
        self.held = piece.split_off(end);
        if piece.is_empty() {
            return None;
        }
        self.text.push_str(&piece);
        Some(piece)
    }

    fn take(&mut self) -> String {
        self.held.clear();
        std::mem::take(&mut self.text)
    }
}

impl Hub {
    pub(crate) fn new(session: Arc<str>, approval_timeout: Duration) -> Arc<Self> {
        Arc::new(Self { session, approval_timeout, state: Mutex::default() })
    }

    /// Has a connection hear everything from now on. Returns the number of the last event before,
    /// and what a turn that runs has said and done so far: together with the later events nothing
    /// is missing and nothing comes twice.
    pub(crate) fn attach(&self, connection: u64, outbox: &Outbox) -> (u64, Inflight) {
        let mut state = self.lock();
        if !state.watchers.iter().any(|(known, _)| *known == connection) {
            state.watchers.push((connection, outbox.clone()));
        }
        let (text, tools) = (state.words.text.clone(), state.tools.values().cloned().collect());
        (state.seq, Inflight { text, tools })
    }

    /// Has a connection hear nothing any more. Returns whether it was the last one that did.
    pub(crate) fn detach(&self, connection: u64) -> bool {
        let mut state = self.lock();
        let before = state.watchers.len();
        state.watchers.retain(|(known, _)| *known != connection);
        before > 0 && state.watchers.is_empty()
    }

    pub(crate) fn is_watched(&self) -> bool {
        !self.lock().watchers.is_empty()
    }

    /// Tells everybody who watches.
    pub(crate) fn emit(&self, body: &EventBody) {
        self.lock().emit(&self.session, body);
    }

    /// Forgets what the turn before said and did.
    pub(crate) fn begin_turn(&self) {
        let mut state = self.lock();
        state.words.take();
        state.tools.clear();
        state.subagents.clear();
    }

    /// Returns the subagents at work.
    pub(crate) fn subagents(&self) -> Vec<SubagentView> {
        let state = self.lock();
        let running = state.subagents.values().map(|(view, began)| SubagentView {
            running_s: began.elapsed().as_secs_f64(),
            ..view.clone()
        });
        running.collect()
    }

    /// Tells what happened in a turn.
    pub(crate) fn agent_event(&self, event: Event) {
        event.log();
        let mut state = self.lock();
        if let Some(body) = state.body_of(event) {
            state.emit(&self.session, &body);
        }
    }

    /// Tells what happened to a question.
    pub(crate) fn question_event(&self, event: QuestionEvent) {
        let mut state = self.lock();
        let body = match event {
            QuestionEvent::Asked(question) => {
                let is_approval = matches!(question.kind, RemoteQuestionKind::Approval(_));
                let asked = QuestionState { is_approval, is_answered: false };
                state.questions.insert(question.id.clone(), asked);
                match self.open_question(question) {
                    OpenQuestion::Approval(question) => EventBody::ApprovalRequest(question),
                    OpenQuestion::Clarify(question) => EventBody::ClarifyRequest(question),
                }
            }
            QuestionEvent::Closed { id } => {
                let request_id = self.request_id(&id);
                match state.questions.remove(&id) {
                    Some(QuestionState { is_approval: true, is_answered: answered }) => {
                        EventBody::ApprovalExpire { request_id, answered }
                    }
                    Some(QuestionState { is_approval: false, is_answered: answered }) => {
                        EventBody::ClarifyExpire { request_id, answered }
                    }
                    None => return,
                }
            }
        };
        state.emit(&self.session, &body);
    }

    /// Notes whether a question is being answered, for what is told when it is closed.
    pub(crate) fn set_answered(&self, id: &str, is_answered: bool) {
        if let Some(question) = self.lock().questions.get_mut(id) {
            question.is_answered = is_answered;
        }
    }

    /// Returns a question as clients see it.
    pub(crate) fn open_question(&self, question: RemoteQuestion) -> OpenQuestion {
        let request_id = self.request_id(&question.id);
        match question.kind {
            RemoteQuestionKind::Approval(request) => {
                let all = ["once", "session", "always", "deny"];
                let choices = all.iter().filter(|choice| request.may_last || **choice != "always");
                OpenQuestion::Approval(ApprovalQuestion {
                    request_id,
                    command: request.action,
                    description: request.reason,
                    pattern: request.pattern,
                    choices: choices.map(|choice| (*choice).to_owned()).collect(),
                    timeout_s: self.approval_timeout.as_secs(),
                })
            }
            RemoteQuestionKind::Clarification(question) => OpenQuestion::Clarify(ClarifyQuestion {
                request_id,
                question: question.question,
                choices: question.choices,
            }),
        }
    }

    /// Returns the id that clients know a question by: one that no other session uses.
    fn request_id(&self, id: &str) -> String {
        format!("{}-{id}", self.session)
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HubState {
    fn emit(&mut self, session: &Arc<str>, body: &EventBody) {
        self.seq += 1;
        for (_, outbox) in &self.watchers {
            outbox.push_event(session, self.seq, body);
        }
    }

    fn body_of(&mut self, event: Event) -> Option<EventBody> {
        let status = |kind, text| Some(EventBody::StatusUpdate { kind, text });
        match event {
            Event::Text { text } => Some(EventBody::MessageDelta { text: self.words.push(&text)? }),
            Event::Reasoning { text } => Some(EventBody::ReasoningDelta { text }),
            Event::Discarded { reason, retry_after } => {
                self.words.take();
                let retry_after_s = retry_after.map(|after| after.as_secs_f64());
                Some(EventBody::MessageDiscard { reason, retry_after_s })
            }
            Event::CallAnnounced { name } => Some(EventBody::ToolGenerating { name }),
            Event::ToolStarted { call, name, summary } => {
                let (tool_id, context) = (call.clone(), summary);
                let tool = RunningTool { tool_id, name, context };
                self.tools.insert(call, tool.clone());
                let RunningTool { tool_id, name, context } = tool;
                Some(EventBody::ToolStart { tool_id, name, context })
            }
            Event::ToolOutput { call, text } => {
                Some(EventBody::ToolOutput { tool_id: call, text, omitted: 0 })
            }
            Event::FileChanged { call, path, diff } => {
                Some(EventBody::ToolDiff { tool_id: call, path, diff })
            }
            Event::ToolEnded { call, name, is_error, took, preview } => {
                self.tools.remove(&call);
                let duration_s = took.as_secs_f64();
                let (tool_id, result) = (call, preview);
                Some(EventBody::ToolComplete { tool_id, name, duration_s, is_error, result })
            }
            Event::ModelCalled { finish: Finish::ToolCalls, .. } => {
                let text = self.words.take();
                (!text.is_empty()).then_some(EventBody::MessageInterim { text })
            }
            Event::Compressing { tokens } => {
                let text = format!("summarising the conversation, about {tokens} tokens");
                status(StatusKind::Compressing, text)
            }
            Event::Compressed { messages, tokens } => {
                let text = format!("summarised {messages} messages; about {tokens} tokens now");
                status(StatusKind::Compressed, text)
            }
            Event::Steered { text } => status(StatusKind::Steered, text),
            Event::Warning { text } => status(StatusKind::Warning, text),
            Event::Child { conversation, index, event } => {
                self.body_of_child(conversation.to_string(), index, *event)
            }
            // The turn itself tells of its beginning and end, and of what it took.
            Event::TurnStarted { .. } | Event::TurnEnded { .. } | Event::ModelCalled { .. } => None,
        }
    }

    fn body_of_child(
        &mut self,
        subagent_id: String,
        index: usize,
        event: Event,
    ) -> Option<EventBody> {
        match event {
            Event::TurnStarted { .. } => {
                let view = SubagentView {
                    subagent_id: subagent_id.clone(),
                    index,
                    tool: None,
                    running_s: 0.0,
                };
                self.subagents.insert(subagent_id.clone(), (view, Instant::now()));
                Some(EventBody::SubagentStart { subagent_id, index })
            }
            Event::Text { text } => Some(EventBody::SubagentText { subagent_id, text }),
            Event::Reasoning { text } => Some(EventBody::SubagentThinking { subagent_id, text }),
            Event::ToolStarted { name, summary, .. } => {
                if let Some((view, _)) = self.subagents.get_mut(&subagent_id) {
                    view.tool = Some(name.clone());
                }
                Some(EventBody::SubagentTool { subagent_id, name, context: summary })
            }
            Event::ToolEnded { .. } => {
                if let Some((view, _)) = self.subagents.get_mut(&subagent_id) {
                    view.tool = None;
                }
                None
            }
            Event::TurnEnded { outcome } => {
                self.subagents.remove(&subagent_id);
                Some(EventBody::SubagentComplete { subagent_id, outcome })
            }
            Event::Child { conversation, index, event } => {
                self.body_of_child(conversation.to_string(), index, *event)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_an_answer_are_its_text_without_blanks_around_it() {
        let mut words = Words::default();
        let said = ["\n\n", " Hello", " ", "\n", "world", "!\n", "\n"];
        let pieces: Vec<String> = said.iter().filter_map(|piece| words.push(piece)).collect();
        assert_eq!(pieces, ["Hello", " \nworld", "!"]);
        assert_eq!(words.take(), said.concat().trim());
        assert_eq!(words.push("  again"), Some("again".to_owned()));
    }
}
