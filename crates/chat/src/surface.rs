//! Where a chat is shown: a terminal, or whatever a test has in its place.

use std::io::{self, Write};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use vestal_sandbox::{Termination, Terminations};
use vestal_tui::terminal::{Inputs, Output, Terminal};
use vestal_tui::{Input, Reflow, Size};

use crate::program::Trouble;

/// Where a chat is shown, and where its keys come from.
pub struct Surface {
    /// What the person and the terminal do. The end of it is the end of the terminal.
    pub inputs: UnboundedReceiver<Input>,
    /// What asks the process to end.
    pub signals: UnboundedReceiver<Termination>,
    /// Where the screen is written.
    pub out: Box<dyn Write + Send>,
    /// How large it is.
    pub size: Size,
    /// What the terminal does with its lines when its width changes.
    pub reflow: Reflow,
    /// What lends the terminal to others.
    pub lend: Box<dyn Lend>,
}

/// A terminal that can be lent to somebody who wants it in its usual mode.
pub trait Lend: Send {
    /// Puts the terminal into its usual mode.
    fn lend(&mut self) -> io::Result<()>;

    /// Takes it back, and returns its size by now, if that is known.
    fn take_back(&mut self) -> io::Result<Option<Size>>;

    /// Stops the process, as Ctrl-Z does elsewhere, with the terminal in its
    /// usual mode, and takes the terminal back when the process goes on.
    fn stop(&mut self) -> io::Result<Option<Size>>;
}

impl Lend for Terminal {
    fn lend(&mut self) -> io::Result<()> {
        self.suspend()
    }

    fn take_back(&mut self) -> io::Result<Option<Size>> {
        self.resume()?;
        Ok(Self::size())
    }

    fn stop(&mut self) -> io::Result<Option<Size>> {
        Self::stop(self)?;
        Ok(Self::size())
    }
}

impl Surface {
    /// Takes the terminal of this process. It is put back when the surface, or
    /// the chat that has it, is dropped.
    pub(crate) fn take() -> Result<Self, Trouble> {
        let failed = |error: io::Error| Trouble {
            problem: format!("failed to take the terminal: {error}"),
            advice: vec!["to ask without one: vestal chat -q 'what is to be done'".to_owned()],
        };
        let mut signals = Terminations::listen().map_err(failed)?;
        let (terminal, mut inputs): (Terminal, Inputs) = Terminal::enter().map_err(failed)?;
        let size = Terminal::size().unwrap_or(Size { columns: 80, rows: 24 });
        let (typed, typing) = unbounded_channel();
        tokio::spawn(async move {
            loop {
                let input = inputs.next().await;
                let is_last = input == Input::Closed;
                if typed.send(input).is_err() || is_last {
                    return;
                }
            }
        });
        let (signalled, signalling): (UnboundedSender<Termination>, _) = unbounded_channel();
        tokio::spawn(async move {
            loop {
                let signal = tokio::select! {
                    signal = signals.next() => signal,
                    () = signalled.closed() => return,
                };
                if signalled.send(signal).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            inputs: typing,
            signals: signalling,
            out: Box::new(Output),
            size,
            reflow: Terminal::reflow(),
            lend: Box::new(terminal),
        })
    }
}

impl std::fmt::Debug for Surface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surface").field("size", &self.size).finish_non_exhaustive()
    }
}
