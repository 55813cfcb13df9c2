//! What goes on in a turn, as far as it has not become part of the transcript:
//! a state that events change, and that prints by returning what is to be said.

use std::time::{Duration, Instant};

use serde_json::Value;
use vestal_agent::Event;
use vestal_conversations::ConversationId;
use vestal_model::{Cost, Finish};
use vestal_tui::{Line, Submission};

use crate::answer::{Answer, Thoughts};
use crate::cells::{self, Done};
use crate::format;
use crate::tool_output::{Tail, Tails, Unfoldable};

/// Something for the transcript.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) kind: Kind,
    pub(crate) lines: Vec<Line>,
}

/// What kind of thing is said: things of different kinds stand apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Answer,
    Thought,
    Tool,
    Notice,
}

/// What goes on in a turn.
#[derive(Debug)]
pub(crate) struct Live {
    width: usize,
    pub(crate) shows_thoughts: bool,
    pub(crate) answer: Answer,
    pub(crate) thoughts: Thoughts,
    pub(crate) tools: Vec<Running>,
    pub(crate) children: Vec<Child>,
    /// Since when the model is waited for, and for what.
    pub(crate) waiting: Option<(Instant, Waiting)>,
    /// What was said and has not reached the model yet.
    pub(crate) queued: Vec<Submission>,
    pub(crate) tally: Tally,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiting {
    Model,
    Thinking,
    /// The model is writing the arguments of a call.
    Call(String),
    Summary,
    /// A retry, from then on.
    Retry(Instant),
    /// Something of the program's own.
    Work(String),
}

/// A tool at work.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) call: String,
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) since: Instant,
    changes: Vec<String>,
}

/// A child at work.
#[derive(Debug)]
pub(crate) struct Child {
    conversation: ConversationId,
    pub(crate) label: String,
    pub(crate) since: Instant,
    /// What it does: the call and what it is about.
    pub(crate) doing: Vec<(String, String)>,
}

