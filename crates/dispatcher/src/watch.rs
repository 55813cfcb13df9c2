//! Dispatching until shutdown.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use vestal_board::{Board, Error, Result, Time};
use vestal_database::Error as DatabaseError;

use crate::boards::{BoardsWatch, OpenBoards};
use crate::dispatcher::{DispatchEvent, Dispatcher, lock};
use crate::gc::{CollectedLeftovers, GcPolicy, gc, sweep_finished};
use crate::launcher::Launcher;
use crate::locks::IfHeld;
use crate::pass::Pass;

/// How long to wait for the lock of this host.
const LOCK: Duration = Duration::from_secs(2);
/// The shortest time between two rounds, so that many changes at once cause one round.
const PAUSE: Duration = Duration::from_millis(5);
/// How long to wait when a due time passed and nothing changed.
const OVERDUE: Duration = Duration::from_secs(1);
/// How long to wait after an error.
const RETRY: Duration = Duration::from_secs(1);
/// How long and how often to look for a board whose directory has appeared; its database follows a
/// moment later.
const SETTLING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(50));
/// How long to skip a board that others kept locked.
const REST: Duration = Duration::from_secs(10);
/// How long shutdown waits for workers that are being started.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(30);
/// How often a board is cleaned up.
const TIDY: Duration = Duration::from_hours(24);
/// How often to check whether that is due.
const TIDY_LOOK: Duration = Duration::from_mins(10);
/// The note with the time of the last clean-up.
const TIDIED: &str = "gc";

/// Signals that a board changed, and which boards have disappeared.
#[derive(Debug, Clone, Default)]
struct BoardChanges {
    lost: Arc<Mutex<BTreeSet<String>>>,
    arrived: Arc<Notify>,
}

/// A board and the task that listens to it.
struct Listening {
    board: Board,
    listener: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

struct WatchState<'a> {
    dispatcher: &'a Dispatcher,
    open: &'a OpenBoards,
    news: BoardChanges,
    listening: BTreeMap<String, Listening>,
    launches: JoinSet<()>,
    others: JoinSet<()>,
    /// When to look for new boards.
    look_at: Instant,
    settling_until: Instant,
    /// When each board needs another pass.
    next: BTreeMap<String, Instant>,
    /// Until when boards that failed are skipped.
    rests: BTreeMap<String, Instant>,
    /// When to check whether each board is due for a clean-up.
    tidy: BTreeMap<String, Instant>,
}

impl Dispatcher {
    /// Dispatches until `shutdown` resolves. Changes of the boards, exits of workers, due times and
    /// the interval wake it. Any number of dispatchers may run on a host: they share the passes, and
    /// when one dies the others continue.
    ///
    /// Workers continue after this returns.
    pub async fn watch(
        &self,
        boards: &OpenBoards,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let mut signs = boards.signs()?;
        let now = Instant::now();
        let mut watch = WatchState {
            dispatcher: self,
            open: boards,
            news: BoardChanges::default(),
            listening: BTreeMap::new(),
            launches: JoinSet::new(),
            others: JoinSet::new(),
            look_at: now,
            settling_until: now,
            next: BTreeMap::new(),
            rests: BTreeMap::new(),
            tidy: BTreeMap::new(),
        };
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            // Not interrupted: what was claimed must be started.
            watch.round().await;
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = watch.wait(&mut signs) => {}
            }
        }
        watch.end().await;
        Ok(())
    }
}

