//! The part of a turn that is not in the transcript yet. Events change this state and return
//! the entries to print.

use std::time::{Duration, Instant};

use serde_json::Value;
use vestal_agent::{ConversationMode, TurnEvent};
use vestal_conversations::ConversationId;
use vestal_model::{Cost, FinishReason};
use vestal_tui::{Line, Submission, format};

use crate::cells::{self, EndedTool};
use crate::output::{FoldedOutput, OutputTail, OutputTails, ReasoningText, StreamedAnswer};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TranscriptEntry {
    pub(crate) kind: EntryKind,
    pub(crate) lines: Vec<Line>,
}

/// The kind of an entry; a blank line separates different kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    User,
    Answer,
    Reasoning,
    Tool,
    Notice,
}

/// The live state of a turn.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    width: usize,
    pub(crate) shows_reasoning: bool,
    pub(crate) answer: StreamedAnswer,
    pub(crate) reasoning: ReasoningText,
    pub(crate) tools: Vec<RunningCall>,
    pub(crate) children: Vec<RunningChild>,
    /// What the turn waits for, and since when.
    pub(crate) waiting: Option<(Instant, WaitingFor)>,
    /// Messages that have not reached the model yet.
    pub(crate) queued: Vec<Submission>,
    pub(crate) usage_totals: ChatTotals,
}

/// What a turn waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitingFor {
    Model,
    Thinking,
    /// The model is writing the arguments of a call.
    Call(String),
    Summary,
    /// A retry at this time.
    Retry(Instant),
    /// Other work of the program.
    Work(String),
}

/// A running tool call.
#[derive(Debug)]
pub(crate) struct RunningCall {
    pub(crate) call: String,
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) since: Instant,
    changes: Vec<String>,
}

/// A running child conversation.
#[derive(Debug)]
pub(crate) struct RunningChild {
    conversation: ConversationId,
    pub(crate) label: String,
    pub(crate) since: Instant,
    /// Its running calls: id and summary.
    pub(crate) doing: Vec<(String, String)>,
}

impl LiveTurn {
    /// Returns the state without a turn.
    pub(crate) fn new(width: usize, shows_reasoning: bool) -> Self {
        Self {
            width,
            shows_reasoning,
            answer: StreamedAnswer::new(width),
            reasoning: ReasoningText::default(),
            tools: Vec::new(),
            children: Vec::new(),
            waiting: None,
            queued: Vec::new(),
            usage_totals: ChatTotals::default(),
        }
    }

    /// Changes the width.
    pub(crate) fn resized(&mut self, width: usize) {
        self.width = width;
        self.answer.resized(width);
    }

    /// Reports whether something on the screen is animated.
    pub(crate) fn is_moving(&self) -> bool {
        self.waiting.is_some() || !self.tools.is_empty() || !self.children.is_empty()
    }

