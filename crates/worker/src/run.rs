//! A worker's whole life.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use vestal_agent::redact::Redactor;
use vestal_board::dispatch::FailurePolicy;
use vestal_board::{
    Authority, Block, Board, Error, Fence, LogPolicy, Outcome, Process, Run, RunEnd, RunId, Task,
    TaskId, log_path,
};
use vestal_config::{ProfileName, Settings};
use vestal_sandbox::{CLOSE_WITHIN, Engine, Terminations};

use crate::desk::{Desk, Said};
use crate::ending::{Ending, Report};
use crate::limits::Limits;
use crate::log::Log;
use crate::place::WORKSPACE_VARIABLE;
use crate::verdict::Verdict;
use crate::watch::{Activity, Stop, Watch};
use crate::work::Work;

/// How long the work may take to end once it was told to: a tool that does not
/// come back is given up before.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// What a worker is made of.
pub struct WorkerParts {
    /// The board.
    pub board: Board,
    /// The task.
    pub task: TaskId,
    /// The run that holds it for this worker.
    pub run: RunId,
    /// The settings of its profile.
    pub settings: Arc<Settings>,
    /// Where its commands run.
    pub engine: Engine,
    /// What keeps secrets out of what is stored and shown.
    pub redactor: Arc<Redactor>,
    /// How long its lease lasts without being renewed.
    pub lease: Duration,
    /// What becomes of tasks that fail.
    pub failures: FailurePolicy,
    /// What is kept of its log.
    pub log: LogPolicy,
    /// What it may take of its host.
    pub limits: Limits,
    /// The signals that ask this process to end.
    pub signals: Terminations,
}

/// Works on a task until there is something to report, and reports it.
pub async fn run(parts: WorkerParts) -> Report {
    match Worker::new(parts).await {
        Ok(mut worker) => worker.run().await,
        Err(report) => report,
    }
}

/// A worker that holds its task.
struct Worker {
    parts: WorkerParts,
    fence: Fence,
    task: Task,
    run: Run,
    log: Log,
    desk: Desk,
}

impl Worker {
    /// Looks whether the task is this worker's; nothing is done before.
    async fn new(parts: WorkerParts) -> Result<Self, Report> {
        let failed = |trouble: String| Report { ending: Ending::Failed, trouble: Some(trouble) };
        let path = log_path(parts.board.dir(), &parts.task);
        let log = Log::open(&path, parts.log, Arc::clone(&parts.redactor))
            .map_err(|error| failed(format!("cannot open the log {}: {error}", path.display())))?;
        let profile = parts.settings.home().profile().clone();
        let held = held(&parts, &profile).await.map_err(|error| {
            log.write(&format!("run {} failed: {error}", parts.run));
            failed(error.to_string())
        })?;
        let Some((task, run)) = held else {
            let trouble = format!("run {} does not hold {} any more", parts.run, parts.task);
            log.write(&trouble);
            return Err(Report { ending: Ending::Lost, trouble: Some(trouble) });
        };
        let fence = Fence { task: task.id.clone(), run: run.id, profile };
        let desk = Desk::of_worker(parts.board.clone(), fence.clone(), run.role, parts.lease);
        Ok(Self { parts, fence, task, run, log, desk })
    }

    async fn run(&mut self) -> Report {
        // So that it can be ended with all it starts, and by nobody by accident.
        if let Err(error) = vestal_process::lead_session() {
            self.log.write(&format!("warning: it leads no session of its own: {error}"));
        }
        self.log.write(&format!(
            "run {} begins: {} {:?} as {} (process {})",
            self.run.id,
            self.run.role,
            self.task.title,
            self.fence.profile,
            std::process::id(),
        ));
        self.note_start().await;
        let report = self.work().await;
        let said = report.trouble.as_ref().map(|trouble| format!(": {trouble}"));
        self.log.write(&format!(
            "run {} ends: {} (exit code {}){}",
            self.run.id,
            report.ending,
            report.ending.code(),
            said.unwrap_or_default()
        ));
        report
    }

