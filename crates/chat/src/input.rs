//! What keys do.

use std::time::{Duration, Instant};

use vestal_agent::slash::{self, SlashError};
use vestal_tui::{Input, Key, KeyCode, Reaction, Submission};

use crate::chat::Chat;
use crate::commands;
use crate::image;
use crate::live::{Kind, Said};
use crate::program::Trouble;
use crate::run::Left;
use crate::talk::{Interrupt, NextTurn, What};

/// How long it is remembered that somebody wants to leave.
const AGAIN: Duration = Duration::from_secs(2);

/// Said when leaving takes one more key.
const LEAVE: &str = "press Ctrl-C again to leave";

impl Chat {
    /// Takes what the person or the terminal did.
    pub(crate) async fn input(&mut self, input: Input) {
        match input {
            Input::Key(key) => {
                self.key(key).await;
                self.typed_at = Some(Instant::now());
            }
            Input::Paste(text) => {
                if self.hear() {
                    self.paste_of_question(text);
                } else {
                    self.editor.paste(text);
                }
                self.typed_at = Some(Instant::now());
            }
            Input::Resized(size) => {
                self.screen.resized(size);
                self.live.resized(self.width());
            }
            Input::Focused(is_focused) => {
                self.is_focused = is_focused;
                self.watch.set_seen(is_focused);
                return;
            }
            Input::Closed => self.leaving = Some(Left::Closed),
        }
        self.is_dirty = true;
    }

    async fn key(&mut self, key: Key) {
        if key == Key::control('c') {
            return self.control_c();
        }
        self.hint = None;
        if self.hear() {
            return self.key_of_question(key);
        }
        if key == Key::control('z') {
            return self.stop();
        }
        // The input comes first: in a search, say, a key may mean something else.
        match self.editor.key(key) {
            Reaction::Submit => {
                let submission = self.editor.take();
                self.submit(submission).await;
            }
            Reaction::Complete => self.complete().await,
            Reaction::Unused(key) => self.key_of_chat(key).await,
            Reaction::Nothing | Reaction::Changed => {}
        }
        if let Some(error) = self.editor.history_trouble() {
            self.warn(&format!("what is typed cannot be kept in the history: {error}"));
        }
    }

    /// Does what a key means that means nothing to the input.
    async fn key_of_chat(&mut self, key: Key) {
        match key {
            _ if key == Key::control('d') => self.leave(),
            _ if key == Key::control('l') => self.clear_screen(),
            _ if key == Key::control('o') => self.unfold_last(),
            _ if key == Key::control('t') => self.turn_thoughts(),
            _ if key == Key::control('g') => self.edit_externally().await,
            _ => {}
        }
    }

    /// Clears the input, interrupts what runs, or leaves: the first of these
    /// that there is something for.
    pub(crate) fn control_c(&mut self) {
        if self.editor.is_busy() {
            self.editor.key(Key::plain(KeyCode::Escape));
            return;
        }
        let is_asked = !self.asking.is_empty();
        if !is_asked && !self.editor.is_empty() {
            self.editor.keep_draft();
            self.editor.set_text("");
            return;
        }
        match self.talk.running().map(|running| running.interrupt) {
            Some(Interrupt::No) => self.interrupt(),
            // It is being interrupted: whoever cannot wait need not.
            Some(Interrupt::Wanted | Interrupt::Told) => self.leave(),
            None if self.hint.is_some_and(|hint| hint.words == LEAVE) => self.leave(),
            None => self.hint(LEAVE, AGAIN),
        }
    }

    /// Does what was sent.
    async fn submit(&mut self, submission: Submission) {
        let Submission { mut text, shown } = submission;
        if text.trim().is_empty() {
            return;
        }
        match slash::parse(&text) {
            Some(Ok(invocation)) => {
                self.show_command(&shown);
                return Box::pin(commands::obey(self, invocation)).await;
            }
            Some(Err(error)) => match self.words_for(&error, &text) {
                Some(Ok(words)) => text = words,
                Some(Err(trouble)) => {
                    self.show_command(&shown);
                    return self.trouble(&trouble);
                }
                None => {
                    self.show_command(&shown);
                    return commands::misread(self, &error, &text);
                }
            },
            None => {}
        }
        let running = self.talk.running().map(|running| running.what.clone());
        if let Some(command) = text.trim_start().strip_prefix('!').map(str::trim) {
            match running {
                _ if command.is_empty() => self.note("what is to be run? !ls, for example"),
                Some(_) => {
                    self.note("a command can be run when the turn has ended; Ctrl-C interrupts it");
                    self.editor.set_text(&text);
                }
                None => self.begin_shell(command.to_owned()),
            }
            return;
        }
        match running {
            // Pictures cannot be handed to a turn that runs.
            Some(What::Turn { .. }) if image::names_any(&text, self.home().as_deref()) => {
                self.next_turns.push_back(NextTurn::Typed { text, shown });
            }
            Some(What::Turn { .. }) => self.steer(text),
            Some(What::Shell | What::Work) => self.live.queued.push(text),
            None => self.begin_typed_turn(text, &shown),
        }
    }

    /// Returns what a command that is none stands for, if the program knows.
    fn words_for(&self, error: &SlashError, typed: &str) -> Option<Result<String, Trouble>> {
        let SlashError::Unknown { name, .. } = error else { return None };
        let (_, words) = typed.trim().split_once(char::is_whitespace).unwrap_or_default();
        self.program.words_for(name, words)
    }

    /// Says something to the model while it works.
    fn steer(&mut self, text: String) {
        if let Some(running) = self.talk.running() {
            running.control.steer(text.clone());
            self.live.queued.push(text);
        }
    }

    fn clear_screen(&mut self) {
        if self.screen.clear_screen().is_err() {
            self.leaving = Some(Left::Closed);
        }
    }

    /// Shows what was said to the program.
    fn show_command(&mut self, shown: &str) {
        let lines = crate::cells::user(shown, self.width());
        self.put(Said { kind: Kind::User, lines });
    }

    /// Shows all that the last call printed; while one runs, more or less of it.
    fn unfold_last(&mut self) {
        if !self.live.tools.is_empty() {
            self.is_unfolded = !self.is_unfolded;
            return;
        }
        match self.unfold.unfold() {
            Some(lines) => {
                self.put(Said { kind: Kind::Tool, lines });
            }
            None => self.hint("there is nothing more to unfold", AGAIN),
        }
    }

    /// Shows or hides what the model thinks.
    fn turn_thoughts(&mut self) {
        self.live.shows_thoughts = !self.live.shows_thoughts;
        let words = if self.live.shows_thoughts {
            "what the model thinks is shown from now on"
        } else {
            "what the model thinks is hidden from now on"
        };
        self.hint(words, AGAIN);
    }
}
