//! Questions to the user: how the agent asks them, and what keys mean while one is open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use vestal_agent::slash::Invocation;
use vestal_agent::{Approval, ApprovalRequest, Human, Question};
use vestal_tui::{Editor, History, Key, KeyCode, Line, Reaction, Size, style};

use crate::cells::{self, Frame};
use crate::chat::Chat;
use crate::conversation::Interrupt;
use crate::input::{self, Act};
use crate::live::{Kind, Said};

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

/// Whoever types when a question appears does not mean it: its keys are heard
/// only when it has been seen, and nothing was typed, for so long.
const PAUSE: Duration = Duration::from_millis(500);

/// A question that is asked.
pub(crate) struct Asking {
    pending: Pending,
    since: Instant,
    patience: Duration,
    /// The words of an answer, apart from what is being written otherwise.
    pub(crate) words: Editor,
    /// Since when it is on the screen.
    seen: Option<Instant>,
    is_heard: bool,
    /// Whether all of it stands in the transcript.
    is_told: bool,
}

impl Asking {
    fn new(pending: Pending, patience: Duration) -> Self {
        // Whoever gave a command waits for what it asks.
        let is_heard = matches!(&pending, Pending::Choose { .. });
        Self {
            pending,
            since: Instant::now(),
            patience,
            words: Editor::new(History::in_memory()),
            seen: None,
            is_heard,
            is_told: false,
        }
    }

    /// Shows the question.
    pub(crate) fn lines(&mut self, now: Instant, size: Size) -> Vec<Line> {
        self.seen.get_or_insert(now);
        self.shown(now, size).lines
    }

    fn shown(&self, now: Instant, size: Size) -> cells::Shown {
        let frame = Frame {
            width: cells::prose_width(size.columns),
            rows: size.rows,
            is_heard: self.is_heard,
            is_told: self.is_told,
        };
        match &self.pending {
            Pending::Approve { request, .. } => {
                let left = self.patience.saturating_sub(now.saturating_duration_since(self.since));
                cells::approval(request, left, frame)
            }
            Pending::Clarify { question, .. } => cells::clarification(question, frame),
            Pending::Choose { question, .. } => cells::choice(question, frame),
        }
    }

    /// Returns the question with all that it is about, for the transcript.
    fn whole(&self, width: usize) -> Vec<Line> {
        match &self.pending {
            Pending::Approve { request, .. } => {
                let mut lines = cells::aside(&format!("? {}", request.reason), width);
                let action = cells::action(request, width);
                lines.extend(action.iter().map(|line| Line::styled(line.text(), style::DIM)));
                lines
            }
            Pending::Clarify { question, .. } | Pending::Choose { question, .. } => {
                cells::aside(&format!("? {}", question.question), width)
            }
        }
    }

    /// Waits until whoever asked has given it up.
    pub(crate) async fn given_up(&mut self) {
        self.pending.given_up().await;
    }
}

impl Chat {
    /// Asks the next question, when the one before has been answered.
    pub(crate) fn ask(&mut self, pending: Pending) {
        // What led to it stands before it.
        while let Ok(happening) = self.happenings.try_recv() {
            self.happened(happening);
        }
        let mut asking = Asking::new(pending, self.patience);
        if asking.shown(Instant::now(), self.screen.size()).is_folded {
            self.tell_whole(&mut asking);
        }
        self.asking.push_back(asking);
        self.ring();
        self.is_dirty = true;
    }

    /// Reports whether the question's keys are heard by now.
    pub(crate) fn hear(&mut self) -> bool {
        let heard_at = self.heard_at();
        let Some(asking) = self.asking.front_mut() else { return false };
        if heard_at.is_some_and(|at| at <= Instant::now()) {
            asking.is_heard = true;
            self.is_dirty = true;
        }
        asking.is_heard
    }

    /// Returns when a question's keys will be heard, if they are not yet.
    pub(crate) fn heard_at(&self) -> Option<Instant> {
        let asking = self.asking.front()?;
        if asking.is_heard { None } else { Some(heard_at(asking.seen?, self.typed_at)) }
    }

    /// Takes away questions that nobody waits for any more.
    pub(crate) fn forget_given_up(&mut self) {
        while self.asking.front().is_some_and(|asking| asking.pending.is_given_up()) {
            if let Some(asking) = self.asking.pop_front() {
                let came = self.came_of(&asking);
                self.answered(&asking, came);
                self.keep_words_of(&asking);
            }
        }
    }