    /// Applies an event and returns the entries to print.
    pub(crate) fn take(
        &mut self,
        event: TurnEvent,
        now: Instant,
        tails: &OutputTails,
        keep_folded: &mut impl FnMut(FoldedOutput),
    ) -> Vec<TranscriptEntry> {
        let mut entries = Vec::new();
        match event {
            TurnEvent::TurnStarted { .. } => self.waiting = Some((now, WaitingFor::Model)),
            TurnEvent::Text { text } => {
                entries.extend(self.end_reasoning());
                self.waiting = None;
                entries.extend(entry(EntryKind::Answer, self.answer.push(&text)));
            }
            TurnEvent::Reasoning { text } => {
                if self.shows_reasoning {
                    entries.extend(entry(
                        EntryKind::Reasoning,
                        self.reasoning.push(&text, self.width),
                    ));
                }
                if !matches!(self.waiting, Some((_, WaitingFor::Thinking))) {
                    self.waiting = Some((now, WaitingFor::Thinking));
                }
            }
            TurnEvent::Discarded { reason, retry_after } => {
                entries.push(self.void(&reason, retry_after));
                let wait =
                    retry_after.map_or(WaitingFor::Model, |after| WaitingFor::Retry(now + after));
                self.waiting = Some((now, wait));
            }
            TurnEvent::CallAnnounced { name } => {
                entries.extend(self.end_reasoning());
                self.waiting = Some((now, WaitingFor::Call(name)));
            }
            TurnEvent::ModelCalled { model, usage, cost, finish, .. } => {
                self.usage_totals.used = usage.total();
                self.usage_totals.model = Some(model);
                self.usage_totals.add_cost(cost);
                entries.extend(self.end_reasoning());
                // A complete answer ends here; the next text continues one that was cut off.
                let goes_on = finish == FinishReason::Length;
                if goes_on {
                    self.answer.settle();
                } else {
                    entries.extend(self.end_answer());
                }
                self.waiting = goes_on.then_some((now, WaitingFor::Model));
            }
            TurnEvent::ToolStarted { call, name, summary } => {
                entries.extend(self.end_answer());
                self.waiting = None;
                let changes = Vec::new();
                self.tools.push(RunningCall { call, name, summary, since: now, changes });
            }
            TurnEvent::FileChanged { call, diff, .. } => {
                if let Some(tool) = self.tools.iter_mut().find(|tool| tool.call == call) {
                    tool.changes.push(diff);
                }
            }
            TurnEvent::ToolEnded { call, name, is_error, took, preview } => {
                let ended =
                    EndedCall { call: &call, name: &name, is_error, took, preview: &preview };
                entries.push(self.tool_ended(&ended, tails, keep_folded));
                if self.tools.is_empty() {
                    self.children.clear();
                    self.waiting = Some((now, WaitingFor::Model));
                }
            }
            TurnEvent::Compressing { .. } => self.waiting = Some((now, WaitingFor::Summary)),
            TurnEvent::Compressed { messages, tokens } => {
                self.usage_totals.used = tokens;
                let words = format!(
                    "summarised the beginning of the conversation ({})",
                    format::count(messages, "message")
                );
                entries.push(Self::notice(cells::note(&words, self.width)));
                self.waiting = Some((now, WaitingFor::Model));
            }
            TurnEvent::Steered { text } => {
                let message = self.take_queued(text);
                entries.extend(self.end_answer());
                entries.extend(entry(EntryKind::User, cells::user(&message.shown, self.width)));
            }
            TurnEvent::ModeChanged { mode } => {
                let words = match mode {
                    ConversationMode::Work => "plan mode is off: the agent carries out the plan",
                    ConversationMode::Plan => "plan mode is on",
                };
                entries.push(Self::notice(cells::note(words, self.width)));
            }
            TurnEvent::PlanPresented { plan } => {
                entries.extend(self.end_answer());
                entries.extend(entry(EntryKind::Answer, self.answer.whole(&plan)));
            }
            TurnEvent::Warning { text } => {
                entries.push(Self::notice(cells::warning(&text, self.width)));
            }
            TurnEvent::Child { conversation, index, event } => {
                entries.extend(self.take_of_child(conversation, &[index], *event, now));
            }
            TurnEvent::TurnEnded { .. } => {
                entries.extend(self.finish());
            }
            // Kept in `OutputTails`, which is not queued.
            TurnEvent::ToolOutput { .. } => {}
        }
        entries
    }

    /// Removes a message from the queue, with its displayed form.
    fn take_queued(&mut self, text: String) -> Submission {
        match self.queued.iter().position(|queued| queued.text == text) {
            Some(index) => self.queued.remove(index),
            None => Submission { shown: text.clone(), text },
        }
    }

    /// Keeps only the queued messages that did not reach the model.
    pub(crate) fn retain_queued(&mut self, left: Vec<String>) {
        let left = left.into_iter().map(|text| self.take_queued(text)).collect();
        self.queued = left;
    }

    /// Ends the turn and returns the remaining entries.
    pub(crate) fn finish(&mut self) -> Vec<TranscriptEntry> {
        let mut entries: Vec<TranscriptEntry> = self.end_reasoning().into_iter().collect();
        entries.extend(self.end_answer());
        self.tools.clear();
        self.children.clear();
        self.waiting = None;
        entries
    }

    fn end_reasoning(&mut self) -> Option<TranscriptEntry> {
        entry(EntryKind::Reasoning, self.reasoning.end(self.width))
    }

    fn end_answer(&mut self) -> Option<TranscriptEntry> {
        entry(EntryKind::Answer, self.answer.end())
    }

    /// A notice. It does not end the answer, which may continue.
    fn notice(lines: Vec<Line>) -> TranscriptEntry {
        TranscriptEntry { kind: EntryKind::Notice, lines }
    }

    /// Discards the answer so far and returns a notice about it.
    fn void(&mut self, reason: &str, retry_after: Option<Duration>) -> TranscriptEntry {
        self.reasoning.discard();
        let again = match retry_after {
            Some(after) => format!("; retrying in {}", format::took(after)),
            None => String::new(),
        };
        let mut lines = cells::warning(&format!("{reason}{again}"), self.width);
        if self.answer.discard() {
            lines.extend(cells::dimmed(
                "(ignore the text above; the answer starts over)",
                self.width,
            ));
        }
        TranscriptEntry { kind: EntryKind::Notice, lines }
    }

