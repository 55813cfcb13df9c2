//! Connects a conversation with its memory, in the background.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet};
use vestal_conversations::{ConversationId, ConversationStore, MessageKind, MessageStanding, Seq};
use vestal_model::Message;

use super::{CompletedTurn, Memory, MemoryTimeouts, Recalled};
use crate::conversation::masked;
use crate::redact::Redactor;

/// Events that wait to be delivered. A memory that is further behind misses some.
const QUEUE: usize = 64;

/// Characters of a reason that a notice shows.
const REASON: usize = 300;

/// A memory as one conversation has it.
pub(crate) struct MemoryFeed {
    memory: Option<Arc<dyn Memory>>,
    timeouts: MemoryTimeouts,
    redactor: Arc<Redactor>,
    notices: Arc<Notices>,
    /// Whether it is asked about messages: not after it failed once.
    is_asked: bool,
    worker: Option<FeedWorker>,
}

/// The task that delivers events, and its queue.
struct FeedWorker {
    queue: Sender<FeedEvent>,
    task: JoinHandle<()>,
}

/// An event that a memory gets.
enum FeedEvent {
    Turn { first: Seq, last: Seq },
    Compression(Vec<Message>),
    Ended,
}

impl MemoryFeed {
    pub(crate) fn new(
        memory: Option<Arc<dyn Memory>>,
        timeouts: MemoryTimeouts,
        redactor: Arc<Redactor>,
    ) -> Self {
        let notices = Arc::default();
        Self { memory, timeouts, redactor, notices, is_asked: true, worker: None }
    }

    /// Returns what the model should know as a conversation begins.
    pub(crate) async fn recall(&mut self) -> Option<String> {
        let memory = Arc::clone(self.memory.as_ref()?);
        let recalling = async move { Ok(memory.recall().await) };
        let Recalled { words, notices } = match guarded(self.timeouts.recall, recalling).await {
            Ok(recalled) => recalled,
            Err(failure) => {
                self.add_failure(
                    FeedSubject::Recall,
                    "nothing is known from earlier conversations",
                    &failure,
                );
                return None;
            }
        };
        for notice in notices {
            let notice = self.redactor.redact(&notice).into_owned();
            self.notices.add(FeedSubject::Notice(notice.clone()), notice);
        }
        let words = words.filter(|words| !words.trim().is_empty())?;
        Some(self.redactor.redact(&words).into_owned())
    }

    /// Returns what the memory knows about what was just said, as the model reads it.
    pub(crate) async fn prefetch(&mut self, message: &str) -> Option<String> {
        if !self.is_asked || message.trim().is_empty() {
            return None;
        }
        let memory = Arc::clone(self.memory.as_ref()?);
        let name = memory.name().to_owned();
        let message = self.redactor.redact(message).into_owned();
        let asking = async move { memory.prefetch(&message).await };
        let words = match guarded(self.timeouts.prefetch, asking).await {
            Ok(words) => words?,
            Err(failure) => {
                // Otherwise each message would wait for it again.
                self.is_asked = false;
                let consequence = "it is not asked again in this conversation";
                self.add_failure(FeedSubject::Prefetch, consequence, &failure);
                return None;
            }
        };
        let words = self.redactor.redact(words.trim());
        if words.is_empty() {
            return None;
        }
        let most = self.timeouts.prefetch_chars;
        let cut = match words.char_indices().nth(most) {
            Some((end, _)) => format!("{}\n[… cut off after {most} characters]", &words[..end]),
            None => words.into_owned(),
        };
        Some(format!(
            "[From the memory {name}, about the message above: background, not words of the user.]\n{cut}"
        ))
    }

    /// Sends a completed turn.
    pub(crate) fn turn_completed(
        &mut self,
        (store, id): (&ConversationStore, &ConversationId),
        first: Seq,
        last: Seq,
    ) {
        self.send((store, id), || FeedEvent::Turn { first, last });
    }

    /// Sends messages that a summary is about to replace.
    pub(crate) fn compressing(
        &mut self,
        (store, id): (&ConversationStore, &ConversationId),
        messages: &[Message],
    ) {
        self.send((store, id), || FeedEvent::Compression(messages.to_vec()));
    }

    /// Sends the end of the conversation, and waits until all is delivered.
    pub(crate) async fn close(mut self, (store, id): (&ConversationStore, &ConversationId)) {
        self.send((store, id), || FeedEvent::Ended);
        let Some(FeedWorker { queue, mut task }) = self.worker.take() else { return };
        drop(queue);
        if tokio::time::timeout(self.timeouts.closing, &mut task).await.is_err() {
            task.abort();
            let name = self.memory.as_ref().map_or("", |memory| memory.name());
            tracing::warn!(memory = name, %id, "the conversation was closed before the memory had received everything");
        }
    }

