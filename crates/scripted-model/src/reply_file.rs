//! Replies and rules as they are written in a script file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::reply::{
    BilledUsage, DeliveryEnd, Quirk, ReplyContent, ReplyMessage, ScriptedFinish, ScriptedReply,
    ScriptedToolCall,
};
use crate::rule::{ReplyRule, RequestMatch, RuleAnswer, ToolResults};

/// A reply as written: flat, every field optional.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReply {
    text: Option<String>,
    reasoning: Option<String>,
    signature: Option<String>,
    redacted_reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Vec<ScriptedToolCall>,
    finish: Option<ScriptedFinish>,
    usage: Option<BilledUsage>,
    #[serde(default)]
    quirks: BTreeSet<Quirk>,
    error: Option<WrittenError>,
    garbage: Option<Garbage>,
    stall: Option<Stall>,
    cut: Option<usize>,
    error_in_stream: Option<ErrorInStream>,
    chunking: Option<usize>,
    pace_ms: Option<u64>,
    hold: Option<Holds>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenError {
    status: u16,
    message: Option<String>,
    body: Option<Value>,
    retry_after: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorInStream {
    after: usize,
    message: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Garbage {
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stall {
    Always(bool),
    After(usize),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Holds {
    One(usize),
    Several(Vec<usize>),
}

impl<'de> Deserialize<'de> for ScriptedReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WrittenReply::deserialize(deserializer)?.reply().map_err(D::Error::custom)
    }
}

impl WrittenReply {
    fn reply(self) -> Result<ScriptedReply, String> {
        let silent = matches!(self.stall, Some(Stall::Always(true)));
        let stall_after = match self.stall {
            Some(Stall::After(after)) => Some(DeliveryEnd::Stall(after)),
            _ => None,
        };
        let in_stream = self
            .error_in_stream
            .map(|error| DeliveryEnd::Error { after: error.after, message: error.message });
        let message = ReplyMessage {
            reasoning: self.reasoning,
            signature: self.signature,
            redacted_reasoning: self.redacted_reasoning,
            text: self.text,
            tool_calls: self.tool_calls,
            finish: self.finish,
            usage: self.usage,
            quirks: self.quirks,
        };
        let content = (message != ReplyMessage::default()).then(|| {
            let mut reply = ScriptedReply::message();
            reply.content = ReplyContent::Message(message);
            reply
        });
        let garbage = self.garbage.map(|garbage| match garbage {
            Garbage::Text(text) => ScriptedReply::garbage(text),
            Garbage::Bytes(bytes) => ScriptedReply::garbage(bytes),
        });
        let error = self.error.map(WrittenError::reply).transpose()?;
        let mut reply =
            at_most_one("content", [content, error, garbage, silent.then(ScriptedReply::stall)])?
                .unwrap_or_else(ScriptedReply::message);
        reply.end = at_most_one("end", [self.cut.map(DeliveryEnd::Cut), stall_after, in_stream])?
            .unwrap_or_default();
        if let Some(chars) = self.chunking {
            reply.chunk_chars = chars;
        }
        reply.pace = self.pace_ms.map(Duration::from_millis);
        let holds = match self.hold {
            None => Vec::new(),
            Some(Holds::One(hold)) => vec![hold],
            Some(Holds::Several(holds)) => holds,
        };
        reply = holds.into_iter().fold(reply, ScriptedReply::hold_after);
        reply.headers.extend(self.headers);
        Ok(reply)
    }
}

impl WrittenError {
    fn reply(self) -> Result<ScriptedReply, String> {
        let reply = match (self.message, self.body) {
            (Some(_), Some(_)) => {
                return Err("an error has a message or a body, not both".to_owned());
            }
            (message, None) => ScriptedReply::error(self.status, message.unwrap_or_default()),
            (None, Some(body)) => ScriptedReply::error_body(self.status, body),
        };
        Ok(match self.retry_after {
            None => reply,
            Some(Value::String(date)) => reply.header("retry-after", date),
            Some(seconds) => reply.header("retry-after", seconds.to_string()),
        })
    }
}

/// Returns the one that is there: a reply is one thing, and what is written
/// must not be dropped in silence.
fn at_most_one<T, const N: usize>(what: &str, some: [Option<T>; N]) -> Result<Option<T>, String> {
    let mut there = some.into_iter().flatten();
    let first = there.next();
    if there.next().is_some() {
        return Err(format!("a reply has only one {what}, and more were written"));
    }
    Ok(first)
}

impl<'de> Deserialize<'de> for ReplyRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct WrittenRule {
            #[serde(default)]
            when: RequestMatch,
            reply: ScriptedReply,
            times: Option<usize>,
        }
        let written = WrittenRule::deserialize(deserializer)?;
        Ok(Self {
            when: written.when,
            answer: RuleAnswer::Reply(Box::new(written.reply)),
            times: written.times,
        })
    }
}

impl<'de> Deserialize<'de> for ToolResults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(any) if any == "any" => Ok(Self::Any),
            other => usize::deserialize(other)
                .map(Self::Exactly)
                .map_err(|_| D::Error::custom("tool_results is a number or \"any\"")),
        }
    }
}
