//! Which work may begin, how much of it there is at once, and how a drain ends all of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use vestal_agent::OpenError;
use vestal_runtime::RuntimeError;

use super::Turns;

/// How long work that was interrupted may take to end.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(15);

/// Why a turn was not begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnRefused {
    /// As many run as may.
    #[error("{limit} runs are in progress, which is the limit")]
    Busy {
        /// How many may.
        limit: usize,
    },
    /// The gateway is about to stop.
    #[error("the gateway is stopping and takes no new work")]
    Draining,
    /// Something was said in the conversation since the message that the turn was to follow.
    #[error("the conversation has continued since")]
    MovedOn,
    /// The task that was to run it met a bug.
    #[error(
        "the turn was not started because of an internal error; the server's log has the details"
    )]
    Lost,
    /// The conversation cannot be opened.
    #[error(transparent)]
    Open(#[from] RuntimeError),
    /// The conversation cannot be stored.
    #[error(transparent)]
    Store(#[from] vestal_conversations::Error),
}

impl TurnRefused {
    /// Reports whether somebody else has the conversation open.
    pub(crate) fn is_in_use(&self) -> bool {
        use vestal_conversations::Error::Busy;
        matches!(
            self,
            Self::Store(Busy { .. })
                | Self::Open(
                    RuntimeError::Store(Busy { .. })
                        | RuntimeError::Open(OpenError::Store(Busy { .. }))
                )
        )
    }
}

/// What is in progress, by what it takes its place from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Turns of clients, of WebSocket sessions and of background jobs that had news. Together they
    /// are never more than the limit.
    pub(crate) clients: usize,
    /// Turns that earlier processes left; never more than the limit either.
    pub(crate) leftovers: usize,
    /// Turns of schedules, which have a limit of their own.
    pub(crate) schedules: usize,
    /// Requests without an agent that a drain waits for.
    pub(crate) requests: usize,
}

impl Activity {
    /// Returns how many turns are in progress.
    pub(crate) const fn agents(&self) -> usize {
        self.clients + self.leftovers + self.schedules
    }

    fn of(&mut self, work: AdmittedWork) -> &mut usize {
        match work {
            AdmittedWork::Client => &mut self.clients,
            AdmittedWork::Leftover => &mut self.leftovers,
            AdmittedWork::Schedule => &mut self.schedules,
            AdmittedWork::Request => &mut self.requests,
        }
    }
}

/// What kind of work something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmittedWork {
    Client,
    Leftover,
    Schedule,
    Request,
}

/// How a drain ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Turns that had to be interrupted.
    pub(crate) interrupted: usize,
    /// Requests without an agent that had to be interrupted.
    pub(crate) requests: usize,
    /// Of both, what did not end even so.
    pub(crate) stuck: usize,
}

/// Lets work begin and ends it.
#[derive(Debug)]
pub(super) struct WorkAdmission {
    limit: usize,
    slots: Arc<Semaphore>,
    /// Apart from those of clients, who are served while much is left from before.
    leftover_slots: Arc<Semaphore>,
    activity: watch::Sender<Activity>,
    /// Cancelled when no new work is taken.
    draining: CancellationToken,
    /// Cancelled when what still runs must end.
    interrupt: CancellationToken,
    tasks: TaskTracker,
}

impl WorkAdmission {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            slots: Arc::new(Semaphore::new(limit)),
            leftover_slots: Arc::new(Semaphore::new(limit)),
            activity: watch::Sender::default(),
            draining: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns what is in progress, now and whenever it changes.
    pub(super) fn activity(&self) -> watch::Receiver<Activity> {
        self.activity.subscribe()
    }

    /// Counts work from now on.
    fn begin(&self, work: AdmittedWork, slot: Option<OwnedSemaphorePermit>) -> InProgress {
        self.activity.send_modify(|activity| *activity.of(work) += 1);
        InProgress { activity: self.activity.clone(), work, _slot: slot }
    }

    /// Returns what makes a drain wait; refused once one has begun.
    pub(super) fn enter(&self) -> Result<TaskTrackerToken, TurnRefused> {
        // Before the check: a drain that begins in between waits for this caller.
        let token = self.tasks.token();
        if self.draining.is_cancelled() { Err(TurnRefused::Draining) } else { Ok(token) }
    }

    /// Takes a slot of clients, if one is free.
    pub(super) fn try_slot(&self) -> Result<InProgress, TurnRefused> {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let slot = slot.map_err(|_| TurnRefused::Busy { limit: self.limit })?;
        Ok(self.begin(AdmittedWork::Client, Some(slot)))
    }

