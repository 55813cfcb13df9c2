//! An answer in this API's shape.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::message::{AssistantMessage, FinishReason, Opaque, ProviderApi, Reasoning, ToolCall};
use crate::refusal::ProviderRefusal;
use crate::request::{AnswerProgress, TokenUsage};
use crate::wire::{self, AnswerFault, AnswerStage, DecodedAnswer, ProgressWatch, StreamEvent};

/// More items than any answer has.
const MOST_ITEMS: usize = 4096;

/// An answer in the making.
#[derive(Default)]
pub(crate) struct ResponsesDecoder {
    provider: String,
    items: BTreeMap<u64, OutputItem>,
    finish: Option<FinishReason>,
    usage: Option<TokenUsage>,
    model: Option<String>,
}

/// An item of the output, as far as it has come.
#[derive(Default)]
struct OutputItem {
    /// The item as it was last told whole; its end replaces its beginning.
    whole: Value,
    text: String,
    thought: String,
    arguments: String,
    is_refusal: bool,
    is_announced: bool,
    is_ended: bool,
}

impl ResponsesDecoder {
    /// Begins an answer of a provider.
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn item(&mut self, value: &Value) -> Result<&mut OutputItem, AnswerFault> {
        let missing = || AnswerFault::Garbage("a part of the answer has no index".to_owned());
        let index = value["output_index"].as_u64().ok_or_else(missing)?;
        if self.items.len() >= MOST_ITEMS && !self.items.contains_key(&index) {
            return Err(AnswerFault::Garbage("the answer has too many parts".to_owned()));
        }
        Ok(self.items.entry(index).or_default())
    }

    /// Takes an item that is told whole, and says what of it was not said yet.
    fn take_whole(
        item: &mut OutputItem,
        whole: &Value,
        is_ended: bool,
        watch: &mut ProgressWatch<'_>,
    ) {
        item.whole = whole.clone();
        item.is_ended |= is_ended;
        match whole["type"].as_str() {
            Some("function_call") => {
                if !std::mem::replace(&mut item.is_announced, true) {
                    let name = whole["name"].as_str().unwrap_or_default().to_owned();
                    watch(AnswerProgress::Call { name });
                }
                if let Some(arguments) = whole["arguments"].as_str().filter(|_| is_ended) {
                    arguments.clone_into(&mut item.arguments);
                }
            }
            Some("message") if is_ended => {
                let (text, is_refusal) = words(whole);
                item.is_refusal |= is_refusal;
                say_rest(&mut item.text, &text, AnswerProgress::Text, watch);
            }
            Some("reasoning") if is_ended => {
                let text = thoughts(whole);
                say_rest(&mut item.thought, &text, AnswerProgress::Reasoning, watch);
            }
            _ => {}
        }
    }

    /// Takes the response itself, which comes at the end with all of it.
    fn response(
        &mut self,
        response: &Value,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), AnswerFault> {
        if let Some(model) = response["model"].as_str().filter(|name| !name.is_empty()) {
            self.model = Some(model.to_owned());
        }
        self.figures(&response["usage"]);
        let output = response["output"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, whole) in (0_u64..).zip(output.iter().take(MOST_ITEMS)) {
            let item = self.items.entry(index).or_default();
            if !item.is_ended {
                Self::take_whole(item, whole, true, watch);
            }
        }
        match response["status"].as_str() {
            Some("failed") => {
                return Err(AnswerFault::Refused(ProviderRefusal::from_value(response)));
            }
            Some("cancelled") => return Err(AnswerFault::Cut("it was cancelled")),
            Some("incomplete") => {
                self.finish = Some(match response["incomplete_details"]["reason"].as_str() {
                    Some("content_filter") => FinishReason::Refused,
                    _ => FinishReason::Length,
                });
            }
            Some("completed") => self.finish = Some(FinishReason::Stop),
            _ => {}
        }
        Ok(())
    }

    fn figures(&mut self, usage: &Value) {
        let Some(input) = usage["input_tokens"].as_u64() else { return };
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let details = &usage["input_tokens_details"];
        let cache_read = number(&details["cached_tokens"]);
        let cache_write = number(&details["cache_write_tokens"]);
        self.usage = Some(TokenUsage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: number(&usage["output_tokens"]),
            cache_read,
            cache_write,
            reasoning: number(&usage["output_tokens_details"]["reasoning_tokens"]),
        });
    }
}

/// Says what a text has more than was said of it.
fn say_rest(
    said: &mut String,
    text: &str,
    progress: impl FnOnce(String) -> AnswerProgress,
    watch: &mut ProgressWatch<'_>,
) {
    if let Some(rest) = text.strip_prefix(said.as_str())
        && !rest.is_empty()
    {
        watch(progress(rest.to_owned()));
    }
    text.clone_into(said);
}

/// Returns the words of a message, and whether they are a refusal.
fn words(message: &Value) -> (String, bool) {
    let parts = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let refusals = parts.iter().any(|part| part["refusal"].is_string());
    let texts = parts.iter().filter_map(|part| part["text"].as_str().or(part["refusal"].as_str()));
    (texts.collect(), refusals)
}

