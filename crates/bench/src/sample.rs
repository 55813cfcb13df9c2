//! Durations of the same thing done many times.

use std::time::{Duration, Instant};

use crate::Result;

/// Durations of the same thing done many times.
#[derive(Debug, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    /// Adds those of another.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the median.
    pub fn p50(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the duration that 95 of 100 do not exceed.
    pub fn p95(&self) -> Duration {
        self.percentile(95)
    }

    /// Returns the percentile by the nearest rank.
    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or_default()
    }
}

/// How often two things are done in turn.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Rounds that are not counted.
    pub warm_up: usize,
    /// Rounds that are.
    pub counted: usize,
    /// A rest after the alternative. An engine that has told of a command's end
    /// still clears up after it, which is none of our time.
    pub rest: Duration,
}

impl Rounds {
    /// Returns rounds without a rest.
    pub const fn new(warm_up: usize, counted: usize) -> Self {
        Self { warm_up, counted, rest: Duration::ZERO }
    }

    /// Sets the rest.
    #[must_use]
    pub const fn resting(self, rest: Duration) -> Self {
        Self { rest, ..self }
    }
}

/// Does two things in turn, so that whatever else the machine does hits both,
/// and returns how long each took.
pub async fn in_turn(
    rounds: Rounds,
    mut ours: impl AsyncFnMut() -> Result<()>,
    mut other: impl FnMut() -> Result<()>,
) -> Result<(Samples, Samples)> {
    let (mut our_samples, mut other_samples) = (Samples::default(), Samples::default());
    for round in 0..rounds.warm_up + rounds.counted {
        let start = Instant::now();
        ours().await?;
        let our_time = start.elapsed();
        let start = Instant::now();
        other()?;
        let other_time = start.elapsed();
        if round >= rounds.warm_up {
            our_samples.push(our_time);
            other_samples.push(other_time);
        }
        if !rounds.rest.is_zero() {
            tokio::time::sleep(rounds.rest).await;
        }
    }
    Ok((our_samples, other_samples))
}

/// Does one thing many times. The first rounds are not counted.
pub async fn repeat(
    warm_up: usize,
    rounds: usize,
    mut ours: impl AsyncFnMut(usize) -> Result<()>,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for round in 0..warm_up + rounds {
        let start = Instant::now();
        ours(round).await?;
        let time = start.elapsed();
        if round >= warm_up {
            samples.push(time);
        }
    }
    Ok(samples)
}
