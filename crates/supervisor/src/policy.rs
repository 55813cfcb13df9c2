//! When a child that ended is started again. Pure: the time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The child asks to be started again at once (`EX_TEMPFAIL`).
pub const EXIT_RESTART: i32 = 75;
/// The child cannot work until somebody changes something (`EX_CONFIG`).
pub const EXIT_PERMANENT: i32 = 78;

/// Delay before the first restart. It doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// More than [`STARTS`] starts within this time are a storm. A child that runs this long is
/// well again.
const WINDOW: Duration = Duration::from_mins(2);
const STARTS: usize = 5;
/// Delay in the first storm, and the most that restarts outside of one wait.
const FIRST_STORM: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(5);

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEnd {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was not ready in time and was ended.
    NotReady,
    /// It could not be started.
    NotStarted,
}

/// What was asked for while the child ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedOrder {
    /// Nothing: it ended by itself.
    Nothing,
    /// To stop.
    Stop,
    /// To start again.
    Restart,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// It stays down, as was asked for.
    Stopped,
    /// It stays down until somebody asks for it: it cannot work as things are.
    Held,
    /// It is started again after this time.
    Start {
        /// The delay.
        after: Duration,
    },
}

/// Decides about restarts of one slot. Times are measured from any fixed moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Starts within the window.
    starts: VecDeque<Duration>,
    failures: u32,
    storms: u32,
}

impl RestartPolicy {
    /// Notes a start.
    pub fn started(&mut self, now: Duration) {
        self.starts.push_back(now);
        // The decision needs to know only whether there were more than so many.
        while self.starts.len() > STARTS + 1 {
            self.starts.pop_front();
        }
    }

    /// Forgets the past, because somebody asked for a start.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Decides what happens after an end.
    pub fn ended(&mut self, now: Duration, ended: ChildEnd, planned: PlannedOrder) -> NextStep {
        match (planned, ended) {
            (PlannedOrder::Stop, _) => {
                self.forget();
                return NextStep::Stopped;
            }
            (PlannedOrder::Restart, _) => {
                self.forget();
                return NextStep::Start { after: Duration::ZERO };
            }
            (PlannedOrder::Nothing, ChildEnd::Code(EXIT_PERMANENT)) => {
                self.forget();
                return NextStep::Held;
            }
            (PlannedOrder::Nothing, _) => {}
        }
        let ran = self.starts.back().map_or(Duration::ZERO, |start| now.saturating_sub(*start));
        if ran >= WINDOW {
            self.forget();
        }
        while self.starts.front().is_some_and(|start| now.saturating_sub(*start) >= WINDOW) {
            self.starts.pop_front();
        }
        // Once in a storm, its own delays thin the starts out; only a child that runs ends it.
        let after = if self.storms > 0 || self.starts.len() > STARTS {
            let delay = doubled(FIRST_STORM, self.storms, LONGEST);
            self.storms = self.storms.saturating_add(1);
            delay
        } else if ended == ChildEnd::Code(EXIT_RESTART) {
            Duration::ZERO
        } else {
            let delay = doubled(FIRST_DELAY, self.failures, FIRST_STORM);
            self.failures = self.failures.saturating_add(1);
            delay
        };
        NextStep::Start { after }
    }
}

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(most)
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
