//! What waits to be written to the client: in order, merged where it can be, and bounded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::limits::{BUSY_BYTES, CHUNK_BYTES, WAITING_BYTES};
use crate::protocol::{ContentBlock, SessionUpdate};

/// What a message takes besides its words, roughly.
const OVERHEAD: usize = 128;

/// Messages at the end of the queue in which one is looked for that a new one can be merged with.
const LOOK_BACK: usize = 64;

/// Messages for the client. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct EditorOutbox(Arc<OutboxShared>);

#[derive(Debug, Default)]
struct OutboxShared {
    queue: Mutex<Queue>,
    filled: Notify,
    drained: Notify,
    /// Cancelled when the client does not read.
    given_up: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Nothing more is added: the client is gone, or does not read.
    is_closed: bool,
}

#[derive(Debug)]
enum Waiting {
    /// A line as it is written.
    Line(String),
    /// Something new in a session, which may still be merged with what follows.
    Update { session: Arc<str>, update: SessionUpdate, bytes: usize },
}

impl Waiting {
    fn bytes(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Line(line) => line.len(),
                Self::Update { bytes, .. } => *bytes,
            }
    }

    fn into_line(self) -> Result<String, serde_json::Error> {
        match self {
            Self::Line(line) => Ok(line),
            Self::Update { session, update, .. } => {
                notification("session/update", &json!({ "sessionId": &*session, "update": update }))
            }
        }
    }
}

