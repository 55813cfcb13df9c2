//! Several logs as one, by time: filtered, each entry once, the last ones or those to come.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use jiff::Timestamp;

use crate::entry::{Level, LogEntry};
use crate::files::LogFiles;
use crate::read_entries::{EntryReader, LogInput, PendingEntry};

/// Entries among which one that stands in several logs is recognised. Its copies have the same time,
/// so they are close to each other.
const RECENT: usize = 4096;

/// How much of the end of a log is read for its last entries; all of it where that is not enough.
const TAILS: [u64; 2] = [256 << 10, 4 << 20];

/// Which entries are wanted. The default wants all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// At least as serious as this; entries that do not say are information.
    pub level: Option<Level>,
    /// Of this conversation: its id, a beginning of it, or its last part.
    pub session: Option<String>,
    /// Not older than this. Entries without a time are.
    pub since: Option<Timestamp>,
    /// With this in what they say, or in the name of what says it. It is in small letters; whether
    /// theirs are does not matter.
    pub text: Option<String>,
}

impl LogFilter {
    /// Reports whether an entry is wanted.
    pub fn matches(&self, entry: &LogEntry) -> bool {
        self.level.is_none_or(|level| entry.effective_level() >= level)
            && self.since.is_none_or(|since| entry.at.is_some_and(|at| at >= since))
            && self.session.as_deref().is_none_or(|wanted| {
                entry.session.as_deref().is_some_and(|session| names(wanted, session))
            })
            && self.text.as_deref().is_none_or(|wanted| {
                let says = |text: &str| text.to_lowercase().contains(wanted);
                says(&entry.message) || entry.target.as_deref().is_some_and(says)
            })
    }
}

fn names(wanted: &str, session: &str) -> bool {
    session.starts_with(wanted) || session.rsplit_once('-').is_some_and(|(_, last)| last == wanted)
}

/// An entry and where it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcedEntry {
    /// The name of the log.
    pub source: &'static str,
    /// Whose log it is.
    pub owner: Option<String>,
    /// The entry.
    pub entry: LogEntry,
}

/// Logs that are read together. Memory is bounded by an entry and a chunk of each, and by the end of
/// each where only the last entries are wanted.
///
/// An entry that stands in several logs of one owner with the same time, level, session, target and
/// text is one entry. As often as it stands in the log that has it most often, it is returned.
#[derive(Debug)]
pub struct MergedLogs {
    heads: Vec<LogHead>,
    filter: LogFilter,
    recent: Recent,
}

/// A log and its next entry.
#[derive(Debug)]
struct LogHead {
    reader: EntryReader,
    /// Entries that were read already, to know where the last ones begin.
    read: VecDeque<LogEntry>,
    next: Option<LogEntry>,
    /// The latest time so far: a log whose clock went back is not held up by it.
    time: Option<Timestamp>,
    /// Whether there is no more of it in this look: it is not asked again for each entry of others.
    is_at_end: bool,
    /// Whether it cannot be read; reported once.
    has_failed: bool,
    /// What is older was there before anybody asked for this log.
    from: Option<Timestamp>,
    /// Whether anything was asked of it.
    has_begun: bool,
}

impl MergedLogs {
    /// Returns the entries of logs that a filter wants, from the oldest on.
    pub fn new(sources: impl IntoIterator<Item = LogInput>, filter: LogFilter) -> Self {
        let heads = sources.into_iter().map(|source| LogHead::new(source, None)).collect();
        Self { heads, filter, recent: Recent::default() }
    }

    /// Reads the logs among these that are not read yet, too, from a time on. Returns whether there
    /// were any.
    pub fn add(&mut self, sources: impl IntoIterator<Item = LogInput>, from: Timestamp) -> bool {
        let before = self.heads.len();
        for source in sources {
            let is_same = |head: &LogHead| {
                let known = head.reader.source();
                known.files.path() == source.files.path() && known.only == source.only
            };
            if !self.heads.iter().any(is_same) {
                self.heads.push(LogHead::new(source, Some(from)));
            }
        }
        self.heads.len() > before
    }

    /// Returns the files of the logs.
    pub fn files(&self) -> impl Iterator<Item = &LogFiles> {
        self.heads.iter().map(|head| &head.reader.source().files)
    }

    /// Returns the last entries of all that are there. Of a log that was not read before, only its
    /// end is read if there are as many of them in it: none before it can be among the last of all.
    pub fn last(&mut self, count: usize) -> Vec<SourcedEntry> {
        let mut last = VecDeque::new();
        self.begin_look();
        for head in &mut self.heads {
            head.skip_to_last(count, &self.filter);
        }
        while let Some(entry) = self.next_of(PendingEntry::Take) {
            if last.len() == count {
                last.pop_front();
            }
            if count > 0 {
                last.push_back(entry);
            }
        }
        last.into()
    }

