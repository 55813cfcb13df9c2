//! What a plan has to know and its board does not.

use std::collections::BTreeSet;
use std::path::PathBuf;

use vestal_board::dispatch::{Elsewhere, Life, Watched, takes_slot};
use vestal_board::verbs::steps::exclusive_directory;
use vestal_board::{Board, Result, Run};

use crate::dispatcher::Dispatcher;
use crate::life::{life, session_of};

/// What goes on on one board, as the others count it.
#[derive(Debug)]
pub(crate) struct Share {
    slug: String,
    load: Elsewhere,
    /// Directories of this host that its tasks are at work in.
    busy: BTreeSet<PathBuf>,
}

/// What goes on on each board.
#[derive(Debug)]
pub(crate) struct Shares(Vec<Share>);

impl Shares {
    /// Returns what goes on on all boards but one.
    pub(crate) fn outside(&self, board: &Board) -> (Elsewhere, BTreeSet<PathBuf>) {
        let others = || self.0.iter().filter(|share| share.slug != board.slug());
        let busy = others().flat_map(|share| share.busy.iter().cloned()).collect();
        (sum(others()), busy)
    }

    /// Returns what goes on on all boards.
    pub(crate) fn total(&self) -> Elsewhere {
        sum(self.0.iter())
    }
}

fn sum<'s>(shares: impl Iterator<Item = &'s Share>) -> Elsewhere {
    shares.fold(Elsewhere::default(), |sum, share| Elsewhere {
        running: sum.running + share.load.running,
        running_here: sum.running_here + share.load.running_here,
    })
}

impl Dispatcher {
    /// Looks at what goes on on each board.
    pub(crate) async fn shares(&self, all: &[Board]) -> Shares {
        let mut shares = Vec::new();
        for board in all {
            match self.share(board).await {
                Ok(share) => shares.push(share),
                // A board that cannot be read keeps no other from going on.
                Err(error) => self.tell_trouble(Some(board.slug()), &error),
            }
        }
        Shares(shares)
    }

    /// Looks at what goes on on a board. What is over there takes no slot, and
    /// it may be that nobody comes to write that down.
    async fn share(&self, board: &Board) -> Result<Share> {
        let (host, policy) = (&self.policy().host, self.policy());
        let mut share = Share {
            slug: board.slug().to_owned(),
            load: Elsewhere::default(),
            busy: BTreeSet::new(),
        };
        let mut read = board.read().await?;
        let now = read.now();
        let mut over = Vec::new();
        for run in read.live_runs().await? {
            let life = self.life(board, &run);
            let here = run.host.as_ref() == Some(host);
            let watched = Watched { run, task: None, failures: Vec::new(), life };
            let takes_slot = takes_slot(&watched, now, policy);
            share.load.running += u64::from(takes_slot);
            share.load.running_here += u64::from(takes_slot && here);
            let task = read.task(&watched.run.task_id).await?.filter(|_| here);
            let Some(directory) = task.as_ref().and_then(exclusive_directory) else { continue };
            if takes_slot {
                share.busy.insert(directory.to_owned());
            } else {
                over.push((watched.run, directory.to_owned()));
            }
        }
        drop(read);
        // What a worker started may outlive it, and still write where it worked.
        let left = left_over(board, over.iter().map(|(run, _)| run));
        let left = |run: &Run| left.iter().any(|left| left.id == run.id);
        share.busy.extend(over.into_iter().filter(|(run, _)| left(run)).map(|(_, path)| path));
        Ok(share)
    }

    /// Returns what can be seen of a run's worker.
    pub(crate) fn life(&self, board: &Board, run: &Run) -> Life {
        let own = self.shared.children.know(&(board.slug().to_owned(), run.id));
        life(run, board.host(), own)
    }

    /// Returns the repository of a board's tasks that name none, where this
    /// host has it.
    pub(crate) async fn default_workdir(&self, board: &Board) -> Result<Option<PathBuf>> {
        let info = board.info().await?;
        let here = info.default_workdir_host.as_ref().is_none_or(|host| *host == board.host().name);
        Ok(info.default_workdir.filter(|_| here))
    }

    pub(crate) fn tell_trouble(&self, board: Option<&str>, error: &vestal_board::Error) {
        let said =
            crate::Said::Trouble { board: board.map(str::to_owned), what: error.to_string() };
        self.tell_once(said);
    }
}

/// Returns which of some runs have something left of their workers on this host.
pub(crate) fn left_over<'r>(board: &Board, runs: impl Iterator<Item = &'r Run>) -> Vec<Run> {
    let known: Vec<_> =
        runs.filter_map(|run| Some((run, session_of(run, board.host())?))).collect();
    let sessions: Vec<_> = known.iter().map(|(_, session)| session.clone()).collect();
    match vestal_process::Session::living(&sessions) {
        Ok(living) => known
            .into_iter()
            .zip(living)
            .filter(|(_, lives)| *lives)
            .map(|((run, _), _)| run.clone())
            .collect(),
        Err(error) => {
            // Without proof nobody is gone.
            tracing::warn!(%error, "cannot look at the processes of this host");
            known.into_iter().map(|(run, _)| run.clone()).collect()
        }
    }
}
