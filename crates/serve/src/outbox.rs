//! What waits to be read by a client, bounded.
//!
//! A client that reads slowly gets fewer and larger deltas. One that does not read at all loses its
//! connection, with a reason, and nothing else: its turns go on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::events::EventBody;
use crate::protocol;

/// Bytes that may wait. One frame more is always taken, so that a long answer is not a reason to end a
/// connection whose client reads.
pub(crate) const MOST: usize = 8 << 20;

/// Bytes that may wait before no further request is read: their answers would have to wait, too.
const ENOUGH: usize = 1 << 20;

/// Bytes of a tool's output that may wait; of more, the beginning is left out.
const MOST_TOOL_OUTPUT: usize = 64 << 10;

/// How far back a delta is looked for that more words can be added to.
const LOOK_BACK: usize = 64;

/// Bytes that a waiting frame takes besides its text.
const OVERHEAD: usize = 64;

/// Why a client lost its connection.
const TOO_SLOW: &str = "the client does not read its events; connect again and resume its sessions";

/// Words that more words can be added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeltaKind {
    Message,
    Reasoning,
    ToolOutput,
    SubagentText,
    SubagentThinking,
}

/// Frames on their way to one client. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct ClientOutbox(Arc<OutboxShared>);

#[derive(Debug)]
struct OutboxShared {
    queue: Mutex<FrameQueue>,
    /// Told when there is a frame, or the end.
    filled: Notify,
    /// Told when frames were taken.
    drained: Notify,
}

#[derive(Debug, Default)]
struct FrameQueue {
    waiting: VecDeque<WaitingFrame>,
    bytes: usize,
    /// Why nothing is added any more.
    end: Option<String>,
}

#[derive(Debug)]
enum WaitingFrame {
    /// A whole frame; of a session, if it is an event of one.
    Frame { session: Option<Arc<str>>, text: String },
    /// Words of a session that grow while they wait.
    Delta(Box<Delta>),
}

#[derive(Debug)]
struct Delta {
    session: Arc<str>,
    seq: u64,
    kind: DeltaKind,
    /// Whose words they are: a call of a tool or a subagent.
    of: String,
    text: String,
    omitted: u64,
}

impl Delta {
    /// Returns the words of an event that can be added to.
    fn of(session: &Arc<str>, seq: u64, body: &EventBody) -> Option<Self> {
        let (kind, of, text) = match body {
            EventBody::MessageDelta { text } => (DeltaKind::Message, "", text),
            EventBody::ReasoningDelta { text } => (DeltaKind::Reasoning, "", text),
            EventBody::ToolOutput { tool_id, text, .. } => {
                (DeltaKind::ToolOutput, tool_id.as_str(), text)
            }
            EventBody::SubagentText { subagent_id, text } => {
                (DeltaKind::SubagentText, subagent_id.as_str(), text)
            }
            EventBody::SubagentThinking { subagent_id, text } => {
                (DeltaKind::SubagentThinking, subagent_id.as_str(), text)
            }
            _ => return None,
        };
        let (session, of, text) = (Arc::clone(session), of.to_owned(), text.clone());
        Some(Self { session, seq, kind, of, text, omitted: 0 })
    }

    fn into_frame(self) -> String {
        let Self { session, seq, kind, of, text, omitted } = self;
        let body = match kind {
            DeltaKind::Message => EventBody::MessageDelta { text },
            DeltaKind::Reasoning => EventBody::ReasoningDelta { text },
            DeltaKind::ToolOutput => EventBody::ToolOutput { tool_id: of, text, omitted },
            DeltaKind::SubagentText => EventBody::SubagentText { subagent_id: of, text },
            DeltaKind::SubagentThinking => EventBody::SubagentThinking { subagent_id: of, text },
        };
        protocol::event(Some((&session, seq)), &body)
    }

