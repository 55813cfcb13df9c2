//! Keys and pasted text: the key table, what each key does, and waiting that a key can cancel.

use std::time::{Duration, Instant};

use vestal_agent::slash::{self, SlashError};
use vestal_runtime::Termination;
use vestal_tui::{
    KeyCode, KeyPress, Mention, Reaction, Size, Submission, TerminalInput, bindings, mention_at,
};

use crate::chat::{Chat, Hint, MenuTrigger};
use crate::conversation::{InterruptState, QueuedTurn, WorkKind};
use crate::host::ChatError;
use crate::live::{EntryKind, TranscriptEntry};
use crate::run::ChatExit;
use crate::view::FRAME;
use crate::{attachments, cells, commands};

/// How long a hint stays; Ctrl-C must be repeated within it to quit.
const AGAIN: Duration = Duration::from_secs(2);

/// Shown after the first Ctrl-C.
const LEAVE: &str = "press Ctrl-C again to quit";

/// Shown after the first Esc, with and without something in the input.
const CLEAR: &str = "press Esc again to clear the input; Up brings it back";
const GO_BACK: &str = "press Esc again to go back to an earlier message";

/// Shown when an interrupt is under way already.
const STOPPING: &str = "interrupting; Ctrl-C quits";

impl Chat {
    /// Handles input of the user or the terminal.
    pub(crate) async fn input(&mut self, input: TerminalInput) {
        match input {
            TerminalInput::Key(key) => {
                self.key(key).await;
                self.typed_at = Some(Instant::now());
            }
            TerminalInput::Paste(text) => {
                if self.arm_question() {
                    self.question_paste(text);
                } else if text.is_empty() {
                    // What terminals paste of an image.
                    self.paste_from_clipboard().await;
                } else {
                    self.editor.paste(text);
                }
                self.typed_at = Some(Instant::now());
            }
            TerminalInput::Resized(size) => self.resized(size),
            TerminalInput::Focused(is_focused) => {
                self.is_focused = is_focused;
                self.monitor.set_seen(is_focused);
                return;
            }
            // An answer that nobody waits for any more.
            TerminalInput::Clipboard(_) => return,
            TerminalInput::Closed => self.leaving = Some(ChatExit::Closed),
        }
        self.is_dirty = true;
    }

    /// Adapts to a new terminal size.
    pub(crate) fn resized(&mut self, size: Size) {
        self.screen.resized(size);
        self.live.resized(self.width());
    }

    async fn key(&mut self, key: KeyPress) {
        if key == KeyPress::control('c') {
            return self.control_c();
        }
        let hint = self.hint.take();
        if key_action(key) == Some(KeyAction::Stop) {
            return self.stop();
        }
        if self.arm_question() {
            // Immediately: the next key may be meant for what the command leads to.
            if let Some(invocation) = self.question_key(key) {
                Box::pin(commands::execute(self, invocation)).await;
            }
            return;
        }
        if key == KeyPress::plain(KeyCode::Escape) && self.menu == MenuTrigger::Mention {
            self.closed_mention = self.mention().map(|mention| mention.start);
        }
        // The editor comes first: in a search, for example, a key has another meaning.
        match self.editor.key(key) {
            Reaction::Submit => {
                let submission = self.editor.take();
                self.submit(submission).await;
            }
            Reaction::Complete => self.complete_or_close(key).await,
            Reaction::Unused(key) => self.chat_key(key, hint).await,
            // Another line of an open list is marked.
            Reaction::Changed if self.editor.is_busy() => {}
            // Typing `/` lists the commands.
            Reaction::Changed if self.editor.text() == "/" => {
                self.menu = MenuTrigger::Automatic;
                self.complete().await;
            }
            // So does typing a mention its files.
            Reaction::Changed if is_typing(key) => self.offer_mention().await,
            Reaction::Nothing | Reaction::Changed => {}
        }
        if let Some(error) = self.editor.history_error() {
            self.warn(&format!("cannot save to the input history: {error}"));
        }
    }

