//! Resource limits of a worker process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

/// Resource limits of a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Open files.
    pub open_files: u64,
    /// Niceness.
    pub nice: i32,
    /// Adjustment of its score for the out-of-memory killer.
    pub oom_score: i32,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { open_files: 4096, nice: 5, oom_score: 300 }
    }
}

impl ProcessLimits {
    /// Sets the limits of this process and its future children. If the system refuses one, the others
    /// are still set, and the first error is returned.
    pub fn apply(&self) -> io::Result<()> {
        let results = [
            // A core would hold the keys.
            lower(Resource::Core, 0),
            lower(Resource::Nofile, self.open_files),
            nice(self.nice).map(drop).map_err(io::Error::from),
            self.raise_oom_score(),
        ];
        results.into_iter().collect()
    }

    fn raise_oom_score(&self) -> io::Result<()> {
        const FILE: &str = "/proc/self/oom_score_adj";
        let now: i32 = std::fs::read_to_string(FILE)?.trim().parse().map_err(io::Error::other)?;
        if now >= self.oom_score {
            return Ok(());
        }
        std::fs::write(FILE, self.oom_score.to_string())
    }
}

/// Lowers a limit; one that is lower stays.
fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let wanted = Rlimit { current: least(now.current), maximum: least(now.maximum) };
    Ok(setrlimit(resource, wanted)?)
}
