//! What was said in a session, what it took, and taking it back.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_agent::{CompressError, EventSink, UndoneTurns};
use vestal_api::{EXPORT_VERSION, ExportLine, dollars};
use vestal_conversations::{ConversationId, ConversationStore, ModelTotals, Totals};

use super::{MethodCall, Nothing, SessionParams};
use crate::error::{self, RpcError};
use crate::events::{EventBody, HistoryCause};
use crate::session::Session;
use crate::views::MessageView;

/// The directory of a profile's home that conversations are saved to.
const EXPORTS: &str = "exports";

/// Which messages are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct HistoryParams {
    /// The live session.
    session_id: String,
    /// Only the last so many.
    #[serde(default)]
    limit: Option<usize>,
}

/// Messages.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryResult {
    /// How many there are in all.
    count: usize,
    /// Oldest first.
    messages: Vec<MessageView>,
}

pub(super) async fn history(
    call: MethodCall,
    params: HistoryParams,
) -> Result<HistoryResult, RpcError> {
    let mut messages = call.server.session(&params.session_id)?.messages().await?;
    let count = messages.len();
    if let Some(limit) = params.limit {
        messages.drain(..count.saturating_sub(limit));
    }
    Ok(HistoryResult { count, messages })
}

/// Turns to be taken back.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct UndoParams {
    /// The live session.
    session_id: String,
    /// How many; one without it.
    #[serde(default)]
    turns: Option<u32>,
}

/// What was taken back.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UndoResult {
    /// Messages.
    removed: usize,
    /// Turns.
    turns: u64,
    /// What the person said at the beginning of the first of them, to be edited and sent again.
    text: Option<String>,
}

pub(super) async fn undo(call: MethodCall, params: UndoParams) -> Result<UndoResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let UndoneTurns { turns, messages, first_message } =
        undo_turns(&session, params.turns.unwrap_or(1)).await?;
    let text = first_message.map(|message| message.text());
    Ok(UndoResult { removed: messages, turns, text })
}

/// Takes back turns, in the store before anybody is notified.
pub(crate) async fn undo_turns(
    session: &Arc<Session>,
    turns: u32,
) -> Result<UndoneTurns, RpcError> {
    let mut exclusive = session.exclusive("undo").await?;
    let Some(conversation) = exclusive.conversation() else { return Ok(UndoneTurns::default()) };
    let undone = conversation.undo(turns).await?;
    session.refresh(conversation).await;
    if undone.messages > 0 {
        session.hub.emit(&EventBody::HistoryChanged { cause: HistoryCause::Undo });
    }
    Ok(undone)
}

/// A conversation that was made shorter.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompressResult {
    /// Messages that the summary stands for.
    pub(crate) removed: usize,
    /// Tokens before, by estimate.
    pub(crate) before_tokens: u64,
    /// Tokens now, by estimate.
    pub(crate) after_tokens: u64,
    /// The messages now.
    pub(crate) messages: Vec<MessageView>,
}

pub(super) async fn compress(
    call: MethodCall,
    params: SessionParams,
) -> Result<CompressResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    compress_session(&session).await
}

pub(crate) async fn compress_session(session: &Arc<Session>) -> Result<CompressResult, RpcError> {
    let nothing = || RpcError::new(error::STALE, "there are no messages to summarise yet");
    // Before the conversation is held: it is a call of the model, and counts as a turn.
    let admitted = session.admission.admit();
    let admitted = admitted.map_err(|reason| RpcError::new(error::REFUSED, reason))?;
    let mut exclusive = session.exclusive("compress").await?;
    let token = exclusive.token.clone();
    let conversation = exclusive.conversation().ok_or_else(nothing)?;
    let hub = Arc::clone(&session.hub);
    let sink = EventSink::new(move |event| hub.agent_event(event));
    let control = conversation.control();
    let work = control.interruptible(&token, conversation.compress(&sink));
    let done = control.interruptible(&admitted.interrupt, work).await;
    let done = done.map_err(|error| {
        let message = error.to_string();
        match error {
            CompressError::TooShort { .. } => RpcError::new(error::STALE, message),
            CompressError::Interrupted => RpcError::new(error::REFUSED, message),
            CompressError::Model(error) => {
                RpcError::new(error::AGENT, message).advise(error.advice())
            }
            CompressError::Empty => RpcError::new(error::AGENT, message).advise("try again"),
            CompressError::Store(error) => error.into(),
        }
    })?;
    session.refresh(conversation).await;
    session.hub.emit(&EventBody::HistoryChanged { cause: HistoryCause::Compress });
    Ok(CompressResult {
        removed: done.messages,
        before_tokens: done.tokens_before,
        after_tokens: done.tokens,
        messages: session.messages().await?,
    })
}