    /// Updates the completions. A menu that opened automatically closes after the name of
    /// the command or the path.
    async fn complete_or_close(&mut self, key: KeyPress) {
        if key.code == KeyCode::Tab {
            self.menu = MenuTrigger::Requested;
        }
        match self.menu {
            MenuTrigger::Mention => return self.offer_mention().await,
            MenuTrigger::Automatic if self.editor.text().contains(char::is_whitespace) => {
                self.menu = MenuTrigger::Requested;
                return self.editor.close_menu();
            }
            MenuTrigger::Automatic | MenuTrigger::Requested => {}
        }
        self.complete().await;
    }

    /// Returns the mention that is being written.
    fn mention(&mut self) -> Option<Mention> {
        let (text, cursor) = self.editor.to_complete();
        mention_at(text, cursor)
    }

    /// Lists the files that fit the mention that is being written, unless the user has closed that
    /// list.
    async fn offer_mention(&mut self) {
        let start = self.mention().map(|mention| mention.start);
        if start.is_none() || self.closed_mention != start {
            self.closed_mention = None;
        }
        if start.is_some() && self.closed_mention.is_none() {
            self.menu = MenuTrigger::Mention;
            self.offer_files().await;
        } else {
            self.editor.close_menu();
            self.menu = MenuTrigger::Requested;
        }
    }

    /// Handles a key that the editor does not use; `hint` is what was shown when it was pressed.
    async fn chat_key(&mut self, key: KeyPress, hint: Option<Hint>) {
        if key == KeyPress::plain(KeyCode::Escape) {
            return self.escape(hint).await;
        }
        let is_back_tab =
            key.code == KeyCode::BackTab || (key.code == KeyCode::Tab && key.modifiers.shift);
        if is_back_tab && !key.modifiers.control && !key.modifiers.alt {
            return Box::pin(self.cycle_mode()).await;
        }
        match key_action(key) {
            Some(KeyAction::Quit) => self.quit(),
            Some(KeyAction::ClearScreen) => self.clear_screen(),
            Some(KeyAction::ShowOutput) => self.show_last_output(),
            Some(KeyAction::ToggleReasoning) => self.toggle_reasoning(),
            Some(KeyAction::Edit) => self.edit_externally().await,
            Some(KeyAction::Paste) => self.paste_from_clipboard().await,
            Some(KeyAction::Stop) => self.stop(),
            None => {}
        }
    }

    /// Interrupts running work. Where nothing runs, a second Esc clears the input, or goes back to an
    /// earlier message if there is none.
    async fn escape(&mut self, hint: Option<Hint>) {
        let is_again = |words: &str| hint.is_some_and(|hint| hint.words == words);
        match self.slot.running().map(|running| running.interrupt) {
            Some(InterruptState::No) => self.interrupt(),
            Some(InterruptState::Wanted | InterruptState::Sent) => self.hint(STOPPING, AGAIN),
            None if !self.editor.is_empty() => {
                if is_again(CLEAR) {
                    self.editor.keep_draft();
                    self.editor.set_text("");
                } else {
                    self.hint(CLEAR, AGAIN);
                }
            }
            None if is_again(GO_BACK) => Box::pin(commands::go_back(self)).await,
            None => {
                let has_messages =
                    self.conversation().is_some_and(|held| !held.messages().is_empty());
                if has_messages {
                    self.hint(GO_BACK, AGAIN);
                }
            }
        }
    }

    /// Cancels a choice, clears the input, interrupts running work, or quits: the first of
    /// these that applies.
    pub(crate) fn control_c(&mut self) {
        if self.dismiss_own() {
            return;
        }
        let is_asked = !self.asking.is_empty();
        if !is_asked && self.editor.is_busy() {
            self.editor.key(KeyPress::plain(KeyCode::Escape));
            return;
        }
        if !is_asked && !self.editor.is_empty() {
            self.editor.keep_draft();
            self.editor.set_text("");
            return;
        }
        match self.slot.running().map(|running| running.interrupt) {
            Some(InterruptState::No) => self.interrupt(),
            // The interrupt is already under way; a second one quits.
            Some(InterruptState::Wanted | InterruptState::Sent) => self.quit(),
            None if self.hint.is_some_and(|hint| hint.words == LEAVE) => self.quit(),
            None => self.hint(LEAVE, AGAIN),
        }
    }

