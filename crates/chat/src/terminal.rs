//! The terminal: taking it, suspending it for other programs, and taking it back.

use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use vestal_sandbox::{Termination, Terminations};
use vestal_tui::terminal::{Inputs, Output, Terminal};
use vestal_tui::{Input, Reflow, Size};

use crate::chat::Chat;
use crate::host::Trouble;
use crate::run::Left;

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

/// What somebody does with the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lent {
    /// Writes lines: one of ours may stand between them.
    Lines,
    /// Fills the screen.
    Screen,
}

impl Chat {
    /// Runs a command of the command line on the terminal, which is in its
    /// usual mode meanwhile. Returns whether it went well; why not has been
    /// said by then.
    pub(crate) async fn aside(&mut self, words: Vec<String>) -> bool {
        if !self.give_away() {
            return false;
        }
        let program = Arc::clone(&self.program);
        let verb = tokio::spawn(async move { program.verb(words).await });
        let went_well = self.while_lent(verb, Lent::Lines).await;
        self.take_back();
        went_well.unwrap_or_else(|error| {
            tracing::error!(%error, "a command broke");
            self.trouble(&Trouble {
                problem: "the command broke off because of a mistake in this program".to_owned(),
                advice: vec!["the conversation is not touched by it".to_owned()],
            });
            false
        })
    }

    /// Waits for whoever has the terminal. A question that comes meanwhile is
    /// made known as far as that can be: it would run out of time unseen.
    async fn while_lent<T>(
        &mut self,
        mut work: JoinHandle<T>,
        lent: Lent,
    ) -> Result<T, tokio::task::JoinError> {
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                pending = self.questions.next() => {
                    self.ask(pending);
                    self.ring_anyway();
                    if lent == Lent::Lines {
                        self.note("the agent asks something and waits for the answer; Ctrl-C goes back to it");
                        // A terminal that is gone is noticed when it is taken back.
                        self.screen.clear().ok();
                    }
                }
            }
        }
    }

    /// Lets the input be edited with the person's own editor.
    pub(crate) async fn edit_externally(&mut self) {
        let environment = self.settings.environment();
        let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| {
            environment.get(name)?.to_str().map(str::trim).filter(|it| !it.is_empty())
        });
        let editor = editor.unwrap_or("vi").to_owned();
        let text = self.editor.text();
        if !self.give_away() {
            return;
        }
        let editing =
            tokio::task::spawn_blocking(move || vestal_tui::edit_externally(&text, &editor));
        let edited = self.while_lent(editing, Lent::Screen).await;
        self.take_back();
        match edited {
            Ok(Ok(text)) => self.editor.set_text(&text),
            Ok(Err(error)) => self.trouble(&Trouble {
                problem: error.to_string(),
                advice: vec!["VISUAL or EDITOR names the editor".to_owned()],
            }),
            Err(_) => self.warn("the editor could not be waited for; the text is as it was"),
        }
    }

    /// Stops the process until somebody lets it go on. A turn that runs is
    /// stopped with it; what runs in the sandbox goes on.
    pub(crate) fn stop(&mut self) {
        let stopped = self.screen.clear().and_then(|()| self.lend.stop());
        self.taken_back(stopped);
    }

    /// Takes the live area down and puts the terminal into its usual mode.
    fn give_away(&mut self) -> bool {
        let given = self.screen.clear().and_then(|()| self.lend.lend());
        if let Err(error) = given {
            self.trouble(&Trouble {
                problem: format!("failed to give the terminal away: {error}"),
                advice: Vec::new(),
            });
            return false;
        }
        true
    }

    fn take_back(&mut self) {
        let taken = self.lend.take_back();
        self.taken_back(taken);
    }

    fn taken_back(&mut self, taken: std::io::Result<Option<vestal_tui::Size>>) {
        match taken {
            Ok(size) => {
                if let Some(size) = size {
                    self.resized(size);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the terminal could not be taken back");
                self.leaving = Some(Left::Closed);
            }
        }
        // Ctrl-C was meant for whoever had the terminal.
        while let Ok(signal) = self.signals.try_recv() {
            if signal != vestal_sandbox::Termination::Interrupt {
                self.leaving = Some(Left::Signal(signal));
            }
        }
        self.last = None;
        self.is_dirty = true;
        self.watch.look();
    }
}