/// A file that a conversation was written to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SaveResult {
    /// Its path on the machine of the server.
    file: String,
    /// How many messages it has.
    messages: usize,
}

pub(super) async fn save(call: MethodCall, params: SessionParams) -> Result<SaveResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let id = session
        .stored()
        .ok_or_else(|| RpcError::new(error::NOT_FOUND, "there are no messages to save yet"))?;
    let (text, messages) = export(session.runtime.agent().store(), &id).await?;
    let dir = session.runtime.settings().home().dir().join(EXPORTS);
    let written = tokio::task::spawn_blocking(move || write_export(&dir, &id, &text)).await;
    let written = written.map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))?;
    let path = written.map_err(|error| {
        RpcError::new(error::HOST, format!("the conversation could not be written: {error}"))
    })?;
    Ok(SaveResult { file: path.display().to_string(), messages })
}

/// Returns a conversation as lines of JSON, and how many messages it has.
async fn export(
    store: &ConversationStore,
    id: &ConversationId,
) -> Result<(String, usize), RpcError> {
    let head = ExportLine::Conversation {
        version: EXPORT_VERSION,
        conversation: Box::new((&store.summary(id).await?).into()),
        system_prompt: store.system_prompt(id).await?,
    };
    let history = store.history(id).await?;
    let messages = history.len();
    let lines = history.into_iter().map(|stored| ExportLine::Message(Box::new(stored)));
    let mut text = String::new();
    for line in std::iter::once(head).chain(lines) {
        let line = serde_json::to_string(&line);
        text += &line.map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))?;
        text.push('\n');
    }
    Ok((text, messages))
}

/// Writes a new file that only its owner can read, whole or not at all.
fn write_export(dir: &Path, id: &ConversationId, text: &str) -> std::io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let moment = Timestamp::now().as_millisecond();
    let path = dir.join(format!("{id}-{moment}.jsonl"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        // Half a file is of no use; the failure is reported either way.
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::debug!(%error, "cannot remove half an export");
        }
        return Err(error);
    }
    Ok(path)
}

/// What a conversation took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct UsageTotals {
    /// Calls of the model.
    pub(crate) calls: u64,
    /// Tokens that were sent.
    pub(crate) input_tokens: u64,
    /// Tokens that came back.
    pub(crate) output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub(crate) cache_read_tokens: u64,
    /// All tokens.
    pub(crate) total_tokens: u64,
    /// What those calls cost whose cost is known.
    pub(crate) cost_usd: f64,
    /// Calls whose cost is unknown.
    pub(crate) unpriced_calls: u64,
}

impl From<&Totals> for UsageTotals {
    fn from(totals: &Totals) -> Self {
        Self {
            calls: totals.calls,
            input_tokens: totals.usage.input,
            output_tokens: totals.usage.output,
            cache_read_tokens: totals.usage.cache_read,
            total_tokens: totals.usage.total(),
            cost_usd: dollars(totals.micro_usd),
            unpriced_calls: totals.unpriced,
        }
    }
}

/// What one model took.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ModelUsage {
    /// `PROVIDER:MODEL`.
    pub(crate) model: String,
    /// What it took.
    #[serde(flatten)]
    pub(crate) totals: UsageTotals,
}

/// Tokens and cost of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct UsageResult {
    /// Its own, by model; what was taken back included.
    pub(crate) models: Vec<ModelUsage>,
    /// Those of its subagents, together.
    pub(crate) subagents: UsageTotals,
    /// All together.
    pub(crate) total: UsageTotals,
    /// Tokens that the next request takes, by estimate.
    pub(crate) context_tokens: Option<u64>,
    /// Tokens that the model can hold.
    pub(crate) context_window: Option<u64>,
}

pub(super) async fn usage(
    call: MethodCall,
    params: SessionParams,
) -> Result<UsageResult, RpcError> {
    usage_totals(&*call.server.session(&params.session_id)?).await
}

pub(crate) async fn usage_totals(session: &Session) -> Result<UsageResult, RpcError> {
    let taken = match session.stored() {
        Some(id) => session.runtime.agent().usage(&id).await?,
        None => vestal_agent::ConversationUsage::default(),
    };
    let together = |models: &mut dyn Iterator<Item = &ModelTotals>| {
        let mut sum = Totals::default();
        models.for_each(|model| sum += model.totals);
        UsageTotals::from(&sum)
    };
    let facts = session.facts();
    Ok(UsageResult {
        models: taken.own.iter().map(model_usage).collect(),
        subagents: together(&mut taken.children.models.iter()),
        total: together(&mut taken.own.iter().chain(&taken.children.models)),
        context_tokens: facts.context.map(|context| context.tokens),
        context_window: facts.context.and_then(|context| context.window),
    })
}

