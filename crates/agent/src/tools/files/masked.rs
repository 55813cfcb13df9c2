//! Keeps a masked secret from being written in the place of the secret.

use crate::redact::Redactor;

/// Refuses a text in which a secret is masked, as reading a file shows it.
pub(in crate::tools) fn demand_unmasked(name: &str, text: &str) -> Result<(), String> {
    if !Redactor::is_sentinel_in(text) {
        return Ok(());
    }
    Err(format!(
        "`{name}` holds a secret that was masked when the file was read; written like this, the \
         secret in the file would be lost. Leave that line as it is and change the others with \
         `patch`, or let a command put the secret in"
    ))
}