    /// Waits for a slot for work that nobody waits for.
    pub(super) async fn slot(&self, work: AdmittedWork) -> Option<InProgress> {
        let slots = if work == AdmittedWork::Leftover { &self.leftover_slots } else { &self.slots };
        // They are never closed.
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        Some(self.begin(work, Some(slot)))
    }

    /// Returns what is cancelled when no new work is taken.
    pub(super) const fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Returns what is cancelled when work must end.
    pub(super) const fn interrupt(&self) -> &CancellationToken {
        &self.interrupt
    }

    /// Runs something that a drain waits for.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }
}

/// Counts work while it is in progress, and holds its slot.
#[derive(Debug)]
pub(super) struct InProgress {
    activity: watch::Sender<Activity>,
    work: AdmittedWork,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.activity.send_modify(|activity| *activity.of(self.work) -= 1);
    }
}

/// A turn of a session that somebody else runs.
#[derive(Debug)]
pub(crate) struct AdmittedTurn {
    /// Cancelled when it must end.
    pub(crate) interrupt: CancellationToken,
    _in_progress: InProgress,
    _token: TaskTrackerToken,
}

/// Work of another part of the gateway that has no slot of clients: counted, waited for and
/// interrupted by a drain.
#[derive(Debug)]
pub(crate) struct EnlistedTurn {
    interrupt: CancellationToken,
    _in_progress: InProgress,
    _token: TaskTrackerToken,
}

impl EnlistedTurn {
    /// Returns when the work must end.
    pub(crate) async fn interrupted(&self) {
        self.interrupt.cancelled().await;
    }
}

impl Turns {
    /// Returns how many turns of clients may run at once.
    pub(crate) fn limit(&self) -> usize {
        self.admission().limit
    }

    /// Returns what is in progress, and learns of changes.
    pub(crate) fn activity(&self) -> watch::Receiver<Activity> {
        self.admission().activity()
    }

    /// Lets a turn begin that somebody else runs. It counts as all others do, and a drain waits
    /// for it, until the value is dropped.
    pub(crate) fn admit(&self) -> Result<AdmittedTurn, TurnRefused> {
        let token = self.admission().enter()?;
        let in_progress = self.admission().try_slot()?;
        let interrupt = self.admission().interrupt.child_token();
        Ok(AdmittedTurn { interrupt, _in_progress: in_progress, _token: token })
    }

    /// Enlists a turn of a schedule; refused while the gateway stops.
    pub(crate) fn enlist(&self) -> Result<EnlistedTurn, TurnRefused> {
        self.enlist_as(AdmittedWork::Schedule)
    }

    /// Enlists a request that runs no turn; refused while the gateway stops.
    pub(crate) fn enlist_request(&self) -> Result<EnlistedTurn, TurnRefused> {
        self.enlist_as(AdmittedWork::Request)
    }

    fn enlist_as(&self, work: AdmittedWork) -> Result<EnlistedTurn, TurnRefused> {
        let token = self.admission().enter()?;
        let in_progress = self.admission().begin(work, None);
        let interrupt = self.admission().interrupt.clone();
        Ok(EnlistedTurn { interrupt, _in_progress: in_progress, _token: token })
    }

    /// Runs something in the background that a drain waits for. It must end when no new work is
    /// taken, or soon after.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.admission().spawn(work);
    }

    /// Does something when no new work is taken any more; a drain waits for its end.
    pub(crate) fn when_draining<F>(&self, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let draining = self.admission().draining.clone();
        self.spawn(async move {
            draining.cancelled().await;
            work().await;
        });
    }

    /// Returns when no new work is taken any more.
    pub(crate) async fn draining(&self) {
        self.admission().draining.cancelled().await;
    }

    /// Takes no new work from now on.
    pub(crate) fn stop_taking(&self) {
        self.admission().draining.cancel();
        self.admission().tasks.close();
    }

    /// Waits for what runs, interrupts what does not end in time or when `hurry` resolves, and
    /// waits for that.
    pub(crate) async fn drain(&self, grace: Duration, hurry: impl Future<Output = ()>) -> Drained {
        self.stop_taking();
        let WorkAdmission { activity, tasks, interrupt, .. } = self.admission();
        tokio::select! {
            () = tasks.wait() => return Drained::default(),
            () = tokio::time::sleep(grace) => {}
            () = hurry => {}
        }
        let left = *activity.borrow();
        interrupt.cancel();
        let ended = tokio::time::timeout(INTERRUPTED_WITHIN, tasks.wait()).await;
        let stuck = if ended.is_ok() { Activity::default() } else { *activity.borrow() };
        Drained {
            interrupted: left.agents(),
            requests: left.requests,
            stuck: stuck.agents() + stuck.requests,
        }
    }
}
