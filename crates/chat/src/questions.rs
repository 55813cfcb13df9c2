//! Questions to the user: how the agent asks them, and what keys mean while one is open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use vestal_agent::slash::Invocation;
use vestal_agent::{Approval, ApprovalRequest, Human, PlanAnswer, Question};
use vestal_tui::{
    Editor, History, KeyCode, KeyPress, Line, Picker, PickerReaction, Reaction, Size, style,
};

use crate::cells::{self, QuestionFrame};
use crate::chat::Chat;
use crate::conversation::InterruptState;
use crate::input::{self, KeyAction};
use crate::live::{EntryKind, TranscriptEntry};

/// Returns a `Human` for the conversations, and the receiver of its questions for the chat.
pub fn question_channel() -> (Arc<dyn Human>, Questions) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Arc::new(ChatHuman { questions: sender }), Questions(receiver))
}

/// The questions that the user is asked.
#[derive(Debug)]
pub struct Questions(mpsc::UnboundedReceiver<PendingQuestion>);

impl Questions {
    /// Waits for the next question; forever when all senders are gone.
    pub(crate) async fn next(&mut self) -> PendingQuestion {
        match self.0.recv().await {
            Some(pending) => pending,
            None => std::future::pending().await,
        }
    }
}

/// A question that waits for its answer. The agent may abandon it; then the answer is
/// dropped.
pub(crate) enum PendingQuestion {
    /// The agent asks for an approval.
    Approve { request: ApprovalRequest, reply: oneshot::Sender<Approval> },
    /// The model asks a question.
    Clarify { question: Question, reply: oneshot::Sender<String> },
    /// A slash command asks; the handler makes a command of the answer.
    Choose { question: Question, then: AnswerHandler },
    /// A slash command lets the user choose from a list; the handler makes a command of the number
    /// of what was chosen.
    Pick { title: String, picker: Picker, then: PickHandler },
}

/// Makes a command of an answer. It runs before any input that follows the answer.
pub(crate) type AnswerHandler = Box<dyn FnOnce(&str) -> Option<Invocation> + Send>;

/// Makes a command of what was chosen from a list.
pub(crate) type PickHandler = Box<dyn FnOnce(usize) -> Option<Invocation> + Send>;

impl PendingQuestion {
    /// Waits until the question is abandoned.
    pub(crate) async fn abandoned(&mut self) {
        match self {
            Self::Approve { reply, .. } => reply.closed().await,
            Self::Clarify { reply, .. } => reply.closed().await,
            Self::Choose { .. } | Self::Pick { .. } => std::future::pending().await,
        }
    }

    /// Reports whether the question is abandoned.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Approve { reply, .. } => reply.is_closed(),
            Self::Clarify { reply, .. } => reply.is_closed(),
            Self::Choose { .. } | Self::Pick { .. } => false,
        }
    }
}

impl PendingQuestion {
    /// Reports whether a slash command asks, and not the agent.
    fn is_own(&self) -> bool {
        matches!(self, Self::Choose { .. } | Self::Pick { .. })
    }
}

impl std::fmt::Debug for PendingQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Approve { .. } => "Approve",
            Self::Clarify { .. } => "Clarify",
            Self::Choose { .. } => "Choose",
            Self::Pick { .. } => "Pick",
        })
    }
}

struct ChatHuman {
    questions: mpsc::UnboundedSender<PendingQuestion>,
}

#[async_trait]
impl Human for ChatHuman {
    fn is_present(&self) -> bool {
        !self.questions.is_closed()
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        let (reply, answer) = oneshot::channel();
        let request = request.clone();
        if self.questions.send(PendingQuestion::Approve { request, reply }).is_err() {
            return Approval::Deny(None);
        }
        // A chat that ends without an answer denies.
        answer.await.unwrap_or(Approval::Deny(None))
    }

    async fn clarify(&self, question: &Question) -> Option<String> {
        let (reply, answer) = oneshot::channel();
        let question = question.clone();
        self.questions.send(PendingQuestion::Clarify { question, reply }).ok()?;
        answer.await.ok()
    }

