//! What a conversation and its memory have to do with each other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet};
use vestal_conversations::{ConversationId, Kind, Seq, Standing, Store};
use vestal_model::Message;

use super::{CompletedTurn, Memory, Patience, Recalled};
use crate::conversation::masked;
use crate::redact::Redactor;

/// Things that wait to be told. A memory that is further behind misses some.
const QUEUE: usize = 64;

/// Characters of a reason that a person is told.
const REASON: usize = 300;

/// A memory as one conversation has it.
pub(crate) struct Listening {
    memory: Option<Arc<dyn Memory>>,
    patience: Patience,
    redactor: Arc<Redactor>,
    news: Arc<News>,
    /// Whether it is asked about what is said: not after it failed once.
    is_asked: bool,
    worker: Option<Worker>,
}

/// What tells the memory, in the background.
struct Worker {
    queue: Sender<Told>,
    task: JoinHandle<()>,
}

/// Something that a memory is told.
enum Told {
    Turn { first: Seq, last: Seq },
    Compression(Vec<Message>),
    Ended,
}

impl Listening {
    pub(crate) fn new(
        memory: Option<Arc<dyn Memory>>,
        patience: Patience,
        redactor: Arc<Redactor>,
    ) -> Self {
        let news = Arc::default();
        Self { memory, patience, redactor, news, is_asked: true, worker: None }
    }

    /// Returns what the model should know as a conversation begins.
    pub(crate) async fn recall(&mut self) -> Option<String> {
        let memory = Arc::clone(self.memory.as_ref()?);
        let recalling = async move { Ok(memory.recall().await) };
        let Recalled { words, notices } = match guarded(self.patience.recall, recalling).await {
            Ok(recalled) => recalled,
            Err(trouble) => {
                self.tell_of(
                    Subject::Recall,
                    "nothing is known from earlier conversations",
                    &trouble,
                );
                return None;
            }
        };
        for notice in notices {
            let notice = self.redactor.redact(&notice).into_owned();
            self.news.add(Subject::Notice(notice.clone()), notice);
        }
        let words = words.filter(|words| !words.trim().is_empty())?;
        Some(self.redactor.redact(&words).into_owned())
    }

    /// Returns what is known about what was just said, in the words in which the
    /// model reads it.
    pub(crate) async fn prefetch(&mut self, said: &str) -> Option<String> {
        if !self.is_asked || said.trim().is_empty() {
            return None;
        }
        let memory = Arc::clone(self.memory.as_ref()?);
        let name = memory.name().to_owned();
        let said = self.redactor.redact(said).into_owned();
        let asking = async move { memory.prefetch(&said).await };
        let words = match guarded(self.patience.prefetch, asking).await {
            Ok(words) => words?,
            Err(trouble) => {
                // Otherwise each message would wait for it anew.
                self.is_asked = false;
                let consequence = "it is not asked again in this conversation";
                self.tell_of(Subject::Prefetch, consequence, &trouble);
                return None;
            }
        };
        let words = self.redactor.redact(words.trim());
        if words.is_empty() {
            return None;
        }
        let most = self.patience.prefetch_chars;
        let cut = match words.char_indices().nth(most) {
            Some((end, _)) => format!("{}\n[… cut off after {most} characters]", &words[..end]),
            None => words.into_owned(),
        };
        Some(format!(
            "[From the memory {name}, about the message above: background, not words of the user.]\n{cut}"
        ))
    }

    /// Tells of a turn that is complete.
    pub(crate) fn turn_completed(
        &mut self,
        (store, id): (&Store, &ConversationId),
        first: Seq,
        last: Seq,
    ) {
        self.tell((store, id), || Told::Turn { first, last });
    }

    /// Tells of messages that a summary will stand for.
    pub(crate) fn compressing(
        &mut self,
        (store, id): (&Store, &ConversationId),
        messages: &[Message],
    ) {
        self.tell((store, id), || Told::Compression(messages.to_vec()));
    }

    /// Tells that the conversation has ended, and waits until all is told.
    pub(crate) async fn close(mut self, (store, id): (&Store, &ConversationId)) {
        self.tell((store, id), || Told::Ended);
        let Some(Worker { queue, mut task }) = self.worker.take() else { return };
        drop(queue);
        if tokio::time::timeout(self.patience.parting, &mut task).await.is_err() {
            task.abort();
            let name = self.memory.as_ref().map_or("", |memory| memory.name());
            tracing::warn!(memory = name, %id, "the memory was left before it had heard all");
        }
    }

    /// Takes what a person should be told; each thing once.
    pub(crate) fn take_news(&self) -> Vec<String> {
        self.news.take()
    }

