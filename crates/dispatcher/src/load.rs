//! What the plan must know beyond its board: the load of other boards, and the memory of this host.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vestal_board::dispatch::{Liveness, OutsideLoad, WatchedRun, takes_slot};
use vestal_board::verbs::steps::exclusive_directory;
use vestal_board::{Board, Result, Run, keys};
use vestal_config::{ConfigError, Settings};

use crate::dispatcher::Dispatcher;
use crate::liveness::{liveness, session_of};

/// The load of one board, as the others count it.
#[derive(Debug)]
pub(crate) struct BoardLoad {
    slug: String,
    load: OutsideLoad,
    /// Directories of this host in which its tasks are worked on.
    busy: BTreeSet<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct BoardLoads(Vec<BoardLoad>);

impl BoardLoads {
    /// Returns the load of all boards but one.
    pub(crate) fn outside(&self, board: &Board) -> (OutsideLoad, BTreeSet<PathBuf>) {
        let others = || self.0.iter().filter(|entry| entry.slug != board.slug());
        let busy = others().flat_map(|entry| entry.busy.iter().cloned()).collect();
        (sum(others()), busy)
    }

    /// Returns the load of all boards.
    pub(crate) fn total(&self) -> OutsideLoad {
        sum(self.0.iter())
    }
}

fn sum<'s>(loads: impl Iterator<Item = &'s BoardLoad>) -> OutsideLoad {
    loads.fold(OutsideLoad::default(), |sum, entry| OutsideLoad {
        running: sum.running + entry.load.running,
        running_here: sum.running_here + entry.load.running_here,
    })
}

impl Dispatcher {
    /// Reads the load of each board.
    pub(crate) async fn loads(&self, all: &[Board]) -> BoardLoads {
        let mut loads = Vec::new();
        for board in all {
            match self.board_load(board).await {
                Ok(entry) => loads.push(entry),
                // An unreadable board does not stop the others.
                Err(error) => self.emit_error(Some(board.slug()), &error),
            }
        }
        BoardLoads(loads)
    }

    /// Reads the load of a board. A run whose worker is gone takes no slot, even if its end is not
    /// recorded yet.
    async fn board_load(&self, board: &Board) -> Result<BoardLoad> {
        let (host, policy) = (&self.policy().host, self.policy());
        let mut entry = BoardLoad {
            slug: board.slug().to_owned(),
            load: OutsideLoad::default(),
            busy: BTreeSet::new(),
        };
        let mut read = board.read().await?;
        let now = read.now();
        let mut over = Vec::new();
        for run in read.live_runs().await? {
            let life = self.life(board, &run);
            let here = run.host.as_ref() == Some(host);
            let watched = WatchedRun { run, task: None, failures: Vec::new(), life };
            let takes_slot = takes_slot(&watched, now, policy);
            entry.load.running += u64::from(takes_slot);
            entry.load.running_here += u64::from(takes_slot && here);
            let task = read.task(&watched.run.task_id).await?.filter(|_| here);
            let Some(directory) = task.as_ref().and_then(exclusive_directory) else { continue };
            if takes_slot {
                entry.busy.insert(directory.to_owned());
            } else {
                over.push((watched.run, directory.to_owned()));
            }
        }
        drop(read);
        // Processes that a worker started may outlive it and still write to its directory.
        let left = left_over(board, over.iter().map(|(run, _)| run));
        let left = |run: &Run| left.iter().any(|left| left.id == run.id);
        entry.busy.extend(over.into_iter().filter(|(run, _)| left(run)).map(|(_, path)| path));
        Ok(entry)
    }

    /// Returns whether a run's worker is alive.
    pub(crate) fn life(&self, board: &Board, run: &Run) -> Liveness {
        let own = self.shared.children.state(&(board.slug().to_owned(), run.id));
        liveness(run, board.host(), own)
    }

    pub(crate) fn emit_error(&self, board: Option<&str>, error: &vestal_board::Error) {
        let event = crate::DispatchEvent::Problem {
            board: board.map(str::to_owned),
            what: error.to_string(),
        };
        self.emit_once(event);
    }
}

