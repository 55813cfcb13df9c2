//! The files as an agent's memory.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use vestal_agent::{Memory, Recalled};

use crate::files::Files;
use crate::prompt;
use crate::settings::Enabled;

/// The files of a profile as an agent's memory: the model is told what is in
/// them when a conversation begins, and changes them with the tool `memory`.
#[derive(Debug)]
pub struct FileMemory {
    files: Files,
    enabled: Enabled,
    /// What a person was told of already.
    told: Mutex<BTreeSet<String>>,
}

impl FileMemory {
    /// Returns the memory.
    pub fn new(files: Files, enabled: Enabled) -> Self {
        Self { files, enabled, told: Mutex::default() }
    }

    /// Returns what is of a new thing to say; what was said is not said again.
    fn untold(&self, notices: Vec<String>) -> Vec<String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        notices.into_iter().filter(|notice| told.insert(notice.clone())).collect()
    }
}

#[async_trait]
impl Memory for FileMemory {
    fn name(&self) -> &'static str {
        "files"
    }

    async fn recall(&self) -> Recalled {
        let (files, enabled) = (self.files.clone(), self.enabled);
        // A file may be on a disk that is slow to answer.
        let read = tokio::task::spawn_blocking(move || read(&files, enabled)).await;
        let Ok(Recalled { words, notices }) = read else { return Recalled::default() };
        Recalled { words, notices: self.untold(notices) }
    }

    fn listens(&self) -> bool {
        false
    }
}

fn read(files: &Files, enabled: Enabled) -> Recalled {
    let mut notices = Vec::new();
    let mut notes = Vec::new();
    for target in enabled.targets() {
        let limit = files.limit(target);
        match files.read(target) {
            Ok(entries) => {
                let (used, kept) = (entries.characters(), entries.within(limit).len());
                if kept < entries.len() {
                    notices.push(format!(
                        "{} has {used} of {limit} characters: the model is told {kept} of its {} notes; \
                         to shorten it: vestal memory edit {target}",
                        files.path(target).display(),
                        entries.len(),
                    ));
                }
                notes.push((target, entries, limit));
            }
            Err(error) => {
                notices.push(format!("{error}; the conversation goes on without them"));
            }
        }
    }
    Recalled { words: prompt::section(&notes), notices }
}

#[cfg(test)]
#[path = "file_memory_tests.rs"]
mod tests;
