//! A chat of the program on a pseudo-terminal.

use rustix::process::Signal;
use vestal_tui::Size;
use vestal_tui::emulator::{Command, Emulator, Pty};

use crate::chat::fixture::ChatFixture;
use crate::support::TEST_TIMEOUT;

pub(crate) const ENTER: &str = "\r";
/// Ctrl-C.
pub(crate) const INTERRUPT: &str = "\x03";
/// Ctrl-D.
pub(crate) const END: &str = "\x04";

pub(crate) const fn columns(columns: u16) -> Size {
    Size { columns, rows: 30 }
}

/// A chat on a terminal.
pub(crate) struct ChatTerminal {
    pub(crate) pty: Pty,
}

impl ChatTerminal {
    /// Begins a chat on a terminal of 80 columns, and waits until it can be typed into.
    pub(crate) fn take(chat: &ChatFixture) -> Self {
        let tty = Self::take_with(chat, &["chat"], columns(80));
        tty.sees_prompt();
        tty
    }

    /// Starts the program on a terminal.
    pub(crate) fn take_with(chat: &ChatFixture, args: &[&str], size: Size) -> Self {
        let variables: Vec<(&str, String)> = chat.variables();
        Self::start(chat, args, size, &variables)
    }

    /// As [`ChatTerminal::take_with`], with exactly these variables besides the usual ones.
    pub(crate) fn start(
        chat: &ChatFixture,
        args: &[&str],
        size: Size,
        variables: &[(&str, String)],
    ) -> Self {
        Self::start_in(chat, &chat.fixture.work(), args, size, variables)
    }

    /// As [`ChatTerminal::start`], in a directory.
    pub(crate) fn start_in(
        chat: &ChatFixture,
        dir: &std::path::Path,
        args: &[&str],
        size: Size,
        variables: &[(&str, String)],
    ) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_vestal"))
            .args(args)
            .current_dir(dir)
            .env_clear()
            .envs(chat.fixture.environment())
            .env("NO_COLOR", "1")
            .envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
        Self { pty: Pty::spawn(command, size).unwrap() }
    }

    /// Waits until the input is there to be typed into.
    #[track_caller]
    pub(crate) fn sees_prompt(&self) {
        self.sees_when(|screen| screen.iter().any(|row| row.starts_with('›')));
    }

    /// Waits until the window shows a text.
    #[track_caller]
    pub(crate) fn sees(&self, text: &str) {
        self.pty.wait_for_text(text, TEST_TIMEOUT);
    }

    #[track_caller]
    pub(crate) fn sees_when(&self, looks_right: impl Fn(&[String]) -> bool) {
        self.pty.wait_for(|seen| looks_right(&seen.screen()), TEST_TIMEOUT);
    }

    /// Waits until a text is nowhere in the window any more.
    #[track_caller]
    pub(crate) fn sees_no_more(&self, text: &str) {
        self.sees_when(|screen| !screen.iter().any(|row| row.contains(text)));
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.pty.type_text(text).unwrap();
    }

    /// Types something, sees it, and sends it; a command when nothing runs any more.
    #[track_caller]
    pub(crate) fn submits(&mut self, text: &str) {
        if text.starts_with('/') {
            self.sees_rest();
        } else {
            self.sees_input();
        }
        self.types(text);
        let tail: String =
            text.chars().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect();
        self.sees(&tail);
        self.types(ENTER);
    }

    /// Waits until a text is seen, or can be scrolled back to.
    #[track_caller]
    pub(crate) fn has_seen(&self, text: &str) {
        self.pty.wait_for(|seen| seen.all().iter().any(|row| row.contains(text)), TEST_TIMEOUT);
    }

    /// Waits until the input is there with nothing in it. A command that has the
    /// terminal meanwhile would get what is typed before.
    #[track_caller]
    pub(crate) fn sees_input(&self) {
        self.sees_when(|screen| status(screen, "").is_some());
    }

    /// Waits until nothing is under way.
    #[track_caller]
    pub(crate) fn sees_rest(&self) {
        self.sees_rest_with("");
    }

    /// As [`ChatTerminal::sees_rest`], with this in the input.
    #[track_caller]
    pub(crate) fn sees_rest_with(&self, typed: &str) {
        // While a turn runs, its time is a part of the status.
        let is_time = |part: &str| part.trim_end_matches(['s', 'm']).parse::<u32>().is_ok();
        self.sees_when(|screen| {
            status(screen, typed).is_some_and(|row| !row.split(" · ").any(is_time))
        });
    }

    /// What somebody gets who copies everything: lines that the window folded are one.
    pub(crate) fn copied(&self) -> String {
        self.pty.look(Emulator::copied).join("\n")
    }

    /// Everything that can be scrolled back to, and what is seen.
    pub(crate) fn all(&self) -> String {
        self.pty.look(Emulator::all).join("\n")
    }

    /// How often a text stands in everything that was shown.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.all().matches(text).count()
    }

    /// Leaves, and returns the exit code.
    #[track_caller]
    pub(crate) fn leaves(mut self) -> i32 {
        self.sees_input();
        self.types(END);
        self.ends()
    }

    /// Waits for the end of the program, and returns the exit code.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> i32 {
        let status = self.pty.wait(TEST_TIMEOUT).unwrap();
        status.code().unwrap_or(-1)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.pty.kill(signal).unwrap();
    }
}

/// Returns the line at the bottom, where an input with this in it stands above it.
fn status<'a>(screen: &'a [String], typed: &str) -> Option<&'a str> {
    let mut rows = screen.iter().map(|row| row.trim_end()).rev().skip_while(|row| row.is_empty());
    let status = rows.next()?;
    let input = rows.next()?.strip_prefix('›')?;
    (input.trim() == typed).then_some(status)
}