    fn tool_ended(
        &mut self,
        ended: &EndedCall<'_>,
        tails: &OutputTails,
        keep_folded: &mut impl FnMut(FoldedOutput),
    ) -> TranscriptEntry {
        let index = self.tools.iter().position(|tool| tool.call == ended.call);
        let (summary, changes) = match index {
            Some(index) => {
                let tool = self.tools.remove(index);
                (tool.summary, tool.changes)
            }
            None => (String::new(), Vec::new()),
        };
        let tail = tails.take(ended.call);
        let result: Option<Value> = serde_json::from_str(ended.preview).ok();
        let reason = if ended.is_error && tail.is_empty() { reason(ended.preview) } else { None };
        let lines = cells::ended(&EndedTool {
            name: ended.name,
            summary: &summary,
            is_error: ended.is_error,
            took: ended.took,
            tail: &tail,
            reason: reason.as_deref(),
            exit_code: result.as_ref().and_then(|result| result["exit_code"].as_i64()),
            changes: &changes,
        });
        if !tail.is_empty() || !changes.is_empty() {
            keep_folded(FoldedOutput { about: format!("{} {summary}", ended.name), tail, changes });
        }
        TranscriptEntry { kind: EntryKind::Tool, lines }
    }

    /// Applies an event of a child conversation, at any depth.
    fn take_of_child(
        &mut self,
        conversation: ConversationId,
        path: &[usize],
        event: TurnEvent,
        now: Instant,
    ) -> Vec<TranscriptEntry> {
        let known = self.children.iter().position(|child| child.conversation == conversation);
        let index = known.unwrap_or_else(|| {
            let label = path.iter().map(|index| (index + 1).to_string()).collect::<Vec<_>>();
            let label = format!("child {}", label.join("."));
            self.children.push(RunningChild { conversation, label, since: now, doing: Vec::new() });
            self.children.len() - 1
        });
        let child = &mut self.children[index];
        match event {
            TurnEvent::ToolStarted { call, name, summary } => {
                child.doing.push((call, format!("{name} {summary}").trim_end().to_owned()));
            }
            TurnEvent::ToolEnded { call, .. } => child.doing.retain(|(known, _)| *known != call),
            TurnEvent::ModelCalled { cost, .. } => self.usage_totals.add_cost(cost),
            TurnEvent::Warning { text } => {
                let words = format!("{}: {text}", child.label);
                return vec![Self::notice(cells::warning(&words, self.width))];
            }
            TurnEvent::TurnEnded { outcome } => {
                let child = self.children.remove(index);
                let is_error = outcome != "completed";
                let lines = cells::ended(&EndedTool {
                    name: &child.label,
                    summary: if is_error { &outcome } else { "" },
                    is_error,
                    took: now.saturating_duration_since(child.since),
                    tail: &OutputTail::default(),
                    reason: None,
                    exit_code: None,
                    changes: &[],
                });
                let indented = |line: Line| line.prefixed(vestal_tui::Span::plain("  "));
                let lines = lines.into_iter().map(indented).collect();
                return vec![TranscriptEntry { kind: EntryKind::Tool, lines }];
            }
            TurnEvent::Child { conversation, index, event } => {
                let path: Vec<usize> = path.iter().copied().chain([index]).collect();
                return self.take_of_child(conversation, &path, *event, now);
            }
            _ => {}
        }
        Vec::new()
    }
}

struct EndedCall<'a> {
    call: &'a str,
    name: &'a str,
    is_error: bool,
    took: Duration,
    preview: &'a str,
}

fn entry(kind: EntryKind, lines: Vec<Line>) -> Option<TranscriptEntry> {
    (!lines.is_empty()).then_some(TranscriptEntry { kind, lines })
}

/// Returns the reason of a failure from the start of its result, which may be JSON that is
/// cut off.
fn reason(preview: &str) -> Option<String> {
    match serde_json::from_str::<Value>(preview) {
        Ok(result) => result["error"].as_str().map(str::to_owned),
        Err(_) => match preview.strip_prefix("{\"error\":\"") {
            Some(cut) => Some(format!("{}…", cut.replace("\\n", "\n").replace("\\\"", "\""))),
            None => Some(preview.to_owned()).filter(|words| !words.starts_with('{')),
        },
    }
}

/// Usage and cost of the model calls of this chat.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChatTotals {
    /// Tokens of the last request and its answer.
    pub(crate) used: u64,
    /// The model that answered last.
    pub(crate) model: Option<String>,
    pub(crate) micro_usd: u64,
    pub(crate) known_calls: u32,
    pub(crate) unknown_calls: u32,
}

impl ChatTotals {
    /// Adds the cost of a call.
    pub(crate) fn add_cost(&mut self, cost: Cost) {
        match cost {
            Cost::Unknown => self.unknown_calls += 1,
            Cost::Known { micro_usd, .. } => {
                self.known_calls += 1;
                self.micro_usd = self.micro_usd.saturating_add(micro_usd);
            }
        }
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
