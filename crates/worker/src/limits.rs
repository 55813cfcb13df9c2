//! What a worker may take of its host.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

/// What a worker may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files it may have open.
    pub open_files: u64,
    /// How much it stands back behind others for the processors.
    pub nice: i32,
    /// How much rather it, than others, is killed where memory runs out.
    pub oom_score: i32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open_files: 4096, nice: 5, oom_score: 300 }
    }
}

impl Limits {
    /// Sets the limits of this process and of what it starts from now on. Where
    /// the system does not allow one, the others are set all the same, and the
    /// first refusal is returned.
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
