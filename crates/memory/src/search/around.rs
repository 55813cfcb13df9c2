//! Reads on around a message.

use serde_json::{Value, json};
use vestal_agent::redact::Redactor;
use vestal_conversations::{ConversationId, Error, Seq, Standing, Store, Stored};

use super::{about, text};

/// Characters of a message: of the one that was asked for, and of the others.
const ASKED_FOR: usize = 6_000;
const OTHERS: usize = 1_200;

/// Characters of all together.
const TOGETHER: usize = 24_000;

/// Reads what was said around a message.
pub(super) async fn read(
    (store, redactor): (&Store, &Redactor),
    id: &ConversationId,
    message: Seq,
    around: usize,
) -> Result<Value, Error> {
    let stored = said(store, id).await?;
    let Some(at) = stored.iter().position(|stored| stored.seq == message) else {
        return Err(Error::NoMessage { id: id.clone(), seq: message });
    };
    let range = at.saturating_sub(around)..at + around + 1;
    tell((store, redactor), id, &stored, range, Some(message)).await
}

/// Reads how a conversation began.
pub(super) async fn begin(
    (store, redactor): (&Store, &Redactor),
    id: &ConversationId,
    around: usize,
) -> Result<Value, Error> {
    let stored = said(store, id).await?;
    tell((store, redactor), id, &stored, 0..2 * around + 1, None).await
}

/// Returns what was not taken back. Summaries stay: they are found like what they
/// stand for, and a branch may have nothing else of its beginning.
async fn said(store: &Store, id: &ConversationId) -> Result<Vec<Stored>, Error> {
    let mut stored = store.history(id).await?;
    stored.retain(|stored| stored.standing != Standing::Undone);
    Ok(stored)
}

async fn tell(
    (store, redactor): (&Store, &Redactor),
    id: &ConversationId,
    stored: &[Stored],
    range: std::ops::Range<usize>,
    asked_for: Option<Seq>,
) -> Result<Value, Error> {
    let range = range.start..range.end.min(stored.len());
    let mut room = TOGETHER;
    let mut messages = Vec::new();
    for stored in stored.get(range.clone()).unwrap_or_default() {
        let most = if asked_for == Some(stored.seq) { ASKED_FOR } else { OTHERS };
        let words = text::beginning(&text::of(&stored.message, redactor), most.min(room));
        room = room.saturating_sub(words.chars().count());
        messages.push(json!({
            "message": stored.seq,
            "role": text::role(stored),
            "date": text::moment(stored.at),
            "text": words,
        }));
    }
    let mut told = about(store, id).await?;
    told["messages"] = messages.into();
    told["before"] = range.start.into();
    told["after"] = stored.len().saturating_sub(range.end).into();
    Ok(told)
}
