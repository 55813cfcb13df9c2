//! The record of an action while its process is at it.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use vestal_config::Home;
use vestal_sandbox::{Progress, TaskName};

use crate::action::{Action, ActionError, Done};
use crate::record::{Operation, OperationEnd, OperationId, Outcome, Step};
use crate::store::{OperationError, OperationStore, RecordDurability};

/// How often the progress of an action is written at most.
const WRITE_EVERY: Duration = Duration::from_millis(250);

/// An action that this process is at, on record. This process alone writes it. One that is dropped
/// without an end is *interrupted* once the process is gone. Cloning gives the same one.
#[derive(Debug, Clone)]
pub struct Recording(Arc<OpenRecord>);

#[derive(Debug)]
struct OpenRecord {
    store: OperationStore,
    operation: Mutex<Operation>,
    /// The newest step, for the task that writes it: whoever reports one must not wait for a disk.
    step: watch::Sender<Option<Step>>,
}

impl Recording {
    /// Puts an action on record before it is begun. `by` is the program, such as `dashboard`. It is
    /// called within a runtime, which writes how far the action is.
    pub fn begin(
        home: &Home,
        task: &TaskName,
        action: &Action,
        by: &str,
    ) -> Result<Self, OperationError> {
        let store = OperationStore::of(home);
        let io = |source| OperationError::Io { path: store.dir().to_owned(), source };
        let operation = Operation::begun(task.to_string(), action, by).map_err(io)?;
        store.forget_old(Timestamp::now());
        store.write(&operation, RecordDurability::Synced)?;
        let (step, steps) = watch::channel(None);
        let record = Arc::new(OpenRecord { store, operation: Mutex::new(operation), step });
        tokio::spawn(write_steps(Arc::downgrade(&record), steps));
        Ok(Self(record))
    }

    /// Returns its id.
    pub fn id(&self) -> OperationId {
        self.0.operation.lock().unwrap_or_else(PoisonError::into_inner).id.clone()
    }

    /// Records how far it is, four times a second at most. What is reported in between is not written.
    pub fn progress(&self, progress: &Progress) {
        self.0.step.send_replace(Some(Step::from(progress)));
    }

    /// Records that it is done.
    pub fn done(&self, done: Done) {
        self.end(Outcome::Done, done.words, done.remarks);
    }

    /// Records that it failed.
    pub fn failed(&self, error: &ActionError) {
        let outcome = if error.is_busy() { Outcome::Busy } else { Outcome::Failed };
        self.end(outcome, error.to_string(), Vec::new());
    }

    /// Records that its process gave it up. `is_undone`: nothing incomplete is left.
    pub fn given_up(&self, is_undone: bool) {
        let undone = if is_undone {
            "nothing incomplete is left"
        } else {
            "what it had begun is undone by the next use of the sandbox"
        };
        self.end(Outcome::GivenUp, format!("its program was ended; {undone}"), Vec::new());
    }

    fn end(&self, outcome: Outcome, words: String, remarks: Vec<String>) {
        let end = OperationEnd { at: Timestamp::now(), outcome, words, remarks };
        self.0.write(|operation| operation.end = Some(end), RecordDurability::Synced);
    }
}

impl OpenRecord {
    /// Changes and writes the record, unless it has ended. One that cannot be written says less than
    /// is known, and nothing wrong.
    fn write(&self, change: impl FnOnce(&mut Operation), durability: RecordDurability) {
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        if operation.end.is_some() {
            return;
        }
        change(&mut operation);
        if let Err(error) = self.store.write(&operation, durability) {
            tracing::warn!(%error, id = %operation.id, "an operation was not recorded");
        }
    }
}

/// Writes how far an action is, until nobody is at it any more.
async fn write_steps(record: Weak<OpenRecord>, mut steps: watch::Receiver<Option<Step>>) {
    while steps.changed().await.is_ok() {
        let step = steps.borrow_and_update().clone();
        let Some(record) = record.upgrade() else { return };
        if let Some(step) = step {
            record.write(|operation| operation.set_step(step), RecordDurability::Passing);
        }
        drop(record);
        tokio::time::sleep(WRITE_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::OperationState;

    #[tokio::test]
    async fn what_is_reported_is_found_on_record_and_nothing_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let (task, store) = ("web".parse().unwrap(), OperationStore::of(&home));
        let recording = Recording::begin(&home, &task, &Action::Stop, "test").unwrap();
        let found = || store.find(&recording.id()).unwrap();
        assert_eq!(found().state(), OperationState::Running);
        recording.progress(&Progress::Starting { what: "copying".to_owned() });
        vestal_testkit::until("the step is on record", || found().step() == "copying").await;
        recording.done(Done { words: "stopped web".to_owned(), remarks: Vec::new() });
        recording.progress(&Progress::Starting { what: "too late".to_owned() });
        recording.given_up(true);
        let end = found().end.unwrap();
        assert_eq!((end.outcome, end.words.as_str()), (Outcome::Done, "stopped web"));
        assert_eq!(found().step(), "copying");
    }
}