    /// Adds the words of a later one.
    fn add(&mut self, later: &Self) {
        self.seq = later.seq;
        self.text.push_str(&later.text);
        if self.kind == DeltaKind::ToolOutput && self.text.len() > MOST_TOOL_OUTPUT {
            let cut = self.text.ceil_char_boundary(self.text.len() - MOST_TOOL_OUTPUT / 2);
            self.omitted += cut as u64;
            self.text.drain(..cut);
        }
    }
}

impl WaitingFrame {
    fn bytes(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Frame { text, .. } => text.len(),
                Self::Delta(delta) => delta.text.len(),
            }
    }

    fn is_of(&self, session: &str) -> bool {
        match self {
            Self::Frame { session: own, .. } => own.as_deref() == Some(session),
            Self::Delta(delta) => &*delta.session == session,
        }
    }

    fn into_frame(self) -> String {
        match self {
            Self::Frame { text, .. } => text,
            Self::Delta(delta) => delta.into_frame(),
        }
    }
}

impl ClientOutbox {
    pub(crate) fn new() -> Self {
        Self(Arc::new(OutboxShared {
            queue: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
        }))
    }

    /// Adds an answer, or an event of the connection as a whole.
    pub(crate) fn push(&self, text: String) {
        self.add(WaitingFrame::Frame { session: None, text });
    }

    /// Adds an event of a session. Words are added to those that wait already, if nothing of the
    /// session came in between.
    pub(crate) fn push_event(&self, session: &Arc<str>, seq: u64, body: &EventBody) {
        let Some(delta) = Delta::of(session, seq, body) else {
            let text = protocol::event(Some((session, seq)), body);
            return self.add(WaitingFrame::Frame { session: Some(Arc::clone(session)), text });
        };
        {
            let mut queue = self.lock();
            let last =
                queue.waiting.iter_mut().rev().take(LOOK_BACK).find(|entry| entry.is_of(session));
            if let Some(WaitingFrame::Delta(known)) = last
                && (known.kind, known.of.as_str()) == (delta.kind, delta.of.as_str())
            {
                let before = known.text.len();
                known.add(&delta);
                let after = known.text.len();
                queue.bytes = queue.bytes + after - before;
                if queue.bytes > MOST {
                    queue.give_up();
                    self.0.filled.notify_one();
                    self.0.drained.notify_waiters();
                }
                return;
            }
        }
        self.add(WaitingFrame::Delta(Box::new(delta)));
    }