    /// Handles a submitted input.
    async fn submit(&mut self, submission: Submission) {
        let Submission { mut text, shown } = submission;
        if text.trim().is_empty() {
            return;
        }
        match slash::parse(&text) {
            Some(Ok(invocation)) => {
                self.show_command(&shown);
                return Box::pin(commands::execute(self, invocation)).await;
            }
            Some(Err(error)) => match self.expand_command(&error, &text) {
                Some(Ok(words)) => text = words,
                Some(Err(failure)) => {
                    self.show_command(&shown);
                    return self.show_error(&failure);
                }
                None => {
                    self.show_command(&shown);
                    return commands::report_parse_error(self, &error);
                }
            },
            None => {}
        }
        if let Some(command) = text.trim_start().strip_prefix('!').map(str::trim) {
            if command.is_empty() {
                self.note("`!` needs a command, for example !ls");
            } else if self.slot.running().is_some() {
                self.note("commands cannot run during a turn; wait, or press Esc to interrupt it");
                self.editor.set_text(&text);
            } else {
                self.start_shell(command.to_owned());
            }
            return;
        }
        self.say(Submission { text, shown });
    }

    /// Says something to the model, now or as soon as it can hear it.
    pub(crate) fn say(&mut self, submission: Submission) {
        let Submission { text, shown } = submission;
        match self.slot.running().map(|running| running.what.clone()) {
            // A running turn cannot take attachments.
            Some(WorkKind::Turn { .. } | WorkKind::JobNews)
                if self.pasted_images.names_any(&shown)
                    || attachments::names_any(&shown, self.home().as_deref()) =>
            {
                self.next_turns.push_back(QueuedTurn::Typed(Submission { text, shown }));
            }
            Some(WorkKind::Turn { .. } | WorkKind::JobNews) => {
                self.steer(Submission { text, shown });
            }
            Some(WorkKind::Shell | WorkKind::Work) => {
                self.live.queued.push(Submission { text, shown });
            }
            None => self.start_typed_turn(Submission { text, shown }),
        }
    }

    /// Returns the text that an unknown command stands for, if the host knows one.
    fn expand_command(&self, error: &SlashError, typed: &str) -> Option<Result<String, ChatError>> {
        let SlashError::Unknown { name, .. } = error else { return None };
        let (_, words) = typed.trim().split_once(char::is_whitespace).unwrap_or_default();
        self.host.expand_command(name, words)
    }

    /// Sends a message to the running turn.
    fn steer(&mut self, typed: Submission) {
        if let Some(running) = self.slot.running() {
            running.control.steer(typed.text.clone());
            self.live.queued.push(typed);
        }
    }

    pub(crate) fn clear_screen(&mut self) {
        if self.screen.clear_screen().is_err() {
            self.leaving = Some(ChatExit::Closed);
        }
    }

    /// Prints a slash command into the transcript.
    fn show_command(&mut self, shown: &str) {
        let lines = cells::user(shown, self.width());
        self.print(TranscriptEntry { kind: EntryKind::User, lines });
    }

    /// Shows the full output of the last call; while one runs, more or less of its output.
    fn show_last_output(&mut self) {
        if !self.live.tools.is_empty() {
            self.shows_more_output = !self.shows_more_output;
            return;
        }
        match self.folded.expand_last() {
            Some(lines) => {
                self.print(TranscriptEntry { kind: EntryKind::Tool, lines });
            }
            None => self.hint("there is no more output to show", AGAIN),
        }
    }

    /// Shows or hides reasoning.
    fn toggle_reasoning(&mut self) {
        self.live.shows_reasoning = !self.live.shows_reasoning;
        let words = if self.live.shows_reasoning {
            "reasoning is now shown"
        } else {
            "reasoning is now hidden"
        };
        self.hint(words, AGAIN);
    }
}

/// Reports whether a key writes or erases: only then a list opens unasked.
fn is_typing(key: KeyPress) -> bool {
    let is_plain = !key.modifiers.control && !key.modifiers.alt;
    is_plain
        && matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Enter | KeyCode::Tab)
}

