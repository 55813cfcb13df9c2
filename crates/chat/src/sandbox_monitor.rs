//! Observes the sandbox and its background jobs.
//!
//! The monitor connects as an observer: it starts nothing and keeps nothing alive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Engine, Error, Task};
use vestal_wire::{Cause, JobId, JobInfo, JobState, Reply, Request};

use crate::format;

/// Time between two looks, if nothing calls for one earlier.
const PERIOD: Duration = Duration::from_secs(5);

/// The same while nobody looks at the chat.
const PERIOD_UNSEEN: Duration = Duration::from_secs(30);

/// Longest time a look may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Jobs that are looked through, the newest.
const JOBS: u32 = 100;

/// Jobs whose end is waited for at the same time.
const WAITED_FOR: usize = 16;

/// How a sandbox is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct News {
    /// The task whose sandbox it is.
    pub(crate) task: Task,
    pub(crate) state: &'static str,
    /// The backend, where there is a sandbox.
    pub(crate) backend: Option<String>,
    /// Background jobs that run.
    pub(crate) running: usize,
    /// Background jobs on record: their ids and what they run.
    pub(crate) jobs: Vec<(String, String)>,
    /// Background jobs that have ended since the last news.
    pub(crate) ended: Vec<JobInfo>,
}

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Focus {
    task: Task,
    is_seen: bool,
    /// Counts occasions on which something may have changed.
    occasion: u64,
}

/// Looks at the sandbox of a conversation for as long as it is kept.
pub(crate) struct Watch {
    focus: watch::Sender<Focus>,
    news: mpsc::UnboundedReceiver<News>,
    looking: JoinHandle<()>,
}

impl Watch {
    /// Begins to look at the sandbox of a task.
    pub(crate) fn begin(engine: Engine, task: Task) -> Self {
        let (sender, receiver) = watch::channel(Focus { task, is_seen: true, occasion: 0 });
        let (tell, news) = mpsc::unbounded_channel();
        let looking = tokio::spawn(async move {
            let mut looker = Looker::new(engine, receiver);
            loop {
                let news = looker.look().await;
                if tell.send(news).is_err() || !looker.wait().await {
                    return;
                }
            }
        });
        Self { focus: sender, news, looking }
    }

    /// Waits for news.
    pub(crate) async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Looks at the sandbox of another task from now on.
    pub(crate) fn turn_to(&self, task: &Task) {
        self.focus.send_modify(|focus| {
            focus.task.clone_from(task);
            focus.occasion += 1;
        });
    }

    /// Looks now: something may have changed.
    pub(crate) fn look(&self) {
        self.focus.send_modify(|focus| focus.occasion += 1);
    }

