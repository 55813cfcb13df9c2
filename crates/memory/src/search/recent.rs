//! The most recent conversations.

use serde_json::{Value, json};
use vestal_conversations::{ConversationId, Error, Filter, Store};

use super::text;

/// Characters of how a conversation began.
const PREVIEW: usize = 200;

/// Lists the most recent conversations but the current one.
pub(super) async fn list(
    store: &Store,
    current: &ConversationId,
    limit: usize,
) -> Result<Value, Error> {
    let wanted = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
    let summaries = store.list(&Filter { limit: wanted, ..Filter::default() }).await?;
    let others = summaries.iter().filter(|summary| summary.conversation.id != *current);
    let results: Vec<Value> = others
        .take(limit)
        .map(|summary| {
            let conversation = &summary.conversation;
            json!({
                "conversation": conversation.id,
                "title": conversation.title,
                "date": text::moment(conversation.started_at),
                "source": conversation.source,
                "messages": summary.messages,
                "began": text::beginning(&summary.preview, PREVIEW),
            })
        })
        .collect();
    Ok(json!({
        "results": results,
        "hint": "give `query` to look for words, or `conversation` to read how one began",
    }))
}
