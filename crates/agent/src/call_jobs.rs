//! Which job of the sandbox runs a tool call.
//!
//! It is stored before the command is sent. So a process that resumes after this
//! process was killed can ask the guest its outcome: a job that is on
//! record and that the guest does not know never started, and a call without a
//! record was never sent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use vestal_conversations::{ConversationId, ConversationStore, Seq};
use vestal_sandbox::job::SentJob;
use vestal_sandbox::{Error, JobId, Sandbox};

/// The key of the record in the store.
const JOBS: &str = "jobs";

/// Keeps the record of one conversation. The default keeps none.
#[derive(Clone, Default)]
pub struct CallJobs {
    kept: Option<Arc<JobRecordStore>>,
}

struct JobRecordStore {
    store: ConversationStore,
    conversation: ConversationId,
    record: Mutex<CallJobRecord>,
}

/// The jobs of the calls of one answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallJobRecord {
    /// The conversation; what another was branched from says nothing about it.
    conversation: Option<ConversationId>,
    /// The answer; ids of calls are only unique within one.
    answer: Option<Seq>,
    jobs: BTreeMap<String, CallJob>,
}

/// What a process before this one left of its record; none: it kept none.
#[derive(Debug)]
pub(crate) struct UnsettledJobs(pub(crate) Option<CallJobRecord>);

/// A job and the guest that it was sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallJob {
    job: String,
    incarnation: String,
    boot: String,
}

/// What the record says about a call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It was never sent.
    Never,
    /// It may have been, as this job.
    As(CallJob),
    /// Nobody kept a record.
    Unrecorded,
}

/// Why a job is not on record; its command is not sent then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRecorded {
    /// The sandbox cannot be reached.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// The store has a reason.
    #[error("nothing was run: the command could not be recorded: {0}")]
    Store(#[from] vestal_conversations::Error),
}

impl CallJobs {
    /// Returns the record of a conversation that has had no call yet, and the entry of the state that
    /// the conversation must be created with.
    pub(crate) fn begin(store: &ConversationStore, id: &ConversationId) -> (Self, (String, Value)) {
        let record = CallJobRecord { conversation: Some(id.clone()), ..CallJobRecord::default() };
        let entry = (JOBS.to_owned(), serde_json::json!(record));
        (Self::of(store, id, record), entry)
    }

    /// Returns the record of a resumed conversation, and what it says.
    pub(crate) async fn found(
        store: &ConversationStore,
        id: &ConversationId,
    ) -> Result<(Self, Option<CallJobRecord>), vestal_conversations::Error> {
        let value = store.state(id, JOBS).await?;
        // What cannot be read says nothing.
        let found: Option<CallJobRecord> =
            value.and_then(|value| serde_json::from_value(value).ok());
        let found = found.filter(|record| record.conversation.as_ref() == Some(id));
        let own =
            CallJobRecord { conversation: Some(id.clone()), ..found.clone().unwrap_or_default() };
        Ok((Self::of(store, id, own), found))
    }

    fn of(store: &ConversationStore, id: &ConversationId, record: CallJobRecord) -> Self {
        let kept = JobRecordStore {
            store: store.clone(),
            conversation: id.clone(),
            record: Mutex::new(record),
        };
        Self { kept: Some(Arc::new(kept)) }
    }

    /// Begins with the calls of another answer.
    pub(crate) async fn answered(&self, answer: Option<Seq>) {
        if let Some(kept) = &self.kept {
            let mut record = kept.record.lock().await;
            record.answer = answer;
            record.jobs.clear();
        }
    }

    /// Puts on record that a call is about to be sent to a sandbox as a job.
    pub(crate) async fn record(
        &self,
        call: &str,
        sandbox: &Sandbox,
        job: &JobId,
    ) -> Result<(), NotRecorded> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let connection = Box::pin(sandbox.connection()).await?;
        let welcome = connection.welcome();
        let entry = CallJob {
            job: job.to_string(),
            incarnation: welcome.incarnation.clone(),
            boot: welcome.boot.clone(),
        };
        let mut record = kept.record.lock().await;
        record.jobs.insert(call.to_owned(), entry);
        let value = serde_json::json!(*record);
        kept.store.set_state(&kept.conversation, JOBS, Some(&value)).await?;
        Ok(())
    }
}

impl CallJobRecord {
    /// Says what became of a call of an answer. Without a record nobody can tell.
    pub(crate) fn sent(record: Option<&Self>, answer: Seq, call: &str) -> Sent {
        match record {
            None => Sent::Unrecorded,
            Some(record) if record.answer == Some(answer) => {
                record.jobs.get(call).cloned().map_or(Sent::Never, Sent::As)
            }
            Some(_) => Sent::Never,
        }
    }
}

impl CallJob {
    /// Returns the job and what asks the guest for it; nothing if it does not name a job.
    pub(crate) fn sent(&self) -> Option<SentJob> {
        let job: JobId = self.job.parse().ok()?;
        Some(SentJob::new(job, &self.incarnation, &self.boot))
    }
}

impl fmt::Debug for CallJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallJobs").field("is_kept", &self.kept.is_some()).finish()
    }
}
