//! A terminal to look at in tests: what a program writes to it, as a person would
//! see it.

mod pty;

use std::sync::{Arc, Mutex, PoisonError};

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color, NamedColor, Processor};

use crate::text::Size;

pub use pty::{Command, Pty};

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
struct Answers(Arc<Mutex<TerminalState>>);

#[derive(Debug, Default)]
struct TerminalState {
    bytes: Vec<u8>,
    bells: usize,
    title: Option<String>,
}

impl EventListener for Answers {
    fn send_event(&self, event: Event) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PtyWrite(text) => state.bytes.extend_from_slice(text.as_bytes()),
            Event::Bell => state.bells += 1,
            Event::Title(title) => state.title = Some(title),
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
        std::mem::take(&mut self.state().bytes)
    }

    /// Returns how often the bell has rung.
    pub fn bells(&self) -> usize {
        self.state().bells
    }

    /// Returns the title of the window, when a program has given it one.
    pub fn title(&self) -> Option<String> {
        self.state().title.clone()
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

    fn state(&self) -> std::sync::MutexGuard<'_, TerminalState> {
        self.answers.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator").field("screen", &self.screen()).finish_non_exhaustive()
    }
}

/// Words of one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Styled {
    /// The words.
    pub text: String,
    /// How they look: `bold`, `dim`, `italic`, `underline`, `inverse`, `struck`, and
    /// the names of their colours (`red`, `on blue`).
    pub look: Vec<String>,
}

impl Emulator {
    /// Returns the rows that are seen, without the blanks at their ends.
    pub fn screen(&self) -> Vec<String> {
        let rows = i32::try_from(self.term.screen_lines()).unwrap_or(i32::MAX);
        (0..rows).map(|row| self.row(Line(row))).collect()
    }

    /// Returns the rows of the scroll-back and those that are seen, without the empty
    /// ones at the end.
    pub fn all(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.lines().map(|row| self.row(row)).collect();
        drop_empty_end(&mut rows);
        rows
    }

    /// As [`Emulator::all`], with what the terminal itself has folded as one line: as
    /// someone gets it who selects and copies it.
    pub fn copied(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut continues = false;
        for row in self.lines() {
            let text = self.text_of(row);
            match lines.last_mut() {
                Some(last) if continues => last.push_str(&text),
                _ => lines.push(text),
            }
            let last = &self.term.grid()[row][self.term.last_column()];
            continues = last.flags.contains(Flags::WRAPLINE);
        }
        let mut lines: Vec<_> = lines.iter().map(|line| line.trim_end().to_owned()).collect();
        drop_empty_end(&mut lines);
        lines
    }

    /// Returns the rows that are seen, with how their words look; without blanks that
    /// have no look.
    pub fn styled_screen(&self) -> Vec<Vec<Styled>> {
        let rows = i32::try_from(self.term.screen_lines()).unwrap_or(i32::MAX);
        (0..rows).map(|row| self.styled_row(Line(row))).collect()
    }

    fn lines(&self) -> impl Iterator<Item = Line> + use<> {
        (self.term.topmost_line().0..=self.term.bottommost_line().0).map(Line)
    }

    fn row(&self, row: Line) -> String {
        self.text_of(row).trim_end().to_owned()
    }

    fn text_of(&self, row: Line) -> String {
        self.cells(row).map(|(text, _)| text).collect()
    }

    fn styled_row(&self, row: Line) -> Vec<Styled> {
        let mut spans: Vec<Styled> = Vec::new();
        for (text, cell) in self.cells(row) {
            let look = look(cell);
            match spans.last_mut() {
                Some(last) if last.look == look => last.text.push_str(&text),
                _ => spans.push(Styled { text, look }),
            }
        }
        if let Some(last) = spans.last_mut().filter(|last| last.look.is_empty()) {
            last.text.truncate(last.text.trim_end().len());
        }
        spans.retain(|span| !span.text.is_empty());
        spans
    }

