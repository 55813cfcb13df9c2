//! An answer in this API's shape.

use serde_json::Value;

use super::calls::PartialCalls;
use super::reasoning::{AnswerPiece, ThinkTags, Thoughts};
use crate::message::{AssistantMessage, FinishReason};
use crate::refusal::ProviderRefusal;
use crate::request::{AnswerProgress, TokenUsage};
use crate::wire::{
    self, AnswerFault, AnswerStage, DecodedAnswer, ProgressWatch, StreamEvent, json,
};

/// An answer in the making.
#[derive(Default)]
pub(crate) struct ChatCompletionsDecoder {
    provider: String,
    text: String,
    tags: ThinkTags,
    thoughts: Thoughts,
    calls: PartialCalls,
    finish: Option<FinishReason>,
    refused: bool,
    done: bool,
    usage: Option<TokenUsage>,
    cost_usd: Option<f64>,
    model: Option<String>,
}

impl ChatCompletionsDecoder {
    /// Begins an answer of a provider.
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn chunk(&mut self, chunk: &Value, watch: &mut ProgressWatch<'_>) -> Result<(), AnswerFault> {
        if !chunk["error"].is_null() {
            return Err(AnswerFault::Refused(ProviderRefusal::from_value(chunk)));
        }
        if !chunk.is_object() {
            return Err(AnswerFault::Garbage(
                "a piece of the answer is not a JSON object".to_owned(),
            ));
        }
        if self.model.is_none() {
            self.model = chunk["model"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        }
        self.figures(&chunk["usage"]);
        let Some(choice) = chunk["choices"].get(0) else { return Ok(()) };
        if !choice["error"].is_null() {
            return Err(AnswerFault::Refused(ProviderRefusal::from_value(choice)));
        }
        for key in ["delta", "message"] {
            self.delta(&choice[key], watch);
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(finish(reason)?);
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, watch: &mut ProgressWatch<'_>) {
        let thought = self.thoughts.take(delta);
        say(thought, AnswerProgress::Reasoning, watch);
        match &delta["content"] {
            Value::String(text) => self.content(text, watch),
            Value::Array(pieces) => self.pieces(pieces, watch),
            _ => {}
        }
        if let Some(text) = delta["refusal"].as_str().filter(|text| !text.is_empty()) {
            self.refused = true;
            self.say(text, watch);
        }
        let mut names = Vec::new();
        if let Some(pieces) = delta["tool_calls"].as_array() {
            names.extend(self.calls.take(pieces));
        }
        if delta["function_call"].is_object() {
            // The shape before there could be several, still in use.
            let piece = serde_json::json!({ "index": 0, "function": delta["function_call"] });
            names.extend(self.calls.take(&[piece]));
        }
        for name in names {
            watch(AnswerProgress::Call { name });
        }
    }

    /// Some models write their thoughts into the answer, between tags.
    fn content(&mut self, text: &str, watch: &mut ProgressWatch<'_>) {
        let pieces = self.tags.push(text);
        self.take_pieces(pieces, watch);
    }

    fn take_pieces(&mut self, pieces: Vec<AnswerPiece>, watch: &mut ProgressWatch<'_>) {
        for piece in pieces {
            match piece {
                AnswerPiece::Words(text) => self.say(&text, watch),
                AnswerPiece::Thought(text) => {
                    self.thoughts.push_text(&text);
                    say(text, AnswerProgress::Reasoning, watch);
                }
            }
        }
    }

    /// Some send words as a list of marked pieces.
    fn pieces(&mut self, pieces: &[Value], watch: &mut ProgressWatch<'_>) {
        for piece in pieces {
            if let Some(text) = piece["text"].as_str() {
                self.say(text, watch);
            }
            let thinking = &piece["thinking"];
            let inner =
                thinking.as_array().into_iter().flatten().filter_map(|t| t["text"].as_str());
            for text in thinking.as_str().into_iter().chain(inner) {
                self.thoughts.push_text(text);
                say(text.to_owned(), AnswerProgress::Reasoning, watch);
            }
        }
    }

    fn say(&mut self, text: &str, watch: &mut ProgressWatch<'_>) {
        self.text.push_str(text);
        say(text.to_owned(), AnswerProgress::Text, watch);
    }

    fn figures(&mut self, usage: &Value) {
        let Some(prompt) = usage["prompt_tokens"].as_u64() else { return };
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let details = &usage["prompt_tokens_details"];
        let cached = details["cached_tokens"].as_u64();
        let cache_read = cached.unwrap_or_else(|| number(&usage["prompt_cache_hit_tokens"]));
        let cache_write = number(&details["cache_write_tokens"]);
        self.usage = Some(TokenUsage {
            input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
            output: number(&usage["completion_tokens"]),
            cache_read,
            cache_write,
            reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
        });
        self.cost_usd = usage["cost"].as_f64().or(self.cost_usd);
    }
}

impl wire::AnswerDecoder for ChatCompletionsDecoder {
    fn event(
        &mut self,
        event: &StreamEvent,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), AnswerFault> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
        }
        if self.done || data.is_empty() {
            return Ok(());
        }
        self.chunk(&json(data)?, watch)
    }

