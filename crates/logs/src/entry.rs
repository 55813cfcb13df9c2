//! Entries: what a line of a log means, and how one is written.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use jiff::Timestamp;

/// The longest text of an entry in bytes; what is beyond is left out.
pub const MAX_ENTRY: usize = 32 << 10;

/// What stands in front of the second and further lines of an entry.
pub(crate) const INDENT: &str = "    ";

/// How serious an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Every step.
    Trace,
    /// For debugging.
    Debug,
    /// What happened.
    Info,
    /// What an operator should look at.
    Warn,
    /// What failed.
    Error,
}

impl Level {
    /// All levels, the least serious first.
    pub const ALL: [Self; 5] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// Returns the word in a line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }

    /// Returns the level that a line gives by its word.
    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word() == word)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl From<tracing::Level> for Level {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::TRACE => Self::Trace,
            tracing::Level::DEBUG => Self::Debug,
            tracing::Level::INFO => Self::Info,
            tracing::Level::WARN => Self::Warn,
            tracing::Level::ERROR => Self::Error,
        }
    }
}

/// A word that names no level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a level is trace, debug, info, warn or error")
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(word: &str) -> Result<Self, UnknownLevel> {
        match word.to_ascii_uppercase().as_str() {
            "WARNING" => Ok(Self::Warn),
            "CRITICAL" => Ok(Self::Error),
            word => Self::of_word(word).ok_or(UnknownLevel),
        }
    }
}

/// Returns a time as it stands in front of lines: UTC, with milliseconds.
pub fn stamp(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// An entry that is to be written.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// How serious it is.
    pub level: Level,
    /// The conversation it belongs to.
    pub session: Option<&'a str>,
    /// The module that reports it.
    pub target: &'a str,
    /// The message, then `key=value` for what belongs to it.
    pub text: &'a str,
}

impl NewEntry<'_> {
    /// Returns the entry as it stands in a file: `TIME LEVEL [session] target: text`, further lines
    /// indented, a newline at the end. Control characters, which could command the terminal of a
    /// reader, are shown instead.
    pub fn format(&self, at: Timestamp) -> String {
        let mut line = String::with_capacity(self.text.len() + 96);
        let session = self.session.map_or_else(|| "-".to_owned(), one_word);
        // Writing to a string cannot fail.
        write!(line, "{at:.3} {} [{session}] {}: ", self.level, one_word(self.target)).ok();
        let text = self.text.trim_end();
        let shown = &text[..text.floor_char_boundary(MAX_ENTRY)];
        for (index, part) in shown.lines().enumerate() {
            if index > 0 {
                line.push('\n');
                line.push_str(INDENT);
            }
            part.chars().for_each(|c| push_shown(&mut line, c));
        }
        if shown.len() < text.len() {
            write!(line, " … ({} bytes left out)", text.len() - shown.len()).ok();
        }
        line.push('\n');
        line
    }
}

/// Returns a name as one word, which ends neither the brackets nor the target.
fn one_word(name: &str) -> String {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '[' | ']');
    name.chars().take(128).map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Adds a character, or what stands for one that would do something else than be seen: command a
