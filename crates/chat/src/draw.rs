//! From the state to the screen.

use std::time::Instant;

use vestal_config::keys;
use vestal_conversations::Kind as Why;
use vestal_model::Message;
use vestal_sandbox::Task;
use vestal_tui::{Line, Span, style};

use crate::chat::Chat;
use crate::live::{Kind, Said};
use crate::run::Left;
use crate::talk::NextTurn;
use crate::view::{self, Scene};

/// Exchanges of a resumed conversation that are shown.
const EXCHANGES: usize = 3;

/// Lines of each that are shown.
const LINES: usize = 6;

/// Characters of a call's arguments that are shown of what is past.
const CALL: usize = 100;

impl Chat {
    /// Draws a frame. A terminal that cannot be written to is gone.
    pub(crate) fn draw(&mut self) {
        let size = self.screen.size();
        let now = Instant::now();
        let is_heard = self.hear();
        let rows = view::input_rows(size.rows);
        let (question, input) = match self.asking.front_mut() {
            Some(asking) => {
                let question = asking.lines(now, size);
                let input = if is_heard {
                    let prompt = Span::new("? ", style::YELLOW.bold());
                    asking.words.view(size.columns, rows, &prompt)
                } else {
                    self.editor.view(size.columns, rows, &prompt())
                };
                (question, input)
            }
            None => (Vec::new(), self.editor.view(size.columns, rows, &prompt())),
        };
        self.status.elapsed = self.talk.running().map(|running| running.since.elapsed());
        self.status.is_yolo = self.about.guard.is_yolo();
        let waiting = self.next_turns.iter().map(NextTurn::shown);
        let queued = self.live.queued.iter().map(|queued| queued.shown.clone());
        let queued = queued.chain(waiting).collect();
        let view = view::compose(&Scene {
            columns: size.columns,
            rows: size.rows,
            now,
            epoch: self.epoch,
            live: &self.live,
            outside: self.awaited.as_ref().or(self.outside_status.as_ref()),
            tails: &self.tails,
            is_unfolded: self.is_unfolded,
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
            self.leaving.get_or_insert(Left::Closed);
        }
    }

    /// Says who answers and where it works.
    pub(crate) fn greet(&mut self) {
        let mut line = Line::styled("vestal", style::BOLD);
        let model = &self.about.model;
        let place = self.place_of(self.about.workshop.task(), None);
        let mounted = self.about.workshop.mounted();
        let mounted = mounted.map(|dir| format!("{} is /workspace", dir.display()));
        for piece in [model.as_str(), &place, mounted.as_deref().unwrap_or_default(), "/help"] {
            if !piece.is_empty() {
                line.push(Span::new(format!(" · {piece}"), style::DIM));
            }
        }
        self.put(Said { kind: Kind::Notice, lines: vec![line] });
    }

    /// Returns where commands run: `native/default`. What is not known yet is as
    /// the settings say.
    pub(crate) fn place_of(&self, task: &Task, known: Option<String>) -> String {
        let attached = self.about.workshop.attached();
        let attached = attached.map(|sandbox| sandbox.backend().to_owned());
        let configured = || Some(self.settings.get(&keys::BACKEND).ok()?.value.named()?.to_owned());
        match attached.or(known).or_else(configured) {
            Some(backend) => format!("{backend}/{task}"),
            None => task.to_string(),
        }
    }

    /// Shows the end of what was said in a conversation before.
    pub(crate) async fn show_last_exchanges(&mut self) {
        let stored = match self.agent.store().messages(&self.about.id).await {
            Ok(stored) => stored,
            Err(error) => {
                return self.warn(&format!("what was said before cannot be shown: {error}"));
            }
        };
        let said: Vec<&Message> = stored
            .iter()
            .filter(|stored| stored.kind == Why::Said)
            .map(|stored| &stored.message)
            .collect();
        let mut lines = last_exchanges(&said, self.width());
        if lines.is_empty() {
            return;
        }
        lines.push(Line::empty());
        self.put(Said { kind: Kind::User, lines });
        self.last = None;
    }
}

fn prompt() -> Span {
    Span::new("› ", style::BOLD)
}

/// Shows the last few things that were said and answered, dimmed: they are past.
pub(crate) fn last_exchanges(said: &[&Message], width: usize) -> Vec<Line> {
    let is_users = |message: &&Message| matches!(message, Message::User(_));
    let begins = said.iter().enumerate().filter(|(_, message)| is_users(message));
    let begins: Vec<usize> = begins.map(|(place, _)| place).collect();
    let Some(first) = begins.get(begins.len().saturating_sub(EXCHANGES)) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if *first > 0 {
        lines.push(Line::styled("…", style::DIM));
    }
    for message in &said[*first..] {
        let (mark, text) = match message {
            Message::User(user) => ("› ", user.text()),
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

/// Returns what was answered, with the tools that were called for it.
fn with_calls(answer: &vestal_model::AssistantMessage) -> String {
    let called = answer.calls.iter().map(|call| {
        let arguments: String = call.arguments.chars().take(CALL).collect();
        format!("[{} {arguments}]", call.name)
    });
    std::iter::once(answer.text.clone()).chain(called).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
