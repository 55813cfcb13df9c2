//! Dispatching once.

use tokio::task::JoinSet;
use vestal_board::dispatch::{Bucket, DispatchResult, Spawned};
use vestal_board::{Board, Result};

use crate::dispatcher::Dispatcher;
use crate::lock::Held;
use crate::pass::Pass;

/// Whether what is decided is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is only said what would be done. No byte is changed, nobody signalled.
    DryRun,
    /// It is done.
    Real,
}

impl Dispatcher {
    /// Dispatches the tasks of a board once. What goes on on the others of `all`
    /// counts for the caps that are about all boards.
    ///
    /// It returns when all workers that were to be started or stopped are.
    pub async fn tick(&self, board: &Board, all: &[Board], mode: Mode) -> Result<DispatchResult> {
        match mode {
            Mode::DryRun => self.look(board, all).await,
            Mode::Real => {
                let passed = self.pass(std::slice::from_ref(board), all, Held::Leave).await?;
                match passed.into_iter().next() {
                    Some(pass) => Ok(self.finish(pass?).await),
                    None => Ok(DispatchResult::default()),
                }
            }
        }
    }

    async fn finish(&self, pass: Pass) -> DispatchResult {
        let Pass { mut result, launches, stops, sweeps, said, .. } = pass;
        for said in said {
            self.tell(said);
        }
        let shown = self.policy().shown;
        let mut jobs: JoinSet<Option<Spawned>> = JoinSet::new();
        let planned: Vec<_> =
            launches.iter().map(|launching| launching.run.task_id.clone()).collect();
        for launching in launches {
            let dispatcher = self.clone();
            jobs.spawn(async move { dispatcher.launch(launching).await });
        }
        for stopping in stops {
            let dispatcher = self.clone();
            jobs.spawn(async move {
                dispatcher.stop(stopping).await;
                None
            });
        }
        for sweeping in sweeps {
            let dispatcher = self.clone();
            jobs.spawn(async move {
                dispatcher.clean_up(sweeping).await;
                None
            });
        }
        let mut spawned = Vec::new();
        while let Some(done) = jobs.join_next().await {
            match done {
                Ok(started) => spawned.extend(started),
                Err(error) => tracing::error!(%error, "a part of a dispatch did not end well"),
            }
        }
        // As they were planned, whichever was faster.
        spawned.sort_by_key(|one| planned.iter().position(|task| *task == one.task_id));
        result.spawned = Bucket::default();
        for one in spawned {
            result.spawned.add(one, shown);
        }
        result
    }
}
