//! Shows the turn of a single question: the answer as it comes, tool calls and progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use vestal_agent::{EventSink, TurnEvent};
use vestal_model::FinishReason;

use crate::agent::Asking;
use crate::console::{Console, Sink, status, text};
use crate::error::CommandFailure;

/// Time between two changes of the line that says what goes on.
const TICK: Duration = Duration::from_millis(250);

/// Work that takes longer than this is shown.
const SHOW_AFTER: Duration = Duration::from_millis(700);

/// Characters of what a tool printed last that are kept to be shown.
const TAIL: usize = 200;

/// How the answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerDisplay {
    /// Piece by piece, as it arrives.
    Streamed,
    /// Message by message, each when it is complete.
    Whole,
    /// Only after the turn has ended.
    Later,
}

/// Shows a turn.
pub(super) struct TurnOutput {
    console: Console,
    answer: AnswerDisplay,
    /// Whether the calls of tools are shown.
    shows_tools: bool,
    out: Sink,
    asking: Asking,
    words: TrimmedText,
    message: String,
    /// The part of a message that reached the length limit; the next message continues it.
    cut_off: String,
    running: Vec<ToolInProgress>,
    tails: Tails,
    waiting: Option<TurnWait>,
}

#[derive(Debug, Clone, Copy)]
enum TurnWait {
    /// The answer of the model, since this moment.
    Model(Instant),
    /// The next attempt, at this moment.
    Retry(Instant),
}

impl TurnWait {
    fn begin() -> Self {
        Self::Model(Instant::now())
    }

    /// Returns the words for it at a moment, unless it has only just begun.
    fn in_words(self, now: Instant) -> Option<String> {
        let since = match self {
            Self::Retry(at) if at > now => {
                // The last second is one, too.
                let left = (at - now).as_secs() + 1;
                let left = match (left / 60, left % 60) {
                    (0, seconds) => format!("{seconds}s"),
                    (minutes, seconds) => format!("{minutes}m {seconds}s"),
                };
                return Some(format!("asking again in {left}; Ctrl-C stops"));
            }
            Self::Model(since) | Self::Retry(since) => now.duration_since(since),
        };
        (since > SHOW_AFTER).then(|| format!("waiting for the model ({})", text::span(since)))
    }
}

/// A tool at work.
struct ToolInProgress {
    call: String,
    about: String,
    since: Instant,
}

/// The last line that each tool printed. It changes with every piece of
/// output, and only the latest is of interest: so it is not queued.
#[derive(Clone, Default)]
struct Tails(Arc<Mutex<HashMap<String, String>>>);

impl Tails {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, call: String, printed: &str) {
        let last = printed.lines().rev().find(|line| !line.trim().is_empty());
        if let Some(last) = last {
            let last = last.chars().take(TAIL).collect();
            self.lock().insert(call, last);
        }
    }
}

impl TurnOutput {
    /// Returns the output, and the sink and the receiver of the events of the turn.
    pub(super) fn new(
        console: Console,
        answer: AnswerDisplay,
        shows_tools: bool,
        asking: Asking,
    ) -> Result<(Self, EventSink, UnboundedReceiver<TurnEvent>), CommandFailure> {
        let (sender, events) = unbounded_channel();
        let tails = Tails::default();
        let heard = tails.clone();
        let sink = EventSink::new(move |event| match event {
            TurnEvent::ToolOutput { call, text } => heard.note(call, &text),
            event => {
                // Here, where the log knows the conversation.
                event.log();
                // The receiver is gone when the turn is no longer shown.
                drop(sender.send(event));
            }
        });
        let out = Sink::stdout().map_err(|error| CommandFailure::output(&error))?;
        let output = Self {
            console,
            answer,
            shows_tools,
            out,
            asking,
            words: TrimmedText::default(),
            message: String::new(),
            cut_off: String::new(),
            running: Vec::new(),
            tails,
            waiting: None,
        };
        Ok((output, sink, events))
    }