    /// Returns what came of a question that was given up.
    fn came_of(&self, asking: &Asking) -> &'static str {
        let is_interrupted =
            self.talk.running().is_none_or(|running| running.interrupt != Interrupt::No);
        let is_over = is_interrupted || asking.since.elapsed() >= asking.patience;
        match asking.pending {
            Pending::Approve { .. } if self.about.guard.is_yolo() && !is_over => {
                "not asked about any more (/yolo)"
            }
            _ => "no answer",
        }
    }

    /// Puts the words of an answer that nobody hears into the input.
    pub(crate) fn keep_words_of(&mut self, asking: &Asking) {
        let words = asking.words.text();
        if words.trim().is_empty() {
            return;
        }
        let draft = self.editor.text();
        let draft = if draft.trim().is_empty() { words } else { format!("{draft}\n\n{words}") };
        self.editor.set_text(&draft);
    }

    /// Does what a key means to the question that is asked. Returns the command
    /// that an answer makes, to be carried out before anything else.
    pub(crate) fn key_of_question(&mut self, key: Key) -> Option<Invocation> {
        self.is_dirty = true;
        if key == Key::plain(KeyCode::Escape) {
            self.dismiss();
            return None;
        }
        let asking = self.asking.front_mut()?;
        if let (Pending::Approve { request, .. }, KeyCode::Char(letter)) =
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
        match asking.words.key(key) {
            Reaction::Submit => self.answer(),
            Reaction::Unused(key) => {
                match input::act(key) {
                    Some(Act::Unfold) => self.unfold_question(),
                    Some(Act::ClearScreen) => self.clear_screen(),
                    _ => {}
                }
                None
            }
            _ => None,
        }
    }

    /// Takes text that is pasted while a question is asked.
    pub(crate) fn paste_of_question(&mut self, text: String) {
        if let Some(asking) = self.asking.front_mut() {
            asking.words.paste(text);
            self.is_dirty = true;
        }
    }

    /// Leaves a question without an answer, which is a no.
    fn dismiss(&mut self) {
        match self.asking.front().map(|asking| &asking.pending) {
            Some(Pending::Approve { .. }) => self.approve(Approval::Deny(None)),
            Some(Pending::Clarify { .. } | Pending::Choose { .. }) => {
                if let Some(asking) = self.asking.pop_front() {
                    self.answered(&asking, "unanswered");
                }
            }
            None => {}
        }
    }

    /// Leaves a question of the program's own without an answer. Returns
    /// whether there was one.
    pub(crate) fn dismiss_own(&mut self) -> bool {
        let front = self.asking.front().map(|asking| &asking.pending);
        let is_own = matches!(front, Some(Pending::Choose { .. }));
        if is_own {
            self.dismiss();
        }
        is_own
    }

    /// Takes the words that were typed as the answer. What is none stays where
    /// it is, to be put right.
    fn answer(&mut self) -> Option<Invocation> {
        let asking = self.asking.front()?;
        let words = asking.words.text();
        let question: &Question = match &asking.pending {
            Pending::Approve { request, .. } => {
                match read_approval(&words, request.may_last) {
                    Some(approval) => self.approve(approval),
                    None if words.trim().is_empty() => {}
                    None => self
                        .note("please answer with one of the letters in brackets, or `no` and why"),
                }
                return None;
            }
            Pending::Clarify { question, .. } | Pending::Choose { question, .. } => question,
        };
        let answer = read_answer(&words, &question.choices)?;
        let asking = self.asking.pop_front()?;
        self.answered(&asking, &answer);
        match asking.pending {
            Pending::Clarify { reply, .. } => {
                // Whoever gave it up in this moment hears nothing.
                drop(reply.send(answer));
                None
            }
            Pending::Choose { then, .. } => then(&answer),
            Pending::Approve { .. } => None,
        }
    }

    fn approve(&mut self, approval: Approval) {
        let Some(asking) = self.asking.pop_front() else { return };
        let words = match &approval {
            Approval::Once => "approved once".to_owned(),
            Approval::Conversation => "approved for this conversation".to_owned(),
            Approval::Always => "approved for always".to_owned(),
            Approval::Deny(None) => "denied".to_owned(),
            Approval::Deny(Some(why)) => format!("denied: {why}"),
        };
        self.answered(&asking, &words);
        if let Pending::Approve { reply, .. } = asking.pending {
            // Whoever gave it up in this moment has denied it.
            drop(reply.send(approval));
        }
    }

    /// Puts all of the question that is asked into the transcript, once.
    fn unfold_question(&mut self) {
        if let Some(mut asking) = self.asking.pop_front() {
            if !asking.is_told {
                self.tell_whole(&mut asking);
            }
            self.asking.push_front(asking);
        }
    }

    fn tell_whole(&mut self, asking: &mut Asking) {
        let lines = asking.whole(self.width());
        self.put(Said { kind: Kind::Notice, lines });
        asking.is_told = true;
    }

    /// Puts a question and what came of it into the transcript.
    fn answered(&mut self, asking: &Asking, answer: &str) {
        let width = self.width();
        let mut lines = if asking.is_told { Vec::new() } else { asking.whole(width) };
        match &asking.pending {
            Pending::Approve { .. } => lines.extend(cells::aside(&format!("  {answer}"), width)),
            Pending::Clarify { .. } | Pending::Choose { .. } => {
                lines.extend(cells::user(answer, width));
            }
        }
        self.put(Said { kind: Kind::Notice, lines });
    }
}

/// Returns when the keys of a question are heard that is seen since a moment.
fn heard_at(seen: Instant, typed: Option<Instant>) -> Instant {
    typed.map_or(seen, |typed| typed.max(seen)) + PAUSE
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
