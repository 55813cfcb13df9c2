//! The styles, in the sixteen colours of the terminal's theme.

pub use anstyle::Style;
use anstyle::{AnsiColor, Color};

/// No style at all.
pub const PLAIN: Style = Style::new();
/// Important.
pub const BOLD: Style = Style::new().bold();
/// Less important.
pub const DIM: Style = Style::new().dimmed();
/// Leaning.
pub const ITALIC: Style = Style::new().italic();
/// With a line below.
pub const UNDERLINE: Style = Style::new().underline();
/// Struck through.
pub const STRUCK: Style = Style::new().strikethrough();
/// Foreground and background exchanged.
pub const REVERSED: Style = Style::new().invert();
/// The terminal's red.
pub const RED: Style = colour(AnsiColor::Red);
/// The terminal's green.
pub const GREEN: Style = colour(AnsiColor::Green);
/// The terminal's yellow.
pub const YELLOW: Style = colour(AnsiColor::Yellow);
/// The terminal's blue.
pub const BLUE: Style = colour(AnsiColor::Blue);
/// The terminal's magenta.
pub const MAGENTA: Style = colour(AnsiColor::Magenta);
/// The terminal's cyan.
pub const CYAN: Style = colour(AnsiColor::Cyan);

/// Whether styles are sent to the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// They are.
    On,
    /// They are not: the words alone must do.
    Off,
}

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour)))
}
