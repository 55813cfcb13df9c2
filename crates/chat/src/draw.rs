//! Drawing: from the state of the chat to the screen.

use std::time::Instant;

use vestal_agent::ConversationMode;
use vestal_conversations::MessageKind;
use vestal_model::Message;
use vestal_sandbox::{TaskName, keys};
use vestal_tui::{Line, Span, style};

use crate::attachments::written_text;
use crate::cells;
use crate::chat::Chat;
use crate::conversation::QueuedTurn;
use crate::live::{EntryKind, TranscriptEntry};
use crate::run::ChatExit;
use crate::view::{self, Scene};

/// Exchanges of a resumed conversation that are shown.
const EXCHANGES: usize = 3;

/// Lines of each that are shown.
const LINES: usize = 6;

/// Characters of what a call is about that are shown.
const CALL: usize = 100;

impl Chat {
    /// Draws a frame. A write error means that the terminal is gone.
    pub(crate) fn draw(&mut self) {
        let size = self.screen.size();
        let now = Instant::now();
        let is_armed = self.arm_question();
        let rows = view::input_rows(size.rows);
        let (question, input) = match self.asking.front_mut() {
            Some(asking) => {
                let question = asking.lines(now, size);
                let input = if is_armed {
                    let prompt = Span::new("? ", style::YELLOW.bold());
                    asking.words.view(size.columns, rows, &prompt)
                } else {
                    self.editor.view(size.columns, rows, &prompt())
                };
                (question, input)
            }
            None => (Vec::new(), self.editor.view(size.columns, rows, &prompt())),
        };
        self.status.elapsed = self.slot.running().map(|running| running.since.elapsed());
        self.status.is_yolo = self.info.guard.is_yolo();
        self.status.is_planning = self.info.mode.get() == ConversationMode::Plan;
        self.status.reasoning.clone_from(&self.info.reasoning);
        let waiting = self.next_turns.iter().map(QueuedTurn::shown);
        let queued = self.live.queued.iter().map(|queued| queued.shown.clone());
        let queued = queued.chain(waiting).collect();
        let todos = if self.todos.is_in_use && self.slot.running().is_some() {
            let todos = self.info.notebook.read().todos;
            cells::todo_panel(&todos, usize::from(size.columns), size.rows)
        } else {
            Vec::new()
        };
        let view = view::compose(&Scene {
            columns: size.columns,
            rows: size.rows,
            now,
            epoch: self.epoch,
            live: &self.live,
            outside: self.waiting_for.as_ref().or(self.outside_status.as_ref()),
            tails: &self.tails,
            shows_more_output: self.shows_more_output,
            todos,
            queued,
            question,
            input,
            last: self.last,
            hint: self.hint.map(|hint| hint.words),
            status: &self.status,
        });
        self.is_dirty = false;
        self.drawn_at = Some(now);
        if let Err(error) = self.screen.draw(&view) {
            tracing::debug!(%error, "the terminal could not be written to");
            self.leaving.get_or_insert(ChatExit::Closed);
        }
    }

    /// Prints the model and the sandbox.
    pub(crate) fn greet(&mut self) {
        let mut line = Line::styled("vestal", style::BOLD);
        let model = &self.info.model;
        let sandbox = self.sandbox_label(self.info.sandbox.task(), None);
        let mounted = self.info.sandbox.mounted();
        let mounted = mounted.map(|dir| format!("{} is /workspace", dir.display()));
        for piece in [model.as_str(), &sandbox, mounted.as_deref().unwrap_or_default(), "/help"] {
            if !piece.is_empty() {
                line.push(Span::new(format!(" · {piece}"), style::DIM));
            }
        }
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines: vec![line] });
    }

    /// Returns backend and task, such as `native/default`; an unknown backend comes from the
    /// settings.
    pub(crate) fn sandbox_label(&self, task: &TaskName, known: Option<String>) -> String {
        let attached = self.info.sandbox.attached();
        let attached = attached.map(|sandbox| sandbox.backend().to_owned());
        let configured = || Some(self.settings.get(&keys::BACKEND).ok()?.value.named()?.to_owned());
        match attached.or(known).or_else(configured) {
            Some(backend) => format!("{backend}/{task}"),
            None => task.to_string(),
        }
    }

    /// Prints the last exchanges of a resumed conversation.
    pub(crate) async fn show_last_exchanges(&mut self) {
        let stored = match self.agent.store().messages(&self.info.id).await {
            Ok(stored) => stored,
            Err(error) => {
                return self.warn(&format!("cannot show the earlier messages: {error}"));
            }
        };
        let messages: Vec<&Message> = stored
            .iter()
            .filter(|stored| stored.kind == MessageKind::Dialogue)
            .map(|stored| &stored.message)
            .collect();
        let mut lines = last_exchanges(&messages, self.width());
        if lines.is_empty() {
            return;
        }
        lines.push(Line::empty());
        self.print(TranscriptEntry { kind: EntryKind::User, lines });
        self.last = None;
    }
}