    /// Looks less often while nobody sees it.
    pub(crate) fn set_seen(&self, is_seen: bool) {
        self.focus.send_if_modified(|focus| {
            let is_new = focus.is_seen != is_seen;
            focus.is_seen = is_seen;
            is_new
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

struct Looker {
    engine: Engine,
    focus: watch::Receiver<Focus>,
    /// The task whose sandbox all of the following is about.
    task: Task,
    connection: Option<Arc<Connection>>,
    backend: Option<String>,
    /// Background jobs that were seen running, or were told of.
    running: BTreeSet<JobId>,
    /// Jobs of before are nobody's news.
    began_ms: u64,
    /// The newest jobs that have ended and were told of, or are old.
    told: BTreeSet<JobId>,
    jobs: Vec<(String, String)>,
}

impl Looker {
    fn new(engine: Engine, focus: watch::Receiver<Focus>) -> Self {
        let task = focus.borrow().task.clone();
        Self {
            engine,
            focus,
            task,
            connection: None,
            backend: None,
            running: BTreeSet::new(),
            began_ms: now_ms(),
            told: BTreeSet::new(),
            jobs: Vec::new(),
        }
    }

    /// Looks, and never for long.
    async fn look(&mut self) -> News {
        let task = self.focus.borrow_and_update().task.clone();
        if self.task != task {
            self.turn_to(&task);
        }
        let looked = tokio::time::timeout(PATIENCE, self.ask(&task)).await;
        let (state, running, ended) = match looked {
            Ok(Ok(seen)) => seen,
            Ok(Err(Unseen::Engine(Error::NoSandbox { .. }))) => ("not made yet", 0, Vec::new()),
            Ok(Err(Unseen::Engine(Error::Stopped { .. }))) => ("stopped", 0, Vec::new()),
            Ok(Err(_)) => ("unknown", 0, Vec::new()),
            Err(_) => ("unresponsive", 0, Vec::new()),
        };
        let (backend, jobs) = (self.backend.clone(), self.jobs.clone());
        if !matches!(state, "up" | "busy") {
            // What comes after it may be made of something else.
            self.connection = None;
            self.backend = None;
        }
        News { task, state, backend, running, jobs, ended }
    }

    async fn ask(&mut self, task: &Task) -> Result<(&'static str, usize, Vec<JobInfo>), Unseen> {
        if self.backend.is_none() {
            let found = Box::pin(self.engine.inspect(task)).await?;
            self.backend = found.into_iter().next().map(|found| found.backend);
        }
        let connection = match &self.connection {
            Some(connection) => Arc::clone(connection),
            None => {
                let connection = Arc::new(Box::pin(self.engine.observe(task)).await?);
                self.connection = Some(Arc::clone(&connection));
                connection
            }
        };
        let Ok(Reply::Status(status)) = connection.call(Request::Status).await else {
            return Err(Unseen::Call);
        };
        let jobs = job::jobs(&connection, JobFilter::All, JOBS).await.map_err(|_| Unseen::Call)?;
        let state = if status.jobs_running > 0 { "busy" } else { "up" };
        let (running, ended) = self.sort(jobs.jobs);
        Ok((state, running, ended))
    }

    /// Returns how many background jobs run, and those that have ended by now
    /// and were not told of.
    fn sort(&mut self, jobs: Vec<JobInfo>) -> (usize, Vec<JobInfo>) {
        let mut ended = Vec::new();
        let mut running = BTreeSet::new();
        let mut told = BTreeSet::new();
        let jobs: Vec<JobInfo> = jobs.into_iter().filter(|job| job.background).collect();
        let named = |job: &JobInfo| (job.id.to_string(), job.summary.clone());
        self.jobs = jobs.iter().rev().map(named).collect();
        for job in jobs {
            if !matches!(job.state, JobState::Ended(_)) {
                running.insert(job.id);
                continue;
            }
            told.insert(job.id.clone());
            let is_news = self.running.contains(&job.id) || job.started_ms >= self.began_ms;
            if is_news && !self.told.contains(&job.id) {
                ended.push(job);
            }
        }
        let count = running.len();
        self.running = running;
        self.told = told;
        (count, ended)
    }

    /// Waits until it is worth looking again. Returns whether anybody wants to know.
    async fn wait(&mut self) -> bool {
        let is_seen = self.focus.borrow().is_seen;
        let period = if is_seen { PERIOD } else { PERIOD_UNSEEN };
        let connection = self.connection.clone();
        let ends = async {
            let Some(connection) = connection.filter(|_| !self.running.is_empty()) else {
                return std::future::pending().await;
            };
            let waits = self.running.iter().take(WAITED_FOR).map(|id| {
                let connection = Arc::clone(&connection);
                Box::pin(async move {
                    // A guest that is gone is noticed by the next look.
                    if let Ok(info) = job::wait(&connection, id, None).await
                        && matches!(info.state, JobState::Ended(_))
                    {
                        return;
                    }
                    std::future::pending::<()>().await;
                })
            });
            select_all(waits).await;
        };
        tokio::select! {
            changed = self.focus.changed() => changed.is_ok(),
            () = ends => true,
            () = tokio::time::sleep(period) => true,
        }
    }

    /// Forgets what is known of one sandbox, to look at another one.
    fn turn_to(&mut self, task: &Task) {
        self.task.clone_from(task);
        self.connection = None;
        self.backend = None;
        self.running.clear();
        self.told.clear();
        self.jobs.clear();
        self.began_ms = now_ms();
    }
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Why nothing was seen.
enum Unseen {
    Engine(Error),
    Call,
}

impl From<Error> for Unseen {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Characters of a command that are shown.
const COMMAND: usize = 80;

/// Says how a job ended: `● job k3f9 ended: exit 0 after 12s: cargo build`.
pub(crate) fn describe_ended_job(job: &JobInfo) -> String {
    let how = match job.state {
        JobState::Ended(exit) => match (exit.cause, exit.code) {
            (Cause::Exited, Some(code)) => format!("exit {code}"),
            (Cause::Signaled(signal), _) => format!("by signal {signal}"),
            (Cause::TimedOut, _) => "its time was up".to_owned(),
            (Cause::Killed, _) => "killed".to_owned(),
            (Cause::Lost, _) | (Cause::Exited, None) => "lost with its sandbox".to_owned(),
        },
        _ => "not ended".to_owned(),
    };
    let took = match (job.duration_us, job.ended_ms) {
        (Some(micros), _) => Some(Duration::from_micros(micros)),
        (None, Some(ended)) => Some(Duration::from_millis(ended.saturating_sub(job.started_ms))),
        (None, None) => None,
    };
    let took = took.map(|took| format!(" after {}", format::took(took))).unwrap_or_default();
    let command = job.summary.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = match command.char_indices().nth(COMMAND) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command,
    };
    format!("● job {} ended: {how}{took}: {command}", job.id)
}