    /// Takes the notices for the user; each is returned once.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    /// Sends an event without waiting: the memory must not delay an answer.
    fn send(
        &mut self,
        (store, id): (&ConversationStore, &ConversationId),
        event: impl FnOnce() -> FeedEvent,
    ) {
        let Some(memory) = self.memory.as_ref().filter(|memory| memory.listens()) else { return };
        let worker = self.worker.get_or_insert_with(|| {
            let (queue, events) = channel(QUEUE);
            let feed = FeedTask {
                memory: Arc::clone(memory),
                store: store.clone(),
                id: id.clone(),
                redactor: Arc::clone(&self.redactor),
                timeouts: self.timeouts,
                notices: Arc::clone(&self.notices),
            };
            FeedWorker { queue, task: tokio::spawn(feed.run(events)) }
        });
        if worker.queue.try_send(event()).is_err() {
            let text = format!("the memory {} is too slow and misses some messages", memory.name());
            self.notices.add(FeedSubject::Slow, text);
        }
    }

    fn add_failure(&self, subject: FeedSubject, consequence: &str, failure: &CallFailure) {
        let name = self.memory.as_ref().map_or("", |memory| memory.name());
        let reason = reason(&self.redactor, failure);
        tracing::warn!(memory = name, %reason, "a memory failed");
        self.notices.add(subject, format!("the memory {name} failed ({reason}); {consequence}"));
    }
}

/// Delivers events to a memory, one after the other.
struct FeedTask {
    memory: Arc<dyn Memory>,
    store: ConversationStore,
    id: ConversationId,
    redactor: Arc<Redactor>,
    timeouts: MemoryTimeouts,
    notices: Arc<Notices>,
}

impl FeedTask {
    async fn run(self, mut queue: Receiver<FeedEvent>) {
        let feed = Arc::new(self);
        while let Some(event) = queue.recv().await {
            let delivery = Arc::clone(&feed);
            let delivered =
                guarded(feed.timeouts.delivery, async move { delivery.deliver(event).await });
            if let Err(failure) = delivered.await {
                let name = feed.memory.name();
                let reason = reason(&feed.redactor, &failure);
                tracing::warn!(memory = name, id = %feed.id, %reason, "a memory failed");
                let consequence = "some messages will not be remembered";
                let text = format!("the memory {name} failed ({reason}); {consequence}");
                feed.notices.add(FeedSubject::Delivery, text);
            }
        }
    }

    async fn deliver(&self, event: FeedEvent) -> Result<(), String> {
        match event {
            FeedEvent::Turn { first, last } => {
                let stored = self.store.history_between(&self.id, first, last).await;
                let counts = |standing| standing != MessageStanding::Undone;
                let messages: Vec<Message> = stored
                    .map_err(|error| error.to_string())?
                    .into_iter()
                    .filter(|stored| stored.kind != MessageKind::Summary && counts(stored.standing))
                    .map(|stored| stored.message)
                    .collect();
                if messages.is_empty() {
                    return Ok(());
                }
                let turn = CompletedTurn { conversation: &self.id, messages: &messages };
                self.memory.sync_turn(&turn).await
            }
            FeedEvent::Compression(messages) => {
                let messages: Vec<Message> =
                    messages.iter().map(|message| masked(&self.redactor, message)).collect();
                self.memory.before_compression(&self.id, &messages).await
            }
            FeedEvent::Ended => self.memory.conversation_ended(&self.id).await,
        }
    }
}

/// Notices for the user; one per subject, however often it fails.
#[derive(Default)]
struct Notices(Mutex<PendingNotices>);

#[derive(Default)]
struct PendingNotices {
    texts: Vec<String>,
    subjects: BTreeSet<FeedSubject>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FeedSubject {
    /// A notice of the memory itself.
    Notice(String),
    Recall,
    Prefetch,
    Delivery,
    Slow,
}

impl Notices {
    fn add(&self, subject: FeedSubject, text: String) {
        let mut notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.subjects.insert(subject) {
            notices.texts.push(text);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).texts)
    }
}

fn reason(redactor: &Redactor, failure: &CallFailure) -> String {
    let words = failure.to_string();
    let words = redactor.redact(&words);
    words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(REASON).collect()
}

/// Why a call failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallFailure {
    /// It took too long.
    #[error("no answer within {}", seconds(*.0))]
    Late(Duration),
    /// It panicked.
    #[error("it panicked")]
    Panicked,
    /// It returned an error.
    #[error("{0}")]
    Failed(String),
}

/// Waits for a call, in a task of its own: where panics unwind, one ends that
/// task alone, and a call that takes too long, or that nobody waits for any more,
/// is dropped.
pub(super) async fn guarded<T: Send + 'static>(
    limit: Duration,
    call: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, CallFailure> {
    let mut task = JoinSet::new();
    task.spawn(call);
    match tokio::time::timeout(limit, task.join_next()).await {
        Err(_) => Err(CallFailure::Late(limit)),
        Ok(Some(Ok(result))) => result.map_err(CallFailure::Failed),
        Ok(Some(Err(_)) | None) => Err(CallFailure::Panicked),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