    fn cells(&self, row: Line) -> impl Iterator<Item = (String, &Cell)> {
        let cells =
            (0..self.term.columns()).map(move |column| &self.term.grid()[row][Column(column)]);
        // The second half of a wide character, and the place one did not fit into.
        let spacer = Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER;
        cells.filter(move |cell| !cell.flags.intersects(spacer)).map(|cell| {
            let marks = cell.zerowidth().unwrap_or_default();
            (std::iter::once(cell.c).chain(marks.iter().copied()).collect(), cell)
        })
    }
}

fn drop_empty_end(rows: &mut Vec<String>) {
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
}

fn look(cell: &Cell) -> Vec<String> {
    let flags = [
        (Flags::BOLD, "bold"),
        (Flags::DIM, "dim"),
        (Flags::ITALIC, "italic"),
        (Flags::ALL_UNDERLINES, "underline"),
        (Flags::INVERSE, "inverse"),
        (Flags::STRIKEOUT, "struck"),
    ];
    let flags = flags.into_iter().filter(|(flag, _)| cell.flags.intersects(*flag));
    let mut look: Vec<_> = flags.map(|(_, name)| name.to_owned()).collect();
    if cell.fg != Color::Named(NamedColor::Foreground) {
        look.push(name(cell.fg));
    }
    if cell.bg != Color::Named(NamedColor::Background) {
        look.push(format!("on {}", name(cell.bg)));
    }
    look
}

fn name(colour: Color) -> String {
    match colour {
        Color::Named(name) => format!("{name:?}").to_lowercase(),
        Color::Indexed(index) => format!("colour {index}"),
        Color::Spec(rgb) => format!("#{:02x}{:02x}{:02x}", rgb.r, rgb.g, rgb.b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(columns: u16, rows: u16) -> Emulator {
        Emulator::new(Size { columns, rows })
    }

    #[test]
    fn rows_scroll_back_and_folded_ones_are_copied_as_one() {
        let mut terminal = terminal(10, 3);
        terminal.feed(b"one\r\na line that is folded\r\nend  ");
        assert_eq!(terminal.screen(), ["t is folde", "d", "end"]);
        assert_eq!(terminal.all(), ["one", "a line tha", "t is folde", "d", "end"]);
        assert_eq!(terminal.copied(), ["one", "a line that is folded", "end"]);
        assert_eq!(terminal.cursor(), (2, 5));
        terminal.resize(Size { columns: 40, rows: 4 });
        assert_eq!(terminal.screen(), ["one", "a line that is folded", "end", ""]);
    }

    #[test]
    fn wide_and_combining_characters_are_whole() {
        let mut terminal = terminal(5, 3);
        terminal.feed("日本語e\u{301}".as_bytes());
        assert_eq!(terminal.screen(), ["日本", "語e\u{301}", ""]);
        assert_eq!(terminal.copied(), ["日本語e\u{301}"]);
    }

    #[test]
    fn questions_are_answered_and_modes_are_known() {
        let mut terminal = terminal(20, 4);
        terminal.feed(b"ab\x1b[6n\x07\x1b]0;title\x07\x1b[?2004h\x1b[?25l\x1b[>1u");
        assert_eq!(terminal.answers(), b"\x1b[1;3R");
        assert_eq!(terminal.answers(), b"");
        assert_eq!((terminal.bells(), terminal.title().as_deref()), (1, Some("title")));
        assert_eq!(terminal.modes(), ["bracketed paste", "keyboard", "hidden cursor"]);
        terminal.feed(b"\x1b[?2004l\x1b[?25h\x1b[<1u");
        assert_eq!(terminal.modes(), Vec::<&str>::new());
    }

    #[test]
    fn looks_have_names() {
        let mut terminal = terminal(20, 1);
        terminal.feed(b"a\x1b[1;31mb\x1b[0;2;44mc\x1b[0m d   ");
        let looks = [("a", ""), ("b", "bold red"), ("c", "dim on blue"), (" d", "")];
        let row = &terminal.styled_screen()[0];
        let seen: Vec<_> = row.iter().map(|span| (&*span.text, span.look.join(" "))).collect();
        assert_eq!(seen, looks.map(|(text, look)| (text, look.to_owned())));
    }
}