    fn add(&self, entry: WaitingFrame) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        if queue.bytes > MOST {
            queue.give_up();
            self.0.drained.notify_waiters();
        } else {
            queue.bytes += entry.bytes();
            queue.waiting.push_back(entry);
        }
        drop(queue);
        self.0.filled.notify_one();
    }

    /// Ends the connection once what waits is read, and tells the client why.
    pub(crate) fn close(&self, reason: &str) {
        let mut queue = self.lock();
        if queue.end.is_none() {
            let body = EventBody::ConnectionClosed { reason: reason.to_owned() };
            let text = protocol::event(None, &body);
            queue.waiting.push_back(WaitingFrame::Frame { session: None, text });
            queue.end = Some(reason.to_owned());
        }
        drop(queue);
        self.0.filled.notify_one();
        self.0.drained.notify_waiters();
    }

    /// Waits for the next frame; nothing once the connection has ended and all is read. One task
    /// waits at a time.
    pub(crate) async fn next(&self) -> Option<String> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(entry) = queue.waiting.pop_front() {
                    queue.bytes = queue.bytes.saturating_sub(entry.bytes());
                    let is_roomy = queue.bytes < ENOUGH;
                    drop(queue);
                    if is_roomy {
                        self.0.drained.notify_waiters();
                    }
                    return Some(entry.into_frame());
                }
                if queue.end.is_some() {
                    return None;
                }
            }
            self.0.filled.notified().await;
        }
    }

    /// Waits until the client has read enough that it may ask for more.
    pub(crate) async fn room(&self) {
        loop {
            let drained = self.0.drained.notified();
            tokio::pin!(drained);
            // Before the look: what is drained in between is not missed.
            drained.as_mut().enable();
            {
                let queue = self.lock();
                if queue.bytes < ENOUGH || queue.end.is_some() {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Returns how many bytes wait to be read.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns why nothing is added any more.
    pub(crate) fn end(&self) -> Option<String> {
        self.lock().end.clone()
    }

    fn lock(&self) -> MutexGuard<'_, FrameQueue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameQueue {
    /// Gives up a client that does not read: what waits is freed, and the reason is all that is
    /// left to be read.
    fn give_up(&mut self) {
        let body = EventBody::ConnectionClosed { reason: TOO_SLOW.to_owned() };
        let text = protocol::event(None, &body);
        self.waiting.clear();
        self.bytes = 0;
        self.waiting.push_back(WaitingFrame::Frame { session: None, text });
        self.end = Some(TOO_SLOW.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    async fn next(outbox: &ClientOutbox) -> Value {
        serde_json::from_str(&outbox.next().await.unwrap()).unwrap()
    }

    fn delta(text: &str) -> EventBody {
        EventBody::MessageDelta { text: text.to_owned() }
    }

    #[tokio::test]
    async fn words_that_wait_are_joined_in_order_and_never_across_another_event_of_the_session() {
        let (outbox, one, two) = (ClientOutbox::new(), Arc::from("one"), Arc::from("two"));
        outbox.push_event(&one, 1, &delta("a"));
        outbox.push_event(&two, 1, &delta("x"));
        outbox.push_event(&one, 2, &delta("b"));
        outbox.push_event(&one, 3, &EventBody::ToolGenerating { name: "t".to_owned() });
        outbox.push_event(&one, 4, &delta("c"));
        let mut seen = Vec::new();
        for _ in 0..4 {
            let frame = next(&outbox).await;
            let params = &frame["params"];
            seen.push(format!("{} {} {}", params["session_id"], params["seq"], params["payload"]));
        }
        assert_eq!(
            seen,
            [
                r#""one" 2 {"text":"ab"}"#,
                r#""two" 1 {"text":"x"}"#,
                r#""one" 3 {"name":"t"}"#,
                r#""one" 4 {"text":"c"}"#,
            ]
        );
    }

    #[tokio::test]
    async fn a_client_that_never_reads_is_given_up_with_a_reason_and_its_memory_is_freed() {
        let (outbox, session) = (ClientOutbox::new(), Arc::from("one"));
        let body = EventBody::Error { message: "x".repeat(1 << 20) };
        for seq in 0..16 {
            outbox.push_event(&session, seq, &body);
            assert!(outbox.lock().bytes <= MOST + (2 << 20), "{}", outbox.lock().bytes);
        }
        outbox.room().await;
        assert_eq!(next(&outbox).await["params"]["type"], "connection.closed");
        assert_eq!(outbox.next().await, None);
        assert_eq!(outbox.end().as_deref(), Some(TOO_SLOW));
    }

    #[tokio::test]
    async fn a_tool_that_prints_without_end_takes_a_bounded_room() {
        let (outbox, session) = (ClientOutbox::new(), Arc::from("one"));
        for seq in 0..10_000 {
            let (tool_id, text) = ("t".to_owned(), "ä".repeat(500));
            outbox.push_event(&session, seq, &EventBody::ToolOutput { tool_id, text, omitted: 0 });
        }
        assert!(outbox.lock().bytes <= MOST_TOOL_OUTPUT + OVERHEAD);
        let payload = next(&outbox).await["params"]["payload"].clone();
        let kept = payload["text"].as_str().unwrap().len() as u64;
        assert_eq!(payload["omitted"].as_u64().unwrap() + kept, 10_000_000);
    }

    #[tokio::test]
    async fn one_answer_of_any_length_is_taken() {
        let outbox = ClientOutbox::new();
        outbox.push("x".repeat(2 * MOST));
        assert_eq!(outbox.next().await.unwrap().len(), 2 * MOST);
        assert_eq!(outbox.end(), None);
    }
}
