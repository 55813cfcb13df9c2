//! Showing files of the host to a sandbox.

use std::path::{Path, PathBuf};

use super::Sandbox;
use crate::engine::read_bundle;
use crate::{Error, PublishError, PublishedName};

impl Sandbox {
    /// Shows a directory of the host to the sandbox, under a name of two parts
    /// as `skills/deploy`, and returns where commands find it. Where anything
    /// confines them they can only read it.
    ///
    /// What is shown is a copy, at most 32 MiB in 2,000 files; hidden files stay
    /// out. The same files again change nothing, others replace those before in
    /// one step. It survives the sandbox's stop, and a sandbox that is made anew
    /// is shown the same again. Neither is it one of the settings it was made
    /// with.
    pub async fn publish(&self, name: &str, source: &Path) -> Result<PathBuf, Error> {
        let name = PublishedName::new(name)?;
        let bundle = read_bundle(source).await?;
        // One that has ended meanwhile is there again after this.
        self.connection().await?;
        let (backend, instance) = self.handle.place().await;
        let publishing = backend.publishing();
        let publishing = publishing.ok_or(PublishError::Unsupported(backend.name()))?;
        let shown = publishing.publish(&instance, &name, &bundle).await;
        let shown = shown.map_err(Error::backend(backend.name()))?;
        if !self.is_owned() {
            self.handle.engine.remember_published(self.key(), &name, source)?;
        }
        Ok(shown)
    }
}
