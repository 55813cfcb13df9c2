//! Files with several names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::failure::Failure;

/// Which of the files with several names are there, and under which one.
#[derive(Debug, Default)]
pub(super) struct HardLinks(Mutex<HashMap<Identity, Vec<u8>>>);

/// What tells a file from all others.
pub(super) type Identity = (u64, u64);

impl HardLinks {
    /// Gives a file another name: `link` is called with its first one, and
    /// returns whether that worked; else `make` makes the file, which it has
    /// under `path` then. Nobody else looks for a name meanwhile.
    pub(super) fn link_or_make<T>(
        &self,
        file: Identity,
        path: &[u8],
        link: impl FnOnce(&[u8]) -> Result<bool, Failure>,
        make: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = names.get(&file)
            && link(first)?
        {
            return Ok(None);
        }
        let made = make()?;
        names.insert(file, path.to_vec());
        Ok(Some(made))
    }
}