/// terminal, or turn the order of what is read around.
fn push_shown(line: &mut String, c: char) {
    let turns_around = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c == '\t' || !(c.is_control() || turns_around) {
        line.push(c);
    } else {
        line.extend(c.escape_unicode());
    }
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogEntry {
    /// When it was written; nothing if the log does not tell. A line without a time has that of the
    /// entry before it.
    pub at: Option<Timestamp>,
    /// How serious it is; nothing if it does not say.
    pub level: Option<Level>,
    /// The conversation it belongs to.
    pub session: Option<String>,
    /// The module that reports it; nothing for what is not in the shape of entries.
    pub target: Option<String>,
    /// Its text, of one line or several.
    pub message: String,
    /// Whether it only says that something is missing or cannot be read.
    pub is_notice: bool,
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// The first line of an entry.
    Begins(LogEntry),
    /// A further line of the entry before.
    Continues(String),
}

impl LogEntry {
    /// Returns the level that counts for filters: what does not say is information.
    pub fn effective_level(&self) -> Level {
        self.level.unwrap_or(Level::Info)
    }

    /// Returns all but the time: `LEVEL [session] target: message`, or the message alone where there
    /// is no more. Further lines are indented.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.message.len() + 64);
        if let Some(target) = &self.target {
            let level = self.effective_level();
            let session = self.session.as_deref().unwrap_or("-");
            // Writing to a string cannot fail.
            write!(text, "{level} [{session}] {target}: ").ok();
        }
        for (index, line) in self.message.split('\n').enumerate() {
            if index > 0 {
                text.push('\n');
                text.push_str(INDENT);
            }
            text.push_str(line);
        }
        text
    }

    /// Returns the entry that one line is; nothing for one that continues another.
    pub fn of_line(line: &str) -> Option<Self> {
        match Self::parse(line.as_bytes()) {
            Parsed::Begins(entry) => Some(entry),
            Parsed::Continues(_) => None,
        }
    }

    /// Returns an entry that tells a reader about the log itself.
    pub(crate) fn notice(at: Option<Timestamp>, level: Level, message: String) -> Self {
        let target = Some("vestal_logs".to_owned());
        Self { at, level: Some(level), session: None, target, message, is_notice: true }
    }

    /// Returns an entry with the time, the level and all else of this one but its message.
    pub(crate) fn continued(&self, message: String) -> Self {
        let (session, target) = (self.session.clone(), self.target.clone());
        Self { at: self.at, level: self.level, session, target, message, is_notice: false }
    }

    /// Understands a line of any log:
    ///
    /// - `TIME LEVEL [session] target: message`, as it is written here;
    /// - the same with another time in front, as a supervisor notes what its child prints: the time
    ///   of the child counts;
    /// - `TIME` and anything;
    /// - an indented line, with a time or without, which continues the entry before;
    /// - any other line without a time, which was printed beside the log and stands for itself.
    pub(crate) fn parse(line: &[u8]) -> Parsed {
        let line = String::from_utf8_lossy(line);
        let Some((at, rest)) = split_time(&line) else {
            if line.is_empty() || line.starts_with([' ', '\t']) {
                return Parsed::Continues(unindented(&line));
            }
            return Parsed::Begins(Self::raw(None, &line));
        };
        if let Some(entry) = Self::of_header(at, rest) {
            return Parsed::Begins(entry);
        }
        if let Some(entry) = split_time(rest).and_then(|(own, rest)| Self::of_header(own, rest)) {
            return Parsed::Begins(entry);
        }
        if rest.starts_with([' ', '\t']) {
            return Parsed::Continues(unindented(rest));
        }
        Parsed::Begins(Self::raw(Some(at), rest))
    }

    /// Returns an entry of what is not in the shape of one.
    pub(crate) fn raw(at: Option<Timestamp>, message: &str) -> Self {
        let message = message.to_owned();
        Self { at, level: None, session: None, target: None, message, is_notice: false }
    }

    fn of_header(at: Timestamp, rest: &str) -> Option<Self> {
        let (word, rest) = rest.split_once(' ')?;
        let level = Level::of_word(word)?;
        let (session, rest) = rest.strip_prefix('[')?.split_once("] ")?;
        let (target, message) = rest.split_once(": ")?;
        if target.contains(' ') {
            return None;
        }
        Some(Self {
            at: Some(at),
            level: Some(level),
            session: Some(session).filter(|session| *session != "-").map(str::to_owned),
            target: Some(target.to_owned()),
            message: message.to_owned(),
            is_notice: false,
        })
    }
}

fn unindented(line: &str) -> String {
    line.strip_prefix(INDENT).unwrap_or(line).to_owned()
}

/// Takes the time off the front of a line.
fn split_time(line: &str) -> Option<(Timestamp, &str)> {
    // Most lines without one are recognised by their first bytes.
    let bytes = line.as_bytes();
    if bytes.len() < 20 || bytes[4] != b'-' || bytes[10] != b'T' || !bytes[0].is_ascii_digit() {
        return None;
    }
    let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
    Some((time.parse().ok()?, rest))
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
