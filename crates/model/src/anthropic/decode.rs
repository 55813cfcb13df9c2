//! An answer in this API's shape.

use serde_json::{Value, json};

use crate::message::{AssistantMessage, FinishReason, Opaque, ProviderApi, Reasoning, ToolCall};
use crate::refusal::ProviderRefusal;
use crate::request::{AnswerProgress, TokenUsage};
use crate::wire::{self, AnswerFault, AnswerStage, DecodedAnswer, ProgressWatch, StreamEvent};

/// More blocks than any answer has.
const MOST_BLOCKS: usize = 4096;

/// An answer in the making.
#[derive(Default)]
pub(crate) struct AnthropicDecoder {
    provider: String,
    blocks: Vec<(u64, OpenBlock)>,
    finish: Option<FinishReason>,
    stopped: bool,
    usage: Option<TokenUsage>,
    model: Option<String>,
}

enum OpenBlock {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(Value),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// One that nobody asked for.
    Other,
}

impl AnthropicDecoder {
    /// Begins an answer of a provider.
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn message_start(&mut self, message: &Value) {
        self.model = message["model"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        self.figures(&message["usage"]);
    }

    fn block_start(
        &mut self,
        index: u64,
        block: &Value,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), AnswerFault> {
        if self.blocks.len() >= MOST_BLOCKS {
            return Err(AnswerFault::Garbage("the answer has too many blocks".to_owned()));
        }
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let begun = match block["type"].as_str().unwrap_or_default() {
            "text" => OpenBlock::Text(String::new()),
            "thinking" => OpenBlock::Thinking { text: String::new(), signature: text("signature") },
            "redacted_thinking" => OpenBlock::Redacted(block.clone()),
            "tool_use" => {
                watch(AnswerProgress::Call { name: text("name") });
                // A stream begins with an empty object and sends the text afterwards.
                let input = &block["input"];
                let given = input.as_object().is_some_and(|input| !input.is_empty());
                let arguments = if given { input.to_string() } else { String::new() };
                OpenBlock::Call { id: text("id"), name: text("name"), arguments }
            }
            _ => OpenBlock::Other,
        };
        self.blocks.push((index, begun));
        self.say(index, &text("text"), watch);
        self.think(index, &text("thinking"), watch);
        Ok(())
    }

    fn block_delta(&mut self, index: u64, delta: &Value, watch: &mut ProgressWatch<'_>) {
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => self.say(index, text("text"), watch),
            "thinking_delta" => self.think(index, text("thinking"), watch),
            "signature_delta" => {
                if let Some(OpenBlock::Thinking { signature, .. }) = self.block(index) {
                    signature.push_str(text("signature"));
                }
            }
            "input_json_delta" => {
                if let Some(OpenBlock::Call { arguments, .. }) = self.block(index) {
                    arguments.push_str(text("partial_json"));
                }
            }
            _ => {}
        }
    }

    fn message_delta(&mut self, value: &Value) {
        self.figures(&value["usage"]);
        if let Some(reason) = value["delta"]["stop_reason"].as_str() {
            self.finish = Some(finish(reason));
        }
    }

    fn say(&mut self, index: u64, more: &str, watch: &mut ProgressWatch<'_>) {
        if let Some(OpenBlock::Text(text)) = self.block(index)
            && !more.is_empty()
        {
            text.push_str(more);
            watch(AnswerProgress::Text(more.to_owned()));
        }
    }

    fn think(&mut self, index: u64, more: &str, watch: &mut ProgressWatch<'_>) {
        if let Some(OpenBlock::Thinking { text, .. }) = self.block(index)
            && !more.is_empty()
        {
            text.push_str(more);
            watch(AnswerProgress::Reasoning(more.to_owned()));
        }
    }

    fn block(&mut self, index: u64) -> Option<&mut OpenBlock> {
        let found = self.blocks.iter_mut().rev().find(|(known, _)| *known == index);
        found.map(|(_, block)| block)
    }

    /// Figures come at the start and, added up, at the end; what the end
    /// leaves out stays as the start had it.
    fn figures(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let known = self.usage.get_or_insert_default();
        let take = |figure: &mut u64, key: &str| {
            if let Some(number) = usage[key].as_u64() {
                *figure = number;
            }
        };
        take(&mut known.input, "input_tokens");
        take(&mut known.output, "output_tokens");
        take(&mut known.cache_read, "cache_read_input_tokens");
        take(&mut known.cache_write, "cache_creation_input_tokens");
    }
}

