//! What sandboxes consume, measured while a page looks at it and kept for a while after, so that the
//! page that comes next has a line to begin with.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::broadcast;
use vestal_api::UsageSampleView;
use vestal_config::ProfileName;
use vestal_sandbox::client::Connection;
use vestal_sandbox::{Engine, SandboxStats, Status, TaskName};

use crate::error::PageError;

/// How often a sandbox is asked. Its guest knows what it consumes when it is asked, and at no other time.
const EVERY: Duration = Duration::from_secs(2);

/// How often its files are counted, which takes a look at each of them.
const COUNT_EVERY: Duration = Duration::from_mins(1);

/// Samples that are kept of one sandbox: ten minutes.
const KEPT: usize = 300;

/// Sandboxes whose samples are kept; those that nobody looks at go first.
const MAX_SANDBOXES: usize = 64;

/// How long a guest may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

type SampledKey = (ProfileName, TaskName);

/// The samples of all sandboxes that were looked at lately.
#[derive(Debug, Default)]
pub(crate) struct UsageSamples(Mutex<HashMap<SampledKey, Arc<Sampled>>>);

/// The samples of one sandbox.
#[derive(Debug)]
struct Sampled {
    state: Mutex<SampledState>,
    news: broadcast::Sender<News>,
}

#[derive(Debug, Default)]
struct SampledState {
    kept: VecDeque<UsageSampleView>,
    disk: Option<(Instant, Option<u64>)>,
    /// Processor time at the sample before, and when that was.
    before: Option<(Instant, u64)>,
    is_measured: bool,
}

/// What a viewer receives.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// What it consumes now.
    Sample(UsageSampleView),
    /// It does not answer any more, and why.
    Over(String),
}

/// Somebody who looks at a sandbox.
#[derive(Debug)]
pub(crate) struct SampleWatcher {
    /// What was measured before.
    pub(crate) kept: Vec<UsageSampleView>,
    /// What is measured from now on.
    pub(crate) news: broadcast::Receiver<News>,
}

impl UsageSamples {
    /// Looks at a sandbox that runs, which is no use of it. It is measured until the last one who
    /// looks is gone.
    pub(crate) async fn look(
        &self,
        profile: &ProfileName,
        engine: &Engine,
        task: &TaskName,
    ) -> Result<SampleWatcher, PageError> {
        let connection = engine.observe(task).await?;
        let sampled = self.of((profile.clone(), task.clone()));
        let news = sampled.news.subscribe();
        let mut state = sampled.lock();
        let kept = state.kept.iter().cloned().collect();
        if !std::mem::replace(&mut state.is_measured, true) {
            drop(state);
            let (engine, task) = (engine.clone(), task.clone());
            tokio::spawn(measure(Arc::clone(&sampled), engine, task, connection));
        }
        Ok(SampleWatcher { kept, news })
    }

    fn of(&self, key: SampledKey) -> Arc<Sampled> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_SANDBOXES && !all.contains_key(&key) {
            all.retain(|_, sampled| sampled.news.receiver_count() > 0);
        }
        let new = || {
            let (news, _) = broadcast::channel(16);
            Arc::new(Sampled { state: Mutex::default(), news })
        };
        Arc::clone(all.entry(key).or_insert_with(new))
    }
}

impl Sampled {
    fn lock(&self) -> MutexGuard<'_, SampledState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the measuring if there is no viewer. A viewer that comes at the same moment restarts it.
    fn ends(&self) -> bool {
        let mut state = self.lock();
        let ends = self.news.receiver_count() == 0;
        if ends {
            state.is_measured = false;
            // The time until somebody looks again is not a time between two samples.
            state.before = None;
        }
        ends
    }

    /// Adds a sample and tells it.
    fn take(&self, stats: &SandboxStats, status: &Status) {
        let now = Instant::now();
        let mut state = self.lock();
        let before = state.before.replace((now, stats.cpu_ms));
        let sample = UsageSampleView {
            at: Timestamp::now().as_millisecond(),
            cpus: before.map(|(at, cpu_ms)| share(now - at, stats.cpu_ms.saturating_sub(cpu_ms))),
            memory_bytes: stats.memory_bytes,
            processes: stats.processes,
            jobs_running: status.jobs_running,
            disk_bytes: state.disk.and_then(|(_, bytes)| bytes),
        };
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(sample.clone());
        drop(state);
        // Nobody may look any more.
        self.news.send(News::Sample(sample)).ok();
    }
}

/// Returns how many processors were in use.
fn share(span: Duration, cpu_ms: u64) -> f64 {
    let used = Duration::from_millis(cpu_ms).as_secs_f64();
    let share = used / span.as_secs_f64().max(0.001);
    (share * 1000.0).round() / 1000.0
}

async fn measure(sampled: Arc<Sampled>, engine: Engine, task: TaskName, connection: Connection) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if sampled.ends() {
            return;
        }
        let is_due = sampled.lock().disk.is_none_or(|(at, _)| at.elapsed() >= COUNT_EVERY);
        if is_due {
            // Where it is not counted, or only partly, nothing is said rather than something wrong.
            let counted = engine.disk_usage(&task).await.ok();
            let bytes = counted.filter(|usage| !usage.is_partial).map(|usage| usage.bytes);
            sampled.lock().disk = Some((Instant::now(), bytes));
        }
        let asked = async {
            let stats = connection.stats(ANSWER_WITHIN).await?;
            Ok::<_, vestal_sandbox::client::CallError>((
                stats,
                connection.status(ANSWER_WITHIN).await?,
            ))
        };
        match asked.await {
            Ok((stats, status)) => sampled.take(&stats, &status),
            Err(error) => {
                let mut state = sampled.lock();
                state.is_measured = false;
                state.before = None;
                drop(state);
                sampled.news.send(News::Over(error.to_string())).ok();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_processor_time_by_time() {
        assert!((share(Duration::from_secs(2), 3000) - 1.5).abs() < 1e-9);
        assert!(share(Duration::from_secs(2), 0).abs() < 1e-9);
    }

    #[tokio::test]
    async fn samples_that_nobody_looks_at_take_bounded_memory() {
        let samples = UsageSamples::default();
        let profile = ProfileName::default_profile();
        let key = |at: usize| (profile.clone(), format!("t{at}").parse::<TaskName>().unwrap());
        let first = samples.of(key(0));
        let _looked_at = first.news.subscribe();
        for at in 1..3 * MAX_SANDBOXES {
            samples.of(key(at));
        }
        let all = samples.0.lock().unwrap();
        assert!(all.len() <= MAX_SANDBOXES, "{}", all.len());
        assert!(all.contains_key(&key(0)), "somebody looks at it");
    }
}
