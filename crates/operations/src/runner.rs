//! Actions as tasks of a process that stays up: they go on when whoever began them is gone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_config::Settings;
use vestal_sandbox::{Engine, EngineOptions, ProgressSink, TaskName};

use crate::action::{Action, ActionError, Done};
use crate::record::{
    Durability, Operation, OperationEnd, OperationError, OperationId, OperationStore, Outcome, Step,
};

/// How often the progress of an action is written at most.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// How long a process that ends may take to undo what it was at.
const UNDO_WITHIN: Duration = Duration::from_secs(20);

/// The actions of one process.
#[derive(Debug, Clone)]
pub struct Runner {
    by: &'static str,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The record of an action that runs, which this process alone writes.
#[derive(Debug)]
struct OpenRecord {
    store: OperationStore,
    operation: Mutex<Operation>,
}

impl Runner {
    /// Returns one that has nothing to do. `by` is the program, such as `dashboard`.
    pub fn new(by: &'static str) -> Self {
        Self { by, tasks: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// Begins an action, and returns once it is on record. It goes on by itself.
    #[boxed]
    pub async fn begin(
        &self,
        settings: Settings,
        task: TaskName,
        action: Action,
    ) -> Result<OperationId, OperationError> {
        let store = OperationStore::of(settings.home());
        let io = |source| OperationError::Io { path: store.dir().to_owned(), source };
        let operation = Operation::begun(task.to_string(), &action, self.by).map_err(io)?;
        let id = operation.id.clone();
        store.forget_old(Timestamp::now());
        store.write(&operation, Durability::Synced)?;
        let record = Arc::new(OpenRecord { store, operation: Mutex::new(operation) });
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let (sink, steps) = watch::channel(None);
            // An engine of its own, so that what it tells is of this action only.
            let progress = ProgressSink::new(move |progress| {
                sink.send_replace(Some(Step::from(&progress)));
            });
            let options = EngineOptions { launch_dir: None, progress };
            let end = match Engine::open_with(settings, options) {
                Ok(engine) => {
                    let writing = tokio::spawn(write_steps(Arc::clone(&record), steps));
                    let end = see_done(&engine, &task, &action, &stop).await;
                    writing.abort();
                    // Over before the end is written: both write the same file.
                    writing.await.ok();
                    end
                }
                Err(error) => failed(&error.into()),
            };
            record.write(|operation| operation.end = Some(end), Durability::Synced);
        });
        Ok(id)
    }

    /// Gives up what is under way, waits until it is undone, and records that.
    #[boxed]
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(UNDO_WITHIN + TELL_EVERY, self.tasks.wait()).await.is_err() {
            tracing::warn!("what was begun on a sandbox is undone by its next use");
        }
    }
}

/// Does the action, or gives it up when the process ends.
async fn see_done(
    engine: &Engine,
    task: &TaskName,
    action: &Action,
    stop: &CancellationToken,
) -> OperationEnd {
    let performed = tokio::select! {
        biased;
        performed = action.perform(engine, task) => Some(performed),
        () = stop.cancelled() => None,
    };
    let is_closed = engine.close(UNDO_WITHIN).await;
    match performed {
        Some(Ok(Done { words, remarks })) => end(Outcome::Done, words, remarks),
        Some(Err(error)) => failed(&error),
        None => {
            let undone = if is_closed {
                "nothing incomplete is left"
            } else {
                "what it had begun is undone by the next use of the sandbox"
            };
            end(Outcome::GivenUp, format!("its program was ended; {undone}"), Vec::new())
        }
    }
}

fn end(outcome: Outcome, words: String, remarks: Vec<String>) -> OperationEnd {
    OperationEnd { at: Timestamp::now(), outcome, words, remarks }
}

fn failed(error: &ActionError) -> OperationEnd {
    let outcome = if error.is_busy() { Outcome::Busy } else { Outcome::Failed };
    end(outcome, error.to_string(), Vec::new())
}

/// Writes how far an action is, until it is aborted.
async fn write_steps(record: Arc<OpenRecord>, mut steps: watch::Receiver<Option<Step>>) {
    while steps.changed().await.is_ok() {
        let step = steps.borrow_and_update().clone();
        if let Some(step) = step {
            record.write(|operation| operation.set_step(step), Durability::Passing);
        }
        tokio::time::sleep(TELL_EVERY).await;
    }
}

impl OpenRecord {
    /// Changes and writes the record. One that cannot be written says less than is known, and
    /// nothing wrong.
    fn write(&self, change: impl FnOnce(&mut Operation), durability: Durability) {
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut operation);
        if let Err(error) = self.store.write(&operation, durability) {
            tracing::warn!(%error, id = %operation.id, "an operation was not recorded");
        }
    }
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home};
    use vestal_sandbox::{Command, FilesOnRemoval};

    use super::*;
    use crate::record::OperationState;

    fn settings(home: &Home) -> Settings {
        let user = home.root().to_str().unwrap();
        let pairs = [("HOME", user), ("PATH", "/usr/bin:/bin"), ("TERMINAL_ENV", "local")];
        let environment = Environment::from_pairs(pairs);
        Settings::load(&vestal_sandbox::schema(), home.clone(), environment, Vec::new())
    }

    async fn ended(store: &OperationStore, id: &OperationId) -> Operation {
        let is_over = || store.find(id).unwrap().state() != OperationState::Running;
        vestal_testkit::until("the action ends", is_over).await;
        store.find(id).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_action_goes_on_by_itself_and_its_record_says_what_came_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"));
        let engine = Engine::open(settings(&home)).unwrap();
        let task: TaskName = "web".parse().unwrap();
        let sandbox = engine.sandbox(&task).await.unwrap();
        sandbox.run(Command::shell("true")).await.unwrap();
        let (runner, store) = (Runner::new("test"), OperationStore::of(&home));

        let files = FilesOnRemoval::Remove;
        let id = runner.begin(settings(&home), task.clone(), Action::Stop).await.unwrap();
        let stopped = ended(&store, &id).await;
        assert_eq!(stopped.state(), OperationState::Ended(Outcome::Done), "{stopped:?}");
        assert_eq!(stopped.end.unwrap().words, "stopped web; its files are kept");
        let id = runner.begin(settings(&home), task.clone(), Action::Start).await.unwrap();
        let started = ended(&store, &id).await;
        assert_eq!(started.end.unwrap().words, "started web");
        let removing = runner.begin(settings(&home), task.clone(), Action::Remove { files });
        let id = removing.await.unwrap();
        let removed = ended(&store, &id).await;
        assert_eq!(removed.state(), OperationState::Ended(Outcome::Done), "{removed:?}");
        // There is nothing to stop any more.
        let id = runner.begin(settings(&home), task, Action::Stop).await.unwrap();
        let failed = ended(&store, &id).await;
        assert_eq!(failed.state(), OperationState::Ended(Outcome::Failed), "{failed:?}");
        runner.close().await;
        engine.close(Duration::from_mins(1)).await;
    }
}