impl wire::AnswerDecoder for AnthropicDecoder {
    fn event(
        &mut self,
        event: &StreamEvent,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), AnswerFault> {
        if self.stopped || event.data.trim().is_empty() {
            return Ok(());
        }
        let value = wire::json(&event.data)?;
        let kind = value["type"].as_str().unwrap_or(&event.name);
        let index = || {
            let missing = || AnswerFault::Garbage("a block of the answer has no index".to_owned());
            value["index"].as_u64().ok_or_else(missing)
        };
        match kind {
            "message_start" => self.message_start(&value["message"]),
            "content_block_start" => self.block_start(index()?, &value["content_block"], watch)?,
            "content_block_delta" => self.block_delta(index()?, &value["delta"], watch),
            "message_delta" => self.message_delta(&value),
            "message_stop" => self.stopped = true,
            "error" => return Err(AnswerFault::Refused(ProviderRefusal::from_value(&value))),
            // `ping`, `content_block_stop`, and what may be added to the API.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, value: &Value, watch: &mut ProgressWatch<'_>) -> Result<(), AnswerFault> {
        if !value["error"].is_null() {
            return Err(AnswerFault::Refused(ProviderRefusal::from_value(value)));
        }
        let Some(blocks) = value["content"].as_array() else {
            return Err(AnswerFault::Garbage("there is no content in the answer".to_owned()));
        };
        self.message_start(value);
        for (index, block) in (0..).zip(blocks) {
            self.block_start(index, block, watch)?;
        }
        self.message_delta(&json!({ "delta": value }));
        Ok(())
    }

    fn stage(&self) -> AnswerStage {
        match (self.stopped, self.finish) {
            (true, _) => AnswerStage::Closed,
            (false, Some(_)) => AnswerStage::Finished,
            (false, None) => AnswerStage::Open,
        }
    }

    fn end(self: Box<Self>, _: &mut ProgressWatch<'_>) -> Result<DecodedAnswer, AnswerFault> {
        let Some(finish) = self.finish else {
            return Err(AnswerFault::Cut("it ended without a stop reason"));
        };
        let mut message = AssistantMessage { finish, ..AssistantMessage::default() };
        for (_, block) in self.blocks {
            match block {
                OpenBlock::Text(text) => message.text.push_str(&text),
                OpenBlock::Thinking { text, signature } => {
                    // Without a signature the provider would not take it back.
                    let kept = (!signature.is_empty()).then(
                        || json!({ "type": "thinking", "thinking": text, "signature": signature }),
                    );
                    let opaque = kept.map(|value| opaque(&self.provider, value));
                    message.reasoning.push(Reasoning { text, opaque });
                }
                OpenBlock::Redacted(value) => {
                    let opaque = Some(opaque(&self.provider, value));
                    message.reasoning.push(Reasoning { text: String::new(), opaque });
                }
                OpenBlock::Call { id, name, arguments } => {
                    let known = message.calls.iter().any(|call| call.id == id);
                    let id = if id.is_empty() || known { new_id() } else { id };
                    let arguments = if arguments.is_empty() { "{}".to_owned() } else { arguments };
                    message.calls.push(ToolCall { id, name, arguments });
                }
                OpenBlock::Other => {}
            }
        }
        message.finish = match finish {
            FinishReason::Stop if !message.calls.is_empty() => FinishReason::ToolCalls,
            FinishReason::ToolCalls if message.calls.is_empty() => FinishReason::Stop,
            finish => finish,
        };
        Ok(DecodedAnswer { message, usage: self.usage, cost_usd: None, model: self.model })
    }
}

fn opaque(provider: &str, value: Value) -> Opaque {
    Opaque { api: ProviderApi::AnthropicMessages, provider: provider.to_owned(), value }
}

fn new_id() -> String {
    format!("toolu_{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..))
}

fn finish(reason: &str) -> FinishReason {
    match reason {
        "tool_use" => FinishReason::ToolCalls,
        // A paused turn is continued, as a text that was cut off is.
        "max_tokens" | "model_context_window_exceeded" | "pause_turn" => FinishReason::Length,
        "refusal" => FinishReason::Refused,
        _ => FinishReason::Stop,
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