    /// The plan is in the transcript by then: see `TurnEvent::PlanPresented`.
    async fn approve_plan(&self, _: &str) -> PlanAnswer {
        let question = Question {
            question: "Shall the agent carry out the plan above? Other words say what to change."
                .to_owned(),
            choices: vec![PlanAnswer::APPROVE.to_owned(), PlanAnswer::REJECT.to_owned()],
        };
        match self.clarify(&question).await {
            Some(answer) => PlanAnswer::from_words(&answer),
            None => PlanAnswer::Reject,
        }
    }
}

/// Parses the answer to a request for approval; text after a no is the reason.
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

/// Parses the answer to a question: a number selects a choice, other text is the answer.
pub fn read_answer(line: &str, choices: &[String]) -> Option<String> {
    let line = line.trim();
    let number: Option<usize> = line.parse().ok();
    let chosen = number.and_then(|number| choices.get(number.checked_sub(1)?));
    let answer = chosen.map_or(line, String::as_str);
    (!answer.is_empty()).then(|| answer.to_owned())
}

/// Keys typed just when a question appears are not meant for it: it accepts keys only after
/// it was visible, and nothing was typed, for this long.
const PAUSE: Duration = Duration::from_millis(500);

/// A question on the screen.
pub(crate) struct ShownQuestion {
    pending: PendingQuestion,
    since: Instant,
    approval_timeout: Duration,
    /// The editor of the answer, apart from the main input.
    pub(crate) words: Editor,
    /// When it was first drawn.
    seen: Option<Instant>,
    is_armed: bool,
    /// Whether it was printed in full.
    is_printed: bool,
}

impl ShownQuestion {
    fn new(pending: PendingQuestion, approval_timeout: Duration) -> Self {
        // A question of a slash command is expected, so it accepts keys at once.
        let is_armed = pending.is_own();
        let mut words = Editor::new(History::in_memory());
        if let PendingQuestion::Pick { .. } = &pending {
            words.set_placeholder("type to filter");
        }
        Self {
            pending,
            since: Instant::now(),
            approval_timeout,
            words,
            seen: None,
            is_armed,
            is_printed: false,
        }
    }

    /// Renders the question.
    pub(crate) fn lines(&mut self, now: Instant, size: Size) -> Vec<Line> {
        self.seen.get_or_insert(now);
        self.shown(now, size).lines
    }

    fn shown(&self, now: Instant, size: Size) -> cells::QuestionView {
        let frame = QuestionFrame {
            width: cells::prose_width(size.columns),
            rows: size.rows,
            is_armed: self.is_armed,
            is_printed: self.is_printed,
        };
        match &self.pending {
            PendingQuestion::Approve { request, .. } => {
                let left =
                    self.approval_timeout.saturating_sub(now.saturating_duration_since(self.since));
                cells::approval(request, left, frame)
            }
            PendingQuestion::Clarify { question, .. } => cells::clarification(question, frame),
            PendingQuestion::Choose { question, .. } => cells::choice(question, frame),
            PendingQuestion::Pick { title, picker, .. } => cells::picker(title, picker, frame),
        }
    }

    /// Renders the question in full, for the transcript.
    fn whole(&self, width: usize) -> Vec<Line> {
        match &self.pending {
            PendingQuestion::Approve { request, .. } => {
                let mut lines = cells::dimmed(&format!("? {}", request.reason), width);
                let action = cells::action(request, width);
                lines.extend(action.iter().map(|line| Line::styled(line.text(), style::DIM)));
                lines
            }
            PendingQuestion::Clarify { question, .. }
            | PendingQuestion::Choose { question, .. } => {
                cells::dimmed(&format!("? {}", question.question), width)
            }
            PendingQuestion::Pick { title, .. } => cells::dimmed(&format!("? {title}"), width),
        }
    }

    /// Narrows a list to choose from to what is typed.
    fn narrow(&mut self) {
        if let PendingQuestion::Pick { picker, .. } = &mut self.pending {
            picker.narrow(&self.words.text());
        }
    }

    /// Waits until the question is abandoned.
    pub(crate) async fn abandoned(&mut self) {
        self.pending.abandoned().await;
    }
}

impl Chat {
    /// Queues a question behind those that are open.
    pub(crate) fn ask(&mut self, pending: PendingQuestion) {
        // Events that led to the question are printed before it.
        while let Ok(turn_event) = self.turn_events.try_recv() {
            self.on_turn_event(turn_event);
        }
        let mut asking = ShownQuestion::new(pending, self.approval_timeout);
        if asking.shown(Instant::now(), self.screen.size()).is_folded {
            self.print_whole(&mut asking);
        }
        self.asking.push_back(asking);
        self.ring_if_unfocused();
        self.is_dirty = true;
    }