    /// Shows the events of the turn until the caller stops polling it.
    pub(super) async fn follow(
        &mut self,
        events: &mut UnboundedReceiver<TurnEvent>,
    ) -> Result<(), CommandFailure> {
        let live = self.shows_tools && status::is_possible();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => self.take(event).await?,
                    // There are no more events: the turn is about to end.
                    None => std::future::pending().await,
                },
                _ = ticks.tick(), if live => self.draw(),
            }
        }
    }

    /// Shows the remaining events after the turn has ended. A message that is still incomplete is
    /// dropped.
    pub(super) async fn finish(
        &mut self,
        events: &mut UnboundedReceiver<TurnEvent>,
    ) -> Result<(), CommandFailure> {
        while let Ok(event) = events.try_recv() {
            self.take(event).await?;
        }
        status::clear();
        self.message.clear();
        self.end_message().await
    }

    async fn take(&mut self, event: TurnEvent) -> Result<(), CommandFailure> {
        match event {
            TurnEvent::TurnStarted { .. } | TurnEvent::Steered { .. } => {
                self.waiting = Some(TurnWait::begin());
            }
            TurnEvent::Text { text } => self.say(&text).await?,
            TurnEvent::Discarded { reason, retry_after } => {
                self.void(&reason, retry_after).await?;
            }
            TurnEvent::CallAnnounced { .. } => self.end_line().await?,
            // The next words go on where these were cut off.
            TurnEvent::ModelCalled { finish: FinishReason::Length, .. } => {
                self.cut_off.push_str(&std::mem::take(&mut self.message));
            }
            TurnEvent::ModelCalled { .. } => {
                self.end_message().await?;
                self.waiting = None;
            }
            TurnEvent::ToolStarted { call, name, summary } => {
                self.end_line().await?;
                let about = about(&name, &summary);
                self.running.push(ToolInProgress { call, about, since: Instant::now() });
            }
            TurnEvent::ToolEnded { call, name, is_error, took, .. } => {
                self.tool_ended(&call, &name, is_error, took).await?;
            }
            TurnEvent::ModeChanged { mode } => self.aside(&format!("mode: {mode}")).await?,
            TurnEvent::Warning { text } => {
                self.end_line().await?;
                self.console.warn(&text);
            }
            TurnEvent::Compressing { .. } => {
                self.aside("the conversation is long; its beginning is being summarised").await?;
            }
            TurnEvent::Compressed { messages, .. } => {
                self.aside(&format!("{} summarised", text::count(messages, "message"))).await?;
            }
            TurnEvent::Child { index, event, .. } => self.take_of_child(index, *event).await?,
            TurnEvent::TurnEnded { .. } => self.waiting = None,
            // The question that follows shows a plan, or the answer.
            TurnEvent::PlanPresented { .. }
            | TurnEvent::Reasoning { .. }
            | TurnEvent::ToolOutput { .. }
            | TurnEvent::FileChanged { .. } => {}
        }
        Ok(())
    }

    /// Shows the tools and the warnings of a subagent.
    async fn take_of_child(
        &mut self,
        index: usize,
        event: TurnEvent,
    ) -> Result<(), CommandFailure> {
        match event {
            TurnEvent::ToolEnded { name, is_error, took, .. } => {
                let line = tool_line(is_error, &name, took);
                self.aside(&format!("  child {}: {line}", index + 1)).await
            }
            TurnEvent::Warning { text } => {
                self.end_line().await?;
                self.console.warn(&format!("child {}: {text}", index + 1));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn say(&mut self, text: &str) -> Result<(), CommandFailure> {
        match self.answer {
            AnswerDisplay::Streamed => {
                let shown = text::harmless(&self.words.push(text));
                if !shown.is_empty() {
                    self.waiting = None;
                    self.write(shown).await?;
                }
            }
            AnswerDisplay::Whole => self.message.push_str(text),
            AnswerDisplay::Later => {}
        }
        Ok(())
    }

    /// Ends a message that is complete.
    async fn end_message(&mut self) -> Result<(), CommandFailure> {
        self.end_line().await?;
        let mut message = std::mem::take(&mut self.cut_off);
        message.push_str(&std::mem::take(&mut self.message));
        self.write(trimmed(&message)).await
    }

    /// Ends the line of the answer that is being written, so that other lines can follow it on the
    /// terminal.
    async fn end_line(&mut self) -> Result<(), CommandFailure> {
        let end = self.words.end();
        self.write(end.to_owned()).await
    }

    /// Reports that the answer so far is discarded.
    async fn void(&mut self, reason: &str, again: Option<Duration>) -> Result<(), CommandFailure> {
        let was_shown = self.words.is_begun();
        self.message.clear();
        self.end_line().await?;
        let next = match again {
            Some(after) => format!("; asking again in {}", text::took(after)),
            None => String::new(),
        };
        let void = if was_shown { "; the answer restarts" } else { "" };
        self.console.warn(&format!("{reason}{next}{void}"));
        let now = Instant::now();
        let at = again.and_then(|after| now.checked_add(after));
        self.waiting = Some(at.map_or(TurnWait::Model(now), TurnWait::Retry));
        Ok(())
    }

    async fn tool_ended(
        &mut self,
        call: &str,
        name: &str,
        is_error: bool,
        took: Duration,
    ) -> Result<(), CommandFailure> {
        let place = self.running.iter().position(|running| running.call == call);
        let about = match place {
            Some(place) => self.running.remove(place).about,
            None => about(name, ""),
        };
        self.tails.lock().remove(call);
        if self.running.is_empty() {
            self.waiting = Some(TurnWait::begin());
        }
        self.aside(&tool_line(is_error, &about, took)).await
    }

    async fn aside(&mut self, line: &str) -> Result<(), CommandFailure> {
        if self.shows_tools {
            self.end_line().await?;
            self.console.aside(line);
        }
        Ok(())
    }

    async fn write(&self, text: String) -> Result<(), CommandFailure> {
        if text.is_empty() {
            return Ok(());
        }
        status::clear();
        self.out.write(Bytes::from(text)).await.map_err(|error| CommandFailure::output(&error))
    }

    /// Draws the status line, unless a question or an unfinished line of the answer is there.
    fn draw(&self) {
        if self.asking.is_asking() || self.words.is_begun() {
            return;
        }
        if let Some(running) = self.running.last().filter(|one| one.since.elapsed() > SHOW_AFTER) {
            let more = match self.running.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let tail = self.tails.lock().get(&running.call).cloned();
            let tail = tail.map(|tail| format!(" │ {}", text::printable(&tail)));
            let took = text::span(running.since.elapsed());
            let about = text::printable(&running.about);
            status::show(&format!("{about}{more} ({took}){}", tail.unwrap_or_default()));
        } else if let Some(words) = self.waiting.and_then(|one| one.in_words(Instant::now())) {
            status::show(&words);
        }
    }
}

fn about(name: &str, summary: &str) -> String {
    if summary.is_empty() { name.to_owned() } else { format!("{name}: {summary}") }
}

fn tool_line(is_error: bool, about: &str, took: Duration) -> String {
    let mark = if is_error { "✗" } else { "·" };
    format!("{mark} {about} ({})", text::took(took))
}

/// A message that comes in pieces: shown without blank lines before and behind
/// it, so white space is held back until it is known what follows.
#[derive(Debug, Default)]
pub(super) struct TrimmedText {
    begun: bool,
    held: String,
}

impl TrimmedText {
    /// Takes a piece and returns what can be shown.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let end = self.held.trim_end().len();
        let mut shown: String = self.held.drain(..end).collect();
        if !self.begun && !shown.is_empty() {
            self.begun = true;
            let first = shown.len() - shown.trim_start().len();
            let start = shown[..first].rfind('\n').map_or(0, |end| end + 1);
            shown.drain(..start);
        }
        shown
    }

    /// Ends the message and returns the end of its last line, if it has any.
    pub(super) fn end(&mut self) -> &'static str {
        self.held.clear();
        if std::mem::take(&mut self.begun) { "\n" } else { "" }
    }

    /// Reports whether a line of it is unfinished on the screen.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }
}

