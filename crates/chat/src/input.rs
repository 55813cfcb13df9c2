//! Keys and pasted text: the key table, what each key does, and waiting that a key can cancel.

use std::time::{Duration, Instant};

use vestal_agent::slash::{self, SlashError};
use vestal_sandbox::Termination;
use vestal_tui::{Input, Key, KeyCode, Reaction, Size, Submission, bindings};

use crate::chat::{Chat, Menu};
use crate::conversation::{Interrupt, NextTurn, What};
use crate::host::Trouble;
use crate::live::{Kind, Said};
use crate::run::Left;
use crate::view::FRAME;
use crate::{attachments, commands};

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
            Input::Resized(size) => self.resized(size),
            Input::Focused(is_focused) => {
                self.is_focused = is_focused;
                self.watch.set_seen(is_focused);
                return;
            }
            Input::Closed => self.leaving = Some(Left::Closed),
        }
        self.is_dirty = true;
    }

    /// Goes on in a terminal of another size.
    pub(crate) fn resized(&mut self, size: Size) {
        self.screen.resized(size);
        self.live.resized(self.width());
    }

    async fn key(&mut self, key: Key) {
        if key == Key::control('c') {
            return self.control_c();
        }
        self.hint = None;
        if act(key) == Some(Act::Stop) {
            return self.stop();
        }
        if self.hear() {
            // At once: what is typed next may be meant for what it leads to.
            if let Some(invocation) = self.key_of_question(key) {
                Box::pin(commands::obey(self, invocation)).await;
            }
            return;
        }
        // The input comes first: in a search, say, a key may mean something else.
        match self.editor.key(key) {
            Reaction::Submit => {
                let submission = self.editor.take();
                self.submit(submission).await;
            }
            Reaction::Complete => self.complete_or_close(key).await,
            Reaction::Unused(key) => self.key_of_chat(key).await,
            // Whoever begins a command sees which there are.
            Reaction::Changed if self.editor.text() == "/" => {
                self.menu = Menu::Unasked;
                self.complete().await;
            }
            Reaction::Nothing | Reaction::Changed => {}
        }
        if let Some(error) = self.editor.history_trouble() {
            self.warn(&format!("what is typed cannot be kept in the history: {error}"));
        }
    }

    /// Lists what could be typed next. A menu that opened by itself is for the
    /// name of a command, and closes when that is written.
    async fn complete_or_close(&mut self, key: Key) {
        if key.code == KeyCode::Tab {
            self.menu = Menu::Asked;
        }
        if self.menu == Menu::Unasked && self.editor.text().contains(char::is_whitespace) {
            self.menu = Menu::Asked;
            return self.editor.close_menu();
        }
        self.complete().await;
    }

    /// Does what a key means that means nothing to the input.
    async fn key_of_chat(&mut self, key: Key) {
        if key == Key::plain(KeyCode::Escape) {
            if self.talk.running().is_some_and(|running| running.interrupt == Interrupt::No) {
                self.interrupt();
            }
            return;
        }
        match act(key) {
            Some(Act::Leave) => self.leave(),
            Some(Act::ClearScreen) => self.clear_screen(),
            Some(Act::Unfold) => self.unfold_last(),
            Some(Act::Thoughts) => self.turn_thoughts(),
            Some(Act::Edit) => self.edit_externally().await,
            Some(Act::Stop) => self.stop(),
            None => {}
        }
    }

    /// Leaves a choice, clears the input, interrupts what runs, or leaves: the
    /// first of these that there is something for.
    pub(crate) fn control_c(&mut self) {
        if self.dismiss_own() {
            return;
        }
        let is_asked = !self.asking.is_empty();
        if !is_asked && self.editor.is_busy() {
            self.editor.key(Key::plain(KeyCode::Escape));
            return;
        }
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
            Some(What::Turn { .. } | What::News)
                if attachments::names_any(&text, self.home().as_deref()) =>
            {
                self.next_turns.push_back(NextTurn::Typed(Submission { text, shown }));
            }
            Some(What::Turn { .. } | What::News) => self.steer(Submission { text, shown }),
            Some(What::Shell | What::Work) => self.live.queued.push(Submission { text, shown }),
            None => self.begin_typed_turn(Submission { text, shown }),
        }
    }

    /// Returns what a command that is none stands for, if the program knows.
    fn words_for(&self, error: &SlashError, typed: &str) -> Option<Result<String, Trouble>> {
        let SlashError::Unknown { name, .. } = error else { return None };
        let (_, words) = typed.trim().split_once(char::is_whitespace).unwrap_or_default();
        self.program.words_for(name, words)
    }

    /// Says something to the model while it works.
    fn steer(&mut self, typed: Submission) {
        if let Some(running) = self.talk.running() {
            running.control.steer(typed.text.clone());
            self.live.queued.push(typed);
        }
    }

    pub(crate) fn clear_screen(&mut self) {
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

/// What a key of the chat asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Leave.
    Leave,
    /// Begin at the top of an empty screen.
    ClearScreen,
    /// Show more of what a tool printed.
    Unfold,
    /// Show or hide what the model thinks.
    Thoughts,
    /// Edit the input elsewhere.
    Edit,
    /// Stop the process.
    Stop,
}

