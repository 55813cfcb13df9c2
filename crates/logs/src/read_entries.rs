//! Reads the entries of a log: a line with a time, and the lines that continue it.

use std::io;

use jiff::Timestamp;

use crate::entry::{Level, LogEntry, Parsed};
use crate::files::LogFiles;
use crate::read_lines::{LogReader, NextLine};

/// Bytes of one entry that are held; a longer one becomes several.
const MAX_BYTES: usize = 1 << 20;

/// A log to read, alone or merged with others.
#[derive(Debug, Clone)]
pub struct LogInput {
    /// What it is called, such as `agent`.
    pub name: &'static str,
    /// Whose it is, such as a profile; nothing if it is everybody's.
    pub owner: Option<String>,
    /// Its files.
    pub files: LogFiles,
    /// Returns the level of a message that is not in the shape of entries.
    pub level_of: fn(&str) -> Option<Level>,
    /// Only messages that begin like this belong to it.
    pub only: Option<String>,
}

impl LogInput {
    /// Returns a log whose lines have the shape of entries.
    pub fn new(name: &'static str, owner: Option<String>, files: LogFiles) -> Self {
        Self { name, owner, files, level_of: |_| None, only: None }
    }
}

/// What happens to the last entry of a log, which may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingEntry {
    /// It is taken as it is.
    Take,
    /// It is left until a look finds that nothing was added to it; see [`EntryReader::look_again`].
    Leave,
}

/// A place in a log, between entries.
#[derive(Debug)]
pub struct EntryReader {
    source: LogInput,
    lines: LogReader,
    /// The entry whose lines are being read.
    pending: Option<LogEntry>,
    /// The entry before, without its message: lines that continue it may come late.
    previous: Option<LogEntry>,
    /// A notice that comes after the pending entry.
    gap: Option<LogEntry>,
    /// Whether what is older than the entry before was read already.
    skips_older: bool,
    /// Whether a line was read since this look began.
    was_added_to: bool,
    /// Whether it began within the log, and no entry has started since.
    is_within: bool,
}

impl EntryReader {
    /// Returns a reader at the oldest entry of a log.
    pub fn new(source: LogInput) -> Self {
        Self::of(LogReader::new(source.files.clone()), source)
    }

    /// Returns a reader at an entry that begins at most so many bytes before the end of a log;
    /// nothing where the log is not longer than that.
    pub fn near_end(source: LogInput, bytes: u64) -> io::Result<Option<Self>> {
        let lines = LogReader::near_end(source.files.clone(), bytes)?;
        Ok(lines.map(|lines| Self { is_within: true, ..Self::of(lines, source) }))
    }

    fn of(lines: LogReader, source: LogInput) -> Self {
        Self {
            source,
            lines,
            pending: None,
            previous: None,
            gap: None,
            skips_older: false,
            was_added_to: false,
            is_within: false,
        }
    }

    /// Reports whether it holds an entry back that a later look returns.
    pub fn has_pending(&self) -> bool {
        self.pending.is_some() || self.gap.is_some()
    }

    /// Begins another look at a log that is followed.
    pub fn look_again(&mut self) {
        self.was_added_to = false;
    }

    /// Returns the log.
    pub fn source(&self) -> &LogInput {
        &self.source
    }

    /// Returns the next entry; nothing if there is none for now.
    pub fn next_entry(&mut self, pending: PendingEntry) -> io::Result<Option<LogEntry>> {
        loop {
            if let Some(gap) = self.gap.take() {
                return Ok(Some(gap));
            }
            let complete = match self.lines.next_line()? {
                NextLine::Line(line) => {
                    self.was_added_to = true;
                    match LogEntry::parse(line) {
                        // Whose lines these are, and how old an entry without a time is, stands
                        // before where this began.
                        Parsed::Begins(entry) if self.is_within && entry.at.is_none() => continue,
                        Parsed::Continues(_) if self.is_within => continue,
                        Parsed::Begins(mut entry) => {
                            self.is_within = false;
                            let before = self.pending.as_ref().or(self.previous.as_ref());
                            entry.at = entry.at.or(before.and_then(|before| before.at));
                            self.pending.replace(entry)
                        }
                        Parsed::Continues(line) => self.add(&line),
                    }
                }
                NextLine::Gap => {
                    self.skips_older = true;
                    let at = self.pending.as_ref().or(self.previous.as_ref());
                    let text = "entries are missing here: they were removed before they were read";
                    let at = at.and_then(|entry| entry.at);
                    self.gap = Some(LogEntry::notice(at, Level::Warn, text.to_owned()));
                    self.pending.take()
                }
                NextLine::End => {
                    if pending == PendingEntry::Leave && self.was_added_to {
                        return Ok(None);
                    }
                    let Some(last) = self.pending.take() else { return Ok(None) };
                    Some(last)
                }
            };
            if let Some(entry) = complete.and_then(|entry| self.accept(entry)) {
                return Ok(Some(entry));
            }
        }
    }

    /// Adds a line to the pending entry. What continues one that was passed on has its time and its
    /// level; without any it stands for itself.
    fn add(&mut self, line: &str) -> Option<LogEntry> {
        match &mut self.pending {
            Some(entry) if entry.message.len() + line.len() <= MAX_BYTES => {
                entry.message.push('\n');
                entry.message.push_str(line);
                None
            }
            pending => {
                let complete = pending.take();
                let header = complete.as_ref().or(self.previous.as_ref());
                *pending = Some(match header {
                    Some(header) => header.continued(line.to_owned()),
                    None => LogEntry::raw(None, line),
                });
                complete
            }
        }
    }

    /// Returns an entry if it belongs to the source and was not read before.
    fn accept(&mut self, mut entry: LogEntry) -> Option<LogEntry> {
        if entry.target.is_none() && entry.level.is_none() {
            entry.level = (self.source.level_of)(&entry.message);
        }
        let last = self.previous.as_ref().and_then(|previous| previous.at);
        if self.skips_older && is_before(entry.at, last) {
            return None;
        }
        self.skips_older = false;
        self.previous = Some(entry.continued(String::new()));
        let is_own = self.source.only.as_ref().is_none_or(|only| entry.message.starts_with(only));
        is_own.then_some(entry)
    }
}

fn is_before(at: Option<Timestamp>, last: Option<Timestamp>) -> bool {
    matches!((at, last), (Some(at), Some(last)) if at < last)
}
