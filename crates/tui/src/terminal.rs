//! The terminal that the program runs on: its modes, and what comes from it.

mod inputs;
mod modes;
mod output;
mod reader;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

pub use self::inputs::Inputs;
pub use self::modes::restore;
pub use self::output::Output;
use self::reader::Reader;
use crate::screen::Reflow;
use crate::text::Size;

/// How long a signal to the own process may take to be heard.
const UNTIL_STOPPED: Duration = Duration::from_millis(100);

/// The terminal, for as long as the program talks with a person on it. It is as it
/// was before when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    reader: Arc<Reader>,
}

impl Terminal {
    /// Takes the terminal that is the standard input and output. Fails when they are
    /// none. Must be called within a tokio runtime, whose signals tell of changes.
    pub fn enter() -> io::Result<(Self, Inputs)> {
        Self::enter_on(
            rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?,
            rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?,
        )
    }

    fn enter_on(input: OwnedFd, output: OwnedFd) -> io::Result<(Self, Inputs)> {
        let (read_from, size_of) = (input.try_clone()?, output.try_clone()?);
        modes::enter(input, output)?;
        let (reader, read) = Reader::start(read_from).inspect_err(|_| modes::forget())?;
        // From here on, dropping it puts everything back.
        let terminal = Self { reader };
        let inputs = Inputs::new(read, size_of)?;
        terminal.reader.go_on();
        Ok((terminal, inputs))
    }

    /// Lends the terminal to another program: its modes are as they were before, and
    /// nothing that is typed is taken.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.reader.pause()?;
        modes::leave()
    }

    /// Takes the terminal back.
    pub fn resume(&mut self) -> io::Result<()> {
        modes::enter_again()?;
        self.reader.go_on();
        Ok(())
    }

    /// Stops the process, as Ctrl-Z does it for others, and takes the terminal back
    /// when it goes on. The live area should have been cleared before.
    pub fn stop(&mut self) -> io::Result<()> {
        self.suspend()?;
        let stopped = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        // Another thread than this one may be the first to hear of it. The time that the
        // process stands still counts, so that this costs nothing afterwards.
        std::thread::sleep(UNTIL_STOPPED);
        self.resume()?;
        Ok(stopped?)
    }

    /// Returns how large the terminal is; nothing when the standard output is none.
    pub fn size() -> Option<Size> {
        size(rustix::stdio::stdout())
    }

    /// Returns what the terminal does with its lines when its width changes, as far as
    /// the environment tells.
    #[expect(clippy::disallowed_methods, reason = "no settings: what the terminal says of itself")]
    pub fn reflow() -> Reflow {
        let name = std::env::var_os("TERM").unwrap_or_default();
        let in_tmux = std::env::var_os("TMUX").is_some();
        let in_xterm = std::env::var_os("XTERM_VERSION").is_some();
        if name == "linux" || (in_xterm && !in_tmux) { Reflow::No } else { Reflow::Yes }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nobody to tell, and the rest must be done all the same.
        self.reader.end().unwrap_or_default();
        modes::forget();
    }
}

fn size(terminal: impl AsFd) -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    // A terminal that nobody has given a size says nought.
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { columns: size.ws_col, rows: size.ws_row })
}

#[cfg(test)]
#[path = "terminal/tests.rs"]
mod tests;