/// An action bound to a key of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
    /// Quit.
    Quit,
    /// Paste from the clipboard.
    Paste,
    /// Clear the screen.
    ClearScreen,
    /// Show more tool output.
    ShowOutput,
    /// Show or hide reasoning.
    ToggleReasoning,
    /// Edit the input in an external editor.
    Edit,
    /// Suspend the process.
    Stop,
}

/// The keys, by their letters combined with Ctrl.
const KEYS: [(char, &str, &str, KeyAction); 7] = [
    (
        'o',
        "Ctrl-O",
        "show the full output of the last tool; while it runs, more of it",
        KeyAction::ShowOutput,
    ),
    ('t', "Ctrl-T", "show or hide reasoning, when the input is empty", KeyAction::ToggleReasoning),
    ('g', "Ctrl-G", "edit the input in $VISUAL or $EDITOR", KeyAction::Edit),
    (
        'l',
        "Ctrl-L",
        "clear the screen; the transcript stays in the scroll-back",
        KeyAction::ClearScreen,
    ),
    ('v', "Ctrl-V", "paste the image that is in the clipboard, or its text", KeyAction::Paste),
    ('z', "Ctrl-Z", "suspend the chat; `fg` resumes it", KeyAction::Stop),
    ('d', "Ctrl-D", "quit, when the input is empty", KeyAction::Quit),
];

/// Other rows of the help.
const OTHERS: [(&str, &str); 7] = [
    ("Enter", "send; during a turn, the model reads it at its next step"),
    ("Esc", "interrupt the turn; the input stays"),
    ("Esc Esc", "clear the input, or go back to an earlier message"),
    ("Shift-Tab", "plan mode on and off"),
    ("Ctrl-C", "clear the input, else interrupt the turn, else (twice) quit"),
    ("!command", "run a command in the conversation's shell"),
    ("@path", "attach an image or a text file"),
];

pub(crate) fn key_action(key: KeyPress) -> Option<KeyAction> {
    KEYS.iter().find(|(letter, ..)| key == KeyPress::control(*letter)).map(|(.., act)| *act)
}

/// Returns the keys of the chat and their descriptions.
pub(crate) fn chat_keys() -> Vec<(&'static str, &'static str)> {
    let keys = KEYS.iter().map(|(_, name, what, _)| (*name, *what));
    OTHERS.iter().copied().chain(keys).collect()
}

/// Returns the keys of the editor and their descriptions, without those that the chat
/// describes itself.
pub(crate) fn input_keys() -> Vec<(&'static str, &'static str)> {
    let ours = ["Ctrl-C", "Ctrl-D", "Esc"];
    bindings().iter().copied().filter(|(keys, _)| !ours.contains(keys)).collect()
}

impl Chat {
    /// Waits for slow work such as a sandbox, a store or a file, shown as `what`. Ctrl-C or
    /// Esc cancels; other input is deferred, in order.
    pub(crate) async fn wait_for<T>(
        &mut self,
        what: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, ChatError> {
        let mut work = std::pin::pin!(work);
        let since = Instant::now();
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break Some(done),
                Some(signal) = self.signals.recv() => {
                    if signal != Termination::Interrupt {
                        self.leaving = Some(ChatExit::Signal(signal));
                    }
                    break None;
                }
                input = self.inputs.recv() => match input.unwrap_or(TerminalInput::Closed) {
                    TerminalInput::Closed => {
                        self.leaving = Some(ChatExit::Closed);
                        break None;
                    }
                    TerminalInput::Key(key)
                        if key == KeyPress::control('c') || key == KeyPress::plain(KeyCode::Escape) =>
                    {
                        break None;
                    }
                    TerminalInput::Resized(size) => self.resized(size),
                    input => self.deferred_inputs.push_back(input),
                },
                () = tokio::time::sleep(FRAME) => {
                    self.waiting_for = Some((since, what.to_owned()));
                    self.draw();
                }
            }
        };
        if self.waiting_for.take().is_some() {
            self.is_dirty = true;
        }
        done.ok_or_else(|| ChatError {
            problem: format!("{what} was cancelled"),
            advice: vec!["try again; `vestal doctor` checks what responds".to_owned()],
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
            assert_eq!(key_action(KeyPress::control(letter)), Some(wanted));
        }
        assert_eq!(key_action(KeyPress::control('x')), None);
    }
}
