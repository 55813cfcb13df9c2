//! Questions to the person, and what the keys mean while one is asked.

use std::time::{Duration, Instant};

use vestal_agent::Approval;
use vestal_config::keys;
use vestal_tui::{Editor, History, Key, KeyCode, Line, Reaction};

use crate::asked::{Asker, Pending, read_answer, read_approval};
use crate::cells;
use crate::chat::Chat;
use crate::live::{Kind, Said};

/// Whoever types when a question appears does not mean it: its keys are heard
/// only after so long a pause.
const PAUSE: Duration = Duration::from_millis(500);

/// A question that is asked.
pub(crate) struct Asking {
    pending: Pending,
    since: Instant,
    patience: Duration,
    /// The words of an answer, apart from what is being written otherwise.
    pub(crate) words: Editor,
    is_heard: bool,
}

impl Asking {
    /// Shows the question.
    pub(crate) fn lines(&self, now: Instant, width: usize) -> Vec<Line> {
        match &self.pending {
            Pending::Approve { request, .. } => {
                let left = self.patience.saturating_sub(now.saturating_duration_since(self.since));
                cells::approval(request, left, self.is_heard, width)
            }
            Pending::Clarify { question, by, .. } => {
                cells::clarification(question, *by, self.is_heard, width)
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
        let patience = self.settings.get(&keys::APPROVALS_TIMEOUT);
        let patience = patience.map_or(Duration::from_mins(1), |found| found.value.duration());
        // Whoever gave a command waits for what it asks.
        let is_heard = matches!(&pending, Pending::Clarify { by: Asker::Program, .. });
        self.asking.push_back(Asking {
            pending,
            since: Instant::now(),
            patience,
            words: Editor::new(History::in_memory()),
            is_heard,
        });
        self.hear();
        self.ring();
        self.is_dirty = true;
    }

    /// Reports whether the question's keys are heard by now.
    pub(crate) fn hear(&mut self) -> bool {
        let Some(asking) = self.asking.front_mut() else { return false };
        if !asking.is_heard && is_pause(self.typed_at, Instant::now()) {
            asking.is_heard = true;
            self.is_dirty = true;
        }
        asking.is_heard
    }

    /// Returns when a question's keys will be heard, if they are not yet.
    pub(crate) fn heard_at(&self) -> Option<Instant> {
        let asking = self.asking.front()?;
        if asking.is_heard { None } else { Some(self.typed_at? + PAUSE) }
    }

    /// Takes away questions that nobody waits for any more.
    pub(crate) fn forget_given_up(&mut self) {
        while self.asking.front().is_some_and(|asking| asking.pending.is_given_up()) {
            if let Some(asking) = self.asking.pop_front() {
                self.answered(&asking.pending, "no answer");
            }
        }
        self.hear();
    }

    /// Does what a key means to the question that is asked.
    pub(crate) fn key_of_question(&mut self, key: Key) {
        let Some(mut asking) = self.asking.pop_front() else { return };
        self.is_dirty = true;
        if key == Key::plain(KeyCode::Escape) {
            match asking.pending {
                Pending::Approve { .. } => self.approve(asking, Approval::Deny(None)),
                Pending::Clarify { .. } => self.answered(&asking.pending, "unanswered"),
            }
            return;
        }
        if let (Pending::Approve { request, .. }, KeyCode::Char(letter)) =
            (&asking.pending, key.code)
            && asking.words.is_empty()
            && !key.modifiers.control
            && !key.modifiers.alt
            && "ocad".contains(letter.to_ascii_lowercase())
            && let Some(approval) = read_approval(&letter.to_string(), request.may_last)
        {
            return self.approve(asking, approval);
        }
        if asking.words.key(key) == Reaction::Submit {
            let words = asking.words.take().text;
            match &asking.pending {
                Pending::Approve { request, .. } => {
                    if let Some(approval) = read_approval(&words, request.may_last) {
                        return self.approve(asking, approval);
                    }
                    self.note("please answer with one of the letters in brackets, or `no` and why");
                }
                Pending::Clarify { question, .. } => {
                    if let Some(answer) = read_answer(&words, &question.choices) {
                        return self.clarify(asking, answer);
                    }
                }
            }
        }
        self.asking.push_front(asking);
    }

    /// Takes text that is pasted while a question is asked.
    pub(crate) fn paste_of_question(&mut self, text: String) {
        if let Some(asking) = self.asking.front_mut() {
            asking.words.paste(text);
            self.is_dirty = true;
        }
    }

    fn approve(&mut self, asking: Asking, approval: Approval) {
        let words = match &approval {
            Approval::Once => "approved once".to_owned(),
            Approval::Conversation => "approved for this conversation".to_owned(),
            Approval::Always => "approved for always".to_owned(),
            Approval::Deny(None) => "denied".to_owned(),
            Approval::Deny(Some(why)) => format!("denied: {why}"),
        };
        self.answered(&asking.pending, &words);
        if let Pending::Approve { reply, .. } = asking.pending {
            // Whoever gave it up in this moment has denied it.
            drop(reply.send(approval));
        }
        self.hear();
    }

    fn clarify(&mut self, asking: Asking, answer: String) {
        self.answered(&asking.pending, &answer);
        if let Pending::Clarify { reply, .. } = asking.pending {
            drop(reply.send(answer));
        }
        self.hear();
    }

    /// Puts a question and what came of it into the transcript.
    fn answered(&mut self, pending: &Pending, answer: &str) {
        let width = self.width();
        let lines = match pending {
            Pending::Approve { request, .. } => {
                let mut lines = cells::aside(&format!("? {}", request.reason), width);
                let action = format!("{}\n{answer}", request.action);
                lines.extend(cells::wrapped(&action, width, "    ", |_, text| {
                    Line::styled(format!("  {text}"), vestal_tui::style::DIM)
                }));
                lines
            }
            Pending::Clarify { question, .. } => {
                let mut lines = cells::aside(&format!("? {}", question.question), width);
                lines.extend(cells::user(answer, width));
                lines
            }
        };
        self.put(Said { kind: Kind::Notice, lines });
    }
}

/// Reports whether nobody has typed for long enough to have read a question.
fn is_pause(typed: Option<Instant>, now: Instant) -> bool {
    typed.is_none_or(|typed| now.saturating_duration_since(typed) >= PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_typing_when_a_question_appears_does_not_answer_it() {
        let now = Instant::now();
        assert!(is_pause(None, now));
        assert!(!is_pause(Some(now), now));
        assert!(!is_pause(Some(now), now + PAUSE.saturating_sub(Duration::from_millis(1))));
        assert!(is_pause(Some(now), now + PAUSE));
    }
}
