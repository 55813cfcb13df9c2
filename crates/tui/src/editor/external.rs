//! The text in the hands of another program.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::process::Command;

/// Lets somebody edit a text with the program of their choice and returns what
/// they made of it. `editor` is shell text, as in `$EDITOR`: `code --wait` is two
/// words. Nobody else can read the file, and it is gone afterwards.
///
/// The caller has given the terminal away before, and waits.
pub fn edit_externally(text: &str, editor: &str) -> io::Result<String> {
    let mine_alone = fs::Permissions::from_mode(0o700);
    let dir = tempfile::Builder::new().prefix("vestal-edit-").permissions(mine_alone).tempdir()?;
    let path = dir.path().join("message.md");
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes())?;
    drop(file);

    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$@\""))
        .arg(editor)
        .arg(&path)
        .status()
        .map_err(|error| {
            io::Error::new(error.kind(), format!("sh could not be started: {error}"))
        })?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "the editor `{editor}` ended with {status}; the text is as it was"
        )));
    }
    let bytes = fs::read(&path).map_err(|error| {
        io::Error::new(error.kind(), format!("the editor `{editor}` left no file: {error}"))
    })?;
    let edited = String::from_utf8(bytes).map_err(|_| {
        let text = format!("the editor `{editor}` left something that is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    // Editors end the last line; the input does not.
    let ended_before = text.ends_with('\n');
    match edited.strip_suffix('\n') {
        Some(without) if !ended_before => {
            Ok(without.strip_suffix('\r').unwrap_or(without).to_owned())
        }
        _ => Ok(edited),
    }
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;