fn prompt() -> Span {
    Span::new("› ", style::BOLD)
}

/// Renders the last exchanges, dimmed.
pub(crate) fn last_exchanges(messages: &[&Message], width: usize) -> Vec<Line> {
    let is_users = |message: &&Message| matches!(message, Message::User(_));
    let begins = messages.iter().enumerate().filter(|(_, message)| is_users(message));
    let begins: Vec<usize> = begins.map(|(index, _)| index).collect();
    let Some(first) = begins.get(begins.len().saturating_sub(EXCHANGES)) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if *first > 0 {
        lines.push(Line::styled("…", style::DIM));
    }
    for message in &messages[*first..] {
        let (mark, text) = match message {
            Message::User(user) => ("› ", written_text(user)),
            Message::Assistant(answer) => ("  ", with_calls(answer)),
            Message::Tool(_) => continue,
        };
        let spoken: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let wrapped = spoken.iter().take(LINES).enumerate().flat_map(|(number, text)| {
            let lead = if number == 0 { mark } else { "  " };
            Line::styled(format!("{lead}{text}"), style::DIM).wrap(width, "  ")
        });
        lines.extend(wrapped.take(LINES));
        if spoken.len() > LINES {
            lines.push(Line::styled("  …", style::DIM));
        }
    }
    lines
}

/// Returns the text of an answer with its tool calls.
fn with_calls(answer: &vestal_model::AssistantMessage) -> String {
    let called = answer.calls.iter().map(|call| {
        let about: String = vestal_agent::call_summary(call).chars().take(CALL).collect();
        format!("[{}]", format!("{} {about}", call.name).trim_end())
    });
    std::iter::once(answer.text.clone()).chain(called).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use vestal_model::AssistantMessage;

    use super::*;

    fn answer(text: &str) -> Message {
        Message::Assistant(AssistantMessage {
            text: text.to_owned(),
            ..AssistantMessage::default()
        })
    }

    #[test]
    fn only_the_last_exchanges_are_shown_and_of_long_ones_the_beginning() {
        let long: Vec<String> = (1..=20).map(|number| format!("line {number}\n")).collect();
        let long = long.concat();
        let messages: Vec<Message> = (1..=5)
            .flat_map(|number| {
                let words = Message::user(format!("question {number}"));
                [words, answer(if number == 5 { &long } else { "fine" })]
            })
            .collect();
        let messages: Vec<&Message> = messages.iter().collect();
        let lines = last_exchanges(&messages, 60);
        let texts: Vec<String> = lines.iter().map(Line::text).collect();
        assert_eq!(
            texts.join("\n"),
            "…\n› question 3\n  fine\n› question 4\n  fine\n› question 5\n  line 1\n  line 2\n  line 3\n  line 4\n  line 5\n  line 6\n  …"
        );
        assert_eq!(last_exchanges(&[], 60), Vec::new());
    }

    #[test]
    fn a_call_is_shown_by_what_it_is_about() {
        let call = |name: &str, arguments: &str| vestal_model::ToolCall {
            id: "1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let reply = Message::Assistant(AssistantMessage {
            calls: vec![
                call("terminal", r#"{"timeout": 5, "command": "make\nall"}"#),
                call("todo", "{}"),
                call("terminal", "no json"),
            ],
            ..AssistantMessage::default()
        });
        let asked = Message::user("build");
        let lines = last_exchanges(&[&asked, &reply], 60);
        let texts: Vec<String> = lines.iter().map(Line::text).collect();
        assert_eq!(texts.join("\n"), "› build\n  [terminal make all]\n  [todo]\n  [terminal]");
    }
}
