//! A terminal to look at in tests: what a program writes to it, as a person would
//! see it.

mod pty;
mod rows;

use std::sync::{Arc, Mutex, PoisonError};

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::Processor;

pub use self::pty::{Command, Pty};
pub use self::rows::Styled;
use crate::text::Size;

/// How many lines can be scrolled back to.
const HISTORY: usize = 100_000;

/// A terminal without a window.
pub struct Emulator {
    term: Term<Answers>,
    processor: Processor,
    answers: Answers,
}

/// What the terminal sends back.
#[derive(Debug, Clone, Default)]
struct Answers(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    bytes: Vec<u8>,
    bells: usize,
    title: Option<String>,
}

impl EventListener for Answers {
    fn send_event(&self, event: Event) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PtyWrite(text) => told.bytes.extend_from_slice(text.as_bytes()),
            Event::Bell => told.bells += 1,
            Event::Title(title) => told.title = Some(title),
            _ => {}
        }
    }
}

/// A size that the emulator can be in: it needs two columns.
struct Dimension(Size);

impl Dimensions for Dimension {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.0.rows).max(alacritty_terminal::term::MIN_SCREEN_LINES)
    }

    fn columns(&self) -> usize {
        usize::from(self.0.columns).max(alacritty_terminal::term::MIN_COLUMNS)
    }
}

impl Emulator {
    /// Returns an empty terminal.
    pub fn new(size: Size) -> Self {
        let answers = Answers::default();
        let config =
            Config { scrolling_history: HISTORY, kitty_keyboard: true, ..Config::default() };
        let term = Term::new(config, &Dimension(size), answers.clone());
        Self { term, processor: Processor::new(), answers }
    }

    /// Writes to the terminal.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.processor.advance(&mut self.term, bytes);
    }

    /// Makes the window larger or smaller.
    pub fn resize(&mut self, size: Size) {
        self.term.resize(Dimension(size));
    }

    /// Returns the row and the column of the cursor.
    pub fn cursor(&self) -> (usize, usize) {
        let point = self.term.grid().cursor.point;
        (usize::try_from(point.line.0).unwrap_or(0), point.column.0)
    }

    /// Returns whether the cursor is seen.
    pub fn cursor_is_visible(&self) -> bool {
        self.term.mode().contains(TermMode::SHOW_CURSOR)
    }

    /// Takes what the terminal has sent back.
    pub fn answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.told().bytes)
    }

    /// Returns how often the bell has rung.
    pub fn bells(&self) -> usize {
        self.told().bells
    }

    /// Returns the title of the window, when a program has given it one.
    pub fn title(&self) -> Option<String> {
        self.told().title.clone()
    }

    /// Returns the modes that a program has turned on and not off again: none, once it
    /// has left a terminal as it was.
    pub fn modes(&self) -> Vec<&'static str> {
        let mode = self.term.mode();
        let on = [
            (TermMode::BRACKETED_PASTE, "bracketed paste"),
            (TermMode::FOCUS_IN_OUT, "focus"),
            (TermMode::DISAMBIGUATE_ESC_CODES, "keyboard"),
            (TermMode::ALT_SCREEN, "alternate screen"),
            (TermMode::MOUSE_MODE, "mouse"),
            (TermMode::APP_CURSOR, "application cursor"),
        ];
        let off = [(TermMode::SHOW_CURSOR, "hidden cursor"), (TermMode::LINE_WRAP, "no wrapping")];
        let on = on.into_iter().filter(|(flag, _)| mode.intersects(*flag));
        let off = off.into_iter().filter(|(flag, _)| !mode.contains(*flag));
        on.chain(off).map(|(_, name)| name).collect()
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.answers.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator").field("screen", &self.screen()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "emulator/tests.rs"]
mod tests;
