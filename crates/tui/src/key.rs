//! What comes from the keyboard.

mod decode;
mod frame;
mod paste;

pub use self::decode::Decoder;
use crate::text::Size;

/// Something that a person, or the terminal, did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A key was pressed.
    Key(Key),
    /// Text was pasted, ends of lines as `\n`.
    Paste(String),
    /// The terminal has another size.
    Resized(Size),
    /// The window is looked at, or is no longer.
    Focused(bool),
    /// The terminal is gone: nothing will come any more.
    Closed,
}

/// A key, with what was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub code: KeyCode,
    /// What was held.
    pub modifiers: Modifiers,
}

/// The keys that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCode {
    /// A character, as typed.
    Char(char),
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Escape.
    Escape,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// A function key.
    F(u8),
}

/// What is held while a key is pressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// Control.
    pub control: bool,
    /// Alt, or Option, or Escape pressed before.
    pub alt: bool,
    /// Shift, where the terminal tells.
    pub shift: bool,
}

impl Key {
    /// Returns a key without anything held.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: Modifiers { control: false, alt: false, shift: false } }
    }

    /// Returns a character with Control held.
    pub const fn control(c: char) -> Self {
        let modifiers = Modifiers { control: true, alt: false, shift: false };
        Self { code: KeyCode::Char(c), modifiers }
    }
}