    /// Reports whether the question accepts keys, and marks it so when it is time.
    pub(crate) fn arm_question(&mut self) -> bool {
        let armed_at = self.armed_at();
        let Some(asking) = self.asking.front_mut() else { return false };
        if armed_at.is_some_and(|at| at <= Instant::now()) {
            asking.is_armed = true;
            self.is_dirty = true;
        }
        asking.is_armed
    }

    /// Returns when the question will accept keys, if it does not yet.
    pub(crate) fn armed_at(&self) -> Option<Instant> {
        let asking = self.asking.front()?;
        if asking.is_armed { None } else { Some(armed_at(asking.seen?, self.typed_at)) }
    }

    /// Removes abandoned questions.
    pub(crate) fn drop_abandoned_questions(&mut self) {
        while self.asking.front().is_some_and(|asking| asking.pending.is_abandoned()) {
            if let Some(asking) = self.asking.pop_front() {
                let outcome = self.outcome_of(&asking);
                self.answered(&asking, outcome);
                self.return_answer_to_input(&asking);
            }
        }
    }

    /// Returns the outcome to print for an abandoned question.
    fn outcome_of(&self, asking: &ShownQuestion) -> &'static str {
        let is_interrupted =
            self.slot.running().is_none_or(|running| running.interrupt != InterruptState::No);
        let is_over = is_interrupted || asking.since.elapsed() >= asking.approval_timeout;
        match asking.pending {
            PendingQuestion::Approve { .. } if self.info.guard.is_yolo() && !is_over => {
                "no longer needed (/yolo)"
            }
            _ => "no answer",
        }
    }

    /// Moves the text of an unused answer into the input.
    pub(crate) fn return_answer_to_input(&mut self, asking: &ShownQuestion) {
        let words = asking.words.text();
        // What narrows a list is no message.
        let is_filter = matches!(&asking.pending, PendingQuestion::Pick { .. });
        if is_filter || words.trim().is_empty() {
            return;
        }
        let draft = self.editor.text();
        let draft = if draft.trim().is_empty() { words } else { format!("{draft}\n\n{words}") };
        self.editor.set_text(&draft);
    }

    /// Handles a key for the open question. Returns a command that must run before anything
    /// else.
    pub(crate) fn question_key(&mut self, key: KeyPress) -> Option<Invocation> {
        self.is_dirty = true;
        if key == KeyPress::plain(KeyCode::Escape) {
            self.dismiss();
            return None;
        }
        let asking = self.asking.front_mut()?;
        if let (PendingQuestion::Approve { request, .. }, KeyCode::Char(letter)) =
            (&asking.pending, key.code)
            && asking.words.is_empty()
            && !key.modifiers.control
            && !key.modifiers.alt
            && "ocad".contains(letter.to_ascii_lowercase())
            && let Some(approval) = read_approval(&letter.to_string(), request.may_last)
        {
            self.approve(approval);
            return None;
        }
        if let PendingQuestion::Pick { picker, .. } = &mut asking.pending
            && let Some(reaction) = picker.key(key)
        {
            return match reaction {
                PickerReaction::Moved => None,
                PickerReaction::Chosen(index) => self.picked(index),
            };
        }
        let reaction = asking.words.key(key);
        asking.narrow();
        match reaction {
            Reaction::Submit => self.answer(),
            Reaction::Unused(key) => {
                match input::key_action(key) {
                    Some(KeyAction::ShowOutput) => self.print_question_in_full(),
                    Some(KeyAction::ClearScreen) => self.clear_screen(),
                    _ => {}
                }
                None
            }
            _ => None,
        }
    }

    /// Handles text that is pasted while a question is open.
    pub(crate) fn question_paste(&mut self, text: String) {
        if let Some(asking) = self.asking.front_mut() {
            asking.words.paste(text);
            asking.narrow();
            self.is_dirty = true;
        }
    }

    /// Dismisses a question; an approval is denied.
    fn dismiss(&mut self) {
        match self.asking.front().map(|asking| &asking.pending) {
            Some(PendingQuestion::Approve { .. }) => self.approve(Approval::Deny(None)),
            Some(PendingQuestion::Clarify { .. } | PendingQuestion::Choose { .. }) => {
                if let Some(asking) = self.asking.pop_front() {
                    self.answered(&asking, "unanswered");
                }
            }
            Some(PendingQuestion::Pick { .. }) => {
                if let Some(asking) = self.asking.pop_front() {
                    let mut lines = asking.whole(self.width());
                    lines.extend(cells::dimmed("  nothing chosen", self.width()));
                    self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
                }
            }
            None => {}
        }
    }

    /// Dismisses a question of a slash command. Returns whether there was one.
    pub(crate) fn dismiss_own(&mut self) -> bool {
        let is_own = self.asking.front().is_some_and(|asking| asking.pending.is_own());
        if is_own {
            self.dismiss();
        }
        is_own
    }

    /// Takes the typed text as the answer. Invalid text stays in the input.
    fn answer(&mut self) -> Option<Invocation> {
        let asking = self.asking.front()?;
        let words = asking.words.text();
        let question: &Question = match &asking.pending {
            PendingQuestion::Approve { request, .. } => {
                match read_approval(&words, request.may_last) {
                    Some(approval) => self.approve(approval),
                    None if words.trim().is_empty() => {}
                    None => self.note(
                        "answer with one of the letters in brackets, or with `no` and a reason",
                    ),
                }
                return None;
            }
            PendingQuestion::Clarify { question, .. }
            | PendingQuestion::Choose { question, .. } => question,
            // Enter is the list's.
            PendingQuestion::Pick { .. } => return None,
        };
        let answer = read_answer(&words, &question.choices)?;
        let asking = self.asking.pop_front()?;
        self.answered(&asking, &answer);
        match asking.pending {
            PendingQuestion::Clarify { reply, .. } => {
                // An agent that has just abandoned it gets no answer.
                drop(reply.send(answer));
                None
            }
            PendingQuestion::Choose { then, .. } => then(&answer),
            PendingQuestion::Approve { .. } | PendingQuestion::Pick { .. } => None,
        }
    }

    /// Takes what was chosen from a list.
    fn picked(&mut self, index: usize) -> Option<Invocation> {
        let asking = self.asking.pop_front()?;
        let label = match &asking.pending {
            PendingQuestion::Pick { picker, .. } => {
                picker.marked().map(|(_, item)| item.label.clone()).unwrap_or_default()
            }
            _ => String::new(),
        };
        self.answered(&asking, &label);
        match asking.pending {
            PendingQuestion::Pick { then, .. } => then(index),
            _ => None,
        }
    }

    fn approve(&mut self, approval: Approval) {
        let Some(asking) = self.asking.pop_front() else { return };
        let words = match &approval {
            Approval::Once => "approved once".to_owned(),
            Approval::Conversation => "approved for this conversation".to_owned(),
            Approval::Always => "always approved".to_owned(),
            Approval::Deny(None) => "denied".to_owned(),
            Approval::Deny(Some(why)) => format!("denied: {why}"),
        };
        self.answered(&asking, &words);
        if let PendingQuestion::Approve { reply, .. } = asking.pending {
            // An agent that has just abandoned it treats it as denied.
            drop(reply.send(approval));
        }
    }

    /// Prints the open question in full, once.
    fn print_question_in_full(&mut self) {
        if let Some(mut asking) = self.asking.pop_front() {
            if !asking.is_printed {
                self.print_whole(&mut asking);
            }
            self.asking.push_front(asking);
        }
    }

    fn print_whole(&mut self, asking: &mut ShownQuestion) {
        let lines = asking.whole(self.width());
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
        asking.is_printed = true;
    }

    /// Prints a question and its outcome.
    fn answered(&mut self, asking: &ShownQuestion, answer: &str) {
        let width = self.width();
        let mut lines = if asking.is_printed { Vec::new() } else { asking.whole(width) };
        match &asking.pending {
            PendingQuestion::Approve { .. } => {
                lines.extend(cells::dimmed(&format!("  {answer}"), width));
            }
            PendingQuestion::Clarify { .. }
            | PendingQuestion::Choose { .. }
            | PendingQuestion::Pick { .. } => lines.extend(cells::user(answer, width)),
        }
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
    }
}

/// Returns when a question that is visible since `seen` accepts keys.
fn armed_at(seen: Instant, typed: Option<Instant>) -> Instant {
    typed.map_or(seen, |typed| typed.max(seen)) + PAUSE
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