/// Returns a line that asks for no answer.
fn notification(method: &str, params: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

impl EditorOutbox {
    /// Adds a line.
    pub(crate) fn push(&self, line: String) {
        self.add(&mut self.lock(), Waiting::Line(line));
    }

    /// Adds something new in a session. Words are added to those that wait, and the state of a call
    /// takes the place of the one that waits, if nothing else of the session came in between.
    pub(crate) fn push_update(&self, session: &Arc<str>, mut update: SessionUpdate) {
        while let Some(rest) = split_off(&mut update) {
            self.push_piece(session, std::mem::replace(&mut update, rest));
        }
        self.push_piece(session, update);
    }

    fn push_piece(&self, session: &Arc<str>, update: SessionUpdate) {
        let mut queue = self.lock();
        let last = queue.waiting.iter_mut().rev().take(LOOK_BACK).find(
            |waiting| matches!(waiting, Waiting::Update { session: of, .. } if of == session),
        );
        if let Some(Waiting::Update { update: known, bytes, .. }) = last
            && merge(known, &update)
        {
            let (before, after) = (*bytes, size(known));
            *bytes = after;
            queue.bytes = queue.bytes + after - before;
            self.check(&mut queue);
            return;
        }
        let (session, bytes) = (Arc::clone(session), size(&update));
        self.add(&mut queue, Waiting::Update { session, update, bytes });
    }

    fn add(&self, queue: &mut Queue, waiting: Waiting) {
        if queue.is_closed {
            return;
        }
        queue.bytes += waiting.bytes();
        queue.waiting.push_back(waiting);
        self.check(queue);
        self.0.filled.notify_one();
    }

    /// Gives a client up that does not read.
    fn check(&self, queue: &mut Queue) {
        if queue.bytes > WAITING_BYTES {
            tracing::warn!(bytes = queue.bytes, "the client does not read; it is left");
            self.end(queue);
            self.0.given_up.cancel();
        }
    }

    /// Waits for the next line; none once it is closed and all that waited was taken.
    pub(crate) async fn next(&self) -> Option<String> {
        loop {
            let filled = self.0.filled.notified();
            {
                let mut queue = self.lock();
                if let Some(waiting) = queue.waiting.pop_front() {
                    queue.bytes -= waiting.bytes();
                    if queue.bytes < BUSY_BYTES {
                        self.0.drained.notify_waiters();
                    }
                    match waiting.into_line() {
                        Ok(line) => return Some(line),
                        Err(error) => tracing::error!(%error, "a message cannot be written"),
                    }
                    continue;
                }
                if queue.is_closed {
                    return None;
                }
            }
            filled.await;
        }
    }

    /// Waits until little waits. For what can wait itself.
    pub(crate) async fn room(&self) {
        loop {
            let drained = self.0.drained.notified();
            tokio::pin!(drained);
            // Before looking, so that what is drained in between is not missed.
            drained.as_mut().enable();
            {
                let queue = self.lock();
                if queue.is_closed || queue.bytes < BUSY_BYTES {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Takes no more; what waits is still written.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        self.0.filled.notify_one();
        self.0.drained.notify_waiters();
    }

    /// Takes no more, and forgets what waits.
    pub(crate) fn forget(&self) {
        self.end(&mut self.lock());
    }

    fn end(&self, queue: &mut Queue) {
        *queue = Queue { is_closed: true, ..Queue::default() };
        self.0.filled.notify_one();
        self.0.drained.notify_waiters();
    }

    /// Reports whether the client was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.given_up.is_cancelled()
    }

    /// Waits until the client is given up.
    pub(crate) async fn given_up(&self) {
        self.0.given_up.cancelled().await;
    }

    /// Reports whether nothing more is taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what of the words of an update does not fit into one message.
fn split_off(update: &mut SessionUpdate) -> Option<SessionUpdate> {
    use SessionUpdate::{AgentMessageChunk, AgentThoughtChunk, UserMessageChunk};
    let (UserMessageChunk { content }
    | AgentMessageChunk { content }
    | AgentThoughtChunk { content }) = update
    else {
        return None;
    };
    let ContentBlock::Text { text } = content else { return None };
    if text.len() <= CHUNK_BYTES {
        return None;
    }
    let rest = text.split_off(text.floor_char_boundary(CHUNK_BYTES));
    let rest = ContentBlock::Text { text: rest };
    Some(match update {
        UserMessageChunk { .. } => UserMessageChunk { content: rest },
        AgentThoughtChunk { .. } => AgentThoughtChunk { content: rest },
        _ => AgentMessageChunk { content: rest },
    })
}

/// Adds an update to the one before it, if the client need not see both.
fn merge(known: &mut SessionUpdate, new: &SessionUpdate) -> bool {
    use SessionUpdate::{AgentMessageChunk, AgentThoughtChunk, Plan, ToolCallUpdate};
    match (known, new) {
        (
            AgentMessageChunk { content: ContentBlock::Text { text } },
            AgentMessageChunk { content: ContentBlock::Text { text: more } },
        )
        | (
            AgentThoughtChunk { content: ContentBlock::Text { text } },
            AgentThoughtChunk { content: ContentBlock::Text { text: more } },
        ) if text.len() + more.len() <= CHUNK_BYTES => {
            text.push_str(more);
            true
        }
        (ToolCallUpdate(known), ToolCallUpdate(new)) if known.tool_call_id == new.tool_call_id => {
            let new = new.clone();
            known.title = new.title.or(known.title.take());
            known.kind = new.kind.or(known.kind);
            known.status = new.status.or(known.status);
            known.content = new.content.or(known.content.take());
            known.locations = new.locations.or(known.locations.take());
            true
        }
        (Plan { entries }, Plan { entries: new }) => {
            entries.clone_from(new);
            true
        }
        _ => false,
    }
}

/// Returns how many bytes the words of an update are, or a little for those that have few.
fn size(update: &SessionUpdate) -> usize {
    use crate::protocol::ToolContent;
    let of_block = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => text.len(),
        ContentBlock::Image { data, .. } => data.len(),
        _ => OVERHEAD,
    };
    let of_content = |content: &[ToolContent]| -> usize {
        let sizes = content.iter().map(|one| match one {
            ToolContent::Content { content } => of_block(content),
            ToolContent::Diff { old_text, new_text, .. } => {
                old_text.as_ref().map_or(0, String::len) + new_text.len()
            }
        });
        sizes.sum()
    };
    match update {
        SessionUpdate::UserMessageChunk { content }
        | SessionUpdate::AgentMessageChunk { content }
        | SessionUpdate::AgentThoughtChunk { content } => of_block(content),
        SessionUpdate::ToolCall(call) => call.title.len() + of_content(&call.content),
        SessionUpdate::ToolCallUpdate(update) => {
            update.content.as_deref().map_or(OVERHEAD, of_content)
        }
        SessionUpdate::Plan { entries } => entries.iter().map(|entry| entry.content.len()).sum(),
        SessionUpdate::AvailableCommandsUpdate { available_commands } => {
            available_commands.len() * OVERHEAD
        }
        SessionUpdate::ConfigOptionUpdate { config_options } => {
            config_options.iter().map(|option| option.choices() * OVERHEAD).sum()
        }
        SessionUpdate::CurrentModeUpdate { .. }
        | SessionUpdate::SessionInfoUpdate { .. }
        | SessionUpdate::UsageUpdate { .. } => OVERHEAD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{CallStatus, ToolCallUpdate};

    fn words(text: &str) -> SessionUpdate {
        SessionUpdate::AgentMessageChunk { content: ContentBlock::text(text) }
    }

    async fn lines(outbox: &EditorOutbox) -> Vec<serde_json::Value> {
        outbox.close();
        let mut lines = Vec::new();
        while let Some(line) = outbox.next().await {
            lines.push(serde_json::from_str(&line).unwrap());
        }
        lines
    }

    #[tokio::test]
    async fn words_that_wait_become_one_message_and_sessions_are_kept_apart() {
        let outbox = EditorOutbox::default();
        let (one, two) = (Arc::from("one"), Arc::from("two"));
        outbox.push_update(&one, words("a"));
        outbox.push_update(&two, words("x"));
        outbox.push_update(&one, words("b"));
        outbox.push("{}".to_owned());
        let seen = lines(&outbox).await;
        let text = |at: usize| seen[at]["params"]["update"]["content"]["text"].clone();
        assert_eq!((text(0), text(1)), (json!("ab"), json!("x")));
        assert_eq!(seen.len(), 3);
        assert_eq!(outbox.lock().bytes, 0);
    }

    #[tokio::test]
    async fn long_words_come_in_pieces_and_short_ones_are_joined_up_to_one() {
        let outbox = EditorOutbox::default();
        let session = Arc::from("s");
        let long = "ä".repeat(CHUNK_BYTES);
        outbox.push_update(&session, words(&long));
        for _ in 0..3 {
            outbox.push_update(&session, words(&"x".repeat(CHUNK_BYTES / 2)));
        }
        let seen = lines(&outbox).await;
        let texts: Vec<&str> = seen
            .iter()
            .map(|line| line["params"]["update"]["content"]["text"].as_str().unwrap())
            .collect();
        assert!(texts.iter().all(|text| text.len() <= CHUNK_BYTES));
        assert_eq!(texts.concat(), long + &"x".repeat(CHUNK_BYTES / 2 * 3));
        assert_eq!(texts.len(), 4);
    }

    #[tokio::test]
    async fn the_newest_state_of_a_call_takes_the_place_of_the_one_that_waits() {
        let outbox = EditorOutbox::default();
        let session = Arc::from("s");
        let update = |id: &str, status| {
            let tool_call_id = id.to_owned();
            let update = ToolCallUpdate { tool_call_id, status, ..ToolCallUpdate::default() };
            SessionUpdate::ToolCallUpdate(update)
        };
        outbox.push_update(&session, update("1", Some(CallStatus::InProgress)));
        outbox.push_update(&session, update("1", Some(CallStatus::Completed)));
        outbox.push_update(&session, update("1", None));
        outbox.push_update(&session, update("2", Some(CallStatus::Failed)));
        let seen = lines(&outbox).await;
        let states = seen.iter().map(|line| line["params"]["update"]["status"].clone());
        assert_eq!(states.collect::<Vec<_>>(), [json!("completed"), json!("failed")]);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_given_up_and_takes_no_memory() {
        let outbox = EditorOutbox::default();
        let part = "x".repeat(1 << 20);
        for _ in 0..100 {
            outbox.push(part.clone());
        }
        assert!(outbox.is_closed());
        assert_eq!(outbox.lock().bytes, 0);
        assert_eq!(outbox.next().await, None);
    }
}
