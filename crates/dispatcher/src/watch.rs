//! Dispatching for as long as somebody wants it.

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

use crate::catalogue::{OpenBoards, Signs};
use crate::dispatcher::{Dispatcher, lock};
use crate::gc::{Collected, GcPolicy, gc};
use crate::launch::Launcher;
use crate::lock::Held;
use crate::pass::Pass;
use crate::places::sweep_finished;
use crate::said::Said;

/// How long to wait for another dispatcher of this host that decides.
const LOCK: Duration = Duration::from_secs(2);
/// The shortest time between two rounds, so that a stampede of changes is one.
const PAUSE: Duration = Duration::from_millis(5);
/// How long to wait after a moment that has come and changed nothing.
const OVERDUE: Duration = Duration::from_secs(1);
/// How long to wait after something did not work.
const RETRY: Duration = Duration::from_secs(1);
/// How long, and how often, to look for a board whose directory has come: its
/// database comes a moment later.
const SETTLING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(50));
/// How long to leave a board alone that others have been writing to for too long.
const REST: Duration = Duration::from_secs(10);
/// How long workers that are about to be started when this ends are waited for.
const FAREWELL: Duration = Duration::from_secs(30);
/// How often a board is tidied.
const TIDY: Duration = Duration::from_hours(24);
/// How often to look whether it is time for that.
const TIDY_LOOK: Duration = Duration::from_mins(10);
/// Where it is kept when that was done last.
const TIDIED: &str = "gc";

/// That something happened on a board, and which boards are not there any more.
#[derive(Debug, Clone, Default)]
struct News {
    lost: Arc<Mutex<BTreeSet<String>>>,
    arrived: Arc<Notify>,
}

/// A board and what listens to it.
struct Listening {
    board: Board,
    ear: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ear.abort();
    }
}

/// What is under way.
struct Watch<'a> {
    dispatcher: &'a Dispatcher,
    open: &'a OpenBoards,
    news: News,
    listening: BTreeMap<String, Listening>,
    launches: JoinSet<()>,
    others: JoinSet<()>,
    /// When to look for boards, whether or not anything tells of them.
    look_at: Instant,
    settling_until: Instant,
    /// When to look at each board again.
    next: BTreeMap<String, Instant>,
    /// Until when boards are left alone that could not be read or written to.
    rests: BTreeMap<String, Instant>,
    /// When to look whether each board is to be tidied.
    tidy: BTreeMap<String, Instant>,
}