/// What the next request is made of.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContextResult {
    /// Its parts, those without tokens left out.
    categories: Vec<ContextCategory>,
    /// All together: what the provider counted, where it has, else the sum.
    context_tokens: u64,
    /// Tokens that the model can hold; null if nobody has said.
    context_window: Option<u64>,
}

/// A part of a request.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContextCategory {
    /// `system`, `tools`, `user`, `assistant` or `tool_results`.
    name: &'static str,
    /// Tokens, by estimate.
    tokens: u64,
}

pub(super) async fn context(
    call: MethodCall,
    params: SessionParams,
) -> Result<ContextResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let mut exclusive = session.exclusive("looking at the context").await?;
    // Looking stores nothing.
    let conversation = exclusive.conversation().ok_or_else(|| {
        RpcError::new(error::STALE, "there are no messages yet, so there is no request to look at")
    })?;
    let (used, parts) = (conversation.context_used(), conversation.context_parts());
    let categories = [
        ("system", parts.system),
        ("tools", parts.tools),
        ("user", parts.user),
        ("assistant", parts.assistant),
        ("tool_results", parts.tool_results),
    ];
    let categories = categories.into_iter().filter(|(_, tokens)| *tokens > 0);
    Ok(ContextResult {
        categories: categories.map(|(name, tokens)| ContextCategory { name, tokens }).collect(),
        context_tokens: used.tokens,
        context_window: used.window,
    })
}

/// What all conversations of a profile took.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InsightsResult {
    /// By model, most tokens first.
    models: Vec<ModelUsage>,
    /// All together.
    total: UsageTotals,
}

pub(super) async fn insights(call: MethodCall, _: Nothing) -> Result<InsightsResult, RpcError> {
    let taken = call.server.runtime().agent().store().usage(None).await?;
    let mut sum = Totals::default();
    for model in &taken {
        sum += model.totals;
    }
    Ok(InsightsResult {
        models: taken.iter().map(model_usage).collect(),
        total: UsageTotals::from(&sum),
    })
}

fn model_usage(taken: &ModelTotals) -> ModelUsage {
    ModelUsage {
        model: format!("{}:{}", taken.provider, taken.model),
        totals: (&taken.totals).into(),
    }
}

/// Returns it as text.
pub(crate) fn usage_text(usage: &UsageResult) -> String {
    let mut text = String::new();
    let line = |name: &str, totals: &UsageTotals| {
        let UsageTotals { calls, input_tokens, output_tokens, cost_usd, unpriced_calls, .. } =
            totals;
        let cost = if unpriced_calls < calls || *calls == 0 {
            format!("${cost_usd:.4}")
        } else {
            "cost unknown".to_owned()
        };
        format!("{name}: {calls} calls, {input_tokens} tokens in, {output_tokens} out, {cost}\n")
    };
    for model in &usage.models {
        text += &line(&model.model, &model.totals);
    }
    if usage.subagents.calls > 0 {
        text += &line("subagents", &usage.subagents);
    }
    if text.is_empty() {
        text.push_str("no model has answered in this conversation yet\n");
    }
    text
}

/// Where things stand.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatusResult {
    /// As text.
    output: String,
}

pub(super) async fn status(
    call: MethodCall,
    params: SessionParams,
) -> Result<StatusResult, RpcError> {
    let output = status_text(&*call.server.session(&params.session_id)?).await?;
    Ok(StatusResult { output })
}

pub(crate) async fn status_text(session: &Session) -> Result<String, RpcError> {
    let facts = session.facts();
    let usage = usage_totals(session).await?;
    let messages = session.messages().await?.len();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        writeln!(text, "{name:<13}{value}").ok();
    };
    let title = facts.title.unwrap_or_else(|| "untitled".to_owned());
    let stored = facts.stored.map_or_else(|| "not stored yet".to_owned(), String::from);
    row("conversation", format!("{title} ({stored})"));
    row("length", format!("{messages} messages"));
    row(
        "model",
        match (facts.provider, facts.model) {
            (Some(provider), Some(model)) => format!("{provider}:{model}"),
            (_, model) => or_none(model),
        },
    );
    if let Some(context) = facts.context {
        let of = context.window.map(|window| format!(" of {window}")).unwrap_or_default();
        row("context", format!("about {}{of} tokens", context.tokens));
    }
    row("tokens", format!("{} in all", usage.total.total_tokens));
    row("sandbox", or_none(facts.task));
    let approvals = if session.is_yolo() { "off" } else { "asked before dangerous commands" };
    row("approvals", approvals.to_owned());
    if session.is_running() {
        row("now", "a turn is running".to_owned());
    }
    Ok(text)
}
