//! What happens around a turn: the lease is renewed, time runs out, signals come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use vestal_board::verbs::Heartbeat;
use vestal_board::{Board, Error, Fence};
use vestal_sandbox::{Termination, Terminations};

use crate::log::Log;

/// How often getting things done is told, at most.
const ACTIVITY: Duration = Duration::from_mins(1);

/// Why a worker has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A signal asks for it.
    Signal(Termination),
    /// Its task is somebody else's.
    Lost,
    /// It took too long.
    TimedOut,
}

/// Whether anything was done since somebody last looked. Cloning gives the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity(Arc<AtomicBool>);

impl Activity {
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// What a worker is watched with.
pub(crate) struct Watch<'a> {
    pub(crate) board: &'a Board,
    pub(crate) fence: &'a Fence,
    pub(crate) lease: Duration,
    /// When its time is up.
    pub(crate) deadline: Option<Instant>,
    pub(crate) activity: Activity,
    pub(crate) log: &'a Log,
}

impl Watch<'_> {
    /// Watches until the worker has to stop.
    pub(crate) async fn until_stop(&self, signals: &mut Terminations) -> Stop {
        tokio::select! {
            biased;
            signal = signals.next() => Stop::Signal(signal),
            () = self.lost() => Stop::Lost,
            () = until(self.deadline) => Stop::TimedOut,
        }
    }

    /// Renews the lease until it is lost.
    async fn lost(&self) {
        let third = (self.lease / 3).max(Duration::from_millis(100));
        let mut ticks = tokio::time::interval(third.min(ACTIVITY));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed: Option<Instant> = None;
        let mut told: Option<Instant> = None;
        let mut trouble = false;
        loop {
            ticks.tick().await;
            let due = |since: Option<Instant>, after: Duration| {
                since.is_none_or(|since| since.elapsed() >= after)
            };
            let active = due(told, ACTIVITY) && self.activity.take();
            if !active && !due(renewed, third) {
                continue;
            }
            let beat = Heartbeat { lease: self.lease, activity: active, note: None };
            match self.board.heartbeat(self.fence, beat).await {
                Ok(_) => {
                    renewed = Some(Instant::now());
                    if active {
                        told = renewed;
                    }
                    trouble = false;
                }
                Err(Error::Fenced { .. } | Error::NotFound { .. }) => return,
                Err(error) => {
                    // The task is the worker's until another takes it, so the
                    // work goes on, and so do the attempts.
                    if !std::mem::replace(&mut trouble, true) {
                        self.log.write(&format!("warning: the lease was not renewed: {error}"));
                    }
                    if active {
                        self.activity.note();
                    }
                }
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