    /// Returns what was written since the last look, by time. An entry to which lines may still be
    /// added is returned by a later look.
    pub fn look(&mut self) -> Vec<SourcedEntry> {
        self.begin_look();
        std::iter::from_fn(|| self.next_of(PendingEntry::Leave)).collect()
    }

    /// Reports whether an entry is held back to which lines may still be added. Another look returns it
    /// if nothing was written meanwhile.
    pub fn has_pending(&self) -> bool {
        self.heads.iter().any(|head| head.next.is_some() || head.reader.has_pending())
    }

    fn begin_look(&mut self) {
        for head in &mut self.heads {
            head.reader.look_again();
            head.is_at_end = false;
        }
    }

    fn next_of(&mut self, pending: PendingEntry) -> Option<SourcedEntry> {
        loop {
            for head in &mut self.heads {
                head.fill(&self.filter, pending);
            }
            let ready = self.heads.iter_mut().enumerate().filter(|(_, head)| head.next.is_some());
            let (index, head) = ready.min_by_key(|(_, head)| head.time)?;
            let entry = head.next.take()?;
            let source = head.reader.source();
            if self.recent.is_new(index, source.owner.as_deref(), &entry) {
                return Some(SourcedEntry {
                    source: source.name,
                    owner: source.owner.clone(),
                    entry,
                });
            }
        }
    }
}

impl LogHead {
    fn new(source: LogInput, from: Option<Timestamp>) -> Self {
        Self {
            reader: EntryReader::new(source),
            read: VecDeque::new(),
            next: None,
            time: None,
            is_at_end: false,
            has_failed: false,
            has_begun: false,
            from,
        }
    }

    /// Goes to the last entries that are wanted, where they are found near the end.
    fn skip_to_last(&mut self, count: usize, filter: &LogFilter) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        for bytes in TAILS {
            // What cannot be read is reported by the reader that starts at the beginning.
            let near_end = EntryReader::near_end(self.reader.source().clone(), bytes);
            let Ok(Some(mut reader)) = near_end else { return };
            let mut read = VecDeque::new();
            while let Ok(Some(entry)) = reader.next_entry(PendingEntry::Take) {
                if entry.is_notice || filter.matches(&entry) {
                    read.push_back(entry);
                }
            }
            if read.len() >= count {
                read.drain(..read.len() - count);
                (self.reader, self.read) = (reader, read);
                return;
            }
        }
    }

    /// Reads on to the next entry that is wanted. A log that cannot be read is reported in its
    /// place, and does not keep the others from being read.
    fn fill(&mut self, filter: &LogFilter, pending: PendingEntry) {
        self.has_begun = true;
        if self.next.is_none()
            && let Some(entry) = self.read.pop_front()
        {
            self.time = self.time.max(entry.at);
            self.next = Some(entry);
        }
        while self.next.is_none() && !self.is_at_end && !self.has_failed {
            match self.reader.next_entry(pending) {
                Ok(Some(entry)) => {
                    self.time = self.time.max(entry.at);
                    let is_asked_for = self.from.is_none_or(|from| self.time >= Some(from));
                    if entry.is_notice || (is_asked_for && filter.matches(&entry)) {
                        self.next = Some(entry);
                    }
                }
                Ok(None) => self.is_at_end = true,
                Err(error) => {
                    self.has_failed = true;
                    let path = self.reader.source().files.path().display();
                    let text = format!("{path} cannot be read: {error}");
                    self.next = Some(LogEntry::notice(self.time, Level::Error, text));
                }
            }
        }
    }
}

/// How often the entries of late were seen in each log.
#[derive(Debug, Default)]
struct Recent {
    hasher: RandomState,
    seen: HashMap<u64, Vec<(usize, u32)>>,
    order: VecDeque<u64>,
}

impl Recent {
    /// Reports whether an entry is not one that another log has shown.
    fn is_new(&mut self, log: usize, owner: Option<&str>, entry: &LogEntry) -> bool {
        // What is not in the shape of entries says too little to be recognised.
        if entry.target.is_none() || entry.is_notice {
            return true;
        }
        let key = self.hasher.hash_one((owner, entry));
        let counts = self.seen.entry(key).or_default();
        if counts.is_empty() {
            self.order.push_back(key);
        }
        let shown = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let count = match counts.iter_mut().find(|(known, _)| *known == log) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                counts.push((log, 1));
                1
            }
        };
        if self.order.len() > RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        count > shown
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
