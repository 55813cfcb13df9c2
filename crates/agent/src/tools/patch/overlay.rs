//! The files of a patch as they will be, before anything is written.

use std::path::PathBuf;

use vestal_sandbox::files::{FileContent, Files};
use vestal_wire::FaultCode;

use super::hunks::{self, Action, FilePatch};
use super::replace::{MAX_SIZE, read};
use crate::tool::ToolOutput;
use crate::tools::files::{Place, Text, in_words, is, locate};

/// One file.
#[derive(Debug)]
pub(super) struct Draft {
    /// The path as the patch has it.
    pub(super) path: String,
    /// What it means.
    pub(super) place: Place,
    /// What is there.
    pub(super) before: Option<FileContent>,
    /// What will be there.
    pub(super) now: Option<Vec<u8>>,
    /// The file that got this name, by its index.
    pub(super) moved_from: Option<usize>,
}

impl Draft {
    /// Reports whether the file will be another than it is.
    pub(super) fn is_changed(&self) -> bool {
        self.before.as_ref().map(|before| &before.bytes) != self.now.as_ref()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    pub(super) drafts: Vec<Draft>,
}

impl Overlay {
    /// Works out what a patch makes of the files; nothing is written.
    pub(super) async fn of(files: &Files, patches: &[FilePatch]) -> Result<Self, ToolOutput> {
        let mut overlay = Self::default();
        for patch in patches {
            overlay.take(files, patch).await?;
        }
        Ok(overlay)
    }

    async fn take(&mut self, files: &Files, patch: &FilePatch) -> Result<(), ToolOutput> {
        match &patch.action {
            Action::Add(content) => {
                let index = self.open(files, &patch.path, Expected::Nothing).await?;
                let draft = &mut self.drafts[index];
                if draft.now.is_some() {
                    return Err(refused(
                        &draft.place,
                        "it is there already; use `*** Update File:`",
                    ));
                }
                draft.now = Some(content.clone().into_bytes());
            }
            Action::Delete => {
                let index = self.open(files, &patch.path, Expected::File).await?;
                let draft = &mut self.drafts[index];
                if draft.now.take().is_none() {
                    return Err(gone(&draft.place));
                }
            }
            Action::Update { move_to, hunks } => {
                let index = self.open(files, &patch.path, Expected::File).await?;
                self.update(index, hunks)?;
                if let Some(goal) = move_to {
                    self.rename(files, index, goal).await?;
                }
            }
        }
        Ok(())
    }

    fn update(&mut self, index: usize, hunks: &[hunks::Hunk]) -> Result<(), ToolOutput> {
        let draft = &mut self.drafts[index];
        let Some(now) = &draft.now else {
            return Err(gone(&draft.place));
        };
        let text = Text::new(now.clone());
        let changes = hunks::apply(text.view(), hunks);
        let changes = changes.map_err(|problem| refused(&draft.place, &problem))?;
        let edited = text.edited(&changes);
        draft.now = Some(edited.map_err(|error| refused(&draft.place, &error.to_string()))?);
        Ok(())
    }

    async fn rename(&mut self, files: &Files, from: usize, goal: &str) -> Result<(), ToolOutput> {
        let to = self.open(files, goal, Expected::Nothing).await?;
        if to == from {
            return Ok(());
        }
        if self.drafts[to].now.is_some() {
            return Err(refused(
                &self.drafts[to].place,
                "it is there already; nothing is moved onto it",
            ));
        }
        self.drafts[to].now = self.drafts[from].now.take();
        self.drafts[to].moved_from = Some(from);
        Ok(())
    }

    /// Returns the index of a file, read if it was not yet. A file that is
    /// reached by several names is one file.
    async fn open(
        &mut self,
        files: &Files,
        path: &str,
        expected: Expected,
    ) -> Result<usize, ToolOutput> {
        let place = locate(files, path).await;
        let place = place.map_err(|error| ToolOutput::error(in_words(&error)))?;
        let known = |real: &PathBuf| self.drafts.iter().position(|it| it.place.real == *real);
        if let Some(index) = known(&place.real) {
            return Ok(index);
        }
        let before = match expected {
            Expected::File => Some(read(files, path, &place).await?),
            Expected::Nothing => match files.read_range(path, 0, MAX_SIZE).await {
                Ok(content) => Some(content),
                Err(error) if is(&error, FaultCode::NotFound) => None,
                Err(error) => return Err(ToolOutput::error(in_words(&error))),
            },
        };
        let now = before.as_ref().map(|before| before.bytes.clone());
        let path = path.to_owned();
        self.drafts.push(Draft { path, place, before, now, moved_from: None });
        Ok(self.drafts.len() - 1)
    }
}

/// What a patch takes for granted about a path.
#[derive(Debug, Clone, Copy)]
enum Expected {
    File,
    Nothing,
}

fn refused(place: &Place, problem: &str) -> ToolOutput {
    ToolOutput::error(format!("{}: {problem}; no file was changed", place.shown()))
}

fn gone(place: &Place) -> ToolOutput {
    refused(place, "the patch itself deletes or renames it before")
}
