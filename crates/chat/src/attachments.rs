//! Images and text files that are sent along with a message.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use vestal_model::{Image, Part, UserMessage};
use vestal_tui::{format, mentioned_paths, pasted_path};

use crate::host::ChatError;

const MOST_IMAGE_BYTES: u64 = Image::MOST_BYTES;

/// File extensions of images.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// A message with its attachments.
#[derive(Debug)]
pub struct WithImages {
    /// The message; its text is the first part.
    pub message: UserMessage,
    /// Descriptions of the attached files.
    pub attached: Vec<String>,
    /// Files that could not be attached.
    pub errors: Vec<ChatError>,
}

/// Attaches the files that a text names: images as `@path` or as a plain path, as terminals
/// write dragged files, and text files as `@path`. Names of missing files stay plain text.
pub fn attach(text: String, home: Option<&Path>) -> WithImages {
    let mut found = WithImages {
        message: UserMessage { parts: Vec::new() },
        attached: Vec::new(),
        errors: Vec::new(),
    };
    let mut images = Vec::new();
    for path in paths(&text, home).into_iter().filter(|path| is_image(path)) {
        match read_image(&path) {
            Ok((image, size)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                found.attached.push(format!("{name}, {}", format::bytes(size)));
                images.push(Part::Image(image));
            }
            Err(failure) => found.errors.push(failure),
        }
    }
    for mentioned in mentioned_texts(&text) {
        match mentioned {
            Ok(file) => {
                found.attached.push(file.about);
                images.push(file.part);
            }
            Err(failure) => found.errors.push(failure),
        }
    }
    found.message.parts.push(Part::Text { text });
    found.message.parts.extend(images);
    found
}

/// Reports whether a text names a file to attach.
pub(crate) fn names_any(text: &str, home: Option<&Path>) -> bool {
    paths(text, home).iter().any(|path| is_image(path)) || names_text_file(text)
}

/// Reads an image; its format is detected from its content.
pub fn read_image(path: &Path) -> Result<(Image, u64), ChatError> {
    let name = path.display();
    let unreadable = |error: std::io::Error| ChatError {
        problem: format!("failed to read the image {name}: {error}"),
        advice: Vec::new(),
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MOST_IMAGE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let size = bytes.len() as u64;
    if size > MOST_IMAGE_BYTES {
        return Err(ChatError {
            problem: format!(
                "the image {name} is larger than the limit of {}",
                format::bytes(MOST_IMAGE_BYTES)
            ),
            advice: vec!["make it smaller".to_owned()],
        });
    }
    let Some(image) = Image::from_bytes(&bytes) else {
        return Err(ChatError {
            problem: format!("{name} is not an image that models can read"),
            advice: vec!["supported formats: PNG, JPEG, GIF, WebP".to_owned()],
        });
    };
    Ok((image, size))
}

/// Reports whether a path is a file with the extension of an image.
pub(crate) fn is_image(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending)) && path.is_file()
}

/// Returns the paths that a text may name, without duplicates.
fn paths(text: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let mentioned = mentioned_paths(text).into_iter().map(|(_, path)| path);
    let mut paths: Vec<PathBuf> = mentioned.chain(pasted_path(text)).collect();
    for word in words(text) {
        let path = match (word.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(word.strip_prefix("file://").unwrap_or(&word)),
        };
        if path.is_absolute() {
            paths.push(path);
        }
    }
    let mut once = Vec::new();
    for path in paths {
        if !once.contains(&path) {
            once.push(path);
        }
    }
    once
}

/// Splits text into words as terminals write dragged paths: quoted, or with escaped blanks.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None) => word.extend(chars.next()),
            ('\'' | '"', None) if word.is_empty() => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (c, _) => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Bytes of a text file that are attached; tools can read the rest.
const MOST_TEXT_BYTES: u64 = 64 << 10;

/// An attached file.
#[derive(Debug)]
pub(crate) struct AttachedText {
    pub(crate) part: Part,
    /// A description of the file.
    pub(crate) about: String,
}

/// Reports whether a text mentions a text file.
pub(crate) fn names_text_file(text: &str) -> bool {
    mentioned_paths(text).iter().any(|(_, path)| path.is_file() && !is_image(path))
}

/// Reads the text files that a text mentions. A path that cannot be attached is an error, so
/// that nobody believes it was read.
pub(crate) fn mentioned_texts(words: &str) -> Vec<Result<AttachedText, ChatError>> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for (_, path) in mentioned_paths(words) {
        if is_image(&path) || seen.contains(&path) {
            continue;
        }
        if let Some(read) = read_text_file(&path) {
            found.push(read);
        }
        seen.push(path);
    }
    found
}

fn read_text_file(path: &Path) -> Option<Result<AttachedText, ChatError>> {
    let name = path.display();
    let failure = |problem: String, advice: &str| {
        let advice = if advice.is_empty() { Vec::new() } else { vec![advice.to_owned()] };
        Some(Err(ChatError { problem, advice }))
    };
    let Ok(metadata) = std::fs::metadata(path) else {
        // `@somebody` is plain text; `@notes.txt` and `@src/main.rs` are paths.
        let is_file = path.extension().is_some() || path.components().count() > 1;
        let problem = format!("@{name} was not attached: no such file");
        return if is_file { failure(problem, "") } else { None };
    };
    if metadata.is_dir() {
        let problem = format!("@{name} was not attached: it is a directory");
        return failure(problem, "name a file in it");
    }
    // Checked before opening: opening a pipe would wait for a writer.
    if !metadata.is_file() {
        return failure(format!("@{name} was not attached: it is not a regular file"), "");
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_TEXT_BYTES).read_to_end(&mut bytes));
    if let Err(error) = read {
        return failure(format!("@{name} was not attached: {error}"), "");
    }
    let whole = format::bytes(metadata.len());
    let valid = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The limit may have cut a character in two.
        Err(error) if bytes.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => {
            let problem = format!("@{name} was not attached: it is not text");
            return failure(problem, "copy it into the sandbox with `vestal cp`");
        }
    };
    let is_cut = metadata.len() > valid.len() as u64;
    let (about, cut) = if is_cut {
        let shown = format::bytes(valid.len() as u64);
        (
            format!("{name}, the first {shown} of {whole}"),
            format!(" (the first {shown} of {whole})"),
        )
    } else {
        (format!("{name}, {whole}"), String::new())
    };
    let text = format!("[The file {name}, attached by the user{cut}:]\n{valid}");
    Some(Ok(AttachedText { part: Part::Text { text }, about }))
}

#[cfg(test)]
#[path = "attachments_tests.rs"]
mod tests;