impl Dispatcher {
    /// Dispatches until `shutdown` comes: woken by changes of the boards, by the
    /// end of workers, by moments that come, and now and then by itself. Any
    /// number may do so on a host; each pass is made by one of them, and when one
    /// dies the others go on.
    ///
    /// Workers go on when this ends.
    pub async fn watch(
        &self,
        boards: &OpenBoards,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let mut signs = boards.signs()?;
        let now = Instant::now();
        let mut watch = Watch {
            dispatcher: self,
            open: boards,
            news: News::default(),
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
            // Never left in the middle: what was claimed is started.
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

impl Watch<'_> {
    /// Looks at every board.
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
        match self.dispatcher.pass(&boards, &all, Held::Wait(LOCK)).await {
            Ok(passes) => {
                for (board, pass) in boards.iter().zip(passes) {
                    self.dispatch(board, pass);
                }
            }
            Err(error) => {
                self.dispatcher.tell_trouble(None, &error);
                for board in &boards {
                    self.next.insert(board.slug().to_owned(), now + RETRY);
                }
            }
        }
    }

    /// Begins what was decided about a board.
    fn dispatch(&mut self, board: &Board, pass: Result<Pass>) {
        let slug = board.slug().to_owned();
        let interval = self.dispatcher.options().interval;
        let wait = match pass {
            Ok(pass) if pass.result.skipped_locked => RETRY.min(interval),
            Ok(pass) => self.carry_out(pass).min(interval),
            Err(error) => {
                self.dispatcher.tell_trouble(Some(&slug), &error);
                // Those who wait for this board would delay the others again.
                let contended = matches!(error, Error::Database(DatabaseError::Contended { .. }));
                let rest = if contended { REST } else { RETRY };
                self.rests.insert(slug.clone(), Instant::now() + rest);
                rest
            }
        };
        self.next.insert(slug, Instant::now() + wait);
        self.tidy(board);
    }

    /// Begins what was decided, and returns when to look again.
    fn carry_out(&mut self, pass: Pass) -> Duration {
        let Pass { launches, stops, sweeps, said, next, .. } = pass;
        for said in said {
            self.dispatcher.tell(said);
        }
        for launching in launches {
            let dispatcher = self.dispatcher.clone();
            self.launches.spawn(async move {
                dispatcher.launch(launching).await;
            });
        }
        for stopping in stops {
            let dispatcher = self.dispatcher.clone();
            self.others.spawn(async move { dispatcher.stop(stopping).await });
        }
        for sweeping in sweeps {
            let dispatcher = self.dispatcher.clone();
            self.others.spawn(async move { dispatcher.clean_up(sweeping).await });
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
                self.dispatcher.tell_trouble(None, &error);
                self.look_at = now + RETRY;
                return;
            }
        };
        for (slug, error) in &found.troubles {
            self.dispatcher.tell_trouble(Some(slug), error);
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

    /// Listens to a board, from this moment on.
    fn listen(&mut self, board: Board) {
        let mut changes = match board.changes() {
            Ok(changes) => changes,
            Err(error) => {
                self.dispatcher.tell_trouble(Some(board.slug()), &error);
                self.look_at = Instant::now() + RETRY;
                return;
            }
        };
        let (news, slug) = (self.news.clone(), board.slug().to_owned());
        let ear = tokio::spawn(async move {
            while changes.next().await.is_ok() {
                news.arrived.notify_one();
            }
            // The board is not there any more, or another is in its place.
            lock(&news.lost).insert(slug);
            news.arrived.notify_one();
        });
        self.listening.insert(board.slug().to_owned(), Listening { board, ear });
    }

    async fn wait(&mut self, signs: &mut Signs) {
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
                    self.dispatcher.tell_trouble(None, &error);
                    sleep_until(Instant::now() + RETRY).await;
                }
                let now = Instant::now();
                (self.look_at, self.settling_until) = (now, now + SETTLING.0);
            }
            Some(done) = self.launches.join_next() => told(done),
            Some(done) = self.others.join_next() => told(done),
        }
        sleep_until(earliest).await;
    }

    /// Tidies a board, if nobody has for a day.
    fn tidy(&mut self, board: &Board) {
        let Some(policy) = self.dispatcher.options().retention.clone() else { return };
        let now = Instant::now();
        if self.tidy.get(board.slug()).is_some_and(|next| now < *next) {
            return;
        }
        self.tidy.insert(board.slug().to_owned(), now + TIDY_LOOK);
        let (dispatcher, board) = (self.dispatcher.clone(), board.clone());
        // More than one at a time would only be in each other's way.
        let key = vestal_board::RunId::new(0);
        let Some(begun) = dispatcher.begin(&board, key) else { return };
        self.others.spawn(async move {
            let launcher = Arc::clone(&dispatcher.options().launcher);
            match tidy(&board, &policy, &*launcher).await {
                Ok(what) => {
                    for kept in &what.kept {
                        let (path, reason) = (kept.path.clone(), kept.reason.clone());
                        dispatcher.tell_once(Said::KeptTree { path, reason });
                    }
                    if !what.is_nothing() {
                        let board = board.slug().to_owned();
                        dispatcher.tell(Said::Collected { board, what });
                    }
                }
                Err(error) => dispatcher.tell_trouble(Some(board.slug()), &error),
            }
            drop(begun);
        });
    }

    /// Ends: workers that are about to be started are, so that nothing false is
    /// written down; those that are about to be stopped are stopped by the next
    /// dispatcher, who finds it written down.
    async fn end(mut self) {
        let started = async { while self.launches.join_next().await.is_some() {} };
        if timeout(FAREWELL, started).await.is_err() {
            tracing::warn!("some workers were still about to be started");
        }
        self.others.abort_all();
    }
}

fn told(done: std::result::Result<(), tokio::task::JoinError>) {
    if let Err(error) = done {
        tracing::error!(%error, "a part of a dispatch did not end well");
    }
}

/// Tidies a board: what grows slowly once a day, what finished tasks left in
/// sandboxes each time.
async fn tidy(board: &Board, policy: &GcPolicy, launcher: &dyn Launcher) -> Result<Collected> {
    let mut collected =
        if is_turn(board).await? { gc(board, policy, None).await? } else { Collected::default() };
    collected.places = sweep_finished(board, launcher).await?;
    Ok(collected)
}

/// Reports whether a board was not tidied for a day, and is from now on.
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
    // Before it is done, so that of several dispatchers one does it.
    write.set_note(TIDIED, Some(&json!({ "at": now.millis() }))).await?;
    write.commit().await?;
    Ok(true)
}
