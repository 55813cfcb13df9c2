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
mod matching;
mod picker;
mod screen;
pub mod style;
pub mod terminal;
mod text;

pub use complete::{
    Completer, Mention, Paths, Suggestion, mention_at, mention_suggestions, mentioned_paths,
    pasted_path,
};
pub use editor::{Editor, Reaction, Submission, bindings, edit_externally};
pub use history::History;
pub use key::clipboard::ClipboardReply;
pub use key::{KeyCode, KeyDecoder, KeyPress, Modifiers, TerminalInput};
pub use markdown::{CodeBlock, Markdown, code_blocks};
pub use matching::{MatchRank, contains_words, match_rank};
pub use picker::{Picker, PickerItem, PickerReaction};
pub use screen::{LiveArea, Reflow, Screen};
pub use style::Colour;
pub use text::{Line, Size, Span, Style, harmless, width};