impl Live {
    /// Returns the state in which nothing goes on.
    pub(crate) fn new(width: usize, shows_thoughts: bool) -> Self {
        Self {
            width,
            shows_thoughts,
            answer: Answer::new(width),
            thoughts: Thoughts::default(),
            tools: Vec::new(),
            children: Vec::new(),
            waiting: None,
            queued: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Goes on at another width.
    pub(crate) fn resized(&mut self, width: usize) {
        self.width = width;
        self.answer.resized(width);
    }

    /// Reports whether something is seen that changes by itself.
    pub(crate) fn is_moving(&self) -> bool {
        self.waiting.is_some() || !self.tools.is_empty() || !self.children.is_empty()
    }

    /// Takes an event and returns what is to be said for good.
    pub(crate) fn take(
        &mut self,
        event: Event,
        now: Instant,
        tails: &Tails,
        unfold: &mut impl FnMut(Unfoldable),
    ) -> Vec<Said> {
        let mut said = Vec::new();
        match event {
            Event::TurnStarted { .. } => self.waiting = Some((now, Waiting::Model)),
            Event::Text { text } => {
                said.extend(self.end_thoughts());
                self.waiting = None;
                said.extend(put(Kind::Answer, self.answer.push(&text)));
            }
            Event::Reasoning { text } => {
                if self.shows_thoughts {
                    said.extend(put(Kind::Thought, self.thoughts.push(&text, self.width)));
                }
                if !matches!(self.waiting, Some((_, Waiting::Thinking))) {
                    self.waiting = Some((now, Waiting::Thinking));
                }
            }
            Event::Discarded { reason, retry_after } => {
                said.push(self.void(&reason, retry_after));
                let wait = retry_after.map_or(Waiting::Model, |after| Waiting::Retry(now + after));
                self.waiting = Some((now, wait));
            }
            Event::CallAnnounced { name } => {
                said.extend(self.end_thoughts());
                self.waiting = Some((now, Waiting::Call(name)));
            }
            Event::ModelCalled { model, usage, cost, finish, .. } => {
                self.tally.used = usage.total();
                self.tally.model = Some(model);
                self.tally.pay(cost);
                said.extend(self.end_thoughts());
                // After a whole answer nothing is waited for but the end of the turn;
                // after one that was cut off, the next words go on with it.
                let goes_on = finish == Finish::Length;
                if goes_on {
                    self.answer.settle();
                } else {
                    said.extend(self.end_answer());
                }
                self.waiting = goes_on.then_some((now, Waiting::Model));
            }
            Event::ToolStarted { call, name, summary } => {
                said.extend(self.end_answer());
                self.waiting = None;
                let changes = Vec::new();
                self.tools.push(Running { call, name, summary, since: now, changes });
            }
            Event::FileChanged { call, diff, .. } => {
                if let Some(tool) = self.tools.iter_mut().find(|tool| tool.call == call) {
                    tool.changes.push(diff);
                }
            }
            Event::ToolEnded { call, name, is_error, took, preview } => {
                let ended = Ended { call: &call, name: &name, is_error, took, preview: &preview };
                said.push(self.tool_ended(&ended, tails, unfold));
                if self.tools.is_empty() {
                    self.children.clear();
                    self.waiting = Some((now, Waiting::Model));
                }
            }
            Event::Compressing { .. } => self.waiting = Some((now, Waiting::Summary)),
            Event::Compressed { messages, tokens } => {
                self.tally.used = tokens;
                let words = format!(
                    "the beginning of the conversation ({}) was summarised",
                    format::count(messages, "message")
                );
                said.push(Self::notice(cells::note(&words, self.width)));
                self.waiting = Some((now, Waiting::Model));
            }
            Event::Steered { text } => {
                let said_so = self.take_queued(text);
                said.extend(self.end_answer());
                said.extend(put(Kind::User, cells::user(&said_so.shown, self.width)));
            }
            Event::Warning { text } => {
                said.push(Self::notice(cells::warning(&text, self.width)));
            }
            Event::Child { conversation, index, event } => {
                said.extend(self.take_of_child(conversation, &[index], *event, now));
            }
            Event::TurnEnded { .. } => {
                said.extend(self.finish());
            }
            // Its end is kept elsewhere, so that nothing is queued.
            Event::ToolOutput { .. } => {}
        }
        said
    }

    /// Takes words out of those that wait, with what was seen of them.
    fn take_queued(&mut self, text: String) -> Submission {
        match self.queued.iter().position(|queued| queued.text == text) {
            Some(place) => self.queued.remove(place),
            None => Submission { shown: text.clone(), text },
        }
    }

    /// Keeps only those of the words that wait which did not reach the model.
    pub(crate) fn keep_queued(&mut self, left: Vec<String>) {
        let left = left.into_iter().map(|text| self.take_queued(text)).collect();
        self.queued = left;
    }

    /// Ends what is under way and returns what is left to be said of it.
    pub(crate) fn finish(&mut self) -> Vec<Said> {
        let mut said: Vec<Said> = self.end_thoughts().into_iter().collect();
        said.extend(self.end_answer());
        self.tools.clear();
        self.children.clear();
        self.waiting = None;
        said
    }

    fn end_thoughts(&mut self) -> Option<Said> {
        put(Kind::Thought, self.thoughts.end(self.width))
    }

    fn end_answer(&mut self) -> Option<Said> {
        put(Kind::Answer, self.answer.end())
    }

    /// Something the program says. What the model has said so far stays where
    /// it is: it may go on.
    fn notice(lines: Vec<Line>) -> Said {
        Said { kind: Kind::Notice, lines }
    }

    /// Says that what came of an answer does not count.
    fn void(&mut self, reason: &str, retry_after: Option<Duration>) -> Said {
        self.thoughts.discard();
        let again = match retry_after {
            Some(after) => format!("; asking again in {}", format::took(after)),
            None => String::new(),
        };
        let mut lines = cells::warning(&format!("{reason}{again}"), self.width);
        if self.answer.discard() {
            lines.extend(cells::aside(
                "(what stands above is void; the answer begins anew)",
                self.width,
            ));
        }
        Said { kind: Kind::Notice, lines }
    }

    fn tool_ended(
        &mut self,
        ended: &Ended<'_>,
        tails: &Tails,
        unfold: &mut impl FnMut(Unfoldable),
    ) -> Said {
        let place = self.tools.iter().position(|tool| tool.call == ended.call);
        let (summary, changes) = match place {
            Some(place) => {
                let tool = self.tools.remove(place);
                (tool.summary, tool.changes)
            }
            None => (String::new(), Vec::new()),
        };
        let tail = tails.take(ended.call);
        let told: Option<Value> = serde_json::from_str(ended.preview).ok();
        let reason = if ended.is_error && tail.is_empty() { reason(ended.preview) } else { None };
        let lines = cells::ended(&Done {
            name: ended.name,
            summary: &summary,
            is_error: ended.is_error,
            took: ended.took,
            tail: &tail,
            reason: reason.as_deref(),
            exit_code: told.as_ref().and_then(|told| told["exit_code"].as_i64()),
            changes: &changes,
        });
        if !tail.is_empty() || !changes.is_empty() {
            unfold(Unfoldable { about: format!("{} {summary}", ended.name), tail, changes });
        }
        Said { kind: Kind::Tool, lines }
    }

    /// Takes what happened to a child, or to a child of a child.
    fn take_of_child(
        &mut self,
        conversation: ConversationId,
        path: &[usize],
        event: Event,
        now: Instant,
    ) -> Vec<Said> {
        let known = self.children.iter().position(|child| child.conversation == conversation);
        let place = known.unwrap_or_else(|| {
            let label = path.iter().map(|index| (index + 1).to_string()).collect::<Vec<_>>();
            let label = format!("child {}", label.join("."));
            self.children.push(Child { conversation, label, since: now, doing: Vec::new() });
            self.children.len() - 1
        });
        let child = &mut self.children[place];
        match event {
            Event::ToolStarted { call, name, summary } => {
                child.doing.push((call, format!("{name} {summary}").trim_end().to_owned()));
            }
            Event::ToolEnded { call, .. } => child.doing.retain(|(known, _)| *known != call),
            Event::ModelCalled { cost, .. } => self.tally.pay(cost),
            Event::Warning { text } => {
                let words = format!("{}: {text}", child.label);
                return vec![Self::notice(cells::warning(&words, self.width))];
            }
            Event::TurnEnded { outcome } => {
                let child = self.children.remove(place);
                let is_error = outcome != "completed";
                let lines = cells::ended(&Done {
                    name: &child.label,
                    summary: if is_error { &outcome } else { "" },
                    is_error,
                    took: now.saturating_duration_since(child.since),
                    tail: &Tail::default(),
                    reason: None,
                    exit_code: None,
                    changes: &[],
                });
                let indented = |line: Line| line.prefixed(vestal_tui::Span::plain("  "));
                let lines = lines.into_iter().map(indented).collect();
                return vec![Said { kind: Kind::Tool, lines }];
            }
            Event::Child { conversation, index, event } => {
                let path: Vec<usize> = path.iter().copied().chain([index]).collect();
                return self.take_of_child(conversation, &path, *event, now);
            }
            _ => {}
        }
        Vec::new()
    }
}

struct Ended<'a> {
    call: &'a str,
    name: &'a str,
    is_error: bool,
    took: Duration,
    preview: &'a str,
}

fn put(kind: Kind, lines: Vec<Line>) -> Option<Said> {
    (!lines.is_empty()).then_some(Said { kind, lines })
}

/// Returns what went wrong, from the beginning of what the model reads. It may
/// be cut off in the middle of its JSON.
fn reason(preview: &str) -> Option<String> {
    match serde_json::from_str::<Value>(preview) {
        Ok(told) => told["error"].as_str().map(str::to_owned),
        Err(_) => match preview.strip_prefix("{\"error\":\"") {
            Some(cut) => Some(format!("{}…", cut.replace("\\n", "\n").replace("\\\"", "\""))),
            None => Some(preview.to_owned()).filter(|words| !words.starts_with('{')),
        },
    }
}

/// What the calls of the model took.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tokens of the last request and its answer.
    pub(crate) used: u64,
    /// The model that answered last.
    pub(crate) model: Option<String>,
    pub(crate) micro_usd: u64,
    pub(crate) known_calls: u32,
    pub(crate) unknown_calls: u32,
}

impl Tally {
    /// Counts what a call cost.
    pub(crate) fn pay(&mut self, cost: Cost) {
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