    /// Writes down which process this is, in case whoever started it died before
    /// it could: from then on it can be watched, and ended.
    async fn note_start(&self) {
        let board = &self.parts.board;
        let noted = match vestal_process::ProcessId::current() {
            Ok(me) => {
                let host = board.host().clone();
                let process = Process { host, pid: me.pid, start: me.start };
                let given = self.parts.settings.environment().non_empty(WORKSPACE_VARIABLE);
                let place = given.map(|place| place.to_string_lossy().into_owned());
                let place = place.unwrap_or_else(|| self.task.workspace.kind().to_owned());
                board.started(&self.fence, process, &place).await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        // A task that was lost is noticed by the first heartbeat.
        if let Err(error) = noted {
            self.log.write(&format!("warning: the start could not be noted: {error}"));
        }
    }

    async fn work(&mut self) -> Report {
        let deadline = match self.deadline().await {
            Ok(deadline) => deadline,
            Err(error) => {
                return self.report(Verdict::End(Outcome::Crashed, error.to_string())).await;
            }
        };
        let activity = Activity::default();
        let token = CancellationToken::new();
        let watch = Watch {
            board: &self.parts.board,
            fence: &self.fence,
            lease: self.parts.lease,
            deadline,
            activity: activity.clone(),
            log: &self.log,
        };
        let mut work = Box::pin(
            Work {
                board: &self.parts.board,
                settings: &self.parts.settings,
                engine: &self.parts.engine,
                redactor: &self.parts.redactor,
                limits: self.parts.limits,
                fence: &self.fence,
                task: &self.task,
                run: &self.run,
                desk: &self.desk,
                log: &self.log,
                activity,
                stop: token.clone(),
            }
            .run(),
        );
        let mut stop = None;
        let signals = &mut self.parts.signals;
        let worked = tokio::select! {
            biased;
            worked = &mut work => Ok(worked),
            why = watch.until_stop(signals) => {
                self.log.write(&format!("stopping: {}", in_words(why)));
                stop = Some(why);
                token.cancel();
                // The first signal is waited for; the second is not.
                tokio::select! {
                    biased;
                    _ = signals.next() => Err("a second signal came before all was put in order"),
                    worked = tokio::time::timeout(STOP_WITHIN, &mut work) => {
                        worked.map_err(|_| "the work did not end in time")
                    }
                }
            }
        };
        drop(work);
        let verdict = match worked {
            Ok(verdict) => verdict,
            Err(trouble) => {
                // Whoever started this worker finds what is left, by its session.
                let ending = stop.map_or(Ending::Terminated, |why| match why {
                    Stop::Signal(_) => Ending::Terminated,
                    Stop::Lost => Ending::Lost,
                    Stop::TimedOut => Ending::TimedOut,
                });
                return Report { ending, trouble: Some(trouble.to_owned()) };
            }
        };
        let report = match (self.desk.said(), stop, verdict) {
            (Some(Said::Finished), ..) => Report { ending: Ending::Done, trouble: None },
            (Some(Said::Waits), ..) => Report { ending: Ending::Waiting, trouble: None },
            (Some(Said::Lost), ..) | (None, Some(Stop::Lost), _) => self.lost(),
            (None, Some(Stop::TimedOut), _) => {
                let limit = self.run.max_runtime.unwrap_or_default().as_secs();
                let words = format!("it took longer than the {limit} s it had");
                self.report(Verdict::End(Outcome::TimedOut, words)).await
            }
            (None, Some(Stop::Signal(_)), _) => {
                let words = "a signal asked the worker to end".to_owned();
                self.report(Verdict::End(Outcome::Terminated, words)).await
            }
            (None, None, Some(verdict)) => self.report(verdict).await,
            (None, None, None) => {
                let words = "the worker ended without knowing why".to_owned();
                self.report(Verdict::End(Outcome::Crashed, words)).await
            }
        };
        if !self.parts.engine.close(CLOSE_WITHIN).await {
            self.log.write("warning: a sandbox of this process was not removed in time");
        }
        report
    }

    /// Returns when the run's time is up. The board's clock decides how much is
    /// gone, as it does for everybody else.
    async fn deadline(&self) -> Result<Option<Instant>, Error> {
        let Some(limit) = self.run.max_runtime else { return Ok(None) };
        let now = self.parts.board.read().await?.now();
        let left = limit.saturating_sub(self.run.started_at.until(now));
        Ok(Instant::now().checked_add(left))
    }

    /// Tells the board how the run ended, and returns how the worker does.
    async fn report(&self, verdict: Verdict) -> Report {
        let ending = verdict.ending();
        let words = self.parts.redactor.redact(verdict.words()).into_owned();
        let board = &self.parts.board;
        let told = match verdict {
            Verdict::End(outcome, _) => {
                let exit_code = Some(i32::from(ending.code()));
                let end = RunEnd { outcome, error: words.clone(), exit_code };
                board.end_run(self.run.id, end, &self.parts.failures).await.map(drop)
            }
            Verdict::Block(kind, _) => {
                let by = Authority::Worker(self.fence.clone());
                let block = Block { reason: words.clone(), kind: Some(kind) };
                board.block(&by, &self.task.id, block).await.map(drop)
            }
        };
        match told {
            Ok(()) => Report { ending, trouble: Some(words) },
            Err(Error::Fenced { .. } | Error::NotFound { .. }) => self.lost(),
            Err(error) => Report {
                ending,
                trouble: Some(format!("{words}; and the board was not told: {error}")),
            },
        }
    }

    fn lost(&self) -> Report {
        let trouble = format!("run {} does not hold {} any more", self.run.id, self.task.id);
        Report { ending: Ending::Lost, trouble: Some(trouble) }
    }
}

/// Returns the task and the run, if that is the one that holds it.
async fn held(parts: &WorkerParts, profile: &ProfileName) -> Result<Option<(Task, Run)>, Error> {
    let mut read = parts.board.read().await?;
    let (Some(task), Some(run)) = (read.task(&parts.task).await?, read.run(parts.run).await?)
    else {
        return Ok(None);
    };
    let is_mine = task.current_run == Some(run.id)
        && run.task_id == task.id
        && run.is_open()
        && run.profile.as_ref() == Some(profile);
    Ok(is_mine.then_some((task, run)))
}

fn in_words(stop: Stop) -> &'static str {
    match stop {
        Stop::Signal(_) => "a signal asks for it",
        Stop::Lost => "the task is not this worker's any more",
        Stop::TimedOut => "its time is up",
    }
}