/// Returns the runs that have living processes on this host.
pub(crate) fn left_over<'r>(board: &Board, runs: impl Iterator<Item = &'r Run>) -> Vec<Run> {
    let known: Vec<_> =
        runs.filter_map(|run| Some((run, session_of(run, board.host())?))).collect();
    let sessions: Vec<_> = known.iter().map(|(_, session)| session.clone()).collect();
    match vestal_process::ProcessSession::living(&sessions) {
        Ok(living) => known
            .into_iter()
            .zip(living)
            .filter(|(_, lives)| *lives)
            .map(|((run, _), _)| run.clone())
            .collect(),
        Err(error) => {
            // Without proof, all count as living.
            tracing::warn!(%error, "cannot look at the processes of this host");
            known.into_iter().map(|(run, _)| run.clone()).collect()
        }
    }
}

/// Memory per worker: itself and a little of what it runs.
const PER_WORKER: u64 = 128 * 1024 * 1024;

/// Returns how many more workers fit into the memory of this host, if known.
pub type MemoryRoom = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// Returns the memory limit on workers, if it applies: `kanban.max_in_progress_per_host` is `auto`.
pub fn memory_room(settings: &Settings) -> std::result::Result<Option<MemoryRoom>, ConfigError> {
    let set = settings.get(&keys::KANBAN_MAX_IN_PROGRESS_PER_HOST)?.value;
    Ok(set.is_auto().then(|| Arc::new(room) as MemoryRoom))
}

/// Returns how many more workers fit; `None` if the available memory is unknown.
fn room() -> Option<u64> {
    let host = available(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let within = groups.lines().filter_map(|line| left_in(line, Path::new("/sys/fs/cgroup"))).min();
    Some(within.map_or(host, |within| within.min(host)) / PER_WORKER)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the memory left in the control group of a line of `/proc/self/cgroup`: the minimum over
/// the group and its ancestors.
fn left_in(line: &str, mounted: &Path) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
    let (base, limit, usage) = match controllers {
        "" => (mounted.to_owned(), "memory.max", "memory.current"),
        "memory" => (mounted.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
        _ => return None,
    };
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let left = |dir: &Path| {
        let (limit, usage) = (number(dir.join(limit))?, number(dir.join(usage))?);
        let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        // Inactive page cache is dropped when memory is needed.
        let idle = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
        let idle = idle.and_then(|idle| idle.trim().parse().ok()).unwrap_or(0);
        Some(limit.saturating_sub(usage.saturating_sub(idle)))
    };
    let dir = base.join(group);
    dir.ancestors().take_while(|dir| dir.starts_with(&base)).filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home};

    use super::*;

    #[test]
    fn what_is_available_is_what_the_system_says() {
        let meminfo = "MemTotal: 4000 kB\nMemFree:  10 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available(meminfo), Some(2048 * 1024));
        assert_eq!(available("MemTotal: 4000 kB\n"), None);
    }

    #[test]
    fn a_control_group_counts_with_all_it_is_in() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let group = |dir: &Path, limit: &str, usage: &str| {
            fs::write(dir.join("memory.max"), limit).unwrap();
            fs::write(dir.join("memory.current"), usage).unwrap();
        };
        group(&root.path().join("a"), "1000\n", "400\n");
        group(&inner, "max\n", "100\n");
        assert_eq!(left_in("0::/a/b", root.path()), Some(600));
        fs::write(root.path().join("a/memory.stat"), "anon 5\ninactive_file 300\n").unwrap();
        assert_eq!(left_in("0::/a/b", root.path()), Some(900));
        group(&inner, "150\n", "100\n");
        assert_eq!(left_in("0::/a/b", root.path()), Some(50));
        assert_eq!(left_in("3:cpu,cpuacct:/a/b", root.path()), None);
    }

    #[test]
    fn memory_bounds_a_host_unless_a_number_is_set() {
        let bounded = |config: &str| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("config.yaml"), config).unwrap();
            let settings = Settings::load(
                &vestal_board::schema(),
                Home::at(dir.path()),
                Environment::default(),
                Vec::new(),
            );
            memory_room(&settings).unwrap().is_some()
        };
        assert!(bounded("") && bounded("kanban: {max_in_progress_per_host: auto}"));
        assert!(!bounded("kanban: {max_in_progress_per_host: 9}"));
        assert!(!bounded("kanban: {max_in_progress_per_host: none}"));
    }
}
