//! Observes the sandbox and its background jobs, and starts turns when a job ends or prints what the
//! model watches for.
//!
//! The monitor connects as an observer: it starts nothing and keeps nothing alive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use vestal_agent::tools::JobWatch;
use vestal_sandbox::client::{CallReply, CallRequest, Connection};
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Cause, Engine, Error, JobId, JobInfo, JobState, TaskName};
use vestal_tui::format;

use crate::cells;
use crate::chat::{Chat, WorkMessage};
use crate::conversation::{ConversationSlot, WorkKind, WorkOutcome};
use crate::live::{EntryKind, TranscriptEntry};

/// Time between observations.
const PERIOD: Duration = Duration::from_secs(5);

/// Time between observations while the terminal is not focused.
const PERIOD_UNSEEN: Duration = Duration::from_secs(30);

/// Timeout of an observation.
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Jobs that are listed, newest first.
const JOBS: u32 = 100;

/// Jobs whose end is awaited at the same time.
const WAITED_FOR: usize = 16;

/// An observation of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxUpdate {
    /// The task of the sandbox.
    pub(crate) task: TaskName,
    pub(crate) state: &'static str,
    /// The backend, if there is a sandbox.
    pub(crate) backend: Option<String>,
    /// Number of running background jobs.
    pub(crate) running: usize,
    /// Known background jobs: ids and commands.
    pub(crate) jobs: Vec<(String, String)>,
    /// Background jobs that have ended since the last update.
    pub(crate) ended: Vec<JobInfo>,
}

/// What the monitor observes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MonitorTarget {
    task: TaskName,
    is_seen: bool,
    /// Incremented to request an observation now.
    occasion: u64,
}

/// Observes the sandbox of a conversation until it is dropped.
pub(crate) struct SandboxMonitor {
    focus: watch::Sender<MonitorTarget>,
    updates: mpsc::UnboundedReceiver<SandboxUpdate>,
    task_handle: JoinHandle<()>,
}

impl SandboxMonitor {
    /// Starts observing the sandbox of a task.
    pub(crate) fn start(engine: Engine, task: TaskName) -> Self {
        let (sender, receiver) = watch::channel(MonitorTarget { task, is_seen: true, occasion: 0 });
        let (update_sender, updates) = mpsc::unbounded_channel();
        let task_handle = tokio::spawn(async move {
            let mut observer = SandboxObserver::new(engine, receiver);
            loop {
                let update = observer.observe().await;
                if update_sender.send(update).is_err() || !observer.wait().await {
                    return;
                }
            }
        });
        Self { focus: sender, updates, task_handle }
    }

    /// Waits for the next update.
    pub(crate) async fn next(&mut self) -> SandboxUpdate {
        match self.updates.recv().await {
            Some(update) => update,
            None => std::future::pending().await,
        }
    }

    /// Observes the sandbox of another task from now on.
    pub(crate) fn watch_task(&self, task: &TaskName) {
        self.focus.send_modify(|focus| {
            focus.task.clone_from(task);
            focus.occasion += 1;
        });
    }

    /// Observes now, because something may have changed.
    pub(crate) fn refresh(&self) {
        self.focus.send_modify(|focus| focus.occasion += 1);
    }

    /// Observes less often while the terminal is not focused.
    pub(crate) fn set_seen(&self, is_seen: bool) {
        self.focus.send_if_modified(|focus| {
            let is_new = focus.is_seen != is_seen;
            focus.is_seen = is_seen;
            is_new
        });
    }
}

impl Drop for SandboxMonitor {
    fn drop(&mut self) {
        self.task_handle.abort();
    }
}

struct SandboxObserver {
    engine: Engine,
    focus: watch::Receiver<MonitorTarget>,
    /// The task that the following fields are about.
    task: TaskName,
    connection: Option<Arc<Connection>>,
    backend: Option<String>,
    /// Background jobs that were seen running.
    running: BTreeSet<JobId>,
    /// Jobs that started before this are not reported.
    began_ms: u64,
    /// Ended jobs that were reported already, or are too old.
    reported: BTreeSet<JobId>,
    jobs: Vec<(String, String)>,
}