/// The keys, by their letters together with Ctrl.
const KEYS: [(char, &str, &str, Act); 6] = [
    ('o', "Ctrl-O", "all that the last tool printed; while it runs, more of it", Act::Unfold),
    ('t', "Ctrl-T", "show or hide what the model thinks, when nothing is written", Act::Thoughts),
    ('g', "Ctrl-G", "write in $VISUAL or $EDITOR", Act::Edit),
    ('l', "Ctrl-L", "clear the screen; what was said can be scrolled back to", Act::ClearScreen),
    ('z', "Ctrl-Z", "stop the chat until `fg`", Act::Stop),
    ('d', "Ctrl-D", "leave, when nothing is written", Act::Leave),
];

/// What else is to be known, which is no single key.
const OTHERS: [(&str, &str); 5] = [
    ("Enter", "while the model works: say it to the model at its next step"),
    ("Esc", "interrupt what runs; what is written stays"),
    ("Ctrl-C", "clear the input, else interrupt what runs, else leave (twice)"),
    ("!command", "run it yourself, in the same shell"),
    ("@path", "a picture goes with the words"),
];

/// Returns what a key asks the chat for.
pub(crate) fn act(key: Key) -> Option<Act> {
    KEYS.iter().find(|(letter, ..)| key == Key::control(*letter)).map(|(.., act)| *act)
}

/// Returns the keys of the chat, as people read them, and what each does.
pub(crate) fn of_chat() -> Vec<(&'static str, &'static str)> {
    let keys = KEYS.iter().map(|(_, name, what, _)| (*name, *what));
    OTHERS.iter().copied().chain(keys).collect()
}

/// Returns the keys of the input, which are the editor's. What the chat has
/// more to say of is left to it.
pub(crate) fn of_input() -> Vec<(&'static str, &'static str)> {
    let ours = ["Ctrl-C", "Ctrl-D", "Esc"];
    bindings().iter().copied().filter(|(keys, _)| !ours.contains(keys)).collect()
}

impl Chat {
    /// Waits for something that others do, and that may take as long as they
    /// like: a sandbox, a store, a file. It is seen as `what` when it does.
    /// Ctrl-C or Esc ends the waiting; what else is typed meanwhile is kept for
    /// afterwards, in its order.
    pub(crate) async fn wait_for<T>(
        &mut self,
        what: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, Trouble> {
        let mut work = std::pin::pin!(work);
        let since = Instant::now();
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break Some(done),
                Some(signal) = self.signals.recv() => {
                    if signal != Termination::Interrupt {
                        self.leaving = Some(Left::Signal(signal));
                    }
                    break None;
                }
                input = self.inputs.recv() => match input.unwrap_or(Input::Closed) {
                    Input::Closed => {
                        self.leaving = Some(Left::Closed);
                        break None;
                    }
                    Input::Key(key)
                        if key == Key::control('c') || key == Key::plain(KeyCode::Escape) =>
                    {
                        break None;
                    }
                    Input::Resized(size) => self.resized(size),
                    input => self.ahead.push_back(input),
                },
                () = tokio::time::sleep(FRAME) => {
                    self.awaited = Some((since, what.to_owned()));
                    self.draw();
                }
            }
        };
        if self.awaited.take().is_some() {
            self.is_dirty = true;
        }
        done.ok_or_else(|| Trouble {
            problem: format!("{what} was given up"),
            advice: vec!["try again; `vestal doctor` says what answers here".to_owned()],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_help_names_does_what_it_says() {
        for (letter, name, _, wanted) in KEYS {
            assert_eq!(name, format!("Ctrl-{}", letter.to_ascii_uppercase()));
            assert_eq!(act(Key::control(letter)), Some(wanted));
        }
        assert_eq!(act(Key::control('x')), None);
    }
}
