//! Cleans up behind a worker that died.

use std::sync::Arc;

use vestal_board::{Board, Error as BoardError, RunId, TaskId};
use vestal_config::Settings;
use vestal_conversations::{ConversationId, Store};
use vestal_sandbox::{Engine, Error as SandboxError, Task as SandboxTask};

use crate::clean::{self, CleanError};
use crate::log::Log;

/// What a sweep works with.
pub struct SweepParts {
    /// The board.
    pub board: Board,
    /// The task.
    pub task: TaskId,
    /// The run whose worker is gone.
    pub run: RunId,
    /// The settings of the profile.
    pub settings: Arc<Settings>,
    /// Where the worker's sandboxes are.
    pub engine: Engine,
    /// The log of the task's workers.
    pub log: Log,
}

/// Why a sweep left something.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SweepError(#[from] CleanError);

/// Ends the jobs that a worker left which is gone, and removes the place of its
/// task if that is finished. It may be done any number of times.
pub async fn sweep(parts: SweepParts) -> Result<(), SweepError> {
    Ok(sweep_all(&parts).await?)
}

async fn sweep_all(parts: &SweepParts) -> Result<(), CleanError> {
    let SweepParts { board, engine, log, .. } = parts;
    let run = board.read().await?.run(parts.run).await?;
    let conversation = run.and_then(|run| run.session_id);
    let conversation = conversation.and_then(|id| id.parse::<ConversationId>().ok());
    if let Some(conversation) = conversation {
        let stopped = stop_left(parts, &conversation).await?;
        if stopped > 0 {
            log.write(&format!("run {}: stopped {stopped} jobs that were left", parts.run));
        }
    }
    let (finished, over) = match board.get(&parts.task).await {
        Ok(task) => (clean::is_finished(&task), clean::is_over(board, &task).await?),
        // With the task all claims on its place are gone.
        Err(BoardError::NotFound { .. }) => (true, true),
        Err(error) => return Err(error.into()),
    };
    if finished {
        clean::remove_own(engine, &parts.task).await?;
    }
    if !over {
        return Ok(());
    }
    let shared = SandboxTask::default_task();
    match engine.inspect(&engine.scoped(&shared)?).await {
        Err(SandboxError::NoSandbox { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let sandbox = Box::pin(engine.sandbox(&shared)).await?;
            clean::remove_scratch(&sandbox, &parts.task).await
        }
    }
}

/// Ends the jobs of a conversation, in whichever sandbox they are.
async fn stop_left(parts: &SweepParts, conversation: &ConversationId) -> Result<usize, CleanError> {
    let path = parts.settings.home().dir().join("state.db");
    let Some(store) = Store::open_existing(path).await? else { return Ok(0) };
    let sessions = clean::sessions(&store, conversation).await?;
    let mut stopped = 0;
    for sandbox in clean::running(&parts.engine).await? {
        match parts.engine.observe(&sandbox).await {
            Ok(connection) => stopped += clean::stop_jobs(&connection, &sessions).await?,
            // It ended in the meantime, and its jobs with it.
            Err(SandboxError::Stopped { .. } | SandboxError::NoSandbox { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    store.close().await?;
    Ok(stopped)
}