impl SandboxObserver {
    fn new(engine: Engine, focus: watch::Receiver<MonitorTarget>) -> Self {
        let task = focus.borrow().task.clone();
        Self {
            engine,
            focus,
            task,
            connection: None,
            backend: None,
            running: BTreeSet::new(),
            began_ms: now_ms(),
            reported: BTreeSet::new(),
            jobs: Vec::new(),
        }
    }

    /// Observes once, with a timeout.
    async fn observe(&mut self) -> SandboxUpdate {
        let task = self.focus.borrow_and_update().task.clone();
        if self.task != task {
            self.reset_for(&task);
        }
        let looked = tokio::time::timeout(OBSERVE_TIMEOUT, self.ask(&task)).await;
        let (state, running, ended) = match looked {
            Ok(Ok(seen)) => seen,
            Ok(Err(ObserveError::Engine(Error::NoSandbox { .. }))) => {
                ("not created yet", 0, Vec::new())
            }
            Ok(Err(ObserveError::Engine(Error::Stopped { .. }))) => ("stopped", 0, Vec::new()),
            Ok(Err(_)) => ("unknown", 0, Vec::new()),
            Err(_) => ("unresponsive", 0, Vec::new()),
        };
        let (backend, jobs) = (self.backend.clone(), self.jobs.clone());
        if !matches!(state, "up" | "busy") {
            // The next instance may have another backend.
            self.connection = None;
            self.backend = None;
        }
        SandboxUpdate { task, state, backend, running, jobs, ended }
    }

    async fn ask(
        &mut self,
        task: &TaskName,
    ) -> Result<(&'static str, usize, Vec<JobInfo>), ObserveError> {
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
        let Ok(CallReply::Status(status)) = connection.call(CallRequest::Status).await else {
            return Err(ObserveError::Call);
        };
        let jobs =
            job::jobs(&connection, JobFilter::All, JOBS).await.map_err(|_| ObserveError::Call)?;
        let state = if status.jobs_running > 0 { "busy" } else { "up" };
        let (running, ended) = self.sort(jobs.jobs);
        Ok((state, running, ended))
    }

    /// Returns the number of running background jobs, and the ended ones that were not
    /// reported yet.
    fn sort(&mut self, jobs: Vec<JobInfo>) -> (usize, Vec<JobInfo>) {
        let mut ended = Vec::new();
        let mut running = BTreeSet::new();
        let mut reported = BTreeSet::new();
        let jobs: Vec<JobInfo> = jobs.into_iter().filter(|job| job.background).collect();
        let named = |job: &JobInfo| (job.id.to_string(), job.summary.clone());
        self.jobs = jobs.iter().rev().map(named).collect();
        for job in jobs {
            if !matches!(job.state, JobState::Ended(_)) {
                running.insert(job.id);
                continue;
            }
            reported.insert(job.id.clone());
            let is_news = self.running.contains(&job.id) || job.started_ms >= self.began_ms;
            if is_news && !self.reported.contains(&job.id) {
                ended.push(job);
            }
        }
        let count = running.len();
        self.running = running;
        self.reported = reported;
        (count, ended)
    }

    /// Waits until the next observation is due. Returns false when the monitor was dropped.
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
                    // The next observation notices a lost guest.
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

