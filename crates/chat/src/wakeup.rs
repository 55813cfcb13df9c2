//! Turns that start by themselves, when a background job ends or prints what the model
//! watches for.

use tokio::task::JoinHandle;
use vestal_agent::tools::JobWatch;

use crate::cells;
use crate::chat::{Chat, TurnEvent};
use crate::conversation::{ConversationSlot, WorkKind, WorkOutcome};
use crate::live::{EntryKind, TranscriptEntry};

/// Limit of such turns in a row without a user message: a model that starts a job in each of
/// them would go on forever.
const MOST: u32 = 20;

/// Lines and characters of job news that are shown; the model reads all of it.
const LINES: usize = 6;
const CHARACTERS: usize = 600;

/// Waits for job news while the conversation is idle.
#[derive(Debug, Default)]
pub(crate) struct JobWakeup {
    waiting: Option<JoinHandle<()>>,
    state: State,
    /// Turns started by job news since the last user message.
    in_a_row: u32,
}

/// State of job news.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is none.
    #[default]
    None,
    /// There is some.
    Due,
    /// There is some, and the user was told that it waits for the input.
    Held,
}

impl JobWakeup {
    /// Waits for news from this watch only.
    pub(crate) fn wait_for(&mut self, watch: Option<JobWatch>) {
        self.stop();
        self.waiting = watch.map(|watch| tokio::spawn(watch.changed()));
    }

    /// Stops waiting.
    pub(crate) fn stop(&mut self) {
        self.state = State::None;
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
        }
    }

    /// Resets the count of turns in a row.
    pub(crate) fn reset_limit(&mut self) {
        self.in_a_row = 0;
    }

    /// Waits until there is news; forever if there is no watch.
    pub(crate) async fn ready(&mut self) {
        let Some(waiting) = &mut self.waiting else { return std::future::pending().await };
        let came = waiting.await;
        self.waiting = None;
        match came {
            Ok(()) => self.state = State::Due,
            // The news will go with the next message instead.
            Err(error) => tracing::warn!(%error, "news of jobs is not waited for any more"),
        }
    }
}

impl Drop for JobWakeup {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Chat {
    /// Starts a turn for job news, unless the user is typing: the message takes the news
    /// along.
    pub(crate) fn start_job_turn_if_idle(&mut self) {
        let is_free = matches!(self.slot, ConversationSlot::Idle(_))
            && self.asking.is_empty()
            && self.next_turns.is_empty()
            && self.leaving.is_none();
        if self.wakeup.state == State::None || !is_free {
            return;
        }
        if self.wakeup.in_a_row >= MOST {
            self.wakeup.stop();
            self.note(&format!(
                "a background job has news, and {MOST} turns have started by themselves; the model hears of it with your next message"
            ));
            return self.ring_if_unfocused();
        }
        if !self.editor.text().trim().is_empty() {
            if self.wakeup.state == State::Due {
                self.wakeup.state = State::Held;
                self.note("a background job has news; the model hears of it when you send or clear the input");
                self.ring_if_unfocused();
            }
            return;
        }
        self.wakeup.in_a_row += 1;
        self.start_job_turn();
    }

    fn start_job_turn(&mut self) {
        let Some(conversation) = self.slot.take() else { return };
        let chain = self.reload_endpoints(&conversation);
        self.spawn(conversation, WorkKind::JobNews, |mut conversation, sink, sender| async move {
            let news = conversation.take_job_updates(&sink).await;
            if news.is_empty() {
                return (conversation, WorkOutcome::NoJobNews);
            }
            for words in &news {
                drop(sender.send(TurnEvent::JobNews(words.clone())));
            }
            crate::turns::set_endpoints(&mut conversation, chain).await;
            let result = conversation.run_job_updates(news, &sink).await;
            (conversation, WorkOutcome::Turn(Box::new(result)))
        });
    }

    /// Shows job news that is sent to the model.
    pub(crate) fn show_job_news(&mut self, words: &str) {
        let words = words.trim_start_matches('[').trim_end_matches(']');
        let all = words.lines().count();
        let mut shown = words.lines().take(LINES).collect::<Vec<_>>().join("\n");
        if let Some((end, _)) = shown.char_indices().nth(CHARACTERS) {
            shown.truncate(end);
            shown.push('…');
        } else if all > LINES {
            shown.push_str("\n…");
        }
        let shown = crate::format::without_escapes(&shown);
        let lines = cells::dimmed(&format!("● {shown}"), self.width());
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
    }
}
