//! Turns that begin by themselves, when a background job has ended or printed
//! what the model watches for.

use tokio::task::JoinHandle;
use vestal_agent::tools::JobWatch;

use crate::cells;
use crate::chat::{Chat, Happening};
use crate::conversation::{Came, Talk, What};
use crate::live::{Kind, Said};

/// Turns in a row that may begin without a word of the person's: a model that
/// starts a job in each of them would otherwise go on for ever, and cost.
const MOST: u32 = 20;

/// Lines and characters of the news that the person sees; the model reads all.
const LINES: usize = 6;
const CHARACTERS: usize = 600;

/// Waits for news while nothing runs in the conversation.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    waiting: Option<JoinHandle<()>>,
    state: State,
    /// Turns that began by themselves since the person said something.
    in_a_row: u32,
}

/// What there is to be done about news.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing: there are none.
    #[default]
    None,
    /// There are some.
    Due,
    /// There are some, and the person knows that they wait for the input.
    Held,
}

impl Wake {
    /// Waits for this news from now on, and for no other.
    pub(crate) fn wait_for(&mut self, watch: Option<JobWatch>) {
        self.stop();
        self.waiting = watch.map(|watch| tokio::spawn(watch.news()));
    }

    /// Waits for nothing any more.
    pub(crate) fn stop(&mut self) {
        self.state = State::None;
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
        }
    }

    /// Notes that the person has said something.
    pub(crate) fn person_spoke(&mut self) {
        self.in_a_row = 0;
    }

    /// Waits until there is news; for ever, if none is waited for.
    pub(crate) async fn comes(&mut self) {
        let Some(waiting) = &mut self.waiting else { return std::future::pending().await };
        let came = waiting.await;
        self.waiting = None;
        match came {
            Ok(()) => self.state = State::Due,
            // Whatever went wrong: the news goes with what is said next.
            Err(error) => tracing::warn!(%error, "news of jobs is not waited for any more"),
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Chat {
    /// Has the model work on news, if there is some and the person is not about
    /// to say something: what they send takes the news along.
    pub(crate) fn wake_if_free(&mut self) {
        let is_free = matches!(self.talk, Talk::Idle(_))
            && self.asking.is_empty()
            && self.next_turns.is_empty()
            && self.leaving.is_none();
        if self.wake.state == State::None || !is_free {
            return;
        }
        if self.wake.in_a_row >= MOST {
            self.wake.stop();
            self.note(&format!(
                "a background job has news, and {MOST} turns have begun without a word from you; the model hears of it with what you say next"
            ));
            return self.ring();
        }
        if !self.editor.text().trim().is_empty() {
            if self.wake.state == State::Due {
                self.wake.state = State::Held;
                self.note("a background job has news; the model hears of it when you send what you write, or clear it");
                self.ring();
            }
            return;
        }
        self.wake.in_a_row += 1;
        self.begin_news_turn();
    }

    fn begin_news_turn(&mut self) {
        let Some(conversation) = self.talk.take() else { return };
        let chain = self.fresh_chain(&conversation);
        self.spawn(conversation, What::News, |mut conversation, sink, tell| async move {
            let news = conversation.take_job_news(&sink).await;
            if news.is_empty() {
                return (conversation, Came::NoNews);
            }
            for words in &news {
                drop(tell.send(Happening::News(words.clone())));
            }
            crate::turns::take_over(&mut conversation, chain).await;
            let result = conversation.run_news(news, &sink).await;
            (conversation, Came::Turn(Box::new(result)))
        });
    }

    /// Shows what the model is told without anybody having said it.
    pub(crate) fn show_news(&mut self, words: &str) {
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
        let lines = cells::aside(&format!("● {shown}"), self.width());
        self.put(Said { kind: Kind::Notice, lines });
    }
}
