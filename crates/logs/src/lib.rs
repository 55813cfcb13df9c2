#![doc = include_str!("../README.md")]

mod entry;
mod files;
mod layer;
mod lines;
mod merge;
mod read_entries;
mod read_lines;
mod watch;
mod writer;

pub use entry::{Entry, Level, MAX_ENTRY, NewEntry, UnknownLevel, stamp};
pub use files::LogFiles;
pub use layer::{Destinations, Echo, LogHandle, LogLayer, Redact, Reported, layer};
pub use lines::{LineBuffer, MAX_LINE};
pub use merge::{Filter, Merged, SourcedEntry};
pub use read_entries::{EntryReader, PendingEntry, Source};
pub use read_lines::{LineReader, Next};
pub use watch::LogWatch;
pub use writer::LogWriter;
