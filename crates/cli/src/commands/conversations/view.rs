//! Conversations as JSON. Public interfaces: extended, never renamed.

use serde::Serialize;
use vestal_conversations::{Hit, ParentKind, Piece, Role, Summary, Totals};

use crate::context::Context;
use crate::error::Failure;
use crate::json;

/// One conversation without its messages.
#[derive(Debug, Serialize)]
pub(super) struct ConversationView {
    id: String,
    title: Option<String>,
    source: String,
    parent: Option<ParentView>,
    provider: String,
    model: String,
    cwd: Option<String>,
    started_at: String,
    updated_at: String,
    ended_at: Option<String>,
    end_reason: Option<String>,
    messages: u64,
    tool_calls: u64,
    usage: UsageView,
    preview: String,
}

#[derive(Debug, Serialize)]
struct ParentView {
    kind: ParentKind,
    id: Option<String>,
}

/// What a conversation took.
#[derive(Debug, Serialize)]
struct UsageView {
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    /// What those calls cost whose cost is known.
    cost_usd: f64,
    unpriced_calls: u64,
}

impl From<&Summary> for ConversationView {
    fn from(summary: &Summary) -> Self {
        let conversation = summary.conversation.clone();
        let (ended_at, end_reason) =
            conversation.ended.map(|ended| (ended.at.to_string(), ended.reason)).unzip();
        Self {
            id: conversation.id.into(),
            title: conversation.title,
            source: conversation.source,
            parent: conversation
                .parent
                .map(|parent| ParentView { kind: parent.kind, id: parent.id.map(String::from) }),
            provider: conversation.provider,
            model: conversation.model,
            cwd: conversation.cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            started_at: conversation.started_at.to_string(),
            updated_at: conversation.updated_at.to_string(),
            ended_at,
            end_reason,
            messages: summary.messages,
            tool_calls: summary.tool_calls,
            usage: usage(&summary.totals),
            preview: summary.preview.clone(),
        }
    }
}

fn usage(totals: &Totals) -> UsageView {
    UsageView {
        calls: totals.calls,
        input_tokens: totals.usage.input,
        output_tokens: totals.usage.output,
        cache_read_tokens: totals.usage.cache_read,
        cache_write_tokens: totals.usage.cache_write,
        reasoning_tokens: totals.usage.reasoning,
        cost_usd: dollars(totals.micro_usd),
        unpriced_calls: totals.unpriced,
    }
}

/// Returns millionths of a dollar as dollars.
#[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
pub(super) fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// Something a search found.
#[derive(Debug, Serialize)]
pub(super) struct HitView<'h> {
    conversation: &'h str,
    title: Option<&'h str>,
    seq: i64,
    role: Role,
    at: String,
    /// The pieces of the text around it, in order.
    snippet: &'h [Piece],
}

impl<'h> From<&'h Hit> for HitView<'h> {
    fn from(hit: &'h Hit) -> Self {
        Self {
            conversation: hit.conversation.as_str(),
            title: hit.title.as_deref(),
            seq: hit.seq.0,
            role: hit.role,
            at: hit.at.to_string(),
            snippet: &hit.snippet,
        }
    }
}

/// Prints a value as JSON: on one line for programs, indented for people.
pub(super) fn print(context: &Context, value: &impl Serialize) -> Result<(), Failure> {
    context.console.print(&json::shown(value)?)
}
