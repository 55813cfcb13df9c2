//! Runs the tool calls of one answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use vestal_model::{Message, ToolCall, ToolResult};

use super::control::LoopFinding;
use super::outcome::TurnError;
use super::run::Turn;
use crate::event::{EventSink, TurnEvent};
use crate::hooks;
use crate::mode::{self, ConversationMode};
use crate::registry::Registry;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
use crate::tools::fit;

/// How long a tool has to come back after an interrupt before it is given up.
const GRACE: Duration = Duration::from_secs(10);

const INTERRUPTED: &str = "interrupted by the user before it ran";

/// The result of running calls.
pub(super) enum CallsOutcome {
    /// All have run, with success or not.
    All,
    /// The turn was interrupted.
    Interrupted,
    /// The model repeats the same calls.
    Looping(String),
}

/// A call after its arguments were read.
enum PreparedCall {
    /// It can run.
    Ready(Arc<dyn Tool>, Value),
    /// It cannot run; the model gets this as the result.
    Invalid(String),
}

impl Turn<'_> {
    /// Runs calls, together where that is safe, and stores the results in the order of the
    /// calls. Every call gets a result, whatever happens: providers refuse a conversation
    /// with a call that has none.
    pub(super) async fn run_calls(
        &mut self,
        calls: &[ToolCall],
    ) -> Result<CallsOutcome, TurnError> {
        let prepared: Vec<PreparedCall> =
            calls.iter().map(|call| prepare(&self.conversation.tools, call)).collect();
        let footprints: Vec<Footprint> = prepared.iter().map(PreparedCall::footprint).collect();
        let mut circles = None;
        self.conversation.jobs.answered(self.conversation.seqs.last().copied()).await;
        for group in groups(&footprints) {
            if self.cancel.is_cancelled() || circles.is_some() {
                let reason =
                    if circles.is_some() { "not run: the turn was stopped" } else { INTERRUPTED };
                for call in &calls[group] {
                    let output = ToolOutput::error(reason);
                    self.conversation.append(vec![Message::Tool(result_of(call, output))]).await?;
                }
                continue;
            }
            let runs = calls[group.clone()].iter().zip(&prepared[group.clone()]).map(
                |(call, prepared)| {
                    let mut context = self.context(&call.id);
                    let window = self.conversation.chat.context_length().tokens();
                    context.limits = context.limits.within(window, calls.len());
                    run_call(context, call, prepared)
                },
            );
            let outputs = join_all(runs).await;
            self.tool_calls =
                self.tool_calls.saturating_add(u32::try_from(group.len()).unwrap_or(u32::MAX));
            for (call, output) in calls[group].iter().zip(outputs) {
                let mut result = result_of(call, output);
                match self.watch.note(call, &result) {
                    LoopFinding::Fine => {}
                    LoopFinding::Warn(words) => {
                        result.content.push_str("\n\n[");
                        result.content.push_str(&words);
                        result.content.push(']');
                    }
                    LoopFinding::Stop(reason) => circles = Some(reason),
                }
                self.conversation.append(vec![Message::Tool(result)]).await?;
            }
        }
        self.conversation.keep_notes().await?;
        self.conversation.keep_mode().await?;
        Ok(match circles {
            Some(reason) => CallsOutcome::Looping(reason),
            None if self.cancel.is_cancelled() => CallsOutcome::Interrupted,
            None => CallsOutcome::All,
        })
    }

    /// Returns what a tool works with.
    pub(super) fn context(&self, call: &str) -> ToolContext {
        self.conversation.tool_context(call, &self.cancel, self.events)
    }
}

impl PreparedCall {
    fn footprint(&self) -> Footprint {
        match self {
            Self::Ready(tool, arguments) => tool.footprint(arguments),
            Self::Invalid(_) => Footprint::Reads,
        }
    }
}

