#![doc = include_str!("../README.md")]

mod complete;
pub mod diff;
mod editor;
#[cfg(feature = "emulator")]
pub mod emulator;
pub mod format;
pub mod highlight;
mod history;
mod key;
mod markdown;
mod screen;
pub mod style;
pub mod terminal;
mod text;

pub use complete::{Completer, Paths, Suggestion, mentioned_paths, pasted_path};
pub use editor::{Editor, Reaction, Submission, bindings, edit_externally};
pub use history::History;
pub use key::{KeyCode, KeyDecoder, KeyPress, Modifiers, TerminalInput};
pub use markdown::Markdown;
pub use screen::{LiveArea, Reflow, Screen};
pub use style::Colour;
pub use text::{Line, Size, Span, Style, harmless, width};