    /// Forgets the state of one sandbox, to observe another.
    fn reset_for(&mut self, task: &TaskName) {
        self.task.clone_from(task);
        self.connection = None;
        self.backend = None;
        self.running.clear();
        self.reported.clear();
        self.jobs.clear();
        self.began_ms = now_ms();
    }
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Why an observation failed.
enum ObserveError {
    Engine(Error),
    Call,
}

impl From<Error> for ObserveError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Characters of a command that are shown.
const COMMAND: usize = 80;

/// Describes how a job ended: `● job k3f9 ended: exit 0 after 12s: cargo build`.
pub(crate) fn describe_ended_job(job: &JobInfo) -> String {
    let how = match job.state {
        JobState::Ended(exit) => match (exit.cause, exit.code) {
            (Cause::Exited, Some(code)) => format!("exit {code}"),
            (Cause::Signaled(signal), _) => format!("killed by signal {signal}"),
            (Cause::TimedOut, _) => "timed out".to_owned(),
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

/// Limit of turns in a row that job news starts without a user message: a model that starts a job in each of
/// them would go on forever.
const TURNS_IN_A_ROW: u32 = 20;

/// Lines and characters of job news that are shown; the model reads all of it.
const NEWS_LINES: usize = 6;
const NEWS_CHARACTERS: usize = 600;

/// Waits for job news while the conversation is idle.
#[derive(Debug, Default)]
pub(crate) struct JobWakeup {
    waiting: Option<JoinHandle<()>>,
    state: NewsState,
    /// Turns started by job news since the last user message.
    in_a_row: u32,
}

/// Whether there is job news.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum NewsState {
    /// There is none.
    #[default]
    None,
    /// There is some.
    Due,
    /// There is some, and the user was told that it waits for the input.
    Held,
}

impl JobWakeup {
    /// Waits for news from this watch only.
    pub(crate) fn wait_for(&mut self, watch: Option<JobWatch>) {
        self.stop();
        self.waiting = watch.map(|watch| tokio::spawn(watch.changed()));
    }

    /// Stops waiting.
    pub(crate) fn stop(&mut self) {
        self.state = NewsState::None;
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
        }
    }

    /// Resets the count of turns in a row.
    pub(crate) fn reset_limit(&mut self) {
        self.in_a_row = 0;
    }

    /// Waits until there is news; forever if there is no watch.
    pub(crate) async fn ready(&mut self) {
        let Some(waiting) = &mut self.waiting else { return std::future::pending().await };
        let came = waiting.await;
        self.waiting = None;
        match came {
            Ok(()) => self.state = NewsState::Due,
            // The news will go with the next message instead.
            Err(error) => tracing::warn!(%error, "news of jobs is not waited for any more"),
        }
    }
}

impl Drop for JobWakeup {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Chat {
    /// Starts a turn for job news, unless the user is typing: the message takes the news
    /// along.
    pub(crate) fn start_job_turn_if_idle(&mut self) {
        let is_free = matches!(self.slot, ConversationSlot::Idle(_))
            && self.asking.is_empty()
            && self.next_turns.is_empty()
            && self.leaving.is_none();
        if self.wakeup.state == NewsState::None || !is_free {
            return;
        }
        if self.wakeup.in_a_row >= TURNS_IN_A_ROW {
            self.wakeup.stop();
            self.note(&format!(
                "a background job has news, and {TURNS_IN_A_ROW} turns have started by themselves; the model hears of it with your next message"
            ));
            return self.ring_if_unfocused();
        }
        if !self.editor.text().trim().is_empty() {
            if self.wakeup.state == NewsState::Due {
                self.wakeup.state = NewsState::Held;
                self.note("a background job has news; the model hears of it when you send or clear the input");
                self.ring_if_unfocused();
            }
            return;
        }
        self.wakeup.in_a_row += 1;
        self.start_job_turn();
    }

    fn start_job_turn(&mut self) {
        let Some(conversation) = self.slot.take() else { return };
        let chain = self.reload_endpoints(&conversation);
        self.spawn(conversation, WorkKind::JobNews, |mut conversation, sink, sender| async move {
            let news = conversation.take_job_updates(&sink).await;
            if news.is_empty() {
                return (conversation, WorkOutcome::NoJobNews);
            }
            for words in &news {
                drop(sender.send(WorkMessage::JobNews(words.clone())));
            }
            crate::turns::set_endpoints(&mut conversation, chain).await;
            let result = conversation.run_job_updates(news, &sink).await;
            (conversation, WorkOutcome::Turn(Box::new(result)))
        });
    }

    /// Shows job news that is sent to the model.
    pub(crate) fn show_job_news(&mut self, words: &str) {
        let words = words.trim_start_matches('[').trim_end_matches(']');
        let all = words.lines().count();
        let mut shown = words.lines().take(NEWS_LINES).collect::<Vec<_>>().join("\n");
        if let Some((end, _)) = shown.char_indices().nth(NEWS_CHARACTERS) {
            shown.truncate(end);
            shown.push('…');
        } else if all > NEWS_LINES {
            shown.push_str("\n…");
        }
        let shown = format::without_escapes(&shown);
        let lines = cells::dimmed(&format!("● {shown}"), self.width());
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
    }
}
