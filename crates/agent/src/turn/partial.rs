//! An answer that is still coming, on record as far as it has come: whoever
//! resumes the conversation after a crash finds the words that were seen.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use vestal_conversations::{ConversationId, Error, NewMessage, Seq, Store};
use vestal_model::{AssistantMessage, Finish, Message};

use crate::redact::Redactor;

/// What the store knows an unfinished answer by.
const PARTIAL: &str = "partial_answer";

/// Time between two writes of an answer that grows.
const PERIOD: Duration = Duration::from_secs(1);

/// How much longer than a write the time to the next one is at least: a slow
/// disk is kept busy for a twentieth of the time.
const REST: u32 = 20;

/// An unfinished answer on record.
#[derive(Debug, Serialize, Deserialize)]
struct Partial {
    /// The message it comes after. If another one is there by now, that is the
    /// answer, and this is what was left of it.
    after: i64,
    text: String,
}

/// The words of an answer, as they come.
#[derive(Debug, Clone, Default)]
pub(super) struct Words(Arc<Mutex<String>>);

impl Words {
    pub(super) fn push(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Keeps an answer that comes on record, until it is stopped.
pub(super) struct Keeper {
    keeping: JoinHandle<()>,
    /// Stops it when dropped: a turn that is given up keeps nothing more.
    stop: DropGuard,
}

impl Keeper {
    /// Begins to keep what comes after a message.
    pub(super) fn begin(
        store: &Store,
        id: &ConversationId,
        after: Option<Seq>,
        words: &Words,
        redactor: &Arc<Redactor>,
    ) -> Option<Self> {
        let after = after?.0;
        let stop = CancellationToken::new();
        let (store, id, words) = (store.clone(), id.clone(), words.clone());
        let (redactor, stopped) = (Arc::clone(redactor), stop.clone());
        let keeping = tokio::spawn(async move {
            let (mut kept, mut pause) = (0, PERIOD);
            while stopped.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
                let text = words.get();
                if text.len() == kept {
                    continue;
                }
                kept = text.len();
                let began = Instant::now();
                let partial = Partial { after, text: redactor.redact(&text).into_owned() };
                let value = serde_json::json!(partial);
                // It is tried again with the next words.
                if let Err(error) = store.set_state(&id, PARTIAL, Some(&value)).await {
                    tracing::debug!(%error, "an answer that comes is not on record");
                }
                pause = PERIOD.max(began.elapsed() * REST);
            }
        });
        Some(Self { keeping, stop: stop.drop_guard() })
    }

    /// Stops. What was kept stays: once the caller has stored the answer, it
    /// counts no more.
    pub(super) async fn end(self) {
        let Self { keeping, stop } = self;
        drop(stop);
        if let Err(error) = keeping.await {
            tracing::debug!(%error, "the keeper of an answer broke");
        }
    }

    /// Stops, and forgets what was kept of an answer that failed.
    pub(super) async fn forget(self, store: &Store, id: &ConversationId) {
        self.end().await;
        if let Err(error) = store.set_state(id, PARTIAL, None).await {
            tracing::debug!(%error, "an answer that failed is still on record");
        }
    }
}

/// Makes what was kept of an answer a message, when a conversation is resumed
/// whose process died while the answer came.
pub(crate) async fn recover(
    store: &Store,
    id: &ConversationId,
    last: Option<Seq>,
) -> Result<Option<(Seq, Message)>, Error> {
    let Some(kept) = store.state(id, PARTIAL).await? else { return Ok(None) };
    let mut recovered = None;
    if let Ok(Partial { after, text }) = serde_json::from_value(kept)
        && last.is_some_and(|last| last.0 == after)
        && !text.trim().is_empty()
    {
        let finish = Finish::Interrupted;
        let message =
            Message::Assistant(AssistantMessage { text, finish, ..AssistantMessage::default() });
        let seqs = store.append(id, &[NewMessage::from(message.clone())]).await?;
        recovered = seqs.first().map(|seq| (*seq, message));
    }
    store.set_state(id, PARTIAL, None).await?;
    Ok(recovered)
}