    /// Tells it something. Nobody waits for that: what follows a turn must not
    /// keep its answer.
    fn tell(&mut self, (store, id): (&Store, &ConversationId), told: impl FnOnce() -> Told) {
        let Some(memory) = self.memory.as_ref().filter(|memory| memory.listens()) else { return };
        let worker = self.worker.get_or_insert_with(|| {
            let (queue, told) = channel(QUEUE);
            let ears = Ears {
                memory: Arc::clone(memory),
                store: store.clone(),
                id: id.clone(),
                redactor: Arc::clone(&self.redactor),
                patience: self.patience,
                news: Arc::clone(&self.news),
            };
            Worker { queue, task: tokio::spawn(ears.listen(told)) }
        });
        if worker.queue.try_send(told()).is_err() {
            let text =
                format!("the memory {} is too slow and misses some of what is said", memory.name());
            self.news.add(Subject::Slow, text);
        }
    }

    fn tell_of(&self, subject: Subject, consequence: &str, trouble: &Trouble) {
        let name = self.memory.as_ref().map_or("", |memory| memory.name());
        let reason = reason(&self.redactor, trouble);
        tracing::warn!(memory = name, %reason, "a memory failed");
        self.news.add(subject, format!("the memory {name} failed ({reason}); {consequence}"));
    }
}

/// Who tells a memory, one thing after the other.
struct Ears {
    memory: Arc<dyn Memory>,
    store: Store,
    id: ConversationId,
    redactor: Arc<Redactor>,
    patience: Patience,
    news: Arc<News>,
}

impl Ears {
    async fn listen(self, mut queue: Receiver<Told>) {
        let ears = Arc::new(self);
        while let Some(told) = queue.recv().await {
            let hearing = Arc::clone(&ears);
            let heard = guarded(ears.patience.hearing, async move { hearing.hear(told).await });
            if let Err(trouble) = heard.await {
                let name = ears.memory.name();
                let reason = reason(&ears.redactor, &trouble);
                tracing::warn!(memory = name, id = %ears.id, %reason, "a memory failed");
                let consequence = "some of what is said will not be remembered";
                let text = format!("the memory {name} failed ({reason}); {consequence}");
                ears.news.add(Subject::Hearing, text);
            }
        }
    }

    async fn hear(&self, told: Told) -> Result<(), String> {
        match told {
            Told::Turn { first, last } => {
                let stored = self.store.history_between(&self.id, first, last).await;
                let counts = |standing| standing != Standing::Undone;
                let messages: Vec<Message> = stored
                    .map_err(|error| error.to_string())?
                    .into_iter()
                    .filter(|stored| stored.kind != Kind::Summary && counts(stored.standing))
                    .map(|stored| stored.message)
                    .collect();
                if messages.is_empty() {
                    return Ok(());
                }
                let turn = CompletedTurn { conversation: &self.id, messages: &messages };
                self.memory.sync_turn(&turn).await
            }
            Told::Compression(messages) => {
                let messages: Vec<Message> =
                    messages.iter().map(|message| masked(&self.redactor, message)).collect();
                self.memory.before_compression(&self.id, &messages).await
            }
            Told::Ended => self.memory.conversation_ended(&self.id).await,
        }
    }
}

/// What a person should be told; of each subject once, however often it fails.
#[derive(Default)]
struct News(Mutex<Untold>);

#[derive(Default)]
struct Untold {
    texts: Vec<String>,
    subjects: BTreeSet<Subject>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// What the memory itself has to say.
    Notice(String),
    Recall,
    Prefetch,
    Hearing,
    Slow,
}

impl News {
    fn add(&self, subject: Subject, text: String) {
        let mut news = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if news.subjects.insert(subject) {
            news.texts.push(text);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).texts)
    }
}

fn reason(redactor: &Redactor, trouble: &Trouble) -> String {
    let words = trouble.to_string();
    let words = redactor.redact(&words);
    words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(REASON).collect()
}

/// Why a call came to nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// It took too long.
    #[error("no answer within {}", seconds(*.0))]
    Late(Duration),
    /// It panicked.
    #[error("it panicked")]
    Panicked,
    /// It said so itself.
    #[error("{0}")]
    Failed(String),
}

/// Waits for a call, in a task of its own: where panics unwind, one ends that
/// task alone, and a call that takes too long, or that nobody waits for any more,
/// is dropped.
pub(super) async fn guarded<T: Send + 'static>(
    patience: Duration,
    call: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, Trouble> {
    let mut task = JoinSet::new();
    task.spawn(call);
    match tokio::time::timeout(patience, task.join_next()).await {
        Err(_) => Err(Trouble::Late(patience)),
        Ok(Some(Ok(said))) => said.map_err(Trouble::Failed),
        Ok(Some(Err(_)) | None) => Err(Trouble::Panicked),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
