//! What a plan has to know and its board does not.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::super::life::{life, session_of};
use super::Dispatcher;
use crate::dispatch::{Elsewhere, Life};
use crate::run::Run;
use crate::verbs::steps::exclusive_directory;
use crate::{Board, Result};

/// What goes on on other boards.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) load: Elsewhere,
    pub(super) busy: BTreeSet<PathBuf>,
}

impl Dispatcher {
    /// Looks at what goes on on other boards.
    pub(super) async fn outside(&self, board: &Board, all: &[Board]) -> Result<Outside> {
        let mut outside = Outside::default();
        for other in all.iter().filter(|other| other.slug() != board.slug()) {
            if let Err(error) = self.add_outside(other, &mut outside).await {
                // A board that cannot be read keeps no other from going on.
                self.tell_trouble(Some(other.slug()), &error);
            }
        }
        Ok(outside)
    }

    async fn add_outside(&self, other: &Board, outside: &mut Outside) -> Result<()> {
        let host = &self.policy().host;
        let mut read = other.read().await?;
        let now = read.now();
        for run in read.live_runs().await? {
            let seen = self.life(other, &run);
            // As on the board itself: what another host does not prove is
            // believed for one more lease.
            let counts = run.is_open()
                || seen != Life::Foreign
                || run.expires_at.after(self.policy().lease) > now;
            if !counts {
                continue;
            }
            outside.load.running += 1;
            let here = run.host.as_ref() == Some(host);
            outside.load.running_here += u64::from(here);
            if here && let Some(task) = read.task(&run.task_id).await? {
                outside.busy.extend(exclusive_directory(&task).map(PathBuf::from));
            }
        }
        Ok(())
    }

    /// Returns what can be seen of a run's worker.
    pub(super) fn life(&self, board: &Board, run: &Run) -> Life {
        let own = self.shared.children.know(&(board.slug().to_owned(), run.id));
        life(run, board.host(), own)
    }

    /// Returns the repository of a board's tasks that name none, where this
    /// host has it.
    pub(super) async fn default_workdir(&self, board: &Board) -> Result<Option<PathBuf>> {
        let info = board.info().await?;
        let here = info.default_workdir_host.as_ref().is_none_or(|host| *host == board.host().name);
        Ok(info.default_workdir.filter(|_| here))
    }

    pub(super) fn tell_trouble(&self, board: Option<&str>, error: &crate::Error) {
        let said =
            super::Said::Trouble { board: board.map(str::to_owned), what: error.to_string() };
        self.tell_once(said);
    }
}

/// Returns which of some runs have something left of their workers on this host.
pub(super) fn left_over<'r>(board: &Board, runs: impl Iterator<Item = &'r Run>) -> Vec<Run> {
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