impl WatchState<'_> {
    /// Makes a pass over all boards that are due.
    async fn round(&mut self) {
        for slug in std::mem::take(&mut *lock(&self.news.lost)) {
            self.open.forget(&slug);
            self.listening.remove(&slug);
            self.look_at = Instant::now();
        }
        if Instant::now() >= self.look_at {
            self.look_for_boards().await;
        }
        let all: Vec<Board> = self.listening.values().map(|one| one.board.clone()).collect();
        let now = Instant::now();
        let rests = |slug: &str| self.rests.get(slug).is_some_and(|until| now < *until);
        let is_due = |board: &&Board| self.open.is_dispatched(board) && !rests(board.slug());
        let boards: Vec<Board> = all.iter().filter(is_due).cloned().collect();
        match self.dispatcher.pass(&boards, &all, IfHeld::Wait(LOCK)).await {
            Ok(passes) => {
                for (board, pass) in boards.iter().zip(passes) {
                    self.dispatch(board, pass);
                }
            }
            Err(error) => {
                self.dispatcher.emit_error(None, &error);
                for board in &boards {
                    self.next.insert(board.slug().to_owned(), now + RETRY);
                }
            }
        }
    }

    /// Carries out the decisions about a board.
    fn dispatch(&mut self, board: &Board, pass: Result<Pass>) {
        let slug = board.slug().to_owned();
        let interval = self.dispatcher.options().interval;
        let wait = match pass {
            Ok(pass) if pass.result.skipped_locked => RETRY.min(interval),
            Ok(pass) => self.carry_out(pass).min(interval),
            Err(error) => {
                self.dispatcher.emit_error(Some(&slug), &error);
                // Waiting for this board would delay the others again.
                let contended = matches!(error, Error::Database(DatabaseError::Contended { .. }));
                let rest = if contended { REST } else { RETRY };
                self.rests.insert(slug.clone(), Instant::now() + rest);
                rest
            }
        };
        self.next.insert(slug, Instant::now() + wait);
        self.tidy(board);
    }

    /// Starts what was decided, and returns when the next pass is due.
    fn carry_out(&mut self, pass: Pass) -> Duration {
        let Pass { launches, stops, sweeps, events, next, .. } = pass;
        for event in events {
            self.dispatcher.emit(event);
        }
        for pending in launches {
            let dispatcher = self.dispatcher.clone();
            self.launches.spawn(async move {
                dispatcher.launch(pending).await;
            });
        }
        for pending in stops {
            let dispatcher = self.dispatcher.clone();
            self.others.spawn(async move { dispatcher.stop(pending).await });
        }
        for pending in sweeps {
            let dispatcher = self.dispatcher.clone();
            self.others.spawn(async move { dispatcher.clean_up(pending).await });
        }
        match next {
            Some(next) if next.is_zero() => OVERDUE,
            Some(next) => next,
            None => self.dispatcher.options().interval,
        }
    }

    async fn look_for_boards(&mut self) {
        let now = Instant::now();
        let again =
            if now < self.settling_until { SETTLING.1 } else { self.dispatcher.options().interval };
        self.look_at = now + again;
        let found = match self.open.refresh().await {
            Ok(found) => found,
            Err(error) => {
                self.dispatcher.emit_error(None, &error);
                self.look_at = now + RETRY;
                return;
            }
        };
        for (slug, error) in &found.troubles {
            self.dispatcher.emit_error(Some(slug), error);
        }
        self.listening.retain(|slug, _| found.all.iter().any(|board| board.slug() == slug));
        self.next.retain(|slug, _| found.all.iter().any(|board| board.slug() == slug));
        self.rests.retain(|slug, _| found.all.iter().any(|board| board.slug() == slug));
        for board in found.all {
            if !self.listening.contains_key(board.slug()) {
                self.listen(board);
            }
        }
    }

    /// Starts to listen to a board.
    fn listen(&mut self, board: Board) {
        let mut changes = match board.changes() {
            Ok(changes) => changes,
            Err(error) => {
                self.dispatcher.emit_error(Some(board.slug()), &error);
                self.look_at = Instant::now() + RETRY;
                return;
            }
        };
        let (news, slug) = (self.news.clone(), board.slug().to_owned());
        let listener = tokio::spawn(async move {
            while changes.next().await.is_ok() {
                news.arrived.notify_one();
            }
            // The board is gone or was replaced.
            lock(&news.lost).insert(slug);
            news.arrived.notify_one();
        });
        self.listening.insert(board.slug().to_owned(), Listening { board, listener });
    }

    async fn wait(&mut self, signs: &mut BoardsWatch) {
        let earliest = Instant::now() + PAUSE;
        let until = self.next.values().copied().chain([self.look_at]).min();
        let until = until.unwrap_or(self.look_at);
        let arrived = self.news.arrived.clone();
        tokio::select! {
            () = sleep_until(until) => {}
            () = arrived.notified() => {}
            () = self.dispatcher.shared.children.ended() => {}
            sign = signs.next() => {
                if let Err(error) = sign {
                    self.dispatcher.emit_error(None, &error);
                    sleep_until(Instant::now() + RETRY).await;
                }
                let now = Instant::now();
                (self.look_at, self.settling_until) = (now, now + SETTLING.0);
            }
            Some(done) = self.launches.join_next() => log_failed(done),
            Some(done) = self.others.join_next() => log_failed(done),
        }
        sleep_until(earliest).await;
    }

    /// Cleans up a board, at most once a day.
    fn tidy(&mut self, board: &Board) {
        let Some(policy) = self.dispatcher.options().retention.clone() else { return };
        let now = Instant::now();
        if self.tidy.get(board.slug()).is_some_and(|next| now < *next) {
            return;
        }
        self.tidy.insert(board.slug().to_owned(), now + TIDY_LOOK);
        let (dispatcher, board) = (self.dispatcher.clone(), board.clone());
        // One clean-up of a board at a time. Run 0 does not exist, so its lock is free for this.
        let key = vestal_board::RunId::new(0);
        let Some(lock) = dispatcher.try_lock_run(&board, key) else { return };
        self.others.spawn(async move {
            let launcher = Arc::clone(&dispatcher.options().launcher);
            match tidy(&board, &policy, &*launcher).await {
                Ok(what) => {
                    for kept in &what.kept {
                        let (path, reason) = (kept.path.clone(), kept.reason.clone());
                        dispatcher.emit_once(DispatchEvent::KeptTree { path, reason });
                    }
                    if !what.is_nothing() {
                        let board = board.slug().to_owned();
                        dispatcher.emit(DispatchEvent::Collected { board, what });
                    }
                }
                Err(error) => dispatcher.emit_error(Some(board.slug()), &error),
            }
            drop(lock);
        });
    }

    /// Shuts down. Workers that are being started are waited for, so that the record stays true.
    /// Stops are recorded already; the next dispatcher finishes them.
    async fn end(mut self) {
        let started = async { while self.launches.join_next().await.is_some() {} };
        if timeout(SHUTDOWN_WITHIN, started).await.is_err() {
            tracing::warn!("shutdown did not wait for all workers to start");
        }
        self.others.abort_all();
    }
}

