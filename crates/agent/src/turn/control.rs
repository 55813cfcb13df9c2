//! What ends or steers a turn from outside: interrupts, words said meanwhile,
//! and guardrails against a model that repeats itself.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use vestal_model::{ToolCall, ToolResult};

/// Interrupts and steers the turns of a conversation. Cheap to clone, and of
/// use from anywhere: a signal handler, another task, a request.
#[derive(Debug, Clone, Default)]
pub struct Control(Arc<Mutex<ControlState>>);

/// How often an interrupt is repeated for a turn that has not quite begun.
const REPEAT_INTERRUPT: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct ControlState {
    running: Option<CancellationToken>,
    steer: Vec<String>,
}

impl Control {
    /// Interrupts the turn that runs: the model's answer, the tools at work and
    /// the children. Returns whether there was one.
    pub fn interrupt(&self) -> bool {
        match &self.lock().running {
            Some(turn) => {
                turn.cancel();
                true
            }
            None => false,
        }
    }

    /// Interrupts the turn that runs, or the next one as soon as it has started, once `token` is
    /// cancelled. It is awaited beside the turn, and dropped with it.
    #[boxed]
    pub async fn interrupt_when(&self, token: &CancellationToken) {
        token.cancelled().await;
        while !self.interrupt() {
            tokio::time::sleep(REPEAT_INTERRUPT).await;
        }
    }

    /// Runs work of the conversation to its end; `token` interrupts it.
    pub async fn interruptible<T>(
        &self,
        token: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = Box::pin(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = self.interrupt_when(token) => {}
        }
        work.await
    }

    /// Says something to the model at the next chance, without interrupting it.
    /// What comes too late for the turn is in its result.
    pub fn steer(&self, text: impl Into<String>) {
        self.lock().steer.push(text.into());
    }

    /// Begins a turn, which ends when the value is dropped.
    pub(crate) fn begin(&self, parent: Option<&CancellationToken>) -> RunningTurn {
        let token = parent.map_or_else(CancellationToken::new, CancellationToken::child_token);
        self.lock().running = Some(token.clone());
        RunningTurn { control: self.clone(), token }
    }

    /// Takes what was said and has not reached the model. The caller of a turn
    /// asks once more when it has ended: something may have been said after the
    /// turn made its result.
    pub fn take_steer(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().steer)
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that can be interrupted.
#[derive(Debug)]
pub(crate) struct RunningTurn {
    control: Control,
    pub(crate) token: CancellationToken,
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        self.control.lock().running = None;
    }
}

/// When a model that repeats itself is warned, and when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guardrails {
    /// Times after which it is reported.
    pub warn_after: u32,
    /// Times after which the turn ends; none: never.
    pub stop_after: Option<u32>,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self { warn_after: 3, stop_after: Some(8) }
    }
}

/// What a call means for the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoopFinding {
    /// Nothing.
    Fine,
    /// The model should hear this.
    Warn(String),
    /// The turn should end.
    Stop(String),
}

/// Remembers the calls of one turn.
///
/// Two things count: the same call that comes to the same result again and
/// again, and calls that fail one after the other, whatever they are. A poll
/// whose answer changes is neither.
#[derive(Debug, Default)]
pub(crate) struct LoopWatch {
    rails: Guardrails,
    repeats: HashMap<u64, (u64, u32)>,
    failures: u32,
}

impl LoopWatch {
    pub(crate) fn new(rails: Guardrails) -> Self {
        Self { rails, ..Self::default() }
    }

    /// Records a call and its result.
    pub(crate) fn note(&mut self, call: &ToolCall, result: &ToolResult) -> LoopFinding {
        let (asked, got) = (hash(&(&call.name, &call.arguments)), hash(&result.content));
        let (last, times) = self.repeats.entry(asked).or_insert((got, 0));
        if *last == got {
            *times += 1;
        } else {
            (*last, *times) = (got, 1);
        }
        let times = *times;
        self.failures = if result.is_error { self.failures + 1 } else { 0 };
        let repeated = || {
            format!(
                "{} was called {times} times with the same arguments and the same result",
                call.name
            )
        };
        let failing = || format!("{} tool calls failed one after the other", self.failures);
        let reached = |limit: u32, count: u32| count >= limit;
        match self.rails.stop_after {
            Some(limit) if reached(limit, times) => return LoopFinding::Stop(repeated()),
            Some(limit) if reached(limit, self.failures) => return LoopFinding::Stop(failing()),
            _ => {}
        }
        let warn = self.rails.warn_after;
        if reached(warn, times) {
            LoopFinding::Warn(format!(
                "{}. Doing it again will not change that: try something else, or say what is in the way.",
                repeated()
            ))
        } else if reached(warn, self.failures) {
            LoopFinding::Warn(format!(
                "{}. Read the errors, change the approach, or say what is in the way.",
                failing()
            ))
        } else {
            LoopFinding::Fine
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
