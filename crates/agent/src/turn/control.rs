//! What others may do to a turn while it runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Interrupts and steers the turns of a conversation. Cheap to clone, and of
/// use from anywhere: a signal handler, another task, a request.
#[derive(Debug, Clone, Default)]
pub struct Control(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
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

    /// Takes what was said and has not reached the model. Whoever runs a turn
    /// asks once more when it has ended: something may have been said after the
    /// turn made its result.
    pub fn take_steer(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().steer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_reaches_only_the_turn_that_runs() {
        let control = Control::default();
        assert!(!control.interrupt());
        let first = control.begin(None);
        assert!(control.interrupt());
        assert!(first.token.is_cancelled());
        drop(first);
        let second = control.begin(None);
        assert!(!second.token.is_cancelled());
    }

    #[test]
    fn an_interrupt_of_the_parent_reaches_the_child() {
        let parent = CancellationToken::new();
        let turn = Control::default().begin(Some(&parent));
        parent.cancel();
        assert!(turn.token.is_cancelled());
    }
}
