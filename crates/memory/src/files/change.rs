//! Changes notes.

use std::path::Path;

use super::{LOCK_TIMEOUT, MemoryError, MemoryRefusal, NoteFiles, NotesLock, WriteResult};
use crate::entries::{Entries, NotesTarget, clean, is_separator};

/// How often a program that ignores the lock may save the file in the middle of a
/// change.
const ATTEMPTS: usize = 20;

/// A change of the notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteChange<'a> {
    /// Adds a note at the end.
    Add {
        /// Its words.
        entry: &'a str,
    },
    /// Puts a note in the place of another.
    Replace {
        /// Words of the other one, which no other has.
        old: &'a str,
        /// Its words.
        entry: &'a str,
    },
    /// Removes a note.
    Remove {
        /// Words of it, which no other has.
        old: &'a str,
    },
    /// Removes all.
    Clear,
    /// Puts a text that a person wrote in the place of the whole file, if that
    /// still has the text they began with.
    Rewrite {
        /// The text they began with.
        from: &'a str,
        /// The text they wrote.
        text: &'a str,
    },
}

impl NoteFiles {
    /// Changes notes and returns those there are then. However many processes
    /// change them at once, every change is made to what the one before it left.
    /// One that is refused or fails changes nothing.
    pub fn change(
        &self,
        target: NotesTarget,
        change: NoteChange<'_>,
    ) -> Result<Entries, MemoryError> {
        let _lock = NotesLock::take(&self.lock, LOCK_TIMEOUT)?;
        let place = self.real(target).ok();
        let dir = place.as_deref().and_then(Path::parent);
        let _dir = dir.map(|dir| NotesLock::take_dir(dir, LOCK_TIMEOUT)).transpose()?;
        for _ in 0..ATTEMPTS {
            let text = self.read_text(target)?;
            let before = Entries::parse(&text);
            let after = self.after(&text, &before, target, change)?;
            if after == before || self.write(target, &text, &after.to_text())? == WriteResult::Yes {
                return Ok(after);
            }
        }
        Err(MemoryRefusal::Changed { target }.into())
    }

    /// Returns the notes there are after a change, if it can be made.
    fn after(
        &self,
        text: &str,
        before: &Entries,
        target: NotesTarget,
        change: NoteChange<'_>,
    ) -> Result<Entries, MemoryRefusal> {
        if let NoteChange::Rewrite { from, .. } = change
            && text != from
        {
            return Err(MemoryRefusal::Changed { target });
        }
        let after = self.apply(before, target, change)?;
        let (used, wanted) = (before.characters(), after.characters());
        let limit = self.limit(target);
        // Notes that a person made too long can be made shorter step by step.
        if wanted > limit && wanted >= used {
            return Err(MemoryRefusal::Full { target, used, wanted, limit });
        }
        Ok(after)
    }

    fn apply(
        &self,
        before: &Entries,
        target: NotesTarget,
        change: NoteChange<'_>,
    ) -> Result<Entries, MemoryRefusal> {
        let mut after = before.clone();
        match change {
            NoteChange::Add { entry } => {
                let entry = self.note(entry)?;
                if before.contains(&entry) {
                    return Err(MemoryRefusal::Duplicate);
                }
                after.push(entry);
            }
            NoteChange::Replace { old, entry } => {
                let at = find(before, target, old)?;
                let entry = self.note(entry)?;
                if before.iter().enumerate().any(|(other, own)| other != at && own == entry) {
                    return Err(MemoryRefusal::Duplicate);
                }
                after.replace(at, entry);
            }
            NoteChange::Remove { old } => after.remove(find(before, target, old)?),
            NoteChange::Clear => after = Entries::default(),
            NoteChange::Rewrite { text, .. } => {
                // Cleaned first: what looks like a separator then is one.
                after = Entries::parse(&self.redactor.redact_file(&clean(text)));
            }
        }
        Ok(after)
    }

    /// Returns the words of a note as they are kept.
    fn note(&self, words: &str) -> Result<String, MemoryRefusal> {
        let words = clean(words);
        if words.is_empty() {
            return Err(MemoryRefusal::Empty);
        }
        if words.lines().any(is_separator) {
            return Err(MemoryRefusal::Separator);
        }
        Ok(self.redactor.redact_file(&words).into_owned())
    }
}

/// Finds the one note that has these words.
fn find(entries: &Entries, target: NotesTarget, words: &str) -> Result<usize, MemoryRefusal> {
    let words = clean(words);
    if words.is_empty() {
        return Err(MemoryRefusal::NoneMeant);
    }
    // A note that is exactly these words is meant, even if another has them too.
    if let Some(at) = entries.iter().position(|entry| clean(entry) == words) {
        return Ok(at);
    }
    let has_words = |(_, entry): &(usize, &str)| clean(entry).contains(&words);
    let found: Vec<(usize, &str)> = entries.iter().enumerate().filter(has_words).collect();
    match found.as_slice() {
        [] => Err(MemoryRefusal::not_found(target, &words)),
        [(at, _)] => Ok(*at),
        // The same note twice, as only a person can have written it.
        [(at, first), rest @ ..] if rest.iter().all(|(_, entry)| entry == first) => Ok(*at),
        several => Err(MemoryRefusal::ambiguous(&words, several.iter().map(|(_, entry)| *entry))),
    }
}
