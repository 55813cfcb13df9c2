//! What has been said, and need not be said again.

use std::fs::OpenOptions;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::key::hex;
use crate::store::make_private_dir;

/// Returns whether a text is new to the users of a home, and remembers that it
/// is not any more. Where that cannot be remembered, it is said again.
pub(super) fn is_new(dir: &Path, text: &str) -> bool {
    let name = format!("said-{}", hex(&Sha256::digest(text.as_bytes())[..8]));
    if let Err(error) = make_private_dir(dir) {
        tracing::debug!(%error, "not remembered");
        return true;
    }
    let made = OpenOptions::new().write(true).create_new(true).open(dir.join(name));
    !matches!(made, Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_new_once_per_home() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(is_new(home.path(), "a"));
        assert!(!is_new(home.path(), "a"));
        assert!(is_new(home.path(), "b"));
        assert!(is_new(other.path(), "a"));
    }
}
