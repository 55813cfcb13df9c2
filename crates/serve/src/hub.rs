//! The events of one session: made of what its turns do, numbered, and handed to everybody who
//! watches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vestal_agent::TurnEvent;
use vestal_conversations::{MessageKind, Seq, Stored};
use vestal_model::FinishReason;
use vestal_runtime::{QuestionEvent, RemoteQuestion, RemoteQuestionKind};

use crate::events::{ApprovalQuestion, ClarifyQuestion, EventBody, StatusKind, TurnTrigger};
use crate::outbox::ClientOutbox;
use crate::views::{Inflight, MessageRole, MessageView, OpenQuestion, RunningTool, SubagentView};

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
    watchers: Vec<(u64, ClientOutbox)>,
    /// The last message of the store that no event of a running turn tells; none as long as nobody
    /// has opened the conversation.
    settled: Option<Seq>,
    /// The prompt of a running turn, and what it has written and done since.
    turn: Option<Vec<MessageView>>,
    /// What the model is saying.
    words: AnswerWords,
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
struct AnswerWords {
    text: String,
    /// Blanks that are words only if more words follow.
    held: String,
}

impl AnswerWords {
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

/// Where things stand in a session at the moment somebody begins to watch it.
#[derive(Debug)]
pub(crate) struct SessionSnapshot {
    /// The number of the last event before.
    pub(crate) seq: u64,
    /// What a turn that runs is saying and doing.
    pub(crate) inflight: Option<Inflight>,
    settled: Option<Seq>,
    turn: Vec<MessageView>,
}

impl SessionSnapshot {
    /// Returns the messages of the session, given those of the store at this moment or later: what
    /// stands in the store and was said before the turn that runs, and what events have told of
    /// that turn. What the turn has put into the store meanwhile comes, or came, as events alone.
    pub(crate) fn messages(&self, stored: Vec<Stored>) -> Vec<MessageView> {
        let is_settled = |message: &Stored| {
            let before = self.settled.is_none_or(|settled| message.seq <= settled);
            // A summary has a late number and stands for early messages.
            before || message.kind == MessageKind::Summary
        };
        let settled = stored.into_iter().filter(is_settled).map(MessageView::from);
        settled.chain(self.turn.iter().cloned()).collect()
    }
}

impl Hub {
    pub(crate) fn new(session: Arc<str>, approval_timeout: Duration) -> Arc<Self> {
        Arc::new(Self { session, approval_timeout, state: Mutex::default() })
    }