    fn whole(&mut self, value: &Value, watch: &mut ProgressWatch<'_>) -> Result<(), AnswerFault> {
        if value["choices"].get(0).is_none() && value["error"].is_null() {
            return Err(AnswerFault::Garbage("there are no choices in the answer".to_owned()));
        }
        self.chunk(value, watch)
    }

    fn stage(&self) -> AnswerStage {
        match (self.done, self.finish) {
            (true, _) => AnswerStage::Closed,
            (false, Some(_)) => AnswerStage::Finished,
            (false, None) => AnswerStage::Open,
        }
    }

    fn end(
        mut self: Box<Self>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<DecodedAnswer, AnswerFault> {
        let held = std::mem::take(&mut self.tags).end();
        self.take_pieces(held, watch);
        let spoken = !self.text.is_empty() || !self.calls.is_empty();
        let finish = match (self.finish, self.done) {
            (Some(finish), _) => finish,
            (None, true) if spoken => FinishReason::Stop,
            (None, true) => return Err(AnswerFault::Cut("it ended without a word")),
            (None, false) => return Err(AnswerFault::Cut("it ended without a finish reason")),
        };
        let (calls, names) = self.calls.end();
        for name in names {
            watch(AnswerProgress::Call { name });
        }
        let finish = match finish {
            _ if self.refused => FinishReason::Refused,
            // Not every server names the reason it should.
            FinishReason::Stop if !calls.is_empty() => FinishReason::ToolCalls,
            FinishReason::ToolCalls if calls.is_empty() => FinishReason::Stop,
            finish => finish,
        };
        let reasoning = self.thoughts.end(&self.provider);
        Ok(DecodedAnswer {
            message: AssistantMessage { text: self.text, reasoning, calls, finish },
            usage: self.usage,
            cost_usd: self.cost_usd,
            model: self.model,
        })
    }
}

fn say(
    text: String,
    progress: impl FnOnce(String) -> AnswerProgress,
    watch: &mut ProgressWatch<'_>,
) {
    if !text.is_empty() {
        watch(progress(text));
    }
}

fn finish(reason: &str) -> Result<FinishReason, AnswerFault> {
    match reason {
        "tool_calls" | "function_call" => Ok(FinishReason::ToolCalls),
        "length" | "max_tokens" => Ok(FinishReason::Length),
        "content_filter" | "safety" => Ok(FinishReason::Refused),
        "error" => Err(AnswerFault::Cut("the provider broke off with an error")),
        "insufficient_system_resource" => {
            Err(AnswerFault::Cut("the provider ran out of resources"))
        }
        _ => Ok(FinishReason::Stop),
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
