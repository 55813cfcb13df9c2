//! The terminal: taking it, suspending it for other programs, and taking it back.

use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use vestal_config::Environment;
use vestal_runtime::{Termination, Terminations};
use vestal_tui::terminal::{Inputs, Terminal, TerminalOutput};
use vestal_tui::{Reflow, Size, TerminalInput};

use crate::chat::Chat;
use crate::host::ChatError;
use crate::run::ChatExit;

/// The terminal of a chat: its input, signals and output.
pub struct ChatTerminal {
    /// Input of the user and the terminal. The channel closes when the terminal is gone.
    pub inputs: UnboundedReceiver<TerminalInput>,
    /// Signals that ask the process to end.
    pub signals: UnboundedReceiver<Termination>,
    /// Where frames are written.
    pub out: Box<dyn Write + Send>,
    /// The size of the terminal.
    pub size: Size,
    /// Whether the terminal reflows its lines when its width changes.
    pub reflow: Reflow,
    /// Suspends and resumes the terminal.
    pub terminal: Box<dyn SuspendTerminal>,
}

/// A terminal that can be suspended for another program.
pub trait SuspendTerminal: Send {
    /// Puts the terminal into its normal mode.
    fn suspend(&mut self) -> io::Result<()>;

    /// Takes the terminal back, and returns its size if known.
    fn resume(&mut self) -> io::Result<Option<Size>>;

    /// Stops the process as Ctrl-Z does, with the terminal in its normal mode, and takes the
    /// terminal back when the process continues.
    fn stop(&mut self) -> io::Result<Option<Size>>;
}

impl SuspendTerminal for Terminal {
    fn suspend(&mut self) -> io::Result<()> {
        Self::suspend(self)
    }

    fn resume(&mut self) -> io::Result<Option<Size>> {
        Self::resume(self)?;
        Ok(Self::size())
    }

    fn stop(&mut self) -> io::Result<Option<Size>> {
        Self::stop(self)?;
        Ok(Self::size())
    }
}

impl ChatTerminal {
    /// Takes the terminal of this process. Dropping the value restores the terminal.
    pub(crate) fn take(
        listen: impl FnOnce() -> io::Result<Terminations>,
        environment: &Environment,
    ) -> Result<Self, ChatError> {
        let failed = |error: io::Error| ChatError {
            problem: format!("failed to set up the terminal: {error}"),
            advice: vec!["without a terminal, use: vestal chat -q 'QUESTION'".to_owned()],
        };
        let mut signals = listen().map_err(failed)?;
        let (terminal, mut inputs): (Terminal, Inputs) = Terminal::enter().map_err(failed)?;
        let size = Terminal::size().unwrap_or(Size { columns: 80, rows: 24 });
        let (typed, typing) = unbounded_channel();
        tokio::spawn(async move {
            loop {
                let input = inputs.next().await;
                let is_last = input == TerminalInput::Closed;
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
            out: Box::new(TerminalOutput),
            size,
            reflow: Terminal::reflow(|name| environment.get(name)),
            terminal: Box::new(terminal),
        })
    }
}

impl std::fmt::Debug for ChatTerminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTerminal").field("size", &self.size).finish_non_exhaustive()
    }
}

/// How another program uses the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TerminalUse {
    /// It writes lines; a line of the chat may be printed between them.
    Lines,
    /// It uses the whole screen.
    Screen,
}

impl Chat {
    /// Runs a command of the command line on the suspended terminal. Returns whether it
    /// succeeded; errors have been printed by then.
    pub(crate) async fn run_host_command(&mut self, words: Vec<String>) -> bool {
        if !self.suspend_terminal() {
            return false;
        }
        let host = Arc::clone(&self.host);
        let verb = tokio::spawn(async move { host.run_command(words).await });
        let went_well = self.wait_while_suspended(verb, TerminalUse::Lines).await;
        self.resume_terminal();
        went_well.unwrap_or_else(|error| {
            tracing::error!(%error, "a command broke");
            self.show_error(&ChatError {
                problem: "the command failed because of a bug in this program".to_owned(),
                advice: vec!["the conversation is not affected".to_owned()],
            });
            false
        })
    }

    /// Waits for work that uses the suspended terminal, and announces questions that arrive
    /// meanwhile.
    async fn wait_while_suspended<T>(
        &mut self,
        mut work: JoinHandle<T>,
        terminal_use: TerminalUse,
    ) -> Result<T, tokio::task::JoinError> {
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                pending = self.questions.next() => {
                    self.ask(pending);
                    self.ring_bell();
                    if terminal_use == TerminalUse::Lines {
                        self.note("the agent is waiting for an answer; Ctrl-C returns to it");
                        // A lost terminal is noticed when it is resumed.
                        self.screen.clear().ok();
                    }
                }
            }
        }
    }

    /// Edits the input with the user's editor.
    pub(crate) async fn edit_externally(&mut self) {
        let environment = self.settings.environment();
        let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| {
            environment.get(name)?.to_str().map(str::trim).filter(|it| !it.is_empty())
        });
        let editor = editor.unwrap_or("vi").to_owned();
        let text = self.editor.text();
        if !self.suspend_terminal() {
            return;
        }
        let editing =
            tokio::task::spawn_blocking(move || vestal_tui::edit_externally(&text, &editor));
        let edited = self.wait_while_suspended(editing, TerminalUse::Screen).await;
        self.resume_terminal();
        match edited {
            Ok(Ok(text)) => self.editor.set_text(&text),
            Ok(Err(error)) => self.show_error(&ChatError {
                problem: error.to_string(),
                advice: vec!["set VISUAL or EDITOR to your editor".to_owned()],
            }),
            Err(_) => self.warn("failed to wait for the editor; the input is unchanged"),
        }
    }

    /// Stops the process until it is continued. A running turn is stopped too; jobs in the
    /// sandbox continue.
    pub(crate) fn stop(&mut self) {
        let stopped = self.screen.clear().and_then(|()| self.terminal.stop());
        self.terminal_resumed(stopped);
    }

    /// Clears the live area and suspends the terminal.
    fn suspend_terminal(&mut self) -> bool {
        let given = self.screen.clear().and_then(|()| self.terminal.suspend());
        if let Err(error) = given {
            self.show_error(&ChatError {
                problem: format!("failed to suspend the terminal: {error}"),
                advice: Vec::new(),
            });
            return false;
        }
        true
    }

    fn resume_terminal(&mut self) {
        let taken = self.terminal.resume();
        self.terminal_resumed(taken);
    }

    fn terminal_resumed(&mut self, taken: io::Result<Option<Size>>) {
        match taken {
            Ok(size) => {
                if let Some(size) = size {
                    self.resized(size);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the terminal could not be taken back");
                self.leaving = Some(ChatExit::Closed);
            }
        }
        // Ctrl-C was meant for the program that used the terminal.
        while let Ok(signal) = self.signals.try_recv() {
            if signal != Termination::Interrupt {
                self.leaving = Some(ChatExit::Signal(signal));
            }
        }
        self.last = None;
        self.is_dirty = true;
        self.monitor.refresh();
    }
}