fn log_failed(done: std::result::Result<(), tokio::task::JoinError>) {
    if let Err(error) = done {
        tracing::error!(%error, "a task of the dispatcher panicked");
    }
}

/// Cleans up a board: what grows slowly once a day, leftovers in sandboxes every time.
async fn tidy(
    board: &Board,
    policy: &GcPolicy,
    launcher: &dyn Launcher,
) -> Result<CollectedLeftovers> {
    let mut collected = if is_turn(board).await? {
        gc(board, policy, None).await?
    } else {
        CollectedLeftovers::default()
    };
    collected.places = sweep_finished(board, launcher).await?;
    Ok(collected)
}

/// Reports whether the daily clean-up is due, and records that it is done.
async fn is_turn(board: &Board) -> Result<bool> {
    let due = |note: Option<serde_json::Value>, now: Time| {
        let at = note.and_then(|note| note.get("at")?.as_i64()).map(Time::from_millis);
        at.is_none_or(|at| at.after(TIDY) <= now || at > now.after(TIDY))
    };
    let mut read = board.read().await?;
    let now = read.now();
    if !due(read.note(TIDIED).await?, now) {
        return Ok(false);
    }
    drop(read);
    let mut write = board.write().await?;
    let now = write.now();
    if !due(write.note(TIDIED).await?, now) {
        return Ok(false);
    }
    // Recorded before it is done, so that only one of several dispatchers does it.
    write.set_note(TIDIED, Some(&json!({ "at": now.millis() }))).await?;
    write.commit().await?;
    Ok(true)
}
