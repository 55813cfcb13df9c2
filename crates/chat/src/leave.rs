//! Leaving.

use std::time::{Duration, Instant};

use vestal_agent::EndReason;
use vestal_tui::{Input, Key};

use crate::cells;
use crate::chat::Chat;
use crate::live::{Kind, Said};
use crate::run::Left;
use crate::talk::{Interrupt, Talk};
use crate::view::FRAME;

/// How long the end of a turn is waited for when the terminal is gone or
/// somebody asks the process to end.
const LAST_WORDS: Duration = Duration::from_secs(10);

impl Chat {
    /// Ends the chat: what runs is interrupted and waited for, for a while, so
    /// that all that was said is stored; then the conversation is closed.
    pub(crate) async fn end(&mut self, left: Left) {
        while let Some(asking) = self.asking.pop_front() {
            self.keep_words_of(&asking);
        }
        self.editor.keep_draft();
        let draft = self.editor.text();
        if let Talk::Running(running) = &mut self.talk {
            let is_second = running.interrupt != Interrupt::No && left == Left::Quit;
            running.interrupt();
            if is_second {
                // The person does not want to wait; words are stored as they are said.
                running.task.abort();
            } else {
                self.wait_for_last_words(left).await;
            }
        }
        // What was given back to the input meanwhile, or waits still.
        let is_unsaid = self.editor.text() != draft
            || !self.live.queued.is_empty()
            || !self.next_turns.is_empty();
        if is_unsaid {
            self.note("not all that was said has reached the model; Up finds it in the next chat");
        }
        if left != Left::Closed {
            self.farewell();
        }
        if let Some(conversation) = self.talk.take()
            && let Err(error) = conversation.close(EndReason::Left).await
        {
            tracing::warn!(%error, "the conversation could not be closed");
        }
    }

    async fn wait_for_last_words(&mut self, left: Left) {
        let deadline = Instant::now() + LAST_WORDS;
        while self.talk.running().is_some() {
            if let Talk::Running(running) = &mut self.talk {
                running.interrupt_if_wanted();
            }
            let step = (Instant::now() + FRAME).min(deadline);
            match tokio::time::timeout_at(step.into(), self.talk.ended()).await {
                Ok(ended) => self.ended(ended).await,
                Err(_) if Instant::now() >= deadline => return,
                Err(_) => {
                    // A person sees what is waited for, and can stop waiting.
                    if left == Left::Quit {
                        self.draw();
                        while let Ok(input) = self.inputs.try_recv() {
                            if input == Input::Key(Key::control('c')) {
                                return;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Takes the live area away and says how to go on.
    fn farewell(&mut self) {
        let has_words = match &self.talk {
            Talk::Idle(conversation) => !conversation.messages().is_empty(),
            Talk::Running(_) | Talk::Gone => true,
        };
        if has_words {
            let profile = self.settings.home().profile().to_string();
            let profile =
                if profile == "default" { String::new() } else { format!(" -p {profile}") };
            let words = format!(
                "{} · to go on: vestal{profile} chat --resume {}",
                self.about.id.short(),
                self.about.id.short()
            );
            let lines = cells::aside(&words, self.width());
            self.put(Said { kind: Kind::Notice, lines });
        }
        if let Err(error) = self.screen.clear() {
            tracing::debug!(%error, "the terminal could not be written to");
        }
    }
}