/// Returns a whole message as it is printed: nothing, if it says nothing.
pub(super) fn trimmed(text: &str) -> String {
    let mut words = TrimmedText::default();
    let mut printed = words.push(text);
    printed.push_str(words.end());
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_before_the_next_attempt_is_counted_down() {
        let now = Instant::now();
        let waiting = TurnWait::Retry(now + Duration::from_millis(62_500));
        let shown = [0, 2_600, 61_600, 62_600, 64_000]
            .map(|ms| waiting.in_words(now + Duration::from_millis(ms)).unwrap_or_default());
        assert_eq!(
            shown,
            [
                "asking again in 1m 3s; Ctrl-C stops",
                "asking again in 1m 0s; Ctrl-C stops",
                "asking again in 1s; Ctrl-C stops",
                "",
                "waiting for the model (1s)",
            ]
        );
    }

    #[test]
    fn a_message_has_no_blank_lines_around_it_and_ends_with_one_newline() {
        assert_eq!(trimmed("\n \n  code\n\nmore \n\n"), "  code\n\nmore\n");
        assert_eq!(trimmed(" \n\n"), "");
        assert_eq!(trimmed("x"), "x\n");
    }

    #[test]
    fn a_message_in_pieces_is_the_same_as_in_one() {
        let text = "\n\n  first\n\n second  word \n\n";
        for size in 1..text.len() {
            let mut words = TrimmedText::default();
            let chars: Vec<char> = text.chars().collect();
            let mut shown: String =
                chars.chunks(size).map(|piece| words.push(&String::from_iter(piece))).collect();
            assert!(words.is_begun());
            shown.push_str(words.end());
            assert_eq!(shown, trimmed(text), "{size}");
            assert!(!words.is_begun());
        }
    }
}