/// Returns what may be shown of thoughts: their summary, else themselves.
fn thoughts(item: &Value) -> String {
    let texts = |field: &str| {
        let parts = item[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        texts.join("\n\n")
    };
    let summary = texts("summary");
    if summary.is_empty() { texts("content") } else { summary }
}

impl wire::AnswerDecoder for ResponsesDecoder {
    fn event(
        &mut self,
        event: &StreamEvent,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), AnswerFault> {
        let data = event.data.trim();
        if self.finish.is_some() || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let value = wire::json(data)?;
        let delta = || value["delta"].as_str().unwrap_or_default();
        match value["type"].as_str().unwrap_or(&event.name) {
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(model) = value["response"]["model"].as_str() {
                    self.model = Some(model.to_owned()).filter(|name| !name.is_empty());
                }
            }
            "response.output_item.added" => {
                Self::take_whole(self.item(&value)?, &value["item"], false, watch);
            }
            "response.output_item.done" => {
                Self::take_whole(self.item(&value)?, &value["item"], true, watch);
            }
            "response.output_text.delta" => {
                say(&mut self.item(&value)?.text, delta(), AnswerProgress::Text, watch);
            }
            "response.refusal.delta" => {
                let item = self.item(&value)?;
                item.is_refusal = true;
                say(&mut item.text, delta(), AnswerProgress::Text, watch);
            }
            "response.reasoning_summary_part.added" => {
                let item = self.item(&value)?;
                if !item.thought.is_empty() {
                    say(&mut item.thought, "\n\n", AnswerProgress::Reasoning, watch);
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                say(&mut self.item(&value)?.thought, delta(), AnswerProgress::Reasoning, watch);
            }
            "response.function_call_arguments.delta" => {
                self.item(&value)?.arguments.push_str(delta());
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => self.response(&value["response"], watch)?,
            "error" => return Err(AnswerFault::Refused(ProviderRefusal::from_value(&value))),
            // Parts that begin and end, annotations, tools of the provider, and what may be added.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, value: &Value, watch: &mut ProgressWatch<'_>) -> Result<(), AnswerFault> {
        if !value["error"].is_null() {
            return Err(AnswerFault::Refused(ProviderRefusal::from_value(value)));
        }
        if !value["output"].is_array() {
            return Err(AnswerFault::Garbage("there is no output in the answer".to_owned()));
        }
        self.response(value, watch)
    }

    fn stage(&self) -> AnswerStage {
        if self.finish.is_some() { AnswerStage::Closed } else { AnswerStage::Open }
    }

    fn end(self: Box<Self>, _: &mut ProgressWatch<'_>) -> Result<DecodedAnswer, AnswerFault> {
        let Some(finish) = self.finish else {
            return Err(AnswerFault::Cut("it ended before the response was completed"));
        };
        let mut message = AssistantMessage { finish, ..AssistantMessage::default() };
        let mut refused = false;
        for item in self.items.into_values() {
            refused |= item.is_refusal;
            message.text.push_str(&item.text);
            match item.whole["type"].as_str() {
                Some("function_call") => message.calls.push(call(&item, &message.calls)),
                Some("reasoning") => message.reasoning.push(thought(&self.provider, item)),
                _ => {}
            }
        }
        message.finish = match message.finish {
            FinishReason::Stop if refused => FinishReason::Refused,
            FinishReason::Stop if !message.calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        Ok(DecodedAnswer { message, usage: self.usage, cost_usd: None, model: self.model })
    }
}

fn say(
    said: &mut String,
    more: &str,
    progress: impl FnOnce(String) -> AnswerProgress,
    watch: &mut ProgressWatch<'_>,
) {
    if !more.is_empty() {
        said.push_str(more);
        watch(progress(more.to_owned()));
    }
}

fn call(item: &OutputItem, before: &[ToolCall]) -> ToolCall {
    let text = |field: &str| item.whole[field].as_str().unwrap_or_default().to_owned();
    let id = text("call_id");
    let is_known = before.iter().any(|call| call.id == id);
    let new_id = || format!("call_{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..));
    let id = if id.is_empty() || is_known { new_id() } else { id };
    ToolCall { id, name: text("name"), arguments: item.arguments.clone() }
}

/// Returns what the model thought. What is encrypted goes back as it came, without what only
/// answers have.
fn thought(provider: &str, item: OutputItem) -> Reasoning {
    let encrypted = &item.whole["encrypted_content"];
    let opaque = encrypted.is_string().then(|| Opaque {
        api: ProviderApi::Responses,
        provider: provider.to_owned(),
        value: json!({
            "type": "reasoning",
            "id": item.whole["id"],
            "summary": item.whole["summary"].as_array().cloned().unwrap_or_default(),
            "encrypted_content": encrypted,
        }),
    });
    Reasoning { text: item.thought, opaque }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
