//! Why notes cannot be read or changed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::entries::NotesTarget;

/// Characters of a note that a complaint shows.
const SHOWN: usize = 60;

/// A file of notes that cannot be read. It is left as it is.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the notes in {}: {problem}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: MemoryFileProblem,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum MemoryFileProblem {
    /// It is a directory, a pipe, …
    #[error("it is not a regular file")]
    NotAFile,
    /// It is a link to nothing.
    #[error("it is a link to {}, which is not there", .0.display())]
    Dangling(PathBuf),
    /// It is not text.
    #[error("line {line} is not UTF-8")]
    NotUtf8 {
        /// The line, from 1.
        line: usize,
    },
    /// It is far larger than notes can be.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The largest that is read.
        limit: u64,
    },
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Why notes were not changed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// What was asked for makes no sense with the notes there are.
    #[error(transparent)]
    Refused(#[from] MemoryRefusal),
    /// The notes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// They cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has been changing notes for too long.
    #[error("another process has been changing notes for over {} s (lock: {})", waited.as_secs(), lock.display())]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// The lock cannot be used.
    #[error("cannot lock {}: {source}", lock.display())]
    Lock {
        /// The lock.
        lock: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a change makes no sense with the notes there are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryRefusal {
    /// Nothing is to be noted.
    #[error("a note must not be empty")]
    Empty,
    /// Nothing says which note is meant.
    #[error("give a part of the note that is meant")]
    NoneMeant,
    /// The text would be read as several notes.
    #[error(
        "a note cannot have a line that is only §, which stands between notes; add each note by itself"
    )]
    Separator,
    /// It is there already.
    #[error("the same note is there already")]
    Duplicate,
    /// No note has these words.
    #[error("no note of {target} has the words {words:?}")]
    NotFound {
        /// Where was looked.
        target: NotesTarget,
        /// The words, shortened.
        words: String,
    },
    /// Several notes have these words.
    #[error("{} notes have the words {words:?}; give more of the one that is meant: {}", candidates.len(), quoted(candidates))]
    Ambiguous {
        /// The words, shortened.
        words: String,
        /// The beginnings of these notes.
        candidates: Vec<String>,
    },
    /// There is no room.
    #[error(
        "{target} has {used} of {limit} characters, and would have {wanted}; shorten, join or remove notes first"
    )]
    Full {
        /// Where.
        target: NotesTarget,
        /// Characters it has.
        used: usize,
        /// Characters it would have.
        wanted: usize,
        /// Characters it may have.
        limit: usize,
    },
    /// Another process changed the notes meanwhile.
    #[error("the notes of {target} have changed meanwhile")]
    Changed {
        /// Which.
        target: NotesTarget,
    },
}

impl MemoryRefusal {
    pub(crate) fn not_found(target: NotesTarget, words: &str) -> Self {
        Self::NotFound { target, words: shortened(words) }
    }

    pub(crate) fn ambiguous<'a>(words: &str, entries: impl Iterator<Item = &'a str>) -> Self {
        Self::Ambiguous { words: shortened(words), candidates: entries.map(shortened).collect() }
    }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn quoted(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ")
}