/// Looks a tool up and reads its arguments. The model gets the error, so that it
/// can correct the call.
fn prepare(tools: &Registry, call: &ToolCall) -> PreparedCall {
    let Some(tool) = tools.get(&call.name) else {
        return PreparedCall::Invalid(unknown(tools, &call.name));
    };
    let written = call.arguments.trim();
    // No arguments at all is how some models call a tool that needs none.
    let written = if written.is_empty() { "{}" } else { written };
    match serde_json::from_str::<Value>(written) {
        Ok(arguments @ Value::Object(_)) => PreparedCall::Ready(Arc::clone(tool), arguments),
        Ok(other) => PreparedCall::Invalid(format!(
            "the arguments of {} must be a JSON object, not {}",
            call.name,
            kind(&other)
        )),
        Err(error) => PreparedCall::Invalid(format!(
            "the arguments of {} are not valid JSON ({error}); nothing was run; call it again with a complete JSON object",
            call.name
        )),
    }
}

fn unknown(tools: &Registry, name: &str) -> String {
    let nearest = tools
        .names()
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let names: Vec<&str> = tools.names().collect();
    let shown: String = name.chars().take(80).collect();
    match nearest {
        Some((_, known)) => format!(
            "there is no tool {shown:?}; did you mean {known:?}? There are: {}",
            names.join(", ")
        ),
        None => format!("there is no tool {shown:?}; there are: {}", names.join(", ")),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Runs one call and makes its result fit the limits.
async fn run_call(context: ToolContext, call: &ToolCall, prepared: &PreparedCall) -> ToolOutput {
    let (tool, arguments) = match prepared {
        PreparedCall::Ready(tool, arguments) => (tool, arguments),
        PreparedCall::Invalid(reason) => return not_run(&context, call, reason.clone()),
    };
    if context.mode.get() == ConversationMode::Plan && !tool.only_reads(arguments) {
        return not_run(&context, call, mode::refusal(&call.name));
    }
    let began = Instant::now();
    let about = summary(arguments);
    started(&context.events, call, context.redactor.redact(&about).into_owned());
    let (output, notes) = tokio::select! {
        biased;
        output = call_with_hooks(&context, &call.name, &**tool, arguments) => output,
        () = given_up(&context.cancel) => {
            let words = "interrupted by the user; it did not come back in time and was given up";
            (ToolOutput::error(words), Vec::new())
        }
    };
    let output = ToolOutput {
        content: context.redactor.redact_result(&output.content).into_owned(),
        ..output
    };
    let preview = preview(&output.content);
    let output = fit(&context, output, context.limits.result_bytes).await;
    let redact = |note: &str| context.redactor.redact(note).into_owned();
    let output = hooks::with_notes(output, &notes, &redact);
    let (call, name, is_error) = (call.id.clone(), call.name.clone(), output.is_error);
    context.events.emit(TurnEvent::ToolEnded {
        call,
        name,
        is_error,
        took: began.elapsed(),
        preview,
    });
    output
}

/// Calls a tool between the hooks, and returns its output with what the hooks said.
async fn call_with_hooks(
    context: &ToolContext,
    name: &str,
    tool: &dyn Tool,
    arguments: &Value,
) -> (ToolOutput, Vec<String>) {
    let mut notes = match context.hooks.before(context, name, arguments).await {
        Ok(notes) => notes,
        Err(refusal) => return (ToolOutput::error(refusal), Vec::new()),
    };
    let output = tool.call(context, arguments.clone()).await;
    notes.extend(context.hooks.after(context, name, arguments, &output).await);
    (output, notes)
}

/// Returns the result of a call that does not run, and says so.
fn not_run(context: &ToolContext, call: &ToolCall, reason: String) -> ToolOutput {
    let (call, name) = (call.id.clone(), call.name.clone());
    let (took, preview) = (Duration::ZERO, reason.clone());
    context.events.emit(TurnEvent::ToolEnded { call, name, is_error: true, took, preview });
    ToolOutput::error(reason)
}

fn started(events: &EventSink, call: &ToolCall, summary: String) {
    let (call, name) = (call.id.clone(), call.name.clone());
    events.emit(TurnEvent::ToolStarted { call, name, summary });
}

/// Waits for the time that a tool has after an interrupt.
async fn given_up(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

fn result_of(call: &ToolCall, output: ToolOutput) -> ToolResult {
    let ToolOutput { content, is_error, images, .. } = output;
    ToolResult { call: call.id.clone(), name: call.name.clone(), content, is_error, images }
}

/// Calls of one answer that run at the same time, at most.
const WIDEST: usize = 8;

/// Cuts calls into groups, in order: those of a group may run at the same time,
/// the groups one after the other.
pub(crate) fn groups(footprints: &[Footprint]) -> Vec<std::ops::Range<usize>> {
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, footprint) in footprints.iter().enumerate() {
        match groups.last_mut() {
            Some(group)
                if group.len() < WIDEST
                    && footprints[group.clone()]
                        .iter()
                        .all(|other| go_together(other, footprint)) =>
            {
                group.end = index + 1;
            }
            _ => groups.push(index..index + 1),
        }
    }
    groups
}

fn go_together(one: &Footprint, other: &Footprint) -> bool {
    match (one, other) {
        (Footprint::Reads, Footprint::Reads) | (Footprint::Siblings, Footprint::Siblings) => true,
        (Footprint::Writes(ours), Footprint::Writes(theirs)) => {
            ours.iter().all(|our| theirs.iter().all(|their| are_apart(our, their)))
        }
        _ => false,
    }
}

/// Reports whether two paths surely name different files. Only plainly
/// different last names count: links and relative paths are the sandbox's
/// matter, and waiting costs little.
fn are_apart(one: &str, other: &str) -> bool {
    let plain = |path: &str| !path.split('/').any(|part| part == "..");
    let last = |path: &str| {
        path.rsplit('/').find(|part| !part.is_empty() && *part != ".").map(str::to_owned)
    };
    plain(one) && plain(other) && last(one) != last(other)
}

/// Bytes of a text that are shown.
const PREVIEW_TEXT: usize = 400;

/// Bytes of an object that are shown.
const PREVIEW_OBJECT: usize = 4 * PREVIEW_TEXT;

/// Returns the beginning of a result. Of an object it is an object still, with
/// its long texts cut: an exit code stands behind the output that it belongs to.
pub(crate) fn preview(content: &str) -> String {
    let object =
        if content.len() > PREVIEW_TEXT { serde_json::from_str(content).ok() } else { None };
    match object.map(shortened).filter(|object| object.len() <= PREVIEW_OBJECT) {
        Some(object) => object,
        None => beginning(content).to_owned(),
    }
}

fn shortened(mut fields: serde_json::Map<String, Value>) -> String {
    for value in fields.values_mut() {
        match value {
            Value::String(text) => text.truncate(beginning(text).len()),
            Value::Array(_) | Value::Object(_) => *value = Value::Null,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Value::Object(fields).to_string()
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(PREVIEW_TEXT)]
}

/// Arguments that say most about a call, the most telling first.
const MAIN_ARGUMENTS: &[&str] =
    &["command", "path", "pattern", "goal", "question", "action", "code"];

/// Characters of it.
const SUMMARY_CHARS: usize = 120;

/// Says what a call is about that was stored, as it was said when it was made.
pub fn call_summary(call: &ToolCall) -> String {
    let arguments = serde_json::from_str::<Value>(&call.arguments);
    arguments.map(|arguments| summary(&arguments)).unwrap_or_default()
}

/// Says what a call is about.
pub(crate) fn summary(arguments: &Value) -> String {
    let Some(arguments) = arguments.as_object() else {
        return String::new();
    };
    let main_argument = MAIN_ARGUMENTS.iter().find_map(|name| arguments.get(*name)?.as_str());
    let first = || arguments.values().find_map(Value::as_str);
    let words = main_argument.or_else(first).unwrap_or_default();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(SUMMARY_CHARS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
