//! Waiting for what a command needs, with the person still there.

use std::time::Instant;

use vestal_sandbox::Termination;
use vestal_tui::{Input, Key, KeyCode};

use crate::chat::Chat;
use crate::program::Trouble;
use crate::run::Left;
use crate::view::FRAME;

impl Chat {
    /// Waits for something that others do, and that may take as long as they
    /// like: a sandbox, a store, a file. It is seen as `what` when it does.
    /// Ctrl-C or Esc ends the waiting; what else is typed meanwhile is kept for
    /// afterwards, in its order.
    pub(crate) async fn wait_for<T>(
        &mut self,
        what: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, Trouble> {
        let mut work = std::pin::pin!(work);
        let since = Instant::now();
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break Some(done),
                Some(signal) = self.signals.recv() => {
                    if signal != Termination::Interrupt {
                        self.leaving = Some(Left::Signal(signal));
                    }
                    break None;
                }
                input = self.inputs.recv() => match input.unwrap_or(Input::Closed) {
                    Input::Closed => {
                        self.leaving = Some(Left::Closed);
                        break None;
                    }
                    Input::Key(key)
                        if key == Key::control('c') || key == Key::plain(KeyCode::Escape) =>
                    {
                        break None;
                    }
                    Input::Resized(size) => self.resized(size),
                    input => self.ahead.push_back(input),
                },
                () = tokio::time::sleep(FRAME) => {
                    self.awaited = Some((since, what.to_owned()));
                    self.draw();
                }
            }
        };
        if self.awaited.take().is_some() {
            self.is_dirty = true;
        }
        done.ok_or_else(|| Trouble {
            problem: format!("{what} was given up"),
            advice: vec!["try again; `vestal doctor` says what answers here".to_owned()],
        })
    }
}
