//! Actions as tasks of a process that stays up: they go on when the caller that began them is gone.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_config::Settings;
use vestal_sandbox::{Engine, EngineOptions, ProgressSink, TaskName};

use crate::action::Action;
use crate::record::{OperationId, Recording};
use crate::store::OperationError;

/// How long a process that ends may take to undo what it was at.
const UNDO_WITHIN: Duration = Duration::from_secs(20);

/// How much longer it may take to record that.
const RECORD_WITHIN: Duration = Duration::from_secs(1);

/// The actions of one process.
#[derive(Debug, Clone)]
pub struct Runner {
    by: &'static str,
    tasks: TaskTracker,
    stop: CancellationToken,
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
        let recording = Recording::begin(settings.home(), &task, &action, self.by)?;
        let id = recording.id();
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            // An engine of its own, so that what it tells is of this action only.
            let steps = recording.clone();
            let progress = ProgressSink::new(move |progress| steps.progress(&progress));
            match Engine::open_with(settings, EngineOptions { launch_dir: None, progress }) {
                Ok(engine) => see_done(&engine, &task, &action, &recording, &stop).await,
                Err(error) => recording.failed(&error.into()),
            }
        });
        Ok(id)
    }

    /// Gives up what is under way, waits until it is undone, and records that.
    #[boxed]
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(UNDO_WITHIN + RECORD_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("what was begun on a sandbox is undone by its next use");
        }
    }
}

/// Does the action, or gives it up when the process ends.
async fn see_done(
    engine: &Engine,
    task: &TaskName,
    action: &Action,
    recording: &Recording,
    stop: &CancellationToken,
) {
    let performed = tokio::select! {
        biased;
        performed = action.perform(engine, task) => Some(performed),
        () = stop.cancelled() => None,
    };
    let is_closed = engine.close(UNDO_WITHIN).await;
    match performed {
        Some(Ok(done)) => recording.done(done),
        Some(Err(error)) => recording.failed(&error),
        None => recording.given_up(is_closed),
    }
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home};
    use vestal_sandbox::{Command, FilesOnRemoval};

    use super::*;
    use crate::record::{Operation, OperationState, Outcome};
    use crate::store::OperationStore;

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
