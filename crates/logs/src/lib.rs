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

pub use entry::{Level, LogEntry, MAX_ENTRY, NewEntry, UnknownLevel, stamp};
pub use files::LogFiles;
pub use layer::{Destinations, Echo, LogHandle, LogLayer, Redact, ShownReport, layer};
pub use lines::{LineBuffer, MAX_LINE};
pub use merge::{LogFilter, MergedLogs, SourcedEntry};
pub use read_entries::{EntryReader, LogInput, PendingEntry};
pub use read_lines::{LogReader, NextLine};
pub use watch::LogWatch;
pub use writer::LogWriter;