    /// Has a connection hear everything from now on. Returns where things stand: together with the
    /// later events nothing is missing and nothing comes twice.
    pub(crate) fn attach(&self, connection: u64, outbox: &ClientOutbox) -> SessionSnapshot {
        let mut state = self.lock();
        if !state.watchers.iter().any(|(known, _)| *known == connection) {
            state.watchers.push((connection, outbox.clone()));
        }
        state.snapshot()
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

    /// Sends it to everybody who watches.
    pub(crate) fn emit(&self, body: &EventBody) {
        self.lock().emit(&self.session, body);
    }

    /// Notes the last message that stands in the store while no turn runs.
    pub(crate) fn settle(&self, last: Option<Seq>) {
        self.lock().settled = Some(last.unwrap_or(Seq(i64::MIN)));
    }

    /// Reports that a turn begins. Clients that join from now on see a turn that runs.
    pub(crate) fn begin_turn(&self, trigger: TurnTrigger, text: Option<String>, images: usize) {
        let mut state = self.lock();
        state.forget_turn();
        let prompt = text
            .clone()
            .map(|text| MessageView { images, ..MessageView::live(MessageRole::User, text) });
        state.turn = Some(prompt.into_iter().collect());
        state.emit(&self.session, &EventBody::MessageStart { trigger, text, images });
    }

    /// Reports the end of a turn. Clients that join later find all of it in the store, up to `last`;
    /// without that, as far as it stood there before.
    pub(crate) fn end_turn(&self, body: &EventBody, last: Option<Seq>) {
        let mut state = self.lock();
        state.forget_turn();
        state.settled = last.or(state.settled);
        state.emit(&self.session, body);
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

    /// Reports what happened in a turn.
    pub(crate) fn agent_event(&self, event: TurnEvent) {
        event.log();
        let mut state = self.lock();
        if let Some(body) = state.body_of(event) {
            state.emit(&self.session, &body);
        }
    }

    /// Reports what happened to a question.
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

    /// Notes whether a question is being answered, for the report when it is closed.
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
    fn snapshot(&self) -> SessionSnapshot {
        let inflight = self.turn.is_some().then(|| Inflight {
            text: self.words.text.clone(),
            tools: self.tools.values().cloned().collect(),
        });
        let (seq, settled) = (self.seq, self.settled);
        SessionSnapshot { seq, inflight, settled, turn: self.turn.clone().unwrap_or_default() }
    }

    fn forget_turn(&mut self) {
        self.turn = None;
        self.words.take();
        self.tools.clear();
        self.subagents.clear();
    }

    /// Keeps what the events of a turn contain, for clients that join it.
    fn keep(&mut self, message: MessageView) {
        if let Some(turn) = &mut self.turn {
            turn.push(message);
        }
    }

    fn emit(&mut self, session: &Arc<str>, body: &EventBody) {
        self.seq += 1;
        for (_, outbox) in &self.watchers {
            outbox.push_event(session, self.seq, body);
        }
    }

    fn body_of(&mut self, event: TurnEvent) -> Option<EventBody> {
        let status = |kind, text| Some(EventBody::StatusUpdate { kind, text });
        match event {
            TurnEvent::Text { text } => {
                Some(EventBody::MessageDelta { text: self.words.push(&text)? })
            }
            TurnEvent::Reasoning { text } => Some(EventBody::ReasoningDelta { text }),
            TurnEvent::Discarded { reason, retry_after } => {
                self.words.take();
                let retry_after_s = retry_after.map(|after| after.as_secs_f64());
                Some(EventBody::MessageDiscard { reason, retry_after_s })
            }
            TurnEvent::CallAnnounced { name } => Some(EventBody::ToolGenerating { name }),
            TurnEvent::ToolStarted { call, name, summary } => {
                let (tool_id, context) = (call.clone(), summary);
                let tool = RunningTool { tool_id, name, context };
                self.tools.insert(call, tool.clone());
                let RunningTool { tool_id, name, context } = tool;
                Some(EventBody::ToolStart { tool_id, name, context })
            }
            TurnEvent::ToolOutput { call, text } => {
                Some(EventBody::ToolOutput { tool_id: call, text, omitted: 0 })
            }
            TurnEvent::FileChanged { call, path, diff } => {
                Some(EventBody::ToolDiff { tool_id: call, path, diff })
            }
            TurnEvent::ToolEnded { call, name, is_error, took, preview } => {
                self.tools.remove(&call);
                let duration_s = took.as_secs_f64();
                let (tool_id, result) = (call, preview);
                let view = MessageView::live(MessageRole::Tool, result.clone());
                self.keep(MessageView { name: Some(name.clone()), is_error, ..view });
                Some(EventBody::ToolComplete { tool_id, name, duration_s, is_error, result })
            }
            TurnEvent::ModelCalled { finish: FinishReason::ToolCalls, .. } => {
                let text = self.words.take();
                if text.is_empty() {
                    return None;
                }
                self.keep(MessageView::live(MessageRole::Assistant, text.clone()));
                Some(EventBody::MessageInterim { text })
            }
            TurnEvent::Compressing { tokens } => {
                let text = format!("summarising the conversation, about {tokens} tokens");
                status(StatusKind::Compressing, text)
            }
            TurnEvent::Compressed { messages, tokens } => {
                let text = format!("summarised {messages} messages; about {tokens} tokens now");
                status(StatusKind::Compressed, text)
            }
            TurnEvent::Steered { text } => {
                self.keep(MessageView::live(MessageRole::User, text.clone()));
                status(StatusKind::Steered, text)
            }
            TurnEvent::Warning { text } => status(StatusKind::Warning, text),
            TurnEvent::Child { conversation, index, event } => {
                self.body_of_child(conversation.to_string(), index, *event)
            }
            TurnEvent::ModeChanged { mode } => {
                status(StatusKind::Warning, format!("the conversation is in mode {mode} now"))
            }
            // The turn itself reports its beginning and end, and what it took.
            TurnEvent::TurnStarted { .. }
            | TurnEvent::TurnEnded { .. }
            // The question that follows shows it.
            | TurnEvent::PlanPresented { .. }
            | TurnEvent::ModelCalled { .. } => None,
        }
    }

    fn body_of_child(
        &mut self,
        subagent_id: String,
        index: usize,
        event: TurnEvent,
    ) -> Option<EventBody> {
        match event {
            TurnEvent::TurnStarted { .. } => {
                let view = SubagentView {
                    subagent_id: subagent_id.clone(),
                    index,
                    tool: None,
                    running_s: 0.0,
                };
                self.subagents.insert(subagent_id.clone(), (view, Instant::now()));
                Some(EventBody::SubagentStart { subagent_id, index })
            }
            TurnEvent::Text { text } => Some(EventBody::SubagentText { subagent_id, text }),
            TurnEvent::Reasoning { text } => {
                Some(EventBody::SubagentThinking { subagent_id, text })
            }
            TurnEvent::ToolStarted { name, summary, .. } => {
                if let Some((view, _)) = self.subagents.get_mut(&subagent_id) {
                    view.tool = Some(name.clone());
                }
                Some(EventBody::SubagentTool { subagent_id, name, context: summary })
            }
            TurnEvent::ToolEnded { .. } => {
                if let Some((view, _)) = self.subagents.get_mut(&subagent_id) {
                    view.tool = None;
                }
                None
            }
            TurnEvent::TurnEnded { outcome } => {
                self.subagents.remove(&subagent_id);
                Some(EventBody::SubagentComplete { subagent_id, outcome })
            }
            TurnEvent::Child { conversation, index, event } => {
                self.body_of_child(conversation.to_string(), index, *event)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use vestal_conversations::MessageStanding;
    use vestal_model::{AssistantMessage, Message};

    use super::*;

    #[test]
    fn the_pieces_of_an_answer_are_its_text_without_blanks_around_it() {
        let mut words = AnswerWords::default();
        let message = ["\n\n", " Hello", " ", "\n", "world", "!\n", "\n"];
        let pieces: Vec<String> = message.iter().filter_map(|piece| words.push(piece)).collect();
        assert_eq!(pieces, ["Hello", " \nworld", "!"]);
        assert_eq!(words.take(), message.concat().trim());
        assert_eq!(words.push("  again"), Some("again".to_owned()));
    }

    fn stored(seq: i64, message: Message) -> Stored {
        let (kind, standing) = (MessageKind::Dialogue, MessageStanding::Active);
        let at = jiff::Timestamp::UNIX_EPOCH;
        let (usage, cost, provider, model) = (None, None, None, None);
        Stored { seq: Seq(seq), kind, standing, at, message, usage, cost, provider, model }
    }

    fn shown(messages: &[MessageView]) -> Vec<(MessageRole, &str)> {
        messages.iter().map(|message| (message.role, message.text.as_str())).collect()
    }

    /// The answer is in the store before its end is reported, and the end is reported after the session is
    /// free: at each of these moments somebody may join.
    #[test]
    fn a_client_that_joins_while_an_answer_is_finished_sees_it_once() {
        let hub = Hub::new("s".into(), Duration::ZERO);
        hub.settle(None);
        let store = [
            stored(1, Message::user("one")),
            stored(
                2,
                Message::Assistant(AssistantMessage {
                    text: "two".to_owned(),
                    ..AssistantMessage::default()
                }),
            ),
        ];
        let join = |connection| {
            let outbox = ClientOutbox::new();
            (hub.attach(connection, &outbox), outbox)
        };
        let prompt = (MessageRole::User, "one");
        let answer = (MessageRole::Assistant, "two");
        hub.begin_turn(TurnTrigger::Prompt, Some("one".to_owned()), 0);
        // The prompt is reported, and stands in the store or not yet.
        for stored in [&store[..0], &store[..1]] {
            let (snapshot, _) = join(1);
            assert_eq!(shown(&snapshot.messages(stored.to_vec())), [prompt]);
        }
        hub.agent_event(TurnEvent::Text { text: "two".to_owned() });
        // All of it stands in the store, and its end is not told yet.
        let (snapshot, _) = join(2);
        assert_eq!(shown(&snapshot.messages(store.to_vec())), [prompt]);
        assert_eq!(snapshot.inflight.unwrap().text, "two");
        hub.end_turn(&EventBody::Error { message: "the end".to_owned() }, Some(Seq(2)));
        let (snapshot, _) = join(3);
        assert_eq!(snapshot.seq, 3);
        assert_eq!(snapshot.inflight, None);
        assert_eq!(shown(&snapshot.messages(store.to_vec())), [prompt, answer]);
        // The next prompt stands in the store before the snapshot's reader gets there: it comes as
        // an event.
        let later = [store.to_vec(), vec![stored(3, Message::user("three"))]].concat();
        assert_eq!(shown(&snapshot.messages(later)), [prompt, answer]);
    }
}
